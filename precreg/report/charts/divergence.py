"""How does the distance of two trainings run over their steps, beside the band of the twins?

Steps run to the right, the distance upward on a logarithmic axis. A distance of 0 has no logarithm, and stands below
the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, log10
from typing import NamedTuple

from precreg.report.charts.svg import (
    DrawingBox,
    LogScale,
    log_range,
    svg_drawing,
    svg_element,
    svg_line,
    svg_text,
    svg_title,
)
from precreg.types import format_number

DISTANCE_BOX = DrawingBox(960, 340, 70, 20, 30, 62)
# Of more steps, only the largest distance of each screen column is drawn, so the page stays small.
MAX_STEP_COLUMNS = 400
# A dot with a tooltip for each step would be a line again.
MAX_STEP_DOTS = 60

Distances = Sequence[float | None]


class DistanceChart(NamedTuple):
    """Hold the steps, the distances of the pair and of each twin, the twins' limits, and the step of the parting."""

    steps: Sequence[int]
    pair: Distances
    twins: Sequence[Distances]
    limits: Distances
    parted: int | None


class _Axes(NamedTuple):
    first: int
    last: int
    upward: LogScale

    def x(self, step: float) -> float:
        return DISTANCE_BOX.left + (step - self.first) / max(self.last - self.first, 1) * (
            DISTANCE_BOX.east - DISTANCE_BOX.left
        )

    def y(self, value: float) -> float:
        return self.upward.at(log10(value)) if value > 0 else DISTANCE_BOX.south


def draw_distances(chart: DistanceChart) -> str:
    """Draw the distance of two runs by step, with the twins and their limit."""
    sizes = [value for values in (chart.pair, chart.limits, *chart.twins) for value in values if value]
    low, high = log_range([log10(each) for each in sizes if isfinite(each)] or [-1.0])
    upward = LogScale(low, high, DISTANCE_BOX.south - 14, DISTANCE_BOX.top)
    axes = _Axes(chart.steps[0], chart.steps[-1], upward)
    parts = [
        *_frame(chart, axes),
        *_band(chart, axes),
        *(part for twin in chart.twins for part in _line(chart.steps, twin, axes, "twin")),
        *_line(chart.steps, chart.limits, axes, "level"),
        *_line(chart.steps, chart.pair, axes, "curve curve-0"),
        *_dots(chart, axes),
        *_legend(chart),
    ]
    return svg_drawing(DISTANCE_BOX, describe_distances(chart), *parts)


def describe_distances(chart: DistanceChart) -> str:
    """Write one sentence: the first and the largest distance."""
    known = [(value, -step) for step, value in zip(chart.steps, chart.pair, strict=True) if value]
    if not known:
        return f"distance of two runs over {len(chart.steps):,} steps: 0 at all of them"
    largest, step = max(known)
    first = (
        f"distance of two runs over {len(chart.steps):,} steps: {format_number(known[0][0], 3)} at step {-known[0][1]}"
    )
    return f"{first}, at most {format_number(largest, 3)} at step {-step}"


def _frame(chart: DistanceChart, axes: _Axes) -> Iterator[str]:
    left, east, south = DISTANCE_BOX.left, DISTANCE_BOX.east, DISTANCE_BOX.south
    for tick in axes.upward.ticks():
        y = axes.upward.at(tick.at)
        yield svg_line(left, y, east, y)
        yield svg_text(tick.text, left - 6, y + 4, "end")
    if 0.0 in chart.pair:
        yield svg_text("0", left - 6, south + 4, "end")
    yield svg_line(left, south, east, south, "edge")
    for step in sorted({axes.first + round((axes.last - axes.first) * at / 6) for at in range(7)}):
        yield svg_line(axes.x(step), south, axes.x(step), south + 4, "edge")
        yield svg_text(f"{step:,}", axes.x(step), south + 16)
    yield svg_text("step of the training; upward |B - A| / |A| over all weights", (left + east) / 2, south + 34)
    if chart.parted is not None:
        x = axes.x(chart.parted)
        # Near the right end the label is on the left of its line.
        anchor, gap = ("end", -4) if x > (left + east) / 2 else ("start", 4)
        yield svg_line(x, DISTANCE_BOX.top - 8, x, south, "loss")
        yield svg_text(f"parts at step {chart.parted:,}", x + gap, DISTANCE_BOX.top - 10, anchor, "value")


def _band(chart: DistanceChart, axes: _Axes) -> Iterator[str]:
    """Fill the range from the nearest twin to the limit of all."""
    places = []
    for place, step in enumerate(chart.steps):
        known = [value for twin in chart.twins if (value := twin[place])]
        limit = chart.limits[place] if chart.limits else None
        if known and limit and isfinite(limit):
            places.append((axes.x(step), axes.y(min(known)), axes.y(limit)))
    places = places[:: max(1, len(places) // MAX_STEP_COLUMNS)]
    if len(places) > 1:
        corners = [*((x, high) for x, _, high in places), *((x, low) for x, low, _ in reversed(places))]
        yield svg_element("polygon", class_="twin-band", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners))


def _line(steps: Sequence[int], values: Distances, axes: _Axes, class_: str) -> Iterator[str]:
    """Draw values as lines, with a gap where none is known or above 0."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for step, value in _columns(steps, values):
        if value and isfinite(value):
            pieces[-1].append((axes.x(step), axes.y(value)))
        elif pieces[-1]:
            pieces.append([])
    for piece in filter(None, pieces):
        # A line of one point would be invisible.
        ends = piece if len(piece) > 1 else [(piece[0][0] - 2, piece[0][1]), (piece[0][0] + 2, piece[0][1])]
        yield svg_element("polyline", class_=class_, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in ends))


def _columns(steps: Sequence[int], values: Distances) -> Iterator[tuple[int, float | None]]:
    size = max(1, -(-len(steps) // MAX_STEP_COLUMNS))
    for start in range(0, len(values), size):
        group = [(value, -place) for place, value in enumerate(values[start : start + size]) if value is not None]
        value, place = max(group) if group else (None, 0)
        yield steps[start - place], value


def _dots(chart: DistanceChart, axes: _Axes) -> Iterator[str]:
    every = max(1, -(-len(chart.steps) // MAX_STEP_DOTS))
    for step, value in [*zip(chart.steps, chart.pair, strict=True)][::every]:
        if value is not None and isfinite(value):
            title = svg_title(f"step {step:,}: distance {format_number(value, 3)}")
            yield svg_element("circle", title, class_="end curve-0", cx=axes.x(step), cy=axes.y(value), r=3.0)


def _legend(chart: DistanceChart) -> Iterator[str]:
    lines = [("curve curve-0", "the pair")]
    if chart.twins:
        lines += [("twin", "twins of run A"), ("level", "limit of a further twin")]
    for place, (class_, words) in enumerate(lines):
        x, y = DISTANCE_BOX.left + place * 180, DISTANCE_BOX.height - 8
        yield svg_line(x, y, x + 24, y, class_)
        yield svg_text(words, x + 30, y + 4, "start")
