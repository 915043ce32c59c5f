"""Which charts show one comparison, and where along its axes is the output wrong?

The heat map shows the last two axes, and a strip shows the mean error along each axis. `precreg visualize` writes all
charts as one page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from precreg.measure import view_metrics
from precreg.report.charts.errors import draw_bars, draw_cumulative, draw_histogram
from precreg.report.charts.svg import (
    ColourScale,
    DrawingBox,
    colour_scale,
    number_of_log10,
    svg_drawing,
    svg_element,
    svg_rectangle,
    svg_text,
    svg_title,
)
from precreg.report.template import page_style, render_template
from precreg.types import AxisGroups, Comparison, format_number

if TYPE_CHECKING:
    from markupsafe import Markup

    from precreg.measure import HeatMap


HEAT_BOX = DrawingBox(480, 250, 58, 14, 20, 46)
STRIP_HEIGHT, STRIP_STEP = 20, 40
# Enough cells for the legend to look like a gradient.
LEGEND_STEPS = 24


class Strip(NamedTuple):
    """Hold the mean |a - r| of equal groups along one axis, over all others; None if a group has no finite pair."""

    axis: int
    length: int
    means: Sequence[float | None]


def draw_strips(strips: Sequence[Strip]) -> str:
    """Draw one row of cells for each axis, in the colours of one common scale."""
    # One scale for all axes, so that equal colours are equal errors.
    scale = colour_scale(mean for strip in strips for mean in strip.means if mean is not None)
    box = HEAT_BOX._replace(height=HEAT_BOX.top + len(strips) * STRIP_STEP + HEAT_BOX.bottom)
    rows = [
        part for place, strip in enumerate(strips) for part in _strip(strip, HEAT_BOX.top + place * STRIP_STEP, scale)
    ]
    return svg_drawing(box, describe_strips(strips), *rows, *draw_legend(scale, box))


def _strip(strip: Strip, y: float, scale: ColourScale | None) -> Iterator[str]:
    width = (HEAT_BOX.east - HEAT_BOX.left) / len(strip.means)
    yield svg_text(f"axis {strip.axis}", HEAT_BOX.left - 6, y + 14, "end")
    for group, mean in enumerate(strip.means):
        place = _indices(group, len(strip.means), strip.length)
        tooltip = f"axis {strip.axis}, {place}: {_mean(mean)}"
        yield _cell(HEAT_BOX.left + group * width, y, width, STRIP_HEIGHT, mean, scale, tooltip)
    yield svg_text("0", HEAT_BOX.left, y + STRIP_HEIGHT + 12, "start")
    yield svg_text(str(strip.length - 1), HEAT_BOX.east, y + STRIP_HEIGHT + 12, "end")


def draw_map(heat: HeatMap) -> str:
    """Draw the cells of a heat map, the first row on top; a cross marks a mismatched NaN or infinity."""
    scale = colour_scale(mean for row in heat.mean for mean in row if mean is not None)
    # A vector has one row of cells. At the full height it would look like a map of two axes.
    single = len(heat.mean) == 1
    box = (
        HEAT_BOX._replace(height=HEAT_BOX.top + 48 + HEAT_BOX.bottom + 16)
        if single
        else HEAT_BOX._replace(height=330, bottom=62)
    )
    parts = list(_cells(heat, box, scale))
    return svg_drawing(box, describe_map(heat), *parts, *_edges(heat, box), *draw_legend(scale, box))


def _cells(heat: HeatMap, box: DrawingBox, scale: ColourScale | None) -> Iterator[str]:
    width = (box.east - box.left) / len(heat.mean[0])
    height = (box.south - box.top) / len(heat.mean)
    # Crosses are drawn after all cells, which would cover them.
    crosses = []
    for row, (means, wrong) in enumerate(zip(heat.mean, heat.mismatched, strict=True)):
        for column, (mean, mismatched) in enumerate(zip(means, wrong, strict=True)):
            x, y = box.left + column * width, box.top + row * height
            tooltip = f"{_place(heat, row, column)} {'no finite pair' if mean is None else format_number(mean, 3)}"
            if mismatched:
                tooltip += f"; {mismatched:,} NaN or infinity on one side"
                crosses.append(
                    _cross(x + width / 2, y + height / 2, min(max(min(width, height) / 2 - 1, 4), 8), tooltip)
                )
            yield _cell(x, y, width, height, mean, scale, tooltip)
    yield from crosses


def _cell(
    x: float, y: float, width: float, height: float, mean: float | None, scale: ColourScale | None, tooltip: str
) -> str:
    strength = scale.strength(mean) if scale and mean is not None else 0.0
    if strength:
        return svg_rectangle(x, y, width, height, "heat", tooltip, strength)
    # No finite pair and no error are different facts, so they have different colours.
    return svg_rectangle(x, y, width, height, "heat-none" if mean is None else "heat-ground", tooltip)


def _cross(x: float, y: float, size: float, tooltip: str) -> str:
    path = (
        f"M{x - size:.1f},{y - size:.1f}l{2 * size:.1f},{2 * size:.1f}m0,{-2 * size:.1f}l{-2 * size:.1f},{2 * size:.1f}"
    )
    return svg_element("path", svg_title(tooltip), class_="cross", d=path)


def _mean(mean: float | None) -> str:
    return "no finite pair" if mean is None else f"mean |actual − reference| {format_number(mean, 3)}"


def _indices(group: int, groups: int, length: int) -> str:
    first, last = group * length // groups, (group + 1) * length // groups - 1
    return f"index {first}" if first == last else f"index {first} to {last}"


def _place(heat: HeatMap, row: int, column: int) -> str:
    """Write a cell as the slice of the arrays that it covers."""
    axes = zip((row, column), (len(heat.mean), len(heat.mean[0])), (1, 1, *heat.shape)[-2:], strict=True)
    # As Python writes a slice, so that a reader can paste it to look at the elements.
    slices = [f"{group * length // groups}:{(group + 1) * length // groups}" for group, groups, length in axes]
    named = slices[2 - min(len(heat.shape), 2) :]
    return f"[{', '.join(['...', *named] if len(heat.shape) > 2 else named)}]"


def _edges(heat: HeatMap, box: DrawingBox) -> Iterator[str]:
    columns, axis = (heat.shape[-1], len(heat.shape) - 1) if heat.shape else (1, 0)
    yield svg_text("0", box.left, box.south + 14, "start")
    yield svg_text(str(columns - 1), box.east, box.south + 14, "end")
    yield svg_text(f"axis {axis}", (box.left + box.east) / 2, box.south + 14)
    if len(heat.shape) > 1:
        yield svg_text("0", box.left - 6, box.top + 9, "end")
        yield svg_text(str(heat.shape[-2] - 1), box.left - 6, box.south, "end")
        yield svg_text(f"axis {len(heat.shape) - 2}", box.left - 6, (box.top + box.south) / 2 + 4, "end")


def draw_legend(scale: ColourScale | None, box: DrawingBox) -> Iterator[str]:
    """Draw the colours with their sizes, and the colour of zero."""
    y = box.height - 20
    yield svg_rectangle(box.left, y, 12, 10, "heat-ground")
    yield svg_text("0", box.left + 18, y + 9, "start")
    if scale is None:
        return
    start, step = box.left + 110, 6
    yield svg_text(format_number(number_of_log10(scale.low), 3), start - 6, y + 9, "end")
    for place in range(LEGEND_STEPS):
        logarithm = scale.low + (scale.high - scale.low) * place / (LEGEND_STEPS - 1)
        yield svg_rectangle(
            start + place * step, y, step, 10, "heat", opacity=scale.strength(number_of_log10(logarithm))
        )
    yield svg_text(format_number(number_of_log10(scale.high), 3), start + LEGEND_STEPS * step + 6, y + 9, "start")


def describe_strips(strips: Sequence[Strip]) -> str:
    """Write one sentence: where the mean error is largest along each axis."""
    return "mean absolute error along each axis: " + "; ".join(map(_strongest, strips))


def _strongest(strip: Strip) -> str:
    # The negative index makes the first of equal means the largest.
    mean, group = max((mean, -group) for group, mean in enumerate(strip.means) if mean is not None)
    place = _indices(-group, len(strip.means), strip.length)
    return f"axis {strip.axis} has the largest, {format_number(mean, 3)}, at {place}"


def describe_map(heat: HeatMap) -> str:
    """Write one sentence: where the mean error is largest, and how many values are non-finite on one side alone."""
    known = [
        (mean, -row, -column)
        for row, means in enumerate(heat.mean)
        for column, mean in enumerate(means)
        if mean is not None
    ]
    wrong = sum(map(sum, heat.mismatched))
    alarm = f"; {wrong:,} elements are NaN or infinite on one side" if wrong else ""
    if not known:
        return f"heat map without a finite pair{alarm}"
    # Negative places make the first of equal means the largest.
    mean, row, column = max(known)
    place = _place(heat, -row, -column)
    return f"heat map of the mean absolute error: the largest, {format_number(mean, 3)}, at {place}{alarm}"


class Figure(NamedTuple):
    """Hold one chart: the name of its element, the SVG, and its caption."""

    name: str
    svg: str
    caption: str


def draw_figures(comparison: Comparison, heat_map: HeatMap | None = None) -> list[Figure]:
    """Draw histogram, cumulative curve, heat map (or a strip for each axis) and the four figures, if measured."""
    drawn: list[Figure] = []
    if comparison.histogram is not None:
        drawn += _of_errors(comparison)
    strips = error_strips(comparison)
    # The map shows the place on two axes. Strips take its place if only a record is left, which has no arrays.
    if heat_map is not None:
        drawn.append(Figure("map", draw_map(heat_map), _where(heat_map)))
    elif strips:
        caption = "mean |actual − reference| in groups along each axis, colours on a log scale"
        drawn.append(Figure("strips", draw_strips(strips), caption))
    if comparison.metrics:
        drawn.append(Figure("bars", draw_bars(comparison.metrics), "largest and mean error, log axis"))
    return drawn


def _of_errors(comparison: Comparison) -> list[Figure]:
    assert comparison.histogram is not None
    counted = draw_histogram(comparison.histogram)
    curve = draw_cumulative(comparison.histogram, comparison.metrics)
    return [
        Figure("histogram", counted, "elements by size of their error, log axes"),
        Figure("cumulative", curve, "share of elements with at most this error"),
    ]


def _where(heat_map: HeatMap) -> str:
    over = " over all leading axes" if len(heat_map.shape) > 2 else ""
    crossed = "; a cross: NaN or infinity on one side" if any(map(any, heat_map.mismatched)) else ""
    return f"mean |actual − reference|{over}, colours on a log scale{crossed}"


def error_strips(comparison: Comparison) -> list[Strip]:
    """Return the mean error along each axis with more than one index; none without a finite pair."""
    axes = zip(comparison.groups, comparison.shape, strict=False)
    strips = [Strip(axis, length, _means(groups)) for axis, (groups, length) in enumerate(axes) if length > 1]
    return strips if any(mean is not None for strip in strips for mean in strip.means) else []


def _means(groups: AxisGroups) -> list[float | None]:
    """Return the mean |a - r| of each group; the largest float64 if the sum is beyond it."""
    # A record stores None for a sum that overflowed, because JSON has no infinity.
    pairs = zip(groups.absolute, groups.n, strict=True)
    return [(sys.float_info.max if sum is None else sum / n) if n else None for sum, n in pairs]


STYLES = ("report.css", "comparison.css")


class Picture(NamedTuple):
    """Hold one comparison to draw; `actual` and `reference` are the sides as the user named them."""

    name: str
    actual: str
    reference: str
    comparison: Comparison
    heat_map: HeatMap | None = None


def render_picture_html(picture: Picture) -> str:
    """Lay out the charts as one HTML document, without script and without network."""
    values = {
        "picture": picture,
        "about": describe_sides(picture.comparison),
        "figures": draw_figures(picture.comparison, picture.heat_map),
        "values": picture_figures(picture.comparison),
        "style": comparison_style(),
    }
    return render_template("picture.html.j2", values)


def comparison_style() -> Markup:
    """Return the style of every page with charts of a comparison."""
    return page_style(*STYLES)


def picture_figures(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the figures above the charts, with their values."""
    counts = comparison.counts
    wrong = counts.get("nan_mismatched", 0) + counts.get("inf_mismatched", 0)
    names = [metric.name for metric in view_metrics("picture")]
    known = [(name, format_number(comparison.metrics[name])) for name in names if name in comparison.metrics]
    return [("elements", f"{counts.get('n', 0):,}"), ("non-finite on one side", f"{wrong:,}"), *known]


def describe_sides(comparison: Comparison) -> str:
    """Name the dtypes and shapes of both sides."""
    if comparison.shape == comparison.reference_shape:
        return f"{comparison.dtype} against {comparison.reference_dtype}, shape {format_shape(comparison.shape)}"
    reference = f"{comparison.reference_dtype} of shape {format_shape(comparison.reference_shape)}"
    return f"{comparison.dtype} of shape {format_shape(comparison.shape)} against {reference}"


def format_shape(lengths: tuple[int, ...]) -> str:
    """Write a shape as 8×128×768; a single number has a word."""
    return "×".join(map(str, lengths)) or "scalar"
