"""Write numbers for people: short, and never two different numbers as the same text."""

from __future__ import annotations

from collections.abc import Sequence

# 17 significant digits distinguish any two float64 numbers.
MAX_DIGITS = 17
# Match ratios and other shares near 1 lose in their last digits: one of a million elements is 1e-6.
SHARE_DIGITS = 7


def format_number(value: float, digits: int = 4) -> str:
    """Write a number with `digits` significant digits, or more if its integer part below a million has more."""
    size = abs(value)
    if 1 <= size < 1e6:
        digits = max(digits, len(str(round(size))))
    return f"{value:.{digits}g}"


def format_distinct(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Write numbers with as many digits as make different numbers different texts; None as an empty text."""
    distinct = {value for value in values if value is not None}
    while len(distinct) > 1 and digits < MAX_DIGITS:
        if len({format_number(value, digits) for value in distinct}) == len(distinct):
            break
        digits += 1
    return ["" if value is None else format_number(value, digits) for value in values]


def format_duration(seconds: float) -> str:
    """Write a time in minutes, seconds, milliseconds or microseconds, whichever suits its size."""
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    if seconds >= 0.1 or seconds == 0:
        return f"{format_number(seconds, 3)} s"
    if seconds >= 1e-4:
        return f"{format_number(seconds * 1e3, 3)} ms"
    return f"{format_number(seconds * 1e6, 3)} µs"
