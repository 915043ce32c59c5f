"""Spacing and rounding of one number in rational arithmetic: slow, and short enough to be checked by eye."""

from __future__ import annotations

from fractions import Fraction
from math import copysign, isfinite, isnan

from precreg.arith.formats import Format


def exact_ulp(value: Fraction, format: Format) -> Fraction:
    """Return the spacing of `format` in the binade of |value|, as `precreg.arith.spacing.ulp` does."""
    binade = min(max(_binade(value), format.min_exponent), format.max_exponent) if value else format.min_exponent
    return Fraction(2) ** (binade - format.precision + 1)


def exact_round(value: float, format: Format) -> float:
    """Return the number of `format` nearest to `value`, ties to even, as `round_nearest_even` does for arrays."""
    if isnan(value):
        return value
    if isfinite(value):
        quantum = exact_ulp(Fraction(value), format)
        magnitude = round(abs(Fraction(value)) / quantum) * quantum
        if magnitude <= format.largest:
            return copysign(float(magnitude), value) if magnitude or format.negative_zero else 0.0
    return copysign(format.overflow, value)


def _binade(value: Fraction) -> int:
    """Return the e of 2**e <= |value| < 2**(e + 1), for a value that is not zero."""
    near = value.numerator.bit_length() - value.denominator.bit_length()
    return near if abs(value) >= Fraction(2) ** near else near - 1
