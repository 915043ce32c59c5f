"""Fixed-point numbers: integers of 8, 16 or 32 bits that stand for multiples of one step.

A value x is held as the integer nearest to x * scale, and comes back as that integer over the scale. Nothing wraps:
what is beyond the integers becomes the nearest of them, and what has no place among them (NaN) is refused.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, isinf, isnan
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from precreg.arithmetic.exact import exact_round, round_to_integer
from precreg.arithmetic.formats import FORMATS, Format, Rounding, rounding_named
from precreg.arithmetic.operations import divide, multiply, widen_operand
from precreg.arithmetic.rounding_numpy import Start, random_bits, round_quotients
from precreg.errors import UserError

WIDTHS = (8, 16, 32)
"""How many bits an integer may have, the sign's included."""


FLOAT64 = FORMATS["float64"]


class FixedPoint(Struct, frozen=True):
    """Signed integers of `bits` bits, in two's complement, of which `scale` make 1.0.

    Raises UserError: bad-format for a width that is none of WIDTHS, bad-scale for a scale that is not positive and
    finite, or whose step 1 / scale is not.
    """

    bits: int
    scale: float

    def __post_init__(self) -> None:
        if self.bits not in WIDTHS:
            raise UserError(
                "bad-format", f"expected one of {', '.join(map(str, WIDTHS))} bits but got bits={self.bits}"
            )
        if not (isfinite(self.scale) and self.scale > 0 and isfinite(1.0 / self.scale)):
            raise UserError("bad-scale", f"expected a positive, finite scale but got scale={self.scale}")

    @property
    def smallest(self) -> int:
        """The most negative integer."""
        return -(1 << self.bits - 1)

    @property
    def largest(self) -> int:
        """The largest integer."""
        return (1 << self.bits - 1) - 1

    @property
    def dtype(self) -> np.dtype[np.signedinteger[Any]]:
        """The dtype of the integers."""
        return np.dtype(f"int{self.bits}")


def symmetric(values: NDArray[Any], bits: int) -> FixedPoint:
    """Return the fixed point whose largest integer stands for the largest magnitude among `values`, in float64.

    That is scale = (2**(bits - 1) - 1) / max|x|. Raises UserError (bad-scale) where there is no such scale: for NaN,
    an infinity, nothing but zeros, no values, and magnitudes so small that the scale overflows; and bad-value for what
    holds no real numbers.
    """
    magnitude = float(np.max(np.abs(_in_float64(values)), initial=0.0))
    if not isfinite(magnitude) or magnitude == 0.0:
        raise UserError("bad-scale", f"expected finite values that are not all zero but got max|x|={magnitude}")
    largest = 2 ** (bits - 1) - 1
    if magnitude < largest / FLOAT64.largest:
        raise UserError("bad-scale", f"expected a scale of {largest} / max|x| in float64 but got max|x|={magnitude}")
    return FixedPoint(bits, largest / magnitude)


def quantize(
    values: NDArray[Any],
    fixed: FixedPoint,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[np.signedinteger[Any]]:
    """Return values * scale, rounded once to integers and saturated, in `fixed.dtype`.

    Products are rounded to odd in float64, which leaves enough bits for the rounding to integers to be that of
    the exact product. Stochastic rounding looks at 24 bits of what float64 keeps of it, and draws as `round_to` does.
    Raises UserError: bad-scale for NaN, bad-value for what holds no real numbers, unknown-rounding.
    """
    rounding = rounding_named(rounding)
    wide = _in_float64(values)
    if np.isnan(wide).any():
        where = np.unravel_index(int(np.argmax(np.isnan(wide))), wide.shape)
        raise UserError("bad-scale", f"expected numbers but got x[{', '.join(map(str, where))}]=nan")
    products = multiply(wide, np.float64(fixed.scale), FLOAT64, Rounding.ODD)
    within = np.clip(products, fixed.smallest - 1, fixed.largest + 1)
    draws = random_bits(seed, start, wide.size).reshape(wide.shape) if rounding is Rounding.STOCHASTIC else None
    integers = np.clip(round_quotients(within, rounding, draws), fixed.smallest, fixed.largest)
    return np.asarray(integers, fixed.dtype)


def _in_float64(values: NDArray[Any]) -> NDArray[np.float64]:
    """Widen before anything is computed: the magnitude of -128 is no int8."""
    return widen_operand(values).astype(np.float64, copy=False)


def dequantize(
    integers: NDArray[np.signedinteger[Any]], fixed: FixedPoint, format: Format = FORMATS["float32"]
) -> NDArray[Any]:
    """Return integers / scale, each quotient rounded once to `format`, in the dtype that carries it."""
    return divide(np.asarray(integers, np.float64), np.float64(fixed.scale), format)


def exact_quantize(
    value: float | Fraction, fixed: FixedPoint, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> int:
    """Return the integer for one number in rational arithmetic, as `quantize` does; `draw` are its 24 random bits."""
    if not isinstance(value, Fraction):
        if isnan(value):
            raise UserError("bad-scale", "expected a number but got x=nan")
        if isinf(value):
            return fixed.largest if value > 0 else fixed.smallest
    product = Fraction(value) * Fraction(fixed.scale)
    if rounding is Rounding.STOCHASTIC:
        product = Fraction(exact_round(product, FLOAT64, Rounding.ODD))
    magnitude = round_to_integer(product, rounding, draw)
    return min(max(-magnitude if product < 0 else magnitude, fixed.smallest), fixed.largest)


def exact_dequantize(integer: int, fixed: FixedPoint, format: Format = FORMATS["float32"]) -> float:
    """Return the number that an integer stands for, in rational arithmetic, rounded once to `format`."""
    return exact_round(Fraction(integer) / Fraction(fixed.scale), format)
