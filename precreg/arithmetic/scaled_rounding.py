"""Rounding arrays by scaling: each value over its quantum, rounded to an integer, times the quantum.

The plain array form, and the only one for long doubles. precreg/arithmetic/bit_rounding.py is the fast one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import Format
from precreg.arithmetic.random_bits import Start, random_bits
from precreg.arithmetic.roundings import Rounding, beyond_largest


def round_scaled(
    values: NDArray[Any], format: Format, rounding: Rounding, seed: int = 0, start: Start = 0
) -> NDArray[Any]:
    """Return what `precreg.arithmetic.arith_rounding.round_to` says, for any floating dtype of numpy.

    The quantum is the spacing of the format in a value's binade, a power of two. Both scalings are exact: the
    quotient of a value below 2**e by 2**(e - precision) has at most `precision` bits before the point, and where the
    quantum is the smallest subnormal (at most 1) the quotient is no smaller than the value, so nothing overflows and
    no bit falls off the small end.
    """
    exponents = np.frexp(values)[1]
    quanta = np.maximum(exponents, format.min_exponent + 1) - format.precision
    draws = random_bits(seed, start, values.size).reshape(values.shape) if rounding is Rounding.STOCHASTIC else None
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.ldexp(to_integers(np.ldexp(values, -quanta), rounding, draws), quanta)
        magnitudes = np.where(np.isnan(values), values, _within(values, np.abs(rounded), format, rounding))
    result: NDArray[Any] = np.copysign(magnitudes, values)
    return result if format.negative_zero else np.where(result == 0, values.dtype.type(0), result)


def _within(values: NDArray[Any], magnitudes: NDArray[Any], format: Format, rounding: Rounding) -> NDArray[Any]:
    """Return rounded magnitudes with overflow dealt with, and underflow where the format has no subnormals."""
    negative, positive = beyond_largest(format, rounding)
    limits = np.where(np.isfinite(values), np.where(np.signbit(values), negative, positive), format.overflow)
    is_beyond = (magnitudes > format.largest) | np.isinf(values)  # a float32 may have no number beyond the largest
    within = np.where(is_beyond, limits.astype(values.dtype), magnitudes)
    return within if format.subnormals else np.where(within < format.smallest_normal, values.dtype.type(0), within)


def to_integers(quotients: NDArray[Any], rounding: Rounding, draws: NDArray[np.uint32] | None = None) -> NDArray[Any]:
    """Return each quotient rounded to an integer, in its own dtype, with its sign even where that is zero.

    `draws` are the random bits of stochastic rounding, one for each quotient.
    """
    if rounding in _BY_NUMPY:
        return _BY_NUMPY[rounding](quotients)
    magnitudes = np.abs(quotients)
    floors = np.floor(magnitudes)
    rest = magnitudes - floors
    if rounding is Rounding.NEAREST_AWAY:
        upward = rest >= 0.5
    elif rounding is Rounding.AWAY:
        upward = rest > 0
    elif rounding is Rounding.ODD:
        upward = (rest > 0) & (np.fmod(floors, 2) == 0)
    else:
        upward = np.floor(rest * 2.0**24) > draws
    integers: NDArray[Any] = np.copysign(floors + upward, quotients)
    return integers


_BY_NUMPY: dict[Rounding, Callable[[NDArray[Any]], NDArray[Any]]] = {
    Rounding.NEAREST_EVEN: np.rint,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.UP: np.ceil,
    Rounding.DOWN: np.floor,
}
