"""How does the error of stored arrays run over their order of execution?

The place in the order runs to the right, the error upward on a logarithmic axis. An error of 0 has no logarithm, and
stands below the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log10
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

LAYERS_BOX = DrawingBox(960, 330, 64, 16, 16, 62)
# Of more points, only the largest of each screen column is drawn, so the page stays small.
MAX_LAYER_COLUMNS = 800
# Marks with tooltips; the first ones are those that a reader looks for.
MAX_LAYER_MARKS = 200


class LayerError(NamedTuple):
    """Hold the errors of one array at its place in the order; None where no figure is defined."""

    name: str
    error: float | None
    allowed: float | None
    benchmark: float | None
    fails: bool
    reason: str


class _Frame(NamedTuple):
    up: LogScale
    points: int

    def x(self, place: int) -> float:
        share = (place + 0.5) / self.points
        return LAYERS_BOX.left + share * (LAYERS_BOX.east - LAYERS_BOX.left)

    def y(self, number: float) -> float:
        return self.up.at(log10(number)) if number > 0 else LAYERS_BOX.south


def draw_layer_errors(points: Sequence[LayerError]) -> str:
    """Draw the errors of points in order, with the tolerances, the benchmark, and a mark for each failure."""
    numbers = [log10(each) for point in points for each in (point.error, point.allowed, point.benchmark) if each]
    frame = _Frame(LogScale(*log_range(numbers or [0.0]), LAYERS_BOX.south - 8, LAYERS_BOX.top), max(len(points), 1))
    parts = [
        *_axes(frame, points),
        *_curve(frame, points, lambda point: point.allowed, "layer-allowed"),
        *_curve(frame, points, lambda point: point.benchmark, "layer-second"),
        *_curve(frame, points, lambda point: point.error, "layer-error"),
        *_marks(frame, points),
    ]
    return svg_drawing(LAYERS_BOX, describe_layer_errors(points), *parts)


def describe_layer_errors(points: Sequence[LayerError]) -> str:
    """Write one sentence: the first and the largest error, and the number of failures."""
    known = [point for point in points if point.error is not None]
    failing = sum(point.fails for point in points)
    if not known:
        return f"no pair of {len(points):,} has an error in this unit; {failing:,} fail"
    largest = max(known, key=lambda point: point.error or 0.0)
    first = (
        f"mean |a-r| / mean |r| of {len(known):,} pairs in order: {format_number(known[0].error or 0.0, 3)} at first"
    )
    return f"{first}, at most {format_number(largest.error or 0.0, 3)} at {largest.name}; {failing:,} fail"


def _axes(frame: _Frame, points: Sequence[LayerError]) -> Iterator[str]:
    for tick in frame.up.ticks():
        y = frame.up.at(tick.at)
        yield svg_line(LAYERS_BOX.left, y, LAYERS_BOX.east, y)
        yield svg_text(tick.text, LAYERS_BOX.left - 6, y + 4, "end")
    yield svg_line(LAYERS_BOX.left, LAYERS_BOX.south, LAYERS_BOX.east, LAYERS_BOX.south, "edge")
    if any(point.error == 0 for point in points):
        yield svg_text("0", LAYERS_BOX.left - 6, LAYERS_BOX.south + 4, "end")
    if points:
        yield svg_text(_short(points[0].name), LAYERS_BOX.left, LAYERS_BOX.south + 18, "start")
        yield svg_text(_short(points[-1].name), LAYERS_BOX.east, LAYERS_BOX.south + 18, "end")
    words = "order of execution; upward mean |actual − reference| / mean |reference|"
    yield svg_text(words, (LAYERS_BOX.left + LAYERS_BOX.east) / 2, LAYERS_BOX.height - 26)
    yield from _legend(points)


def _legend(points: Sequence[LayerError]) -> Iterator[str]:
    lines = [("layer-error", "error")]
    if any(point.allowed is not None for point in points):
        lines.append(("layer-allowed", "mean of atol + rtol·|r|"))
    if any(point.benchmark is not None for point in points):
        lines.append(("layer-second", "benchmark"))
    for place, (class_, words) in enumerate(lines):
        x = LAYERS_BOX.left + place * 210
        yield svg_line(x, LAYERS_BOX.height - 10, x + 24, LAYERS_BOX.height - 10, class_)
        yield svg_text(words, x + 30, LAYERS_BOX.height - 6, "start")


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"...{name[-37:]}"


def _curve(
    frame: _Frame, points: Sequence[LayerError], figure: Callable[[LayerError], float | None], class_: str
) -> Iterator[str]:
    """Draw one figure of all points as lines, with a gap where none is defined."""
    pieces: list[list[str]] = [[]]
    for place, number in _columns([figure(point) for point in points]):
        if number is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{frame.x(place):.1f},{frame.y(number):.1f}")
    for piece in filter(None, pieces):
        # A point between two gaps has no line.
        if len(piece) == 1:
            x, _, y = piece[0].partition(",")
            yield svg_element("circle", class_=f"{class_}-dot", cx=x, cy=y, r=2.0)
        else:
            yield svg_element("polyline", class_=class_, points=" ".join(piece))


def _columns(numbers: Sequence[float | None]) -> list[tuple[int, float | None]]:
    """Return place and number of each column: all of them, or the largest of neighbours."""
    columns = min(len(numbers), MAX_LAYER_COLUMNS)
    edges = [column * len(numbers) // columns for column in range(columns + 1)] if columns else [0]
    found: list[tuple[int, float | None]] = []
    for start, end in pairwise(edges):
        known = [(number, -place) for place in range(start, end) if (number := numbers[place]) is not None]
        number, place = max(known, default=(None, -start))
        found.append((-place, number))
    return found


def _marks(frame: _Frame, points: Sequence[LayerError]) -> Iterator[str]:
    """Mark the failures, at their errors or on the lower edge, with a line through the first."""
    failing = [place for place, point in enumerate(points) if point.fails]
    if failing:
        x = frame.x(failing[0])
        anchor = "start" if failing[0] < len(points) / 2 else "end"
        yield svg_line(x, LAYERS_BOX.top, x, LAYERS_BOX.south, "layer-first")
        words = f"first failing: {_short(points[failing[0]].name)}"
        yield svg_text(words, x + (6 if anchor == "start" else -6), LAYERS_BOX.top + 10, anchor)
    for place in failing[:MAX_LAYER_MARKS]:
        point = points[place]
        error = "no figure" if point.error is None else format_number(point.error, 3)
        tooltip = svg_title(f"{point.name}: {point.reason}, {error}")
        # A failure without a figure is hollow, so that it does not look like an error of 0.
        class_ = "layer-absent" if point.error is None else "layer-fails"
        yield svg_element("circle", tooltip, class_=class_, cx=frame.x(place), cy=frame.y(point.error or 0.0), r=3.5)
    if len(failing) > MAX_LAYER_MARKS:
        words = f"the first {MAX_LAYER_MARKS} of {len(failing):,} failures are marked"
        yield svg_text(words, LAYERS_BOX.east, LAYERS_BOX.height - 6, "end")
