"""Draw the distribution of the errors of one comparison: histogram, cumulative curve, and four figures as bars.

All three have logarithmic axes. Zeros have no logarithm, so a place apart holds them.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from math import floor, log10
from typing import NamedTuple

from precreg.measure import view_metrics
from precreg.report.charts.svg import (
    MAX_LOG10,
    DrawingBox,
    LogScale,
    log_range,
    number_of_log10,
    svg_drawing,
    svg_element,
    svg_line,
    svg_rectangle,
    svg_text,
)
from precreg.types import Histogram, format_number

# The number of a bin has the upper 2 of the 52 bits of a float64's fraction: see types.Histogram.
BIN_SHIFT = 50
ERRORS_BOX = DrawingBox(480, 250, 58, 14, 14, 46)
# Bars of about 3 units: more would be thinner than the gaps between them.
MAX_BARS = 120
ZERO_WIDTH = 26
ZERO_GAP = 12
# The smallest subnormal float64 replaces 0, which has no logarithm.
_SMALLEST = log10(5e-324)


class ErrorBin(NamedTuple):
    """Hold a bin of errors between two sizes, given as decimal logarithms, and their number."""

    low: float
    high: float
    elements: int


def bin_edge(bin: int, shift: int = BIN_SHIFT) -> float:
    """Return the decimal logarithm of the lower end of a bin, whose number has the upper bits of a float64."""
    # The bin number is the upper bits of the float64, so the remaining bits are 0 at its lower end.
    (value,) = struct.unpack("<d", struct.pack("<Q", max(bin, 0) << shift))
    return _SMALLEST if value == 0 else min(log10(value), MAX_LOG10) if value < float("inf") else MAX_LOG10


def error_bins(histogram: Histogram) -> list[ErrorBin]:
    """Return the errors above 0 by size; neighbouring bins are joined until at most MAX_BARS are left."""
    if not histogram.bins:
        return []
    halvings = 0
    while (histogram.bins[-1] >> halvings) - (histogram.bins[0] >> halvings) >= MAX_BARS:
        # Dropping the last bit joins two neighbouring bins, so edges stay edges of float64 bins.
        halvings += 1
    counts = Counter[int]()
    for bin, count in zip(histogram.bins, histogram.counts, strict=True):
        counts[bin >> halvings] += count
    shift = BIN_SHIFT + halvings
    return [ErrorBin(bin_edge(bin, shift), bin_edge(bin + 1, shift), counts[bin]) for bin in sorted(counts)]


def error_scale(found: list[ErrorBin], zeros: int) -> LogScale:
    """Return the scale of sizes, with room for the zeros if there are any."""
    # A gap shows that 0 is not a point of the logarithmic axis.
    start = ERRORS_BOX.left + (ZERO_WIDTH + ZERO_GAP if zeros else 0)
    return LogScale(*error_span(found), start, ERRORS_BOX.east)


def error_span(found: list[ErrorBin]) -> tuple[float, float]:
    """Return the decimal logarithms between which the errors lie, at least one decade apart."""
    return log_range([found[0].low, found[-1].high] if found else [-1.0, 0.0])


def draw_error_axis(scale: LogScale, zeros: int) -> list[str]:
    """Draw the axis of sizes below the chart, with a place apart for zero."""
    parts = [svg_line(scale.start, ERRORS_BOX.south, scale.end, ERRORS_BOX.south, "edge")]
    for tick in scale.ticks():
        x = scale.at(tick.at)
        parts += [
            svg_line(x, ERRORS_BOX.south, x, ERRORS_BOX.south + 4, "edge"),
            svg_text(tick.text, x, ERRORS_BOX.south + 16),
        ]
    if zeros:
        middle = ERRORS_BOX.left + ZERO_WIDTH / 2
        parts += [
            svg_line(ERRORS_BOX.left, ERRORS_BOX.south, ERRORS_BOX.left + ZERO_WIDTH, ERRORS_BOX.south, "edge"),
            svg_text("0", middle, ERRORS_BOX.south + 16),
        ]
    words = "|actual − reference|, in the output's unit"
    return [*parts, svg_text(words, (scale.start + scale.end) / 2, ERRORS_BOX.height - 8)]


BAR_METRICS = {
    metric.name: f"{'largest' if metric.maximum else metric.aggregate} {metric.family}"
    for metric in view_metrics("bars")
}
# The right margin has room for the number of a bar that reaches the end.
BARS_BOX = DrawingBox(480, 250, 116, 74, 14, 46)
_STEP = (BARS_BOX.south - BARS_BOX.top) / len(BAR_METRICS)
_THICKNESS = 26


def draw_bars(metrics: Mapping[str, float]) -> str:
    """Draw max and mean of |a - r| (in the unit of the output) and of |a - r| / |r| (a ratio).

    A figure of 0 has no bar, and a label marks an undefined one.
    """
    across = bars_scale(metrics)
    parts = []
    for tick in across.ticks():
        x = across.at(tick.at)
        parts += [svg_line(x, BARS_BOX.top, x, BARS_BOX.south), svg_text(tick.text, x, BARS_BOX.south + 16)]
    for place, name in enumerate(BAR_METRICS):
        parts += _row(place, name, metrics.get(name), across)
    words = "absolute: in the output's unit; relative: |actual − reference| / |reference|"
    parts += [
        svg_line(BARS_BOX.left, BARS_BOX.top, BARS_BOX.left, BARS_BOX.south, "edge"),
        svg_text(words, BARS_BOX.width / 2, BARS_BOX.height - 8),
    ]
    return svg_drawing(BARS_BOX, describe_bars(metrics), *parts)


def bars_scale(metrics: Mapping[str, float]) -> LogScale:
    """Return a scale of all four figures; it begins at a power of ten below all of them, so each has a bar."""
    known = [log10(metrics[name]) for name in BAR_METRICS if metrics.get(name, 0.0) > 0] or [0.0]
    # The length of a bar on a logarithmic axis depends on its start. One decade of room keeps the smallest bar visible.
    return LogScale(floor(min(known)) - 1.0, max(known), BARS_BOX.left, BARS_BOX.east)


def _row(place: int, name: str, value: float | None, across: LogScale) -> list[str]:
    middle = BARS_BOX.top + (place + 0.5) * _STEP
    label = svg_text(BAR_METRICS[name], BARS_BOX.left - 8, middle + 4, "end")
    # An undefined figure, such as a relative error of zeros, must not look like an error of 0.
    if value is None:
        return [label, svg_text("not defined", BARS_BOX.left + 8, middle + 4, "start")]
    if value <= 0:
        return [label, svg_text("0", BARS_BOX.left + 8, middle + 4, "start", "value")]
    end = across.at(log10(value))
    # Absolute and relative errors share the axis but no unit, so they have different colours.
    kind = "bar-then" if "rel" in name else "bar-now"
    bar = svg_rectangle(
        BARS_BOX.left, middle - _THICKNESS / 2, end - BARS_BOX.left, _THICKNESS, kind, f"{name} {value!r}"
    )
    return [label, bar, svg_text(format_number(value), end + 6, middle + 4, "start", "value")]


def describe_bars(metrics: Mapping[str, float]) -> str:
    """Write one sentence that describes the chart."""
    shown = (f"{label} {metrics[name]:.4g}" for name, label in BAR_METRICS.items() if name in metrics)
    return "errors: " + (", ".join(shown) or "none is defined")


# The percentiles with a label on the curve.
MARKED_PERCENTILES = {"p50_abs_error": 0.5, "p90_abs_error": 0.9, "p99_abs_error": 0.99}
# The width of the longest label, such as "P99 1.23e-05", in the units of the SVG.
LABEL_WIDTH = 96


def cumulative_corners(found: list[ErrorBin], zeros: int) -> list[tuple[float, float]]:
    """Return the corners: the logarithm of an error, and the share of elements with at most that error."""
    total = zeros + sum(bar.elements for bar in found)
    # Exact elements are below every error above 0.
    below, corners = zeros, []
    for bar in found:
        # Flat up to a bin, then a straight line: within a bin the errors are not known.
        corners.append((bar.low, below / total))
        below += bar.elements
        corners.append((bar.high, below / total))
    return list(dict.fromkeys(corners))


def draw_cumulative(histogram: Histogram, metrics: Mapping[str, float]) -> str:
    """Draw the curve of |actual - reference| with its percentiles, for at least one element."""
    found, zeros = error_bins(histogram), histogram.zeros
    scale = error_scale(found, zeros)
    total = zeros + sum(histogram.counts)
    corners = [(scale.at(log), _y(share)) for log, share in cumulative_corners(found, zeros)]
    # The curve begins at the share of exact elements and ends at 100 %, also beyond the first and last bin.
    ends = [(scale.start, _y(zeros / total)), *corners, (scale.end, _y(1.0))]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    exact = (
        [svg_line(ERRORS_BOX.left, _y(zeros / total), ERRORS_BOX.left + ZERO_WIDTH, _y(zeros / total), "line-zero")]
        if zeros
        else []
    )
    return svg_drawing(
        ERRORS_BOX,
        describe_cumulative(histogram, metrics),
        *_upward(),
        *exact,
        svg_element("polyline", class_="line-now", points=points),
        *_marks(metrics, scale),
        *draw_error_axis(scale, zeros),
    )


def _y(share: float) -> float:
    return ERRORS_BOX.south - share * (ERRORS_BOX.south - ERRORS_BOX.top)


def _upward() -> list[str]:
    parts = []
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent / 100)
        parts += [
            svg_line(ERRORS_BOX.left, y, ERRORS_BOX.east, y),
            svg_text(f"{percent} %", ERRORS_BOX.left - 6, y + 4, "end"),
        ]
    return parts


def _marks(metrics: Mapping[str, float], scale: LogScale) -> list[str]:
    parts = []
    for name, share in MARKED_PERCENTILES.items():
        if metrics.get(name, 0.0) > 0:
            x, y = scale.at(log10(metrics[name])), _y(share)
            parts += [svg_element("circle", class_="dot", cx=x, cy=y, r=3), _label(name, metrics[name], share, x, y)]
    return parts


def _label(name: str, value: float, share: float, x: float, y: float) -> str:
    """Write a percentile beside the curve: left of it and above, or below it at the left margin."""
    words = f"{name.partition('_')[0].upper()} {format_number(value, 3)}"
    # A label left of the margin would be cut off by the edge of the drawing.
    if x - ERRORS_BOX.left < LABEL_WIDTH:
        return svg_text(words, x + 8, y + 16, "start")
    return svg_text(words, x - 4, y - 6, "end") if share > 0.85 else svg_text(words, x - 8, y + 4, "end")


def describe_cumulative(histogram: Histogram, metrics: Mapping[str, float]) -> str:
    """Write one sentence that describes the chart."""
    named = [
        f"P{100 * share:g} is {metrics[name]:.3g}" for name, share in MARKED_PERCENTILES.items() if name in metrics
    ]
    total = histogram.zeros + sum(histogram.counts)
    exact = (
        f"share of elements with at most a given error: {format_number(100 * histogram.zeros / total, 3)} % are exact"
    )
    return "; ".join([exact, *named])


# The axis of counts begins at 10**-0.3, half an element, so that a single element is still a bar.
FLOOR = -0.3


def draw_histogram(histogram: Histogram) -> str:
    """Draw a histogram of |actual - reference|, of at least one element."""
    found, zeros = error_bins(histogram), histogram.zeros
    scale = error_scale(found, zeros)
    counts = [bar.elements for bar in found] + [zeros]
    # A margin of 4 % above the tallest bar, and some even for a single element.
    upward = LogScale(FLOOR, log10(max(counts)) * 1.04 + 0.05, ERRORS_BOX.south, ERRORS_BOX.top)
    drawn = [_bar(bar, scale, upward, sum(counts)) for bar in found]
    if zeros:
        y = upward.at(log10(zeros))
        drawn.append(
            svg_rectangle(
                ERRORS_BOX.left,
                y,
                ZERO_WIDTH,
                ERRORS_BOX.south - y,
                "bar-zero",
                _bar_tooltip("error 0", zeros, sum(counts)),
            )
        )
    return svg_drawing(
        ERRORS_BOX, describe_histogram(histogram), *_histogram_ticks(upward), *drawn, *draw_error_axis(scale, zeros)
    )


def _bar(bar: ErrorBin, scale: LogScale, upward: LogScale, total: int) -> str:
    left, right, y = scale.at(bar.low), scale.at(bar.high), upward.at(log10(bar.elements))
    # A gap between bars, and a visible bar however narrow its bin is.
    width = max(right - left - 0.4, 0.4)
    return svg_rectangle(
        left, y, width, ERRORS_BOX.south - y, "bar-now", _bar_tooltip(_range(bar), bar.elements, total)
    )


def _range(bar: ErrorBin) -> str:
    return f"above {format_number(number_of_log10(bar.low), 3)}, up to {format_number(number_of_log10(bar.high), 3)}"


def _bar_tooltip(what: str, count: int, total: int) -> str:
    return f"{what}: {count:,} of {total:,} elements, {format_number(100 * count / total, 3)} %"


def _histogram_ticks(upward: LogScale) -> list[str]:
    parts = []
    for tick in upward.ticks():
        # Counts are whole numbers, so labels between powers of ten would only crowd the axis.
        if tick.at == int(tick.at):
            y = upward.at(tick.at)
            parts += [
                svg_line(ERRORS_BOX.left, y, ERRORS_BOX.east, y),
                svg_text(tick.text, ERRORS_BOX.left - 6, y + 4, "end"),
            ]
    return [*parts, svg_text("elements", 4, ERRORS_BOX.top - 3, "start")]


def describe_histogram(histogram: Histogram) -> str:
    """Write one sentence that describes the chart."""
    total = histogram.zeros + sum(histogram.counts)
    if not histogram.bins:
        return f"histogram of errors: all {total:,} elements are exact"
    found = error_bins(histogram)
    return (
        f"histogram of errors: {histogram.zeros:,} of {total:,} elements are exact, the others lie between "
        f"{format_number(number_of_log10(found[0].low), 3)} and {format_number(number_of_log10(found[-1].high), 3)}"
    )
