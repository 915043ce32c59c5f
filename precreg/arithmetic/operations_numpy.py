"""Operations on float64 arrays with what is left over: where the exact result lies beside the nearest float64.

Each function returns (nearest, rest). `nearest` is what IEEE 754 gives, rounded to nearest even; `rest` is zero where
that is exact, else it has the sign of exact - nearest. So the exact result is `nearest`, or lies strictly between it
and its neighbour on the side of `rest`. Where `nearest` is no finite number, the rest is NaN or zero.

That holds where no step between leaves the range of float64: for operands in RANGES, zeros and what is not finite.

The ways to an operation's result, rounded once: they give the same bits, where each can be used.

float32 operands of a format up to 24 bits need no more than float64: products are exact there; sums are, unless the
exponents are far apart, which is looked for; and no quotient or root lies so near to a number of 25 bits that float64
takes it for one. (c of 25 bits, y and x of 24: x / y - c = (x - c * y) / y, and the difference, if it is not zero, is
more than 2**-49 of x. Of a root, x - c * c is at least 2**-50 of x, and the root at least 2**-51 of itself from c.)

Formats up to 51 bits take the exact result, rounded to odd in float64: rounding that once more is innocent (Boldo and
Melquiond, 2008). Formats of float64's own bits step from the nearest float64 to its neighbour, where the rest is on
that side. What is left, operands near the ends of float64's range included, is computed one by one on rationals.
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

Float64Array = NDArray[np.float64]


ERROR_FREE_RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "add": ((0.0, 2.0**1020),) * 2,
    "subtract": ((0.0, 2.0**1020),) * 2,
    "multiply": ((2.0**-480, 2.0**480),) * 2,
    "divide": ((2.0**-480, 2.0**480),) * 2,
    "sqrt": ((2.0**-960, 2.0**960),),
    "fma": ((2.0**-480, 2.0**480), (2.0**-480, 2.0**480), (0.0, 2.0**960)),
}
"""By operation: the magnitudes of each operand for which the rest is right."""


def add_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Add by TwoSum (Knuth, The Art of Computer Programming, volume 2, section 4.2.2): the rest is the exact error."""
    nearest = x + y
    difference = nearest - x
    rest = x - (nearest - difference)
    rest += y - difference
    return nearest, rest


def subtract_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Add the negative, which is exact."""
    return add_error_free(x, -y)


def multiply_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Multiply by TwoProduct (Dekker, 1971): each factor is split into halves, whose products are exact."""
    nearest = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = x_high * y_high - nearest
    rest += x_high * y_low
    rest += x_low * y_high
    rest += x_low * y_low
    return nearest, rest


