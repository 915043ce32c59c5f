"""How does the error run over the order of execution, in a few lines of text?

Each line is one pair, or a few neighbours with the largest of their errors. The axis is logarithmic, from the smallest
to the largest number shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import NamedTuple

from precreg.comparison.course import CourseRow, PairError, course_rows
from precreg.comparison.summary import one_line
from precreg.report import format_columns
from precreg.report.charts import LogScale, log_range
from precreg.types import format_number

MAX_CURVE_LINES = 16
# With the name and the figures, a line has about 100 characters.
CURVE_WIDTH = 40
_MAX_NAME = 40
_NAMES = ("pairs", "fail", "mean |a-r| / mean |r|")
# A narrow terminal gets a curve and names of at least so many characters.
_MIN_CURVE = 16
_MIN_NAME = 12


class _Widths(NamedTuple):
    """Hold the most characters of a name, and the columns of the curve."""

    name: int
    curve: int


def draw_text_curve(points: Sequence[PairError], width: int | None = None) -> list[str]:
    """Draw the errors of the points as lines that fit `width`; none without two errors above 0."""
    rows = course_rows(points, MAX_CURVE_LINES)
    shown = [row.largest for row in rows if row.largest is not None]
    numbers = [each for point in shown for each in (point.error, point.allowed, point.benchmark) if each]
    if sum(bool(point.error) for point in shown) < 2:
        return []
    widths = _widths(rows, width)
    scale = LogScale(*log_range([log10(number) for number in numbers]), 0, widths.curve - 1)
    low, high = (format_number(10**end, 2) for end in (scale.low, scale.high))
    ends = f"{low}{high.rjust(widths.curve - len(low))}"
    table = format_columns([*_NAMES, ends], [_line(row, scale, widths) for row in rows], len(rows))
    return [*table, _legend(shown)]


def _widths(rows: Sequence[CourseRow], width: int | None) -> _Widths:
    """Return the widths that fit a terminal: names lose their beginnings if a short curve is not enough."""
    if width is None:
        return _Widths(_MAX_NAME, CURVE_WIDTH)
    # format_columns puts two spaces between columns.
    room = width - sum(len(name) + 2 for name in _NAMES[1:]) - 2
    named = max(len(_named(row, _MAX_NAME)) for row in rows)
    curve = min(CURVE_WIDTH, max(_MIN_CURVE, room - named))
    after = max(len(_named(row, 0)) for row in rows)
    return _Widths(min(_MAX_NAME, max(_MIN_NAME, room - curve - after)), curve)


def _named(row: CourseRow, max_name: int) -> str:
    """Name the first pair of a row, and count the others; a long name loses its beginning, or its middle."""
    name = one_line(row.first.pair.name)
    if 0 < max_name < min(_MAX_NAME, len(name)):
        # The names of layers often differ in their first part alone.
        name = f"{name[: max_name // 2]}…{name[max_name // 2 + 1 - max_name :]}"
    span = name[-max_name:] if max_name else ""
    count = row.last.place - row.first.place + 1
    return span if count == 1 else f"{span} and {count - 1:,} after it"


def _line(row: CourseRow, scale: LogScale, widths: _Widths) -> list[str]:
    named = _named(row, widths.name)
    if row.largest is None:
        return [named, _failing(row), "no figure", " " * widths.curve]
    return [named, _failing(row), format_number(row.largest.error or 0.0, 3), _marks(row.largest, scale, widths)]


def _failing(row: CourseRow) -> str:
    return f"{row.failing:,}" if row.failing else ""


def _marks(point: PairError, scale: LogScale, widths: _Widths) -> str:
    marks = ["."] * widths.curve
    # Later marks cover earlier ones, the error last.
    for number, mark in ((point.allowed, "|"), (point.benchmark, "o"), (point.error, "X" if point.fails else "*")):
        if number:
            marks[round(scale.at(log10(number)))] = mark
    return "".join(marks)


def _legend(shown: Sequence[PairError]) -> str:
    parts = ["* largest error of a line", "X if that pair fails"]
    if any(point.allowed for point in shown):
        parts.append("| mean of atol + rtol*|r|, over mean |r|")
    if any(point.benchmark is not None for point in shown):
        parts.append("o benchmark")
    return "; ".join(parts)
