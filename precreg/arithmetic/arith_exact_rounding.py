"""Spacing and rounding of one number in rational arithmetic: slow, and short enough to be checked by eye."""

from __future__ import annotations

from fractions import Fraction
from math import copysign, isinf, isnan

from precreg.arithmetic.formats import Format
from precreg.arithmetic.roundings import Rounding, beyond_largest


def exact_ulp(value: Fraction, format: Format) -> Fraction:
    """Return the spacing of `format` in the binade of |value|, as `precreg.arithmetic.spacing.ulp` does."""
    binade = min(max(_binade(value), format.min_exponent), format.max_exponent) if value else format.min_exponent
    return Fraction(2) ** (binade - format.precision + 1)


def exact_round(
    value: float | Fraction, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return `value` rounded to a number of `format`, as `precreg.arithmetic.arith_rounding.round_to` does for arrays.

    `draw` are the 24 random bits of stochastic rounding.
    """
    if not isinstance(value, Fraction):
        if isnan(value):
            return value
        if isinf(value):
            return copysign(format.overflow, value)
    exact = Fraction(value)
    quantum = Fraction(2) ** ((max(_binade(exact), format.min_exponent) if exact else 0) - format.precision + 1)
    magnitude = round_to_integer(exact / quantum, rounding, draw) * quantum
    sign = -1.0 if exact < 0 else copysign(1.0, 0.0 if isinstance(value, Fraction) else value)
    if magnitude > format.largest:
        return copysign(beyond_largest(format, rounding)[exact > 0], sign)
    if not format.subnormals and magnitude < format.smallest_normal:
        magnitude = Fraction(0)
    return copysign(float(magnitude), sign) if magnitude or format.negative_zero else 0.0


def round_to_integer(quotient: Fraction, rounding: Rounding, draw: int = 0) -> int:
    """Return the magnitude of what a number is rounded to among the integers; its sign matters to up and down."""
    low, rest = divmod(abs(quotient.numerator), quotient.denominator)
    inexact, over_half = rest > 0, 2 * rest - quotient.denominator
    upward = {
        Rounding.NEAREST_EVEN: over_half > 0 or (over_half == 0 and low % 2 == 1),
        Rounding.NEAREST_AWAY: over_half >= 0,
        Rounding.TOWARD_ZERO: False,
        Rounding.UP: inexact and quotient > 0,
        Rounding.DOWN: inexact and quotient < 0,
        Rounding.AWAY: inexact,
        Rounding.ODD: inexact and low % 2 == 0,
        Rounding.STOCHASTIC: (rest << 24) // quotient.denominator > draw,
    }
    return low + upward[rounding]


def exact_random_bits(seed: int, index: int) -> int:
    """Return the 24 random bits of one index, as numpy_form/random_bits.py does: SplitMix64."""
    mixed = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return (mixed ^ mixed >> 31) >> 40


def _binade(value: Fraction) -> int:
    """Return the e of 2**e <= |value| < 2**(e + 1), for a value that is not zero."""
    near = value.numerator.bit_length() - value.denominator.bit_length()
    return near if abs(value) >= Fraction(2) ** near else near - 1
