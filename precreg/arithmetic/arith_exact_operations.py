"""Operations on two or three numbers in rational arithmetic, rounded once: slow, and short enough to be checked by eye.

Infinities, NaN and signed zeros follow IEEE 754-2019, sections 6 and 7: a sum that is exactly zero is +0, but -0 where
the rounding is down, unless both terms are zeros of one sign.
"""

from __future__ import annotations

from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, isqrt, nan

from precreg.arithmetic.arith_exact_rounding import exact_round
from precreg.arithmetic.formats import Format
from precreg.arithmetic.roundings import Rounding

_MORE_BITS = 60
"""How many bits more than a format has are kept of a square root: stochastic rounding looks at 24 of them."""


def exact_add(x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0) -> float:
    """Return x + y, rounded to `format`; `draw` are the 24 random bits of stochastic rounding, here and below."""
    return exact_fma(x, 1.0, y, format, rounding, draw)


def exact_subtract(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x - y, rounded to `format`."""
    return exact_fma(x, 1.0, -y, format, rounding, draw)


def exact_multiply(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x * y, rounded to `format`."""
    if not (isfinite(x) and isfinite(y) and x and y):
        return exact_round(x * y, format, rounding, draw)
    return exact_round(Fraction(x) * Fraction(y), format, rounding, draw)


def exact_divide(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x / y, rounded to `format`: an infinity for a finite x that is not zero by zero."""
    if isfinite(x) and isfinite(y) and x and y:
        return exact_round(Fraction(x) / Fraction(y), format, rounding, draw)
    return exact_round(_special_quotient(x, y), format, rounding, draw)


def exact_sqrt(x: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0) -> float:
    """Return the square root of x, rounded to `format`: NaN below zero, and -0 of -0."""
    if not (isfinite(x) and x > 0):
        return exact_round(nan if x < 0 else x, format, rounding, draw)
    return exact_round(_root(Fraction(x), format.precision + _MORE_BITS), format, rounding, draw)


def exact_fma(
    x: float, y: float, z: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x * y + z, rounded once to `format` (fused multiply-add)."""
    if not (isfinite(x) and isfinite(y)):
        return exact_round(x * y + z, format, rounding, draw)
    if not isfinite(z):
        return exact_round(z, format, rounding, draw)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return exact_round(exact, format, rounding, draw)
    one_sign = copysign(1.0, x) * copysign(1.0, y) == copysign(1.0, z)
    zero = copysign(0.0, z) if one_sign else -0.0 if rounding is Rounding.DOWN else 0.0
    return exact_round(zero, format, rounding, draw)


def _special_quotient(x: float, y: float) -> float:
    """Return x / y where one of them is a zero, an infinity or NaN."""
    if isnan(x) or isnan(y) or (isinf(x) and isinf(y)) or (x == 0 and y == 0):
        return nan
    magnitude = inf if isinf(x) or y == 0 else 0.0
    return copysign(magnitude, copysign(1.0, x) * copysign(1.0, y))


def _root(square: Fraction, bits: int) -> Fraction:
    """Return the root of a positive number, or, if it has more than `bits` bits, a number between the two nearest.

    No number of `bits` bits lies between that one and the root (a sticky bit), so both are rounded alike.
    """
    shift = bits + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    scaled, rest = divmod(square.numerator << 2 * shift, square.denominator)
    root = isqrt(scaled)
    sticky = rest != 0 or root * root != scaled
    return Fraction(2 * root + sticky, 2 << shift)
