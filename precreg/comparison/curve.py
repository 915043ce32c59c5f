"""How does the error run over the order of execution, in a few lines of text?

Each line is one pair, or a few neighbours with the largest of their errors. The axis is logarithmic, from the smallest
to the largest number shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from precreg.comparison.course import CourseRow, PairError, course_rows
from precreg.comparison.summary import one_line
from precreg.report import format_columns
from precreg.report.charts import LogScale, log_range
from precreg.types import format_number

MAX_CURVE_LINES = 16
# With the name and the figures, a line has about 100 characters.
CURVE_WIDTH = 40
_MAX_NAME = 40


def draw_text_curve(points: Sequence[PairError]) -> list[str]:
    """Draw the errors of the points as lines; none without two errors above 0."""
    rows = course_rows(points, MAX_CURVE_LINES)
    shown = [row.largest for row in rows if row.largest is not None]
    numbers = [each for point in shown for each in (point.error, point.allowed, point.benchmark) if each]
    if sum(bool(point.error) for point in shown) < 2:
        return []
    scale = LogScale(*log_range([log10(number) for number in numbers]), 0, CURVE_WIDTH - 1)
    low, high = (format_number(10**end, 2) for end in (scale.low, scale.high))
    ends = f"{low}{high.rjust(CURVE_WIDTH - len(low))}"
    table = format_columns(
        ["pairs", "fail", "mean |a-r| / mean |r|", ends], [_line(row, scale) for row in rows], len(rows)
    )
    return [*table, _legend(shown)]


def _line(row: CourseRow, scale: LogScale) -> list[str]:
    span = one_line(row.first.pair.name)[-_MAX_NAME:]
    count = row.last.place - row.first.place + 1
    named = span if count == 1 else f"{span} and {count - 1:,} after it"
    if row.largest is None:
        return [named, _failing(row), "no figure", " " * CURVE_WIDTH]
    return [named, _failing(row), format_number(row.largest.error or 0.0, 3), _marks(row.largest, scale)]


def _failing(row: CourseRow) -> str:
    return f"{row.failing:,}" if row.failing else ""


def _marks(point: PairError, scale: LogScale) -> str:
    marks = ["."] * CURVE_WIDTH
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
