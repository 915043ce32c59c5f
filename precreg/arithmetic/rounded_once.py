"""The ways to an operation's result, rounded once: they give the same bits, where each can be used.

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

from precreg.arithmetic import arith_exact_operations as exact_operations
from precreg.arithmetic import error_free
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.error_free import Array
from precreg.arithmetic.formats import FORMATS, Format
from precreg.arithmetic.random_bits import Start, random_bits
from precreg.arithmetic.roundings import Rounding


class Operation(NamedTuple):
    """An operation by name, and how its results are rounded."""

    name: str
    format: Format
    rounding: Rounding
    seed: int

    @property
    def is_drawn(self) -> bool:
        """Whether rounding looks at more bits than the one behind the last."""
        return self.rounding is Rounding.STOCHASTIC


Way = Callable[[Operation, list[Array], Start], NDArray[Any]]
"""Computes an operation on float64 arrays that broadcast; the start is that of `round_to`."""


_MOST_PRECISION = 51

_MOST_PRECISION_DRAWN = 28
"""The widest formats that a float64 rounded to odd serves: 2 more bits are needed, or the 24 of a draw and 1."""


def way(operation: Operation, arrays: list[NDArray[Any]]) -> Way:
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


def _on_float32(operation: Operation, parts: list[Array], start: Start) -> NDArray[Any]:
    """Compute on float32 numbers, whose results float64 nearly always has."""
    if operation.name in ("add", "subtract"):
        exact = _sum_to_odd(parts[0], parts[1] if operation.name == "add" else -parts[1])
    elif operation.name == "fma":
        exact = _sum_to_odd(parts[0] * parts[1], parts[2])
    else:
        exact = getattr(np, operation.name)(*parts)
    return _rounded(operation, parts, exact, start)


def _sum_to_odd(x: Array, y: Array) -> Array:
    """Return x + y, rounded to odd if not exact: a sum is exact if, less either term, it is the other."""
    total = x + y
    if (total - x == y).all() and (total - y == x).all():
        return total
    return error_free.rounded_to_odd(*error_free.add(x, y))


def _on_odd(operation: Operation, parts: list[Array], start: Start) -> NDArray[Any]:
    odd = error_free.rounded_to_odd(*getattr(error_free, operation.name)(*parts))
    return _mended(operation, parts, _rounded(operation, parts, odd, start), start)


def _on_float64(operation: Operation, parts: list[Array], start: Start) -> NDArray[Any]:
    nearest, rest = getattr(error_free, operation.name)(*parts)
    stepped = _stepped(nearest, rest, operation.rounding)
    return _mended(operation, parts, _rounded(operation, parts, stepped, start), start)


def _stepped(nearest: Array, rest: Array, rounding: Rounding) -> Array:
    """Return the neighbour of the exact result that a rounding chooses."""
    if rounding is Rounding.NEAREST_EVEN:
        return nearest
    if rounding is Rounding.ODD:
        return error_free.rounded_to_odd(nearest, rest)
    outward = np.copysign(np.inf, nearest)
    sides: dict[Rounding, Array | float] = {
        Rounding.UP: np.inf,
        Rounding.DOWN: -np.inf,
        Rounding.TOWARD_ZERO: -outward,
        Rounding.AWAY: outward,
    }
    return error_free.toward(nearest, rest, sides[rounding])


def _one_by_one(operation: Operation, parts: list[Array], start: Start) -> NDArray[Any]:
    result = np.empty(np.broadcast_shapes(*(part.shape for part in parts)))
    _compute_chosen(operation, parts, result, np.ones(result.shape, bool), start)
    return result


def _mended(operation: Operation, parts: list[Array], rounded: NDArray[Any], start: Start) -> NDArray[Any]:
    """Compute once more what is out of the ranges in which error-free operations are right."""
    outside: Any = False
    for part, (low, high) in zip(parts, error_free.RANGES[operation.name], strict=True):
        magnitudes = np.abs(part)
        outside = outside | ((magnitudes > high) & (magnitudes < np.inf)) | ((magnitudes < low) & (magnitudes > 0))
    if np.any(outside):
        _compute_chosen(operation, parts, rounded, np.broadcast_to(outside, rounded.shape), start)
    return rounded


def _compute_chosen(
    operation: Operation, parts: list[Array], result: NDArray[Any], chosen: NDArray[np.bool_], start: Start
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


def _rounded(operation: Operation, parts: list[Array], values: Array, start: Start) -> NDArray[Any]:
    """Round what is exact, or rounded to odd, or on the right side already, to the format."""
    signed = _with_signs(operation, parts, values)
    return round_to(signed, operation.format, operation.rounding, seed=operation.seed, start=start)


def _with_signs(operation: Operation, parts: list[Array], values: Array) -> Array:
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
