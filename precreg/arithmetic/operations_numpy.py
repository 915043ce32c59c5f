"""Which results, rounded once, does the numpy backend compute from float64 arrays?

The error-free functions return (nearest, rest). `nearest` is the IEEE 754 result, rounded to nearest even. `rest` is
zero if that is exact. Otherwise `rest` has the sign of exact - nearest. So the exact result is `nearest`, or lies
strictly between `nearest` and its neighbour on the side of `rest`. If `nearest` is not finite, `rest` is NaN or zero.
This holds for zeros, infinities, NaN, and operands within ERROR_FREE_RANGES.

Three evaluators lead from there to a result that is rounded once. They give the same bits wherever several apply:

- Formats of up to 24 bits, on float32 operands, need float64 alone: products are exact there. Sums are exact unless the
  exponents lie far apart; these are rounded to odd. A quotient or root never lies so close to a number of 25 bits that
  float64 rounds to it. For a quotient, let c have 25 bits, x and y 24: x / y - c = (x - c * y) / y, which is zero or at
  least 2**-49 of x / y. For a root, x - c * c is at least 2**-50 of x, so the root is at least 2**-51 of itself from c.
- Formats of up to 51 bits take the exact result rounded to odd in float64. Rounding it again gives the same number as
  rounding the exact result (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008).
- Formats with the bits of float64 step from the nearest float64 to its neighbour, if `rest` and the rounding say so.

Everything else, including operands near the ends of the range of float64, is computed one by one on rationals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import exact as exact_operations
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.rounding_numpy import Start, random_bits
from precreg.storage import Array

Float64Array = NDArray[np.float64]

# The magnitudes of each operand for which `rest` is right: no step between may overflow, or lose bits to underflow.
# TwoSum overflows only near 2**1024, and addition never underflows. Veltkamp's split multiplies by 2**27, and the error
# of a product is a multiple of both last bits: 2**-1064 for factors from 2**-480, where float64 ends at 2**-1074.
ERROR_FREE_RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "add": ((0.0, 2.0**1020),) * 2,
    "subtract": ((0.0, 2.0**1020),) * 2,
    "multiply": ((2.0**-480, 2.0**480),) * 2,
    "divide": ((2.0**-480, 2.0**480),) * 2,
    "sqrt": ((2.0**-960, 2.0**960),),
    "fma": ((2.0**-480, 2.0**480), (2.0**-480, 2.0**480), (0.0, 2.0**960)),
}

# The widest formats that a float64 rounded to odd can be rounded to correctly. Rounding needs 2 bits more than the
# format has. Stochastic rounding needs the 24 bits that it compares with the draw, and 1 for the exact comparison.
_MAX_PRECISION = 51
_MAX_PRECISION_STOCHASTIC = 28


def add_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Add by TwoSum (Knuth, The Art of Computer Programming, volume 2, section 4.2.2). `rest` is the exact error."""
    # TwoSum and not Dekker's shorter FastTwoSum, because that requires |x| >= |y|.
    nearest = x + y
    difference = nearest - x
    rest = x - (nearest - difference)
    rest += y - difference
    return nearest, rest


def subtract_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Subtract by adding the negative, which is exact."""
    return add_error_free(x, -y)


def multiply_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Multiply by TwoProduct (Dekker, A floating-point technique for extending the available precision, 1971)."""
    # The products of halves are exact. This order of additions makes every partial sum exact as well, from the largest
    # term to the smallest, which Dekker proves. numpy has no fma, with which one operation would give the rest.
    nearest = x * y
    (x_high, x_low), (y_high, y_low) = _split_in_halves(x), _split_in_halves(y)
    rest = x_high * y_high - nearest
    rest += x_high * y_low
    rest += x_low * y_high
    rest += x_low * y_low
    return nearest, rest


