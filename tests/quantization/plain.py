"""Quantization in exact rationals, written from its definition: the code nearest to x / scale, ties to even."""

from bisect import bisect_left
from fractions import Fraction
from functools import cache

import numpy as np


@cache
def code_values(name):
    """Return all numbers of a narrow floating format as rationals, from every pattern of its dtype."""
    from precreg.arithmetic import numpy_dtype
    from precreg.arithmetic.hifloat8 import decode_hifloat8

    if name == "hif8":
        return sorted({Fraction(each) for each in map(decode_hifloat8, range(256)) if np.isfinite(each)})
    dtype = numpy_dtype(name)
    patterns = np.arange(256, dtype=np.uint8) if dtype.itemsize == 1 else np.arange(2**16, dtype=np.uint16)
    numbers = patterns.view(dtype).astype(np.float64)
    return sorted({Fraction(float(each)) for each in numbers if np.isfinite(each)})


def nearest_code(value, codes):
    """Return the nearest of sorted codes; of two, the even multiple of their distance."""
    if codes[-1] - codes[0] == len(codes) - 1:
        return Fraction(min(max(round(value), codes[0]), codes[-1]))
    # The codes are sorted and differ, so the nearest are among the two neighbours of the value.
    above = bisect_left(codes, value)
    neighbours = codes[max(above - 1, 0) : above + 1]
    least = min(abs(each - value) for each in neighbours)
    found = [each for each in neighbours if abs(each - value) == least]
    return found[0] if len(found) == 1 else next(each for each in found if not each / (found[1] - found[0]) % 2)


def plain_quantize(row, threshold, codes, largest, *, low=None, high=None, size=None):
    """Return quantized values and the number of saturated ones of one row with one scale, as rationals.

    With `low` and `high` codes are shifted integers from -size/2; without, they are `codes` themselves.
    """
    if low is None:
        scale = Fraction(float(np.float32(threshold / largest))) if threshold else Fraction(1)
        quotients = [Fraction(float(value)) / scale for value in row]
        return [scale * nearest_code(each, codes) for each in quotients], scale
    scale = Fraction(float(np.float32((high - low) / (size - 1))))
    least = -size // 2
    zero = min(max(round(Fraction(least) - Fraction(low) / scale), least), least + size - 1)
    values = []
    for value in row:
        code = min(max(round(Fraction(float(value)) / scale) + zero, least), least + size - 1)
        values.append(scale * (code - zero))
    return values, scale


def figures(row, values):
    """Return the squares of the signal and of the noise as rationals."""
    exact = [Fraction(float(value)) for value in row]
    return sum(each**2 for each in exact), sum((a - b) ** 2 for a, b in zip(exact, values, strict=True))
