"""Draw the charts of one comparison as a PNG, with matplotlib, an optional extra.

The same comparison gives the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import BytesIO
from math import log10, nan
from typing import TYPE_CHECKING, Any

from precreg.errors import UserError
from precreg.report.charts.errors import (
    BAR_METRICS,
    MARKED_PERCENTILES,
    ErrorBin,
    bars_scale,
    cumulative_corners,
    error_bins,
    error_span,
)
from precreg.report.charts.figures import Picture, Strip, describe_sides, error_strips, picture_figures
from precreg.report.charts.svg import ColourScale, LogScale, colour_scale
from precreg.report.describe import strip_controls
from precreg.types import Histogram, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precreg.measure import HeatMap


# 1440 x 1020 pixels, which fit on a screen and stay readable in a comment.
SIZE_INCHES, DOTS_PER_INCH = (12.0, 8.5), 120
MAIN_COLOUR, SECOND_COLOUR, EXACT_COLOUR, INK, GROUND = "#b3261e", "#3d6fb3", "#2c6e3f", "#1d1f21", "#f1f2f0"
# Below the logarithm of every float64, so that zeros get the colour under the scale.
_OF_ZERO = -400.0
UNIT = "|actual − reference|, in the output's unit"


def render_picture_png(picture: Picture) -> bytes:
    """Draw one comparison. Raises UserError (missing-extra) without matplotlib."""
    # First, so that a missing extra gives the message with the remedy and no traceback.
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    stream = BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in letters that the font lacks is drawn as boxes, with a warning
        # The user's own matplotlibrc would change the bytes.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"axes.edgecolor": "#63676c", "axes.spines.top": False, "axes.spines.right": False})
        # Figure and not pyplot: pyplot keeps global state, and may choose a backend that needs a display.
        drawn = Figure(SIZE_INCHES, DOTS_PER_INCH, layout="constrained")
        _fill(drawn, picture)
        # matplotlib writes its version by default, so the bytes would differ between versions.
        drawn.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        message = (
            "expected matplotlib, which draws PNG, but it is not installed; HTML needs no extra: --output NAME.html"
        )
        raise UserError("missing-extra", message) from error
    return matplotlib


def _fill(drawn: Figure, picture: Picture) -> None:
    comparison = picture.comparison
    title = f"{picture.name}: {picture.actual} against {picture.reference}, {describe_sides(comparison)}"
    figures = [f"{name} {value}" for name, value in picture_figures(comparison)]
    lines = [_short(title), "    ".join(figures[:5]), "    ".join(figures[5:])]
    # A $ in a name must not start a formula.
    drawn.suptitle("\n".join(lines), fontsize=10, parse_math=False)
    panels = drawn.subplots(2, 2).flat
    histogram, curve, where, largest = panels
    if comparison.histogram is None:
        _empty(histogram, "no finite pair")
        _empty(curve, "no finite pair")
    else:
        _histogram(histogram, comparison.histogram)
        _cumulative(curve, comparison.histogram, comparison.metrics)
    _where(where, picture)
    _largest(largest, comparison.metrics)


def _short(title: str, max_length: int = 150) -> str:
    words = strip_controls(title)
    return words if len(words) <= max_length else f"{words[: max_length - 1]}…"


def _empty(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes)


def _histogram(axes: Axes, histogram: Histogram) -> None:
    found = error_bins(histogram)
    low = _across(axes, found, histogram.zeros)
    axes.bar(
        [bar.low for bar in found],
        [bar.elements for bar in found],
        [bar.high - bar.low for bar in found],
        align="edge",
        color=MAIN_COLOUR,
        alpha=0.6,
    )
    if histogram.zeros:
        axes.bar([low], [histogram.zeros], [(axes.get_xlim()[1] - low) * 0.05], color=EXACT_COLOUR, alpha=0.7)
    axes.set_yscale("log")
    # Half an element, so that a bar of one element is visible on the logarithmic axis.
    axes.set_ylim(0.5, None)
    axes.set(xlabel=UNIT, ylabel="elements", title="elements by size of their error")


def _across(axes: Axes, found: list[ErrorBin], zeros: int) -> float:
    """Set the axis of sizes, and return the place of zero on it: apart, on the left."""
    start, end = error_span(found)
    zero = start - 0.08 * (end - start)
    ticks = LogScale(start, end, 0.0, 1.0).ticks()
    axes.set_xlim(zero - 0.04 * (end - start) if zeros else start, end)
    axes.set_xticks(
        [*([zero] if zeros else []), *(tick.at for tick in ticks)],
        [*(["0"] if zeros else []), *(tick.text for tick in ticks)],
    )
    return zero


def _cumulative(axes: Axes, histogram: Histogram, metrics: dict[str, float]) -> None:
    found, zeros = error_bins(histogram), histogram.zeros
    zero = _across(axes, found, zeros)
    left, right = axes.get_xlim()
    corners = cumulative_corners(found, zeros)
    axes.plot([x for x, _ in corners] + [right], [100 * share for _, share in corners] + [100], color=MAIN_COLOUR)
    if zeros:
        exact = 100 * zeros / (zeros + sum(histogram.counts))
        # Symmetric around the place of zero, as the tick below it.
        axes.plot([left, 2 * zero - left], [exact, exact], color=EXACT_COLOUR, linewidth=3)
    for name, share in MARKED_PERCENTILES.items():
        if metrics.get(name, 0.0) > 0:
            place = (log10(metrics[name]), 100 * share)
            words = f"{name.partition('_')[0].upper()} {format_number(metrics[name], 3)} "
            axes.plot(*place, "o", color=MAIN_COLOUR, markersize=5)
            axes.annotate(
                words,
                place,
                ha="right",
                va="bottom" if share > 0.95 else "center",
                xytext=(-4, 0),
                textcoords="offset points",
            )
    axes.set(xlabel=UNIT, ylabel="% of the elements", title="elements with at most this error", ylim=(-2, 106))
    axes.grid(axis="y", alpha=0.3)


def _where(axes: Axes, picture: Picture) -> None:
    strips = error_strips(picture.comparison)
    if picture.heat_map is not None:
        _map(axes, picture.heat_map)
    elif strips:
        _strips(axes, strips)
    else:
        _empty(axes, "no finite pair")


def _map(axes: Axes, heat: HeatMap) -> None:
    scale = colour_scale(mean for row in heat.mean for mean in row if mean is not None)
    rows, columns = (heat.shape[-2] if len(heat.shape) > 1 else 1), (heat.shape[-1] if heat.shape else 1)
    # Indices of the array, not of the cells. The first row is on top, as numpy prints it.
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    drawn = axes.imshow(_logarithms(heat.mean), extent=extent, **_coloured(scale))
    high, wide = len(heat.mean), len(heat.mean[0])
    wrong = [(x, y) for y, row in enumerate(heat.mismatched) for x, number in enumerate(row) if number]
    if wrong:
        across = [(x + 0.5) * columns / wide - 0.5 for x, _ in wrong]
        axes.scatter(across, [(y + 0.5) * rows / high - 0.5 for _, y in wrong], marker="x", color=INK, s=28)
    axis = max(len(heat.shape) - 1, 0)
    axes.set(xlabel=f"axis {axis}", ylabel=f"axis {axis - 1}" if axis else "")
    axes.set_title("mean |actual − reference|" + (", ×: NaN or infinity on one side" if wrong else ""))
    # Indices are integers: matplotlib would write 0.5 on a short axis.
    axes.locator_params(integer=True, min_n_ticks=1)
    if rows == 1:
        axes.set_yticks([])
    _legend(axes, drawn, scale)


def _strips(axes: Axes, strips: Sequence[Strip]) -> None:
    scale = colour_scale(mean for strip in strips for mean in strip.means if mean is not None)
    for place, strip in enumerate(strips):
        extent = (0.0, 1.0, place + 0.8, float(place))
        drawn = axes.imshow(_logarithms([strip.means]), extent=extent, **_coloured(scale))
    axes.set(xlim=(0, 1), ylim=(len(strips), -0.2), xlabel="from the first index to the last")
    axes.set_xticks([0, 1], ["first", "last"])
    axes.set_yticks([place + 0.4 for place in range(len(strips))], [f"axis {strip.axis}" for strip in strips])
    axes.set_title("mean |actual − reference| along each axis")
    _legend(axes, drawn, scale)


def _logarithms(means: Sequence[Sequence[float | None]]) -> Any:
    """Return decimal logarithms: a value below all others for 0, NaN for a missing mean."""
    import numpy as np

    return np.array([[nan if mean is None else log10(mean) if mean > 0 else _OF_ZERO for mean in row] for row in means])


def _coloured(scale: ColourScale | None) -> dict[str, Any]:
    """Return the style of an image: white to red, 0 in the colour of the background, missing values white."""
    from matplotlib.colors import LinearSegmentedColormap

    # The colours of the page. nearest: smoothed cells would show errors where none were measured.
    reds = LinearSegmentedColormap.from_list("reds", ["#f6dcd9", MAIN_COLOUR]).with_extremes(under=GROUND, bad="white")
    low, high = scale or ColourScale(0.0, 1.0)
    return {"cmap": reds, "vmin": low, "vmax": high, "aspect": "auto", "interpolation": "nearest"}


def _legend(axes: Axes, drawn: Any, scale: ColourScale | None) -> None:
    if scale is None:
        return
    ticks = LogScale(scale.low, scale.high, 0.0, 1.0).ticks()
    bar = axes.figure.colorbar(drawn, ax=axes)
    bar.set_ticks([tick.at for tick in ticks], labels=[tick.text for tick in ticks])


def _largest(axes: Axes, metrics: dict[str, float]) -> None:
    scale = bars_scale(metrics)
    for place, name in enumerate(BAR_METRICS):
        value = metrics.get(name)
        # 0 has no logarithm: its bar is empty and its label says 0.
        end = log10(value) if value else scale.low
        axes.barh(
            place,
            end - scale.low,
            left=scale.low,
            color=SECOND_COLOUR if "rel" in name else MAIN_COLOUR,
            alpha=0.6,
            height=0.5,
        )
        axes.text(end, place, f" {'not defined' if value is None else format_number(value)}", va="center")
    axes.set_yticks(range(len(BAR_METRICS)), list(BAR_METRICS.values()))
    ticks = scale.ticks()
    axes.set_xticks([tick.at for tick in ticks], [tick.text for tick in ticks])
    axes.set(xlim=(scale.low, scale.high + 0.18 * (scale.high - scale.low)), ylim=(len(BAR_METRICS) - 0.4, -0.6))
    axes.set(xlabel="absolute: in the output's unit; relative: a ratio", title="largest and mean error")
