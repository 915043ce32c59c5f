"""Numbers for people: short, and never two different ones alike."""

from __future__ import annotations

from collections.abc import Sequence

MAX_DIGITS = 17
"""Significant digits that tell any two float64 apart."""


SHARE_DIGITS = 7
"""Of match ratios and the like, where what is lost stands in the last digits."""


def format_number(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits, and more where the part before the point has more."""
    size = abs(value)
    if 1 <= size < 1e6:
        digits = max(digits, len(str(round(size))))
    return f"{value:.{digits}g}"


def format_distinct(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Write numbers that are compared with each other: with so many digits, and more until all that differ look so.

    None is written as nothing.
    """
    distinct = {value for value in values if value is not None}
    while len(distinct) > 1 and digits < MAX_DIGITS:
        if len({format_number(value, digits) for value in distinct}) == len(distinct):
            break
        digits += 1
    return ["" if value is None else format_number(value, digits) for value in values]


def format_duration(seconds: float) -> str:
    """Write a time in the unit that suits its size."""
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    if seconds >= 0.1 or seconds == 0:
        return f"{format_number(seconds, 3)} s"
    if seconds >= 1e-4:
        return f"{format_number(seconds * 1e3, 3)} ms"
    return f"{format_number(seconds * 1e6, 3)} µs"
