<<<<<<< HEAD
"""How does the error of stored arrays run over their order of execution?

The place in the order runs to the right, the error upward on a logarithmic axis. An error of 0 has no logarithm, and
stands below the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log10
=======
"""How do errors develop over the course of a computation: the own error of each operation, and the total errors?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, log10
>>>>>>> shadow
from typing import NamedTuple

from precreg.report.charts.svg import (
    DrawingBox,
    LogScale,
    log_range,
    svg_drawing,
    svg_element,
    svg_line,
<<<<<<< HEAD
=======
    svg_rectangle,
>>>>>>> shadow
    svg_text,
    svg_title,
)
from precreg.types import format_number

<<<<<<< HEAD
COURSE_BOX = DrawingBox(960, 330, 64, 16, 16, 62)
# Of more points the largest of each column is drawn: a screen has no more columns, and the page stays small.
MAX_COURSE_COLUMNS = 800
# Marks with tooltips; the first ones are those that a reader looks for.
MAX_COURSE_MARKS = 200


class CurvePoint(NamedTuple):
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
        return COURSE_BOX.left + share * (COURSE_BOX.east - COURSE_BOX.left)

    def y(self, number: float) -> float:
        return self.up.at(log10(number)) if number > 0 else COURSE_BOX.south


def draw_course(points: Sequence[CurvePoint]) -> str:
    """Draw the errors of points in order, with the tolerances, the benchmark, and a mark for each failure."""
    numbers = [log10(each) for point in points for each in (point.error, point.allowed, point.benchmark) if each]
    frame = _Frame(LogScale(*log_range(numbers or [0.0]), COURSE_BOX.south - 8, COURSE_BOX.top), max(len(points), 1))
    parts = [
        *_axes(frame, points),
        *_curve(frame, points, lambda point: point.allowed, "course-allowed"),
        *_curve(frame, points, lambda point: point.benchmark, "course-second"),
        *_curve(frame, points, lambda point: point.error, "course-error"),
        *_marks(frame, points),
    ]
    return svg_drawing(COURSE_BOX, describe_course(points), *parts)


def describe_course(points: Sequence[CurvePoint]) -> str:
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


def _axes(frame: _Frame, points: Sequence[CurvePoint]) -> Iterator[str]:
    for tick in frame.up.ticks():
        y = frame.up.at(tick.at)
        yield svg_line(COURSE_BOX.left, y, COURSE_BOX.east, y)
        yield svg_text(tick.text, COURSE_BOX.left - 6, y + 4, "end")
    yield svg_line(COURSE_BOX.left, COURSE_BOX.south, COURSE_BOX.east, COURSE_BOX.south, "edge")
    if any(point.error == 0 for point in points):
        yield svg_text("0", COURSE_BOX.left - 6, COURSE_BOX.south + 4, "end")
    if points:
        yield svg_text(_short(points[0].name), COURSE_BOX.left, COURSE_BOX.south + 18, "start")
        yield svg_text(_short(points[-1].name), COURSE_BOX.east, COURSE_BOX.south + 18, "end")
    words = "order of execution; upward mean |actual − reference| / mean |reference|"
    yield svg_text(words, (COURSE_BOX.left + COURSE_BOX.east) / 2, COURSE_BOX.height - 26)
    yield from _legend(points)


def _legend(points: Sequence[CurvePoint]) -> Iterator[str]:
    lines = [("course-error", "error")]
    if any(point.allowed is not None for point in points):
        lines.append(("course-allowed", "mean of atol + rtol·|r|"))
    if any(point.benchmark is not None for point in points):
        lines.append(("course-second", "benchmark"))
    for place, (class_, words) in enumerate(lines):
        x = COURSE_BOX.left + place * 210
        yield svg_line(x, COURSE_BOX.height - 10, x + 24, COURSE_BOX.height - 10, class_)
        yield svg_text(words, x + 30, COURSE_BOX.height - 6, "start")


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"...{name[-37:]}"


