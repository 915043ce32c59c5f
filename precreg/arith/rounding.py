"""Rounding arrays to a number format, once.

precreg/arith/exact.py says the same for one number in rational arithmetic; the tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arith.formats import FORMATS, Format, numpy_dtype
from precreg.arith.roundings import Rounding

_CORRECTLY_ROUNDED_BY_NUMPY = frozenset({"float16", "float32", "float64", "longdouble", "complex64", "complex128"})


def round_nearest_even(values: NDArray[Any], format: Format) -> NDArray[Any]:
    """Return the number of `format` nearest to each value, in the dtype of `values` (float64 or longdouble).

    Subnormals are kept; NaN stays NaN; magnitudes that round beyond the largest number become `format.overflow`.

    Values are divided by their quantum (the spacing of the format in their binade, a power of two), rounded to an
    integer and multiplied again. Both scalings are exact: the quotient of a value below 2**e by 2**(e - precision) has
    at most `precision` bits before the point, and where the quantum is the smallest subnormal the quotient is
    larger than the value, so nothing overflows and no bit falls off the small end.
    """
    if format.precision > np.finfo(values.dtype).nmant:
        return values.copy()
    exponents = np.frexp(values)[1]
    quanta = np.maximum(exponents, format.min_exponent + 1) - format.precision
    integers = np.rint(np.ldexp(values, -quanta))
    with np.errstate(over="ignore"):
        rounded: NDArray[Any] = np.ldexp(integers, quanta)
    rounded = np.where(np.abs(rounded) > format.largest, np.copysign(format.overflow, rounded), rounded)
    return rounded if format.negative_zero else rounded + 0.0


def cast(values: NDArray[Any], dtype_name: str) -> NDArray[Any]:
    """Return real (or, for complex dtypes, complex) values in a floating dtype, each rounded once.

    `values` is float64 or longdouble. numpy rounds to its own dtypes correctly; ml_dtypes goes from float64 through
    float32 and would round twice, so the numbers it gets are already representable. A format without NaN (float6,
    float4) holds NaN as ml_dtypes writes it: -0.0.
    """
    dtype = numpy_dtype(dtype_name)
    if dtype_name not in _CORRECTLY_ROUNDED_BY_NUMPY:
        values = round_nearest_even(values, FORMATS[dtype_name])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(dtype)


def round_to(
    values: NDArray[Any],
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: int | NDArray[np.uint64] = 0,
) -> NDArray[Any]:
    """Return each value rounded to a number of `format`, in the dtype of `values`: float32 or float64.

    NaN stays NaN. A finite magnitude that rounds beyond the largest number becomes `format.overflow`, or the largest
    number where the rounding goes toward zero (or is odd); an infinity becomes `format.overflow`. Stochastic rounding
    draws by `seed` and by each element's flat C-order index, counted from `start`: chunks give what the whole does.
    Where `start` is an array of the shape of `values`, it holds each element's index itself.
    """
    if format.precision > np.finfo(values.dtype).nmant:
        return values.copy()
    exponents = np.frexp(values)[1]
    quanta = np.maximum(exponents, format.min_exponent + 1) - format.precision
    quotients = np.ldexp(values, -quanta)
    with np.errstate(over="ignore", invalid="ignore"):
        integers = _TO_INTEGER[rounding](quotients) if rounding in _TO_INTEGER else _stochastic(quotients, seed, start)
        rounded: NDArray[Any] = np.copysign(np.ldexp(integers, quanta), values)
        beyond = np.abs(rounded) > format.largest
        rounded = np.where(beyond, np.copysign(_limit(values, format, rounding), rounded), rounded)
        if not format.subnormals:
            rounded = np.where(np.abs(rounded) < format.smallest_normal, np.copysign(0.0, rounded), rounded)
    return rounded if format.negative_zero else rounded + values.dtype.type(0)


def _limit(values: NDArray[Any], format: Format, rounding: Rounding) -> NDArray[Any]:
    """Return what a magnitude beyond the largest number becomes."""
    stays = {
        Rounding.TOWARD_ZERO: np.isfinite(values),
        Rounding.ODD: np.isfinite(values),
        Rounding.UP: np.isfinite(values) & (values < 0),
        Rounding.DOWN: np.isfinite(values) & (values > 0),
    }.get(rounding, np.zeros(values.shape, bool))
    return np.where(stays, format.largest, format.overflow).astype(values.dtype)


def _nearest_away(quotients: NDArray[Any]) -> NDArray[Any]:
    magnitudes = np.abs(quotients)
    floors = np.floor(magnitudes)
    integers: NDArray[Any] = np.copysign(floors + (magnitudes - floors >= 0.5), quotients)
    return integers


def _away(quotients: NDArray[Any]) -> NDArray[Any]:
    integers: NDArray[Any] = np.copysign(np.ceil(np.abs(quotients)), quotients)
    return integers


def _odd(quotients: NDArray[Any]) -> NDArray[Any]:
    magnitudes = np.abs(quotients)
    floors = np.floor(magnitudes)
    integers: NDArray[Any] = np.copysign(floors + ((magnitudes != floors) & (floors % 2 == 0)), quotients)
    return integers


_TO_INTEGER: dict[Rounding, Callable[[NDArray[Any]], NDArray[Any]]] = {
    Rounding.NEAREST_EVEN: np.rint,
    Rounding.NEAREST_AWAY: _nearest_away,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.UP: np.ceil,
    Rounding.DOWN: np.floor,
    Rounding.AWAY: _away,
    Rounding.ODD: _odd,
}


def _stochastic(quotients: NDArray[Any], seed: int, start: int | NDArray[np.uint64]) -> NDArray[Any]:
    magnitudes = np.abs(quotients)
    floors = np.floor(magnitudes)
    draws = random_bits(seed, start, quotients.size).reshape(quotients.shape)
    integers: NDArray[Any] = np.copysign(floors + (np.floor((magnitudes - floors) * 2.0**24) > draws), quotients)
    return integers


def random_bits(seed: int, start: int | NDArray[np.uint64], count: int) -> NDArray[np.uint32]:
    """Return 24 random bits for each of the indices from `start`: SplitMix64 (Steele, Lea and Flood, 2014) of both.

    Where `start` is an array, it holds the `count` indices themselves.
    """
    indices = start.ravel() if isinstance(start, np.ndarray) else np.arange(start, start + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = np.uint64(seed % 2**64) + (indices + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(40)).astype(np.uint32)
