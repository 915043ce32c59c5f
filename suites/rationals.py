"""Rounding of rational numbers to binary formats, for oracles: Python's integers alone, one number at a time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt


def rounded(
    number: Fraction, precision: int = 24, smallest_exponent: int = -149, *, truncated: bool = False
) -> Fraction:
    """Round to `precision` bits: to nearest with ties to even, or toward zero; float32 unless told otherwise.

    `smallest_exponent` is that of the smallest subnormal, as a power of two. There is no largest number.
    """
    if not number:
        return number
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    exponent -= abs(number) < Fraction(2) ** exponent
    quantum = Fraction(2) ** max(exponent - precision + 1, smallest_exponent)
    return quantum * (int(number / quantum) if truncated else round(number / quantum))


def each(function: Callable[..., Fraction], *arrays: npt.NDArray) -> npt.NDArray[np.float64]:
    """Call a function on the elements of arrays of one shape as fractions; what it gives has to be a float64."""
    elements = zip(*(map(Fraction, array.ravel().tolist()) for array in arrays), strict=True)
    numbers = [float(function(*element)) for element in elements]
    return np.array(numbers).reshape(arrays[0].shape)
