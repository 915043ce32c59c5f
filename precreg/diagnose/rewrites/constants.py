"""Which numbers do people write in the place of a constant?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, sqrt

# A wrong exponent of an epsilon, up to these powers of ten.
_EXPONENTS = (1, 2, 3, 4, 5, 6)


def other_numbers(value: float) -> tuple[float, ...]:
    """Return numbers that are confused with a constant: its neighbours, complement, multiples, powers and decimals."""
    found = dict.fromkeys(number for number in _others(value) if isfinite(number) and number != value)
    return tuple(found)


def _others(value: float) -> Iterator[float]:
    if value == int(value) if isfinite(value) else False:
        yield from (value - 1, value + 1)
    yield from (0.0, -value, 2 * value, value / 2, 1 - value)
    if value:
        yield from (1 / value, value * value)
    if value > 0:
        yield sqrt(value)
    if 0 < abs(value) <= 1e-2:
        yield from (value * 10.0**each for each in _EXPONENTS)
        yield from (value / 10.0**each for each in _EXPONENTS)


def nearby_numbers(value: float, change: float) -> Iterator[float]:
    """Yield numbers that people write near a fitted one: integers, fractions and decimals, the shortest first.

    `change` is the distance from the constant that was there: numbers farther off than 1 % of it are left out.
    """
    near = max(change / 100, abs(value) * 2.0**-20)
    found = [float(f"{value:.{digits}g}") for digits in range(1, 8)]
    found += [float(round(value * each)) / each for each in (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 100, 1000)]
    if value:
        found += [1 / round(1 / value)] if abs(1 / value) >= 1 else []
    yield from dict.fromkeys(each for each in found if abs(each - value) <= near)