def _split_in_halves(x: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Split by Veltkamp's method (1968, in Dekker 1971) into 26 bits and a signed rest of at most 26 bits."""
    scaled = x * 134217729.0  # 2**27 + 1, for half of 53 bits rounded up
    high = scaled - (scaled - x)
    return high, x - high


def divide_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Divide. `rest` has the sign of x - nearest * y, times the sign of y."""
    nearest = x / y
    product, error = multiply_error_free(nearest, y)
    # x and the product lie within a factor of 2 of each other, so their difference is exact (Sterbenz, 1974).
    rest = np.copysign(1.0, y) * ((x - product) - error)
    # The product of 0 and infinity above is NaN, but 0 is the exact quotient of a finite number over infinity.
    return nearest, np.where(np.isinf(y), 0.0, rest)


def sqrt_error_free(x: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Take the square root. `rest` is the difference of x and the square of `nearest`, with the sign of the error."""
    nearest = np.sqrt(x)
    square, error = multiply_error_free(nearest, nearest)
    return nearest, (x - square) - error


def fma_error_free(x: Float64Array, y: Float64Array, z: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Multiply and add at once (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008, figure 4)."""
    # The exact result is the sum of three parts. Adding the two small parts with rounding to odd keeps the information
    # that the last addition needs, as if their sum were exact.
    product, product_rest = multiply_error_free(x, y)
    lower, lower_rest = add_error_free(z, product_rest)
    upper, upper_rest = add_error_free(product, lower)
    nearest, rest = add_error_free(upper, round_to_odd(*add_error_free(upper_rest, lower_rest)))
    # Infinite operands make NaN in the steps above. The plain formula gives them their IEEE 754 result.
    return np.where(np.isfinite(nearest), nearest, x * y + z), rest


_ERROR_FREE: dict[str, Callable[..., tuple[Float64Array, Float64Array]]] = {
    "add": add_error_free,
    "subtract": subtract_error_free,
    "multiply": multiply_error_free,
    "divide": divide_error_free,
    "sqrt": sqrt_error_free,
    "fma": fma_error_free,
}


def round_to_odd(nearest: Float64Array, rest: Float64Array) -> Float64Array:
    """Return the exact result rounded to odd: itself, or the neighbour around it whose last bit is 1.

    Rounding the result again, to at most 51 bits, gives the same number as rounding the exact result.
    """
    patterns = nearest.view(np.int64)
    inexact = (rest < 0) | (rest > 0)
    # An arithmetic shift of the signs' difference: -1 where nearest and rest differ in sign, so that the step shrinks
    # the magnitude, and +1 otherwise. Only an even pattern moves: a bool & ~pattern is the inverted last bit.
    outward = ((patterns ^ rest.view(np.int64)) >> 63) | 1
    odd: Float64Array = (patterns + outward * (inexact & ~patterns)).view(np.float64)
    return odd


def round_toward(nearest: Float64Array, rest: Float64Array, signs: Float64Array | float) -> Float64Array:
    """Return the neighbour on the side of `signs` (+-inf, or an array of them) where `rest` lies on that side.

    Otherwise `nearest` is already that neighbour.
    """
    moves = np.isfinite(nearest) & (rest * signs > 0)
    moved: Float64Array = np.where(moves, np.nextafter(nearest, signs), nearest)
    return moved


class RoundedOperation(NamedTuple):
    """Name an operation, and say how to round its results."""

    name: str
    format: Format
    rounding: Rounding
    seed: int

    @property
    def is_stochastic(self) -> bool:
        """Return whether rounding compares 24 bits of the remainder, and not only its position relative to a half."""
        return self.rounding is Rounding.STOCHASTIC


# Computes an operation on float64 arrays that broadcast. Start counts the draws, as in `round_to`.
Evaluator = Callable[[RoundedOperation, list[Float64Array], Start], Array]


def choose_evaluator(operation: RoundedOperation, arrays: list[Array]) -> Evaluator:
    """Return the fastest evaluator that is correct for operands of these dtypes."""
    format = operation.format
    if all(array.dtype == np.float32 for array in arrays) and format.precision <= FORMATS["float32"].precision:
        # A quotient or root has endless bits. Stochastic rounding compares 24 of them beyond the format's, and the
        # nearest float64 may have crossed one of these steps.
        is_endless = operation.name in ("divide", "sqrt")
        return _evaluate_on_odd if operation.is_stochastic and is_endless else _evaluate_on_float32
    if format.precision <= (_MAX_PRECISION_STOCHASTIC if operation.is_stochastic else _MAX_PRECISION):
        return _evaluate_on_odd
    wide = FORMATS["float64"]
    is_wide = (format.precision, format.min_exponent) == (wide.precision, wide.min_exponent)
    # `rest` has a sign but no size, so it decides neither ties of nearest_away nor draws.
    is_decided_by_sign = operation.rounding not in (Rounding.NEAREST_AWAY, Rounding.STOCHASTIC)
    return _evaluate_on_float64 if is_wide and is_decided_by_sign else _evaluate_one_by_one


def _evaluate_on_float32(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> Array:
    """Compute on float32 numbers: float64 has nearly all results exactly, and the module docstring says why it may."""
    if operation.name in ("add", "subtract"):
        exact = _add_to_odd(parts[0], parts[1] if operation.name == "add" else -parts[1])
    elif operation.name == "fma":
        exact = _add_to_odd(parts[0] * parts[1], parts[2])
    else:
        exact = getattr(np, operation.name)(*parts)
    return _round(operation, parts, exact, start)


def _add_to_odd(x: Float64Array, y: Float64Array) -> Float64Array:
    """Return x + y, rounded to odd if not exact."""
    total = x + y
    # If subtracting either term gives the other, the sum is exact. This test is cheaper than TwoSum and round_to_odd.
    if (total - x == y).all() and (total - y == x).all():
        return total
    return round_to_odd(*add_error_free(x, y))


def _evaluate_on_odd(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> Array:
    odd = round_to_odd(*_ERROR_FREE[operation.name](*parts))
    return _recompute_outside_ranges(operation, parts, _round(operation, parts, odd, start), start)


def _evaluate_on_float64(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> Array:
    nearest, rest = _ERROR_FREE[operation.name](*parts)
    outward = np.copysign(np.inf, nearest)
    sides: dict[Rounding, Float64Array | float] = {
        Rounding.UP: np.inf,
        Rounding.DOWN: -np.inf,
        Rounding.TOWARD_ZERO: -outward,
        Rounding.AWAY: outward,
    }
    if operation.rounding is Rounding.NEAREST_EVEN:
        chosen = nearest
    elif operation.rounding is Rounding.ODD:
        chosen = round_to_odd(nearest, rest)
    else:
        chosen = round_toward(nearest, rest, sides[operation.rounding])
    # The format may still overflow or flush subnormals in another way than float64.
    return _recompute_outside_ranges(operation, parts, _round(operation, parts, chosen, start), start)


def _evaluate_one_by_one(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> Array:
    result = np.empty(np.broadcast_shapes(*(part.shape for part in parts)))
    _write_exact_results(operation, parts, result, np.ones(result.shape, bool), start)
    return result


def _recompute_outside_ranges(
    operation: RoundedOperation, parts: list[Float64Array], rounded: Array, start: Start
) -> Array:
    """Compute on rationals wherever an operand lies outside ERROR_FREE_RANGES. Zeros and infinities lie inside."""
    outside: Any = False
    for part, (low, high) in zip(parts, ERROR_FREE_RANGES[operation.name], strict=True):
        magnitudes = np.abs(part)
        outside = outside | ((magnitudes > high) & (magnitudes < np.inf)) | ((magnitudes < low) & (magnitudes > 0))
    if np.any(outside):
        _write_exact_results(operation, parts, rounded, np.broadcast_to(outside, rounded.shape), start)
    return rounded


def _write_exact_results(
    operation: RoundedOperation,
    parts: list[Float64Array],
    result: Array,
    chosen: NDArray[np.bool_],
    start: Start,
) -> None:
    """Write the results of rational arithmetic into the chosen elements of `result`."""
    exact = getattr(exact_operations, f"exact_{operation.name}")
    operands = [np.broadcast_to(part, result.shape)[chosen].tolist() for part in parts]
    draws = [0] * len(operands[0])
    if operation.is_stochastic:
        draws = random_bits(operation.seed, start, result.size).reshape(result.shape)[chosen].tolist()
    result[chosen] = [
        exact(*numbers, operation.format, operation.rounding, draw)
        for *numbers, draw in zip(*operands, draws, strict=True)
    ]


def _round(operation: RoundedOperation, parts: list[Float64Array], values: Float64Array, start: Start) -> Array:
    """Round values to the format, after giving exact zeros their sign."""
    signed = _with_signs_of_zeros(operation, parts, values)
    return round_to(signed, operation.format, operation.rounding, seed=operation.seed, start=start)


def _with_signs_of_zeros(operation: RoundedOperation, parts: list[Float64Array], values: Float64Array) -> Float64Array:
    """Give sums that are exactly zero their sign (IEEE 754-2019, section 6.3).

    Two zero terms of one sign keep it. Any other sum is +0, or -0 if the rounding is down.
    """
    # The processor adds with rounding to nearest. So its zeros are right for sums, unless the rounding is down. An fma
    # comes from several operations, whose zeros may have any sign.
    down = operation.rounding is Rounding.DOWN
    if operation.name != "fma" and not (down and operation.name in ("add", "subtract")):
        return values
    zeros = values == 0
    if not zeros.any():
        return values
    first, *others = (np.signbit(part) for part in parts)
    # The first term of an fma is the product, negative if one of the two factors is.
    for sign in others[:-1]:
        first = first ^ sign
    second = ~others[-1] if operation.name == "subtract" else others[-1]
    is_negative = first | second if down else first & second
    return np.where(zeros, np.where(is_negative, -0.0, 0.0), values)