def divide_error_free(x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Divide, and take what the quotient times y leaves of x; its first difference is exact (Sterbenz)."""
    nearest = x / y
    product, error = multiply_error_free(nearest, y)
    rest = np.copysign(1.0, y) * ((x - product) - error)
    return nearest, np.where(np.isinf(y), 0.0, rest)


def sqrt_error_free(x: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Take the root, and what its square leaves of x."""
    nearest = np.sqrt(x)
    square, error = multiply_error_free(nearest, nearest)
    return nearest, (x - square) - error


def fma_error_free(x: Float64Array, y: Float64Array, z: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Multiply and add at once (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008, figure 4).

    Of the three parts, the two small ones are added with rounding to odd: to the third they are then as good as exact.
    """
    product, product_rest = multiply_error_free(x, y)
    lower, lower_rest = add_error_free(z, product_rest)
    upper, upper_rest = add_error_free(product, lower)
    nearest, rest = add_error_free(upper, round_to_odd(*add_error_free(upper_rest, lower_rest)))
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
    """Return, where there is a rest, the one of the two neighbours around the exact result whose last bit is 1.

    That is rounding to odd. Rounding it once more, to at most 51 bits, gives what rounding the exact result gives.
    """
    patterns = nearest.view(np.int64)
    inexact = (rest < 0) | (rest > 0)
    outward = ((patterns ^ rest.view(np.int64)) >> 63) | 1  # -1 where the signs differ
    odd: Float64Array = (patterns + outward * (inexact & ~patterns)).view(np.float64)
    return odd


def round_toward(nearest: Float64Array, rest: Float64Array, signs: Float64Array | float) -> Float64Array:
    """Return the neighbour of the exact result on the side of `signs`, where the result lies on that side of `nearest`.

    `signs` is +-inf or an array of them: all else is `nearest`.
    """
    moves = np.isfinite(nearest) & (rest * signs > 0)
    moved: Float64Array = np.where(moves, np.nextafter(nearest, signs), nearest)
    return moved


def _halves(x: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Split by Veltkamp's product with 2**27 + 1: 26 bits of each number, and the signed rest."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


class RoundedOperation(NamedTuple):
    """An operation by name, and how its results are rounded."""

    name: str
    format: Format
    rounding: Rounding
    seed: int

    @property
    def is_drawn(self) -> bool:
        """Whether rounding looks at more bits than the one behind the last."""
        return self.rounding is Rounding.STOCHASTIC


Evaluator = Callable[[RoundedOperation, list[Float64Array], Start], NDArray[Any]]
"""Computes an operation on float64 arrays that broadcast; the start is that of `round_to`."""


_MOST_PRECISION = 51

_MOST_PRECISION_DRAWN = 28
"""The widest formats that a float64 rounded to odd serves: 2 more bits are needed, or the 24 of a draw and 1."""


def choose_evaluator(operation: RoundedOperation, arrays: list[NDArray[Any]]) -> Evaluator:
    """Choose the fastest way for operands of these dtypes."""
    format = operation.format
    if all(array.dtype == np.float32 for array in arrays) and format.precision <= FORMATS["float32"].precision:
        return _on_odd if operation.is_drawn and operation.name in ("divide", "sqrt") else _on_float32
    if format.precision <= (_MOST_PRECISION_DRAWN if operation.is_drawn else _MOST_PRECISION):
        return _on_odd
    wide = FORMATS["float64"]
    is_wide = (format.precision, format.min_exponent) == (wide.precision, wide.min_exponent)
    steps = operation.rounding not in (Rounding.NEAREST_AWAY, Rounding.STOCHASTIC)
    return _on_float64 if is_wide and steps else _one_by_one


def _on_float32(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> NDArray[Any]:
    """Compute on float32 numbers, whose results float64 nearly always has."""
    if operation.name in ("add", "subtract"):
        exact = _sum_to_odd(parts[0], parts[1] if operation.name == "add" else -parts[1])
    elif operation.name == "fma":
        exact = _sum_to_odd(parts[0] * parts[1], parts[2])
    else:
        exact = getattr(np, operation.name)(*parts)
    return _rounded(operation, parts, exact, start)


def _sum_to_odd(x: Float64Array, y: Float64Array) -> Float64Array:
    """Return x + y, rounded to odd if not exact: a sum is exact if, less either term, it is the other."""
    total = x + y
    if (total - x == y).all() and (total - y == x).all():
        return total
    return round_to_odd(*add_error_free(x, y))


def _on_odd(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> NDArray[Any]:
    odd = round_to_odd(*_ERROR_FREE[operation.name](*parts))
    return _mended(operation, parts, _rounded(operation, parts, odd, start), start)


def _on_float64(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> NDArray[Any]:
    nearest, rest = _ERROR_FREE[operation.name](*parts)
    stepped = _stepped(nearest, rest, operation.rounding)
    return _mended(operation, parts, _rounded(operation, parts, stepped, start), start)


def _stepped(nearest: Float64Array, rest: Float64Array, rounding: Rounding) -> Float64Array:
    """Return the neighbour of the exact result that a rounding chooses."""
    if rounding is Rounding.NEAREST_EVEN:
        return nearest
    if rounding is Rounding.ODD:
        return round_to_odd(nearest, rest)
    outward = np.copysign(np.inf, nearest)
    sides: dict[Rounding, Float64Array | float] = {
        Rounding.UP: np.inf,
        Rounding.DOWN: -np.inf,
        Rounding.TOWARD_ZERO: -outward,
        Rounding.AWAY: outward,
    }
    return round_toward(nearest, rest, sides[rounding])


def _one_by_one(operation: RoundedOperation, parts: list[Float64Array], start: Start) -> NDArray[Any]:
    result = np.empty(np.broadcast_shapes(*(part.shape for part in parts)))
    _compute_chosen(operation, parts, result, np.ones(result.shape, bool), start)
    return result


def _mended(
    operation: RoundedOperation, parts: list[Float64Array], rounded: NDArray[Any], start: Start
) -> NDArray[Any]:
    """Compute once more what is out of the ranges in which error-free operations are right."""
    outside: Any = False
    for part, (low, high) in zip(parts, ERROR_FREE_RANGES[operation.name], strict=True):
        magnitudes = np.abs(part)
        outside = outside | ((magnitudes > high) & (magnitudes < np.inf)) | ((magnitudes < low) & (magnitudes > 0))
    if np.any(outside):
        _compute_chosen(operation, parts, rounded, np.broadcast_to(outside, rounded.shape), start)
    return rounded


def _compute_chosen(
    operation: RoundedOperation,
    parts: list[Float64Array],
    result: NDArray[Any],
    chosen: NDArray[np.bool_],
    start: Start,
) -> None:
    """Write the chosen results as rational arithmetic gives them."""
    exact = getattr(exact_operations, f"exact_{operation.name}")
    operands = [np.broadcast_to(part, result.shape)[chosen].tolist() for part in parts]
    draws = [0] * len(operands[0])
    if operation.is_drawn:
        draws = random_bits(operation.seed, start, result.size).reshape(result.shape)[chosen].tolist()
    result[chosen] = [
        exact(*numbers, operation.format, operation.rounding, draw)
        for *numbers, draw in zip(*operands, draws, strict=True)
    ]


def _rounded(
    operation: RoundedOperation, parts: list[Float64Array], values: Float64Array, start: Start
) -> NDArray[Any]:
    """Round what is exact, or rounded to odd, or on the right side already, to the format."""
    signed = _with_signs(operation, parts, values)
    return round_to(signed, operation.format, operation.rounding, seed=operation.seed, start=start)


def _with_signs(operation: RoundedOperation, parts: list[Float64Array], values: Float64Array) -> Float64Array:
    """Give sums that are exactly zero their sign: that of both terms, or else - where the rounding is down, and +."""
    down = operation.rounding is Rounding.DOWN
    if operation.name != "fma" and not (down and operation.name in ("add", "subtract")):
        return values
    zeros = values == 0
    if not zeros.any():
        return values
    first, *others = (np.signbit(part) for part in parts)
    for sign in others[:-1]:
        first = first ^ sign
    second = ~others[-1] if operation.name == "subtract" else others[-1]
    is_negative = first | second if down else first & second
    return np.where(zeros, np.where(is_negative, -0.0, 0.0), values)