def _curve(
    frame: _Frame, points: Sequence[CurvePoint], figure: Callable[[CurvePoint], float | None], class_: str
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
    columns = min(len(numbers), MAX_COURSE_COLUMNS)
    edges = [column * len(numbers) // columns for column in range(columns + 1)] if columns else [0]
    found: list[tuple[int, float | None]] = []
    for start, end in pairwise(edges):
        known = [(number, -place) for place in range(start, end) if (number := numbers[place]) is not None]
        number, place = max(known, default=(None, -start))
        found.append((-place, number))
    return found


def _marks(frame: _Frame, points: Sequence[CurvePoint]) -> Iterator[str]:
    """Mark the failures, at their errors or on the lower edge, with a line through the first."""
    failing = [place for place, point in enumerate(points) if point.fails]
    if failing:
        x = frame.x(failing[0])
        anchor = "start" if failing[0] < len(points) / 2 else "end"
        yield svg_line(x, COURSE_BOX.top, x, COURSE_BOX.south, "course-first")
        words = f"first failing: {_short(points[failing[0]].name)}"
        yield svg_text(words, x + (6 if anchor == "start" else -6), COURSE_BOX.top + 10, anchor)
    for place in failing[:MAX_COURSE_MARKS]:
        point = points[place]
        error = "no figure" if point.error is None else format_number(point.error, 3)
        tooltip = svg_title(f"{point.name}: {point.reason}, {error}")
        # A failure without a figure is hollow, so that it does not look like an error of 0.
        class_ = "course-absent" if point.error is None else "course-fails"
        yield svg_element("circle", tooltip, class_=class_, cx=frame.x(place), cy=frame.y(point.error or 0.0), r=3.5)
    if len(failing) > MAX_COURSE_MARKS:
        words = f"the first {MAX_COURSE_MARKS} of {len(failing):,} failures are marked"
        yield svg_text(words, COURSE_BOX.east, COURSE_BOX.height - 6, "end")
=======
COURSE_BOX = DrawingBox(960, 330, 70, 96, 30, 46)
# More columns would be thinner than a dot.
MAX_COURSE_COLUMNS = 400
# Labels of more curves would cover each other.
MAX_CURVES = 6
# 0 has no logarithm, and an infinite error no place on the axis. Rows apart hold them.
_APART = 16.0
_DECADES = 24.0


class CoursePoint(NamedTuple):
    """Hold one operation: its number, own and total error, and its label; None for an error that is not known."""

    number: int
    own: float | None
    total: float | None
    label: str


class Curve(NamedTuple):
    """Hold the total errors on the way to one output, as points in order; a gap separates the phases."""

    name: str
    stretches: Sequence[Sequence[CoursePoint]]


class Course(NamedTuple):
    """Hold everything that the picture shows: own errors, curves, places of phases, and sizes to compare with."""

    points: Sequence[CoursePoint]
    curves: Sequence[Curve]
    # The number of the first operation of each phase but the first, and its name.
    phases: Sequence[tuple[int, str]] = ()
    # The first operation that loses precision.
    loss: CoursePoint | None = None
    # Names of errors to compare with, such as "1 ULP of float16".
    levels: Sequence[tuple[str, float]] = ()


class _Axes(NamedTuple):
    across: tuple[float, float]
    upward: LogScale

    def x(self, number: float) -> float:
        first, last = self.across
        return COURSE_BOX.left + (number - first) / max(last - first, 1.0) * (COURSE_BOX.east - COURSE_BOX.left)

    def y(self, error: float) -> float:
        if error == 0:
            return COURSE_BOX.south - _APART / 2
        return self.upward.at(log10(error)) if isfinite(error) else COURSE_BOX.top + _APART / 2


def draw_course(course: Course) -> str:
    """Draw own errors as dots and total errors as lines, over the numbers of the operations."""
    axes = _axes(course)
    parts = [
        *_horizontal(course, axes),
        *_vertical(course, axes),
        *(part for place, curve in enumerate(course.curves[:MAX_CURVES]) for part in _curve(curve, place, axes)),
        *_dots(course, axes),
    ]
    return svg_drawing(COURSE_BOX, describe_course(course), *parts)


def describe_course(course: Course) -> str:
    """Write one sentence: the number of operations, the largest own error, and where the precision is lost first."""
    known = [point for point in course.points if point.own is not None]
    if not known:
        return f"error over {len(course.points):,} operations: no own error is known"
    largest = max(known, key=lambda point: point.own or 0.0)
    parts = [
        f"error over {len(course.points):,} operations",
        f"largest own error {format_number(largest.own or 0.0, 3)} at {largest.label}",
    ]
    if course.loss is not None:
        parts.append(f"first loss at {course.loss.label}")
    return "; ".join(parts)


def _axes(course: Course) -> _Axes:
    numbers = [point.number for point in course.points] or [1]
    errors = [
        error
        for point in course.points
        for error in (point.own, point.total)
        if error is not None and error > 0 and isfinite(error)
    ]
    logarithms = [log10(error) for error in (*errors, *(size for _, size in course.levels if size > 0))] or [-1.0]
    # A single tiny error, such as the rounding of an index, would press all others together.
    low, high = log_range([max(each, max(logarithms) - _DECADES) for each in logarithms])
    room = (high - low) * 0.05
    upward = LogScale(low - room, high + room, COURSE_BOX.south - _APART, COURSE_BOX.top + _APART)
    return _Axes((min(numbers), max(numbers)), upward)


def _horizontal(course: Course, axes: _Axes) -> Iterator[str]:
    left, east = COURSE_BOX.left, COURSE_BOX.east
    for tick in axes.upward.ticks():
        y = axes.upward.at(tick.at)
        yield svg_line(left, y, east, y)
        yield svg_text(tick.text, left - 6, y + 4, "end")
    errors = [error for point in course.points for error in (point.own, point.total) if error is not None]
    for name, error in (("0", 0.0), ("inf", float("inf"))):
        if error in errors:
            yield svg_text(name, left - 6, axes.y(error) + 4, "end")
    for name, size in course.levels:
        y = axes.y(size)
        yield svg_line(left, y, east, y, "level")
        yield svg_text(name, east + 4, y + 4, "start")


def _vertical(course: Course, axes: _Axes) -> Iterator[str]:
    south = COURSE_BOX.south
    first, last = (int(end) for end in axes.across)
    # Fewer operations than ticks would repeat their numbers.
    for number in sorted({first + round((last - first) * at / 6) for at in range(7)}):
        x = axes.x(number)
        yield svg_line(x, south, x, south + 4, "edge")
        yield svg_text(f"{number:,}", x, south + 16)
    yield svg_line(COURSE_BOX.left, south, COURSE_BOX.east, south, "edge")
    yield svg_text("operation, in order of execution", (COURSE_BOX.left + COURSE_BOX.east) / 2, COURSE_BOX.height - 8)
    for number, name in course.phases:
        x = axes.x(number - 0.5)
        yield svg_line(x, COURSE_BOX.top, x, south, "phase")
        yield svg_text(name, x + 4, COURSE_BOX.top + 10, "start")
    if course.loss is not None:
        x = axes.x(course.loss.number)
        # Near the right end the label stands on the left of its line.
        anchor, gap = ("end", -4) if x > (COURSE_BOX.left + COURSE_BOX.east) / 2 else ("start", 4)
        yield svg_line(x, COURSE_BOX.top - 8, x, south, "loss", svg_title(course.loss.label))
        yield svg_text(f"first loss: {_short_label(course.loss.label)}", x + gap, COURSE_BOX.top - 10, anchor, "value")


def _short_label(label: str) -> str:
    return label if len(label) <= 48 else f"{label[:47]}…"


def _curve(curve: Curve, place: int, axes: _Axes) -> Iterator[str]:
    last: tuple[float, float] | None = None
    for stretch in curve.stretches:
        shown = _worst_by_column([point for point in stretch if point.total is not None], axes, "total")
        if not shown:
            continue
        places = [(axes.x(point.number), axes.y(point.total or 0.0)) for point in shown]
        last = places[-1]
        if len(places) == 1:
            # A line of one point would be invisible.
            places = [(places[0][0] - 2, places[0][1]), (places[0][0] + 2, places[0][1])]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield svg_element("polyline", class_=f"curve curve-{place}", points=points)
    if last is not None:
        yield svg_element("circle", class_=f"end curve-{place}", cx=last[0], cy=last[1], r=3.5)


def _dots(course: Course, axes: _Axes) -> Iterator[str]:
    for point in _worst_by_column([each for each in course.points if each.own is not None], axes, "own"):
        own, total = point.own or 0.0, point.total
        words = f"{point.label}: own {format_number(own, 3)}" + (
            "" if total is None else f", total {format_number(total, 3)}"
        )
        kind = "own loss" if course.loss is not None and point.number == course.loss.number else "own"
        x, y = axes.x(point.number), axes.y(own)
        if isfinite(own):
            yield svg_element("circle", svg_title(words), class_=kind, cx=x, cy=y, r=3.0)
        else:
            yield svg_rectangle(x - 3, y - 3, 6, 6, kind, words)


def _worst_by_column(points: Sequence[CoursePoint], axes: _Axes, field: str) -> list[CoursePoint]:
    """Return the points, or the largest error of each column if there are more points than columns."""
    if len(points) <= MAX_COURSE_COLUMNS:
        return list(points)
    width = (COURSE_BOX.east - COURSE_BOX.left) / MAX_COURSE_COLUMNS
    worst: dict[int, CoursePoint] = {}
    for point in points:
        column = int((axes.x(point.number) - COURSE_BOX.left) / width)
        if column not in worst or getattr(point, field) > getattr(worst[column], field):
            worst[column] = point
    return list(worst.values())
>>>>>>> shadow
