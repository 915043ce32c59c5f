"""Which integer of 8, 16 or 32 bits represents a number, and which number does it represent?

A fixed-point number is an integer multiple of one step, 1 / scale. Quantizing rounds x * scale to the nearest integer
and saturates instead of wrapping. NaN has no integer and is refused.
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
from precreg.storage import Array

# The bits of an integer, including the sign. More than 32 would leave float64 too few bits for the remainder.
WIDTHS = (8, 16, 32)
FLOAT64 = FORMATS["float64"]


class FixedPoint(Struct, frozen=True):
    """Describe signed integers of `bits` bits, in two's complement, where the integer `scale` represents 1.0.

    Raises UserError: bad-format for a width outside WIDTHS, bad-scale unless scale > 0 and both scale and 1 / scale
    are finite.
    """

    bits: int
    scale: float

    def __post_init__(self) -> None:
        if self.bits not in WIDTHS:
            raise UserError(
                "bad-format", f"expected one of {', '.join(map(str, WIDTHS))} bits but got bits={self.bits}"
            )
        # A subnormal scale is finite and positive, but its step overflows.
        if not (isfinite(self.scale) and self.scale > 0 and isfinite(1.0 / self.scale)):
            raise UserError("bad-scale", f"expected a positive, finite scale but got scale={self.scale}")

    @property
    def smallest(self) -> int:
        """Return the most negative integer."""
        return -(1 << self.bits - 1)

    @property
    def largest(self) -> int:
        """Return the largest integer."""
        return (1 << self.bits - 1) - 1

    @property
    def dtype(self) -> np.dtype[np.signedinteger[Any]]:
        """Return the dtype of the integers."""
        return np.dtype(f"int{self.bits}")


def symmetric(values: Array, bits: int) -> FixedPoint:
    """Return the fixed point whose largest integer represents the largest magnitude among `values`, in float64.

    The scale is (2**(bits - 1) - 1) / max|x|. Raises UserError: bad-scale if max|x| is NaN, infinite, zero, or so small
    that the scale overflows, and if `values` is empty. bad-value if `values` are not real numbers.
    """
    magnitude = float(np.max(np.abs(_in_float64(values)), initial=0.0))
    if not isfinite(magnitude) or magnitude == 0.0:
        raise UserError("bad-scale", f"expected finite values that are not all zero but got max|x|={magnitude}")
    # The largest integer sets the scale: with 128 in place of 127, +max|x| would saturate.
    largest = 2 ** (bits - 1) - 1
    if magnitude < largest / FLOAT64.largest:
        raise UserError("bad-scale", f"expected a scale of {largest} / max|x| in float64 but got max|x|={magnitude}")
    return FixedPoint(bits, largest / magnitude)


def quantize(
    values: Array,
    fixed: FixedPoint,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[np.signedinteger[Any]]:
    """Return values * scale, rounded once to integers and saturated, in `fixed.dtype`.

    Stochastic rounding compares 24 bits of the product in float64, and draws as `round_to` does.
    Raises UserError: bad-scale for NaN, bad-value unless `values` are real numbers, unknown-rounding.
    """
    rounding = rounding_named(rounding)
    wide = _in_float64(values)
    if np.isnan(wide).any():
        where = np.unravel_index(int(np.argmax(np.isnan(wide))), wide.shape)
        raise UserError("bad-scale", f"expected numbers but got x[{', '.join(map(str, where))}]=nan")
    # Rounding to odd first makes the second rounding correct: it gives the integer nearest to the exact product. This
    # needs 2 bits more than the integer has, and float64 has at least 21 (Boldo and Melquiond, 2008).
    products = multiply(wide, np.float64(fixed.scale), FLOAT64, Rounding.ODD)
    # Infinities and huge products would overflow the conversion to integers. Clipping them one integer beyond the range
    # changes no result, because the second clip saturates these as well.
    within = np.clip(products, fixed.smallest - 1, fixed.largest + 1)
    draws = random_bits(seed, start, wide.size).reshape(wide.shape) if rounding is Rounding.STOCHASTIC else None
    integers = np.clip(round_quotients(within, rounding, draws), fixed.smallest, fixed.largest)
    return np.asarray(integers, fixed.dtype)


def _in_float64(values: Array) -> NDArray[np.float64]:
    """Convert before any arithmetic, because an int8 cannot hold the magnitude of -128."""
    return widen_operand(values).astype(np.float64, copy=False)


def dequantize(
    integers: NDArray[np.signedinteger[Any]], fixed: FixedPoint, format: Format = FORMATS["float32"]
) -> Array:
    """Return integers / scale, each quotient rounded once to `format`, in `carrier_dtype(format)`."""
    return divide(np.asarray(integers, np.float64), np.float64(fixed.scale), format)


def exact_quantize(
    value: float | Fraction, fixed: FixedPoint, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> int:
    """Return the integer for one number in rational arithmetic, as `quantize` does. `draw` has its 24 random bits."""
    if not isinstance(value, Fraction):
        if isnan(value):
            raise UserError("bad-scale", "expected a number but got x=nan")
        if isinf(value):
            return fixed.largest if value > 0 else fixed.smallest
    product = Fraction(value) * Fraction(fixed.scale)
    # A draw is compared with the fraction's leading 24 bits, so `quantize` and this function must drop the same bits.
    if rounding is Rounding.STOCHASTIC:
        product = Fraction(exact_round(product, FLOAT64, Rounding.ODD))
    magnitude = round_to_integer(product, rounding, draw)
    return min(max(-magnitude if product < 0 else magnitude, fixed.smallest), fixed.largest)


def exact_dequantize(integer: int, fixed: FixedPoint, format: Format = FORMATS["float32"]) -> float:
    """Return integer / scale in rational arithmetic, rounded once to `format`."""
    return exact_round(Fraction(integer) / Fraction(fixed.scale), format)
