"""How many elements have an error of which size: bars on two logarithmic axes, the exact elements apart."""

from __future__ import annotations

from math import log10

from precreg.report.charts.errors import BOX, ZERO_WIDTH, Bar, across, axis, bars
from precreg.report.charts.scale import LogScale, size
from precreg.report.charts.svg import drawing, line, rectangle, text
from precreg.types.numbers import figure
from precreg.types.types import Histogram

FLOOR = -0.3
"""Where the axis of counts begins, so that a single element is still a bar: 10**-0.3, half an element."""


def draw(histogram: Histogram) -> str:
    """Draw a histogram of |actual - reference|; it holds one element at least."""
    found, zeros = bars(histogram), histogram.zeros
    scale = across(found, zeros)
    counts = [bar.elements for bar in found] + [zeros]
    upward = LogScale(FLOOR, log10(max(counts)) * 1.04 + 0.05, BOX.south, BOX.top)
    drawn = [_bar(bar, scale, upward, sum(counts)) for bar in found]
    if zeros:
        y = upward.at(log10(zeros))
        drawn.append(
            rectangle(BOX.left, y, ZERO_WIDTH, BOX.south - y, "bar-zero", _said("error 0", zeros, sum(counts)))
        )
    return drawing(BOX, description(histogram), *_upward(upward), *drawn, *axis(scale, zeros))


def _bar(bar: Bar, scale: LogScale, upward: LogScale, total: int) -> str:
    left, right, y = scale.at(bar.low), scale.at(bar.high), upward.at(log10(bar.elements))
    width = max(right - left - 0.4, 0.4)
    return rectangle(left, y, width, BOX.south - y, "bar-now", _said(_range(bar), bar.elements, total))


def _range(bar: Bar) -> str:
    return f"above {figure(size(bar.low), 3)}, up to {figure(size(bar.high), 3)}"


def _said(what: str, count: int, total: int) -> str:
    return f"{what}: {count:,} of {total:,} elements, {figure(100 * count / total, 3)} %"


def _upward(upward: LogScale) -> list[str]:
    parts = []
    for tick in upward.ticks():
        if tick.at == int(tick.at):
            y = upward.at(tick.at)
            parts += [line(BOX.left, y, BOX.east, y), text(tick.text, BOX.left - 6, y + 4, "end")]
    return [*parts, text("elements", 4, BOX.top - 3, "start")]


def description(histogram: Histogram) -> str:
    """Say in a sentence what the chart shows."""
    total = histogram.zeros + sum(histogram.counts)
    if not histogram.bins:
        return f"histogram of errors: all {total:,} elements are exact"
    found = bars(histogram)
    return (
        f"histogram of errors: {histogram.zeros:,} of {total:,} elements are exact, the others lie between "
        f"{figure(size(found[0].low), 3)} and {figure(size(found[-1].high), 3)}"
    )
