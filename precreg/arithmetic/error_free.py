"""Operations on float64 arrays with what is left over: where the exact result lies beside the nearest float64.

Each function returns (nearest, rest). `nearest` is what IEEE 754 gives, rounded to nearest even; `rest` is zero where
that is exact, else it has the sign of exact - nearest. So the exact result is `nearest`, or lies strictly between it
and its neighbour on the side of `rest`. Where `nearest` is no finite number, the rest is NaN or zero.

That holds where no step between leaves the range of float64: for operands in RANGES, zeros and what is not finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "add": ((0.0, 2.0**1020),) * 2,
    "subtract": ((0.0, 2.0**1020),) * 2,
    "multiply": ((2.0**-480, 2.0**480),) * 2,
    "divide": ((2.0**-480, 2.0**480),) * 2,
    "sqrt": ((2.0**-960, 2.0**960),),
    "fma": ((2.0**-480, 2.0**480), (2.0**-480, 2.0**480), (0.0, 2.0**960)),
}
"""By operation: the magnitudes of each operand for which the rest is right."""


def add(x: Array, y: Array) -> tuple[Array, Array]:
    """Add by TwoSum (Knuth, The Art of Computer Programming, volume 2, section 4.2.2): the rest is the exact error."""
    nearest = x + y
    difference = nearest - x
    rest = x - (nearest - difference)
    rest += y - difference
    return nearest, rest


def subtract(x: Array, y: Array) -> tuple[Array, Array]:
    """Add the negative, which is exact."""
    return add(x, -y)


def multiply(x: Array, y: Array) -> tuple[Array, Array]:
    """Multiply by TwoProduct (Dekker, 1971): each factor is split into halves, whose products are exact."""
    nearest = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = x_high * y_high - nearest
    rest += x_high * y_low
    rest += x_low * y_high
    rest += x_low * y_low
    return nearest, rest


def divide(x: Array, y: Array) -> tuple[Array, Array]:
    """Divide, and take what the quotient times y leaves of x; its first difference is exact (Sterbenz)."""
    nearest = x / y
    product, error = multiply(nearest, y)
    rest = np.copysign(1.0, y) * ((x - product) - error)
    return nearest, np.where(np.isinf(y), 0.0, rest)


def sqrt(x: Array) -> tuple[Array, Array]:
    """Take the root, and what its square leaves of x."""
    nearest = np.sqrt(x)
    square, error = multiply(nearest, nearest)
    return nearest, (x - square) - error


def fma(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
    """Multiply and add at once (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008, figure 4).

    Of the three parts, the two small ones are added with rounding to odd: to the third they are then as good as exact.
    """
    product, product_rest = multiply(x, y)
    lower, lower_rest = add(z, product_rest)
    upper, upper_rest = add(product, lower)
    nearest, rest = add(upper, rounded_to_odd(*add(upper_rest, lower_rest)))
    return np.where(np.isfinite(nearest), nearest, x * y + z), rest


def rounded_to_odd(nearest: Array, rest: Array) -> Array:
    """Return, where there is a rest, the one of the two neighbours around the exact result whose last bit is 1.

    That is rounding to odd. Rounding it once more, to at most 51 bits, gives what rounding the exact result gives.
    """
    patterns = nearest.view(np.int64)
    inexact = (rest < 0) | (rest > 0)
    outward = ((patterns ^ rest.view(np.int64)) >> 63) | 1  # -1 where the signs differ
    odd: Array = (patterns + outward * (inexact & ~patterns)).view(np.float64)
    return odd


def toward(nearest: Array, rest: Array, signs: Array | float) -> Array:
    """Return the neighbour of the exact result on the side of `signs`, where the result lies on that side of `nearest`.

    `signs` is +-inf or an array of them: all else is `nearest`.
    """
    moves = np.isfinite(nearest) & (rest * signs > 0)
    moved: Array = np.where(moves, np.nextafter(nearest, signs), nearest)
    return moved


def _halves(x: Array) -> tuple[Array, Array]:
    """Split by Veltkamp's product with 2**27 + 1: 26 bits of each number, and the signed rest."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high
