"""How do errors develop over the course of a computation: the own error of each operation, and the total errors?"""

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
    svg_rectangle,
    svg_text,
    svg_title,
)
from precreg.types import format_number

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
        # Near the right end the label is on the left of its line.
        anchor, gap = ("end", -4) if x > (COURSE_BOX.left + COURSE_BOX.east) / 2 else ("start", 4)
        yield svg_line(x, COURSE_BOX.top - 8, x, south, "loss", svg_title(course.loss.label))
        yield svg_text(f"first loss: {_short_label(course.loss.label)}", x + gap, COURSE_BOX.top - 10, anchor, "value")


def _short_label(label: str) -> str:
    return label if len(label) <= 48 else f"{label[:47]}…"


def _curve(curve: Curve, place: int, axes: _Axes) -> Iterator[str]:
    last: tuple[float, float] | None = None
    for stretch in curve.stretches:
        # A line down to each exact operation, such as a mask, would hide the course of the errors.
        shown = _worst_by_column([point for point in stretch if point.total], axes, "total")
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
