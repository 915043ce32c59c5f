"""How do a few figures develop over steps, or over scales? Lines over a linear axis, with marks and a band.

The axis upward is linear or logarithmic. On a logarithmic one, 0 has a row of its own below the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, inf, isfinite, log10
from typing import NamedTuple, TypeVar

from precreg.report.charts.svg import (
    MAX_LABELS,
    DrawingBox,
    LogScale,
    ScaleTick,
    log_range,
    svg_drawing,
    svg_element,
    svg_line,
    svg_rectangle,
    svg_text,
)
from precreg.types import format_number

_BOX = DrawingBox(760, 260, 66, 16, 34, 44)
# More points would be closer than a dot is wide.
_MAX_DOTS = 60
# Over more decades, the sizes that matter would share a few pixels. Smaller ones are at the lower end.
_MAX_DECADES = 8.0
# More points than pixels make a page large and no clearer.
_MAX_POINTS = 700
_ZERO_ROW = 14.0
_Item = TypeVar("_Item")


class SeriesPoint(NamedTuple):
    """Hold one value; `y` is None where it is not known, and interrupts the line."""

    x: float
    y: float | None


class SeriesLine(NamedTuple):
    """Hold a line with its name."""

    name: str
    points: Sequence[SeriesPoint]


class SeriesMark(NamedTuple):
    """Mark a place on the axis across, such as a skipped step."""

    x: float
    label: str


class SeriesBand(NamedTuple):
    """Mark a range of the axis across, such as the scales without loss."""

    first: float
    last: float
    label: str


class SeriesPlot(NamedTuple):
    """Hold everything that the picture shows. `across` and `upward` name the axes."""

    lines: Sequence[SeriesLine]
    across: str
    upward: str
    is_log: bool = False
    marks: Sequence[SeriesMark] = ()
    bands: Sequence[SeriesBand] = ()
    # Written before the numbers of an axis, such as 2^ for exponents.
    prefix: str = ""
    upward_prefix: str = ""


class _Axes(NamedTuple):
    first: float
    last: float
    upward: LogScale
    is_log: bool

    def x(self, value: float) -> float:
        share = (value - self.first) / ((self.last - self.first) or 1.0)
        return _BOX.left + min(max(share, 0.0), 1.0) * (_BOX.east - _BOX.left)

    def y(self, value: float) -> float:
        if not self.is_log:
            return self.upward.at(value)
        return self.upward.at(log10(value)) if value > 0 else _BOX.south


def draw_series(plot: SeriesPlot) -> str:
    """Draw lines over steps or scales."""
    axes = _axes(plot)
    parts = [
        *_bands(plot, axes),
        *_upward(plot, axes),
        *_across(plot, axes),
        *_marks(plot, axes),
        *(part for place, line in enumerate(plot.lines) for part in _line(line, place, axes, plot)),
    ]
    return svg_drawing(_BOX, describe_series(plot), *parts)


def describe_series(plot: SeriesPlot) -> str:
    """Write one sentence: the first and the last value of each line, the marks, and the bands."""
    parts = []
    for line in plot.lines:
        known = [(point.x, point.y) for point in line.points if point.y is not None]
        if known:
            ends = [
                f"{plot.upward_prefix}{format_number(y, 3)} at {plot.prefix}{x:g}" for x, y in (known[0], known[-1])
            ]
            parts.append(f"{line.name}: {' to '.join(ends)}")
    marks = [f"{len(plot.marks):,} marks: {plot.marks[0].label}, ..."] if plot.marks else []
    bands = [f"{band.label}: {plot.prefix}{band.first:g} to {plot.prefix}{band.last:g}" for band in plot.bands]
    return f"{plot.upward} by {plot.across}: " + ("; ".join([*parts, *marks, *bands]) or "no value is known")


def series_legend(plot: SeriesPlot) -> list[tuple[str, int]]:
    """Return the names of the lines and their places, which are the numbers of their colours."""
    return [(line.name, place) for place, line in enumerate(plot.lines)]


def _axes(plot: SeriesPlot) -> _Axes:
    across = [point.x for line in plot.lines for point in line.points] + [mark.x for mark in plot.marks]
    values = [point.y for line in plot.lines for point in line.points if point.y is not None and isfinite(point.y)]
    if plot.is_log:
        positive = [log10(value) for value in values if value > 0] or [0.0]
        low, high = log_range([max(each, max(positive) - _MAX_DECADES) for each in positive])
        room = (high - low) * 0.04
        upward = LogScale(low - room, high + room, _BOX.south - _ZERO_ROW, _BOX.top)
    else:
        low, high = min(values, default=0.0), max(values, default=1.0)
        room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        upward = LogScale(low - room, high + room, _BOX.south, _BOX.top)
    return _Axes(min(across, default=0.0), max(across, default=1.0), upward, plot.is_log)


def _bands(plot: SeriesPlot, axes: _Axes) -> Iterator[str]:
    for band in plot.bands:
        # A band of one scale would have no width.
        half = 0.5 if band.first == band.last else 0.0
        west, east = axes.x(band.first - half), axes.x(band.last + half)
        yield svg_rectangle(west, _BOX.top, max(east - west, 2.0), _BOX.south - _BOX.top, "band", band.label)


def _upward(plot: SeriesPlot, axes: _Axes) -> Iterator[str]:
    # Powers of two have whole exponents.
    least = 1.0 if plot.upward_prefix else 0.0
    for tick in axes.upward.ticks() if plot.is_log else _linear_ticks(axes.upward, least):
        y = axes.upward.at(tick.at)
        yield svg_line(_BOX.left, y, _BOX.east, y)
        yield svg_text(f"{plot.upward_prefix}{tick.text}", _BOX.left - 6, y + 4, "end")
    if plot.is_log and any(point.y == 0 for line in plot.lines for point in line.points):
        yield svg_text("0", _BOX.left - 6, _BOX.south + 4, "end")
    yield svg_text(plot.upward, _BOX.left, 12, "start")


def _linear_ticks(scale: LogScale, least_step: float) -> list[ScaleTick]:
    span = scale.high - scale.low
    power = 10.0 ** floor(log10(span / MAX_LABELS))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= MAX_LABELS)
    step = max(step, least_step)
    places = range(ceil(scale.low / step), floor(scale.high / step) + 1)
    return [ScaleTick(place * step, f"{place * step:.6g}") for place in places]


def _across(plot: SeriesPlot, axes: _Axes) -> Iterator[str]:
    yield svg_line(_BOX.left, _BOX.south, _BOX.east, _BOX.south, "edge")
    first, last = ceil(axes.first), floor(axes.last)
    for number in sorted({first + round((last - first) * at / 8) for at in range(9)}):
        x = axes.x(number)
        yield svg_line(x, _BOX.south, x, _BOX.south + 4, "edge")
        yield svg_text(f"{plot.prefix}{number:,}", x, _BOX.south + 17)
    yield svg_text(plot.across, (_BOX.left + _BOX.east) / 2, _BOX.height - 6)


def _marks(plot: SeriesPlot, axes: _Axes) -> Iterator[str]:
    for mark in _thinned(plot.marks, _MAX_POINTS):
        yield svg_rectangle(axes.x(mark.x) - 1, _BOX.top - 8, 2.0, 8.0, "skip", mark.label)


def _line(line: SeriesLine, place: int, axes: _Axes, plot: SeriesPlot) -> Iterator[str]:
    points = _thinned(line.points, _MAX_POINTS)
    for stretch in _stretches(points):
        places = [(axes.x(point.x), axes.y(point.y or 0.0)) for point in stretch]
        if len(places) == 1:
            # A line of one point would be invisible.
            places = [(places[0][0] - 2, places[0][1]), (places[0][0] + 2, places[0][1])]
        yield svg_element(
            "polyline", class_=f"curve curve-{place}", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        )
    for point in points if len(points) <= _MAX_DOTS else ():
        if point.y is not None and isfinite(point.y):
            value = f"{plot.upward_prefix}{format_number(point.y)}"
            tooltip = f"{line.name}, {plot.across} {plot.prefix}{point.x:g}: {value}"
            x, y = axes.x(point.x), axes.y(point.y)
            yield svg_rectangle(x - 2.5, y - 2.5, 5.0, 5.0, f"point curve-{place}", tooltip)


def _stretches(points: Sequence[SeriesPoint]) -> Iterator[list[SeriesPoint]]:
    stretch: list[SeriesPoint] = []
    for point in points:
        if point.y is not None and abs(point.y) < inf:
            stretch.append(point)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _thinned(items: Sequence[_Item], most: int) -> Sequence[_Item]:
    """Return all items, or `most` of them at equal distances with the last one."""
    if len(items) <= most:
        return items
    return [items[(len(items) - 1) * place // (most - 1)] for place in range(most)]
