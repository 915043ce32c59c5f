"""The random bits of stochastic rounding, a function of seed and index: chunks draw what the whole does.

Rounding float32 and float64 arrays on their bit patterns: numpy's fast form, a chunk at a time.

From one number of a format to the next, the pattern of a float32 (or float64) grows by 2**dropped, within a binade and
across. So to round is to add something to the pattern and to clear its low bits; a carry goes into the exponent, as it
should. Only where the format has subnormals and the dtype still has normal numbers, spacing does not follow the
pattern: these values are rounded as multiples of the smallest subnormal.

Rounding arrays by scaling: each value over its quantum, rounded to an integer, times the quantum.

The plain array form, and the only one for long doubles. precreg/arithmetic/rounding_numpy.py is the fast one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import Format, Rounding, overflow_results

Start = int | NDArray[np.integer[Any]]
"""The index of the first element, from which the others count in C order; or an array of every element's own."""


def random_bits(seed: int, start: Start, count: int) -> NDArray[np.uint32]:
    """Return 24 random bits for each of `count` indices: SplitMix64 (Steele, Lea and Flood, 2014) of seed and index."""
    with np.errstate(over="ignore"):
        if isinstance(start, np.ndarray):
            indices = start.ravel().astype(np.uint64, copy=False)
        else:
            indices = np.uint64(int(start) % 2**64) + np.arange(count, dtype=np.uint64)
        mixed = np.uint64(seed % 2**64) + (indices + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(40)).astype(np.uint32)


def round_scaled(
    values: NDArray[Any], format: Format, rounding: Rounding, seed: int = 0, start: Start = 0
) -> NDArray[Any]:
    """Return what `precreg.arithmetic.rounding.round_to` says, for any floating dtype of numpy.

    The quantum is the spacing of the format in a value's binade, a power of two. Both scalings are exact: the
    quotient of a value below 2**e by 2**(e - precision) has at most `precision` bits before the point, and where the
    quantum is the smallest subnormal (at most 1) the quotient is no smaller than the value, so nothing overflows and
    no bit falls off the small end.
    """
    exponents = np.frexp(values)[1]
    quanta = np.maximum(exponents, format.min_exponent + 1) - format.precision
    draws = random_bits(seed, start, values.size).reshape(values.shape) if rounding is Rounding.STOCHASTIC else None
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.ldexp(round_quotients(np.ldexp(values, -quanta), rounding, draws), quanta)
        magnitudes = np.where(np.isnan(values), values, _within(values, np.abs(rounded), format, rounding))
    result: NDArray[Any] = np.copysign(magnitudes, values)
    return result if format.negative_zero else np.where(result == 0, values.dtype.type(0), result)


def _within(values: NDArray[Any], magnitudes: NDArray[Any], format: Format, rounding: Rounding) -> NDArray[Any]:
    """Return rounded magnitudes with overflow dealt with, and underflow where the format has no subnormals."""
    negative, positive = overflow_results(format, rounding)
    limits = np.where(np.isfinite(values), np.where(np.signbit(values), negative, positive), format.overflow)
    is_beyond = (magnitudes > format.largest) | np.isinf(values)  # a float32 may have no number beyond the largest
    within = np.where(is_beyond, limits.astype(values.dtype), magnitudes)
    return within if format.subnormals else np.where(within < format.smallest_normal, values.dtype.type(0), within)


def round_quotients(
    quotients: NDArray[Any], rounding: Rounding, draws: NDArray[np.uint32] | None = None
) -> NDArray[Any]:
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


BIT_ROUNDING_CHUNK = 2**15
"""Elements rounded at a time: few enough that every step finds them in cache."""


class _Grid(NamedTuple):
    """A format in the patterns of a dtype; the numbers are unsigned scalars of `unsigned`, but for the two floats."""

    unsigned: type[np.unsignedinteger[Any]]
    dropped: Any
    low: Any
    sign: Any
    infinity: Any
    smallest_normal: Any
    largest: Any
    is_graded: bool
    limits: tuple[Any, Any]
    overflow: Any


def _grid(format: Format, rounding: Rounding, dtype: np.dtype[Any]) -> _Grid:
    unsigned = np.uint32 if dtype == np.float32 else np.uint64
    bits, fraction = 8 * dtype.itemsize, np.finfo(dtype).nmant

    def pattern(value: float) -> Any:
        return dtype.type(value).view(unsigned)

    dropped = max(fraction + 1 - format.precision, 0)
    return _Grid(
        unsigned,
        unsigned(dropped),
        unsigned(2**dropped - 1),
        unsigned(2 ** (bits - 1)),
        pattern(np.inf),
        pattern(format.smallest_normal),
        pattern(format.largest),
        format.min_exponent > int(np.finfo(dtype).minexp),
        tuple(pattern(limit) for limit in overflow_results(format, rounding)),
        pattern(format.overflow),
    )


def round_bits(
    values: NDArray[Any], format: Format, rounding: Rounding, seed: int = 0, start: Start = 0
) -> NDArray[Any]:
    """Return what `round_to` says, for float32 and float64, and at least 2 bits of precision."""
    if values.dtype == np.float32 and not _is_within_float32(format):
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = round_bits(values.astype(np.float64), format, rounding, seed, start).astype(np.float32)
        return np.where(np.isnan(values), values, narrow)
    grid = _grid(format, rounding, values.dtype)
    flat = np.ascontiguousarray(values).reshape(-1)
    indices = start.reshape(-1) if isinstance(start, np.ndarray) else None
    rounded = np.empty_like(flat)
    for begin in range(0, flat.size, BIT_ROUNDING_CHUNK):
        chunk = slice(begin, begin + BIT_ROUNDING_CHUNK)
        first = start + begin if indices is None else indices[chunk]
        _round_chunk(flat[chunk], rounded[chunk], grid, format, rounding, seed, first)
    return rounded.reshape(values.shape)


def _is_within_float32(format: Format) -> bool:
    return format.precision <= 24 and format.min_exponent >= -126 and format.largest < 2.0**128


def _round_chunk(
    values: NDArray[Any],
    rounded: NDArray[Any],
    grid: _Grid,
    format: Format,
    rounding: Rounding,
    seed: int,
    start: Start,
) -> None:
    """Write what the values are rounded to."""
    patterns, result = values.view(grid.unsigned), rounded.view(grid.unsigned)
    draws = random_bits(seed, start, values.size) if rounding is Rounding.STOCHASTIC else None
    _round_patterns(patterns, result, grid, rounding, draws)
    magnitudes = patterns & ~grid.sign
    if grid.is_graded:
        _write_near_zero(values, rounded, magnitudes < grid.smallest_normal, format, rounding, draws)
    if magnitudes.max() > grid.largest:
        _limit(patterns, result, magnitudes, grid)
    if not format.subnormals:
        np.copyto(result, patterns & grid.sign, where=(result & ~grid.sign) < grid.smallest_normal)
    if not format.negative_zero:
        result[result == grid.sign] = 0


def _round_patterns(
    patterns: NDArray[Any], result: NDArray[Any], grid: _Grid, rounding: Rounding, draws: NDArray[np.uint32] | None
) -> None:
    """Write the patterns rounded to multiples of 2**dropped, as if exponents had no bounds. NaN may become anything."""
    dropped, low = grid.dropped, grid.low
    if not dropped:
        np.copyto(result, patterns)
        return
    one = grid.unsigned(1)
    if rounding is Rounding.TOWARD_ZERO:
        np.bitwise_and(patterns, ~low, out=result)
        return
    if rounding is Rounding.ODD:
        np.bitwise_or(patterns, (patterns & low) + low, out=result)
    elif rounding is Rounding.NEAREST_EVEN:
        np.right_shift(patterns, dropped, out=result)
        result &= one
        result += low >> one
        result += patterns
    elif rounding is Rounding.NEAREST_AWAY:
        np.add(patterns, (low >> one) + one, out=result)
    elif rounding is Rounding.AWAY:
        np.add(patterns, low, out=result)
    elif rounding in (Rounding.UP, Rounding.DOWN):
        signs = _filled_with_signs(patterns)
        np.add(patterns, low & (~signs if rounding is Rounding.UP else signs), out=result)
    else:
        np.add(patterns, _is_drawn(patterns & low, dropped, draws) * (low + one), out=result)
    result &= ~low


def _filled_with_signs(patterns: NDArray[Any]) -> NDArray[Any]:
    """Return all ones for each negative number, and 0 for the others."""
    bits = 8 * patterns.dtype.itemsize
    filled: NDArray[Any] = (patterns.view(f"i{patterns.dtype.itemsize}") >> (bits - 1)).view(patterns.dtype)
    return filled


def _is_drawn(rest: NDArray[Any], dropped: Any, draws: NDArray[np.uint32] | None) -> NDArray[np.bool_]:
    """Say which go up: those of which the rest, in steps of 2**-24 of the spacing, is above the draw."""
    bits = int(dropped)
    steps = rest << rest.dtype.type(24 - bits) if bits <= 24 else rest >> rest.dtype.type(bits - 24)
    drawn: NDArray[np.bool_] = steps > draws
    return drawn


def _write_near_zero(
    values: NDArray[Any],
    rounded: NDArray[Any],
    is_near: NDArray[np.bool_],
    format: Format,
    rounding: Rounding,
    draws: NDArray[np.uint32] | None,
) -> None:
    """Write what values below the smallest normal number are rounded to; where they are many, all are computed."""
    count = np.count_nonzero(is_near)
    if 8 * count > is_near.size:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(rounded, _near_zero(values, format, rounding, draws), where=is_near)
    elif count:
        near = np.flatnonzero(is_near)
        rounded[near] = _near_zero(values[near], format, rounding, draws if draws is None else draws[near])


def _near_zero(
    values: NDArray[Any], format: Format, rounding: Rounding, draws: NDArray[np.uint32] | None
) -> NDArray[Any]:
    """Return values rounded to multiples of the smallest subnormal, with their signs."""
    quantum = format.min_exponent - format.precision + 1
    return _scaled(round_quotients(_scaled(values, -quantum), rounding, draws), quantum)


def _scaled(values: NDArray[Any], exponent: int) -> NDArray[Any]:
    """Return values * 2**exponent: by a product, ten times faster than ldexp, where the dtype has the power."""
    has_power = abs(exponent) < 127
    scaled: NDArray[Any] = values * values.dtype.type(2.0**exponent) if has_power else np.ldexp(values, exponent)
    return scaled


def _limit(patterns: NDArray[Any], result: NDArray[Any], magnitudes: NDArray[Any], grid: _Grid) -> None:
    """Write what lies beyond the largest number, infinities, and NaN, which stays the NaN it is.

    `magnitudes` are the patterns without their signs.
    """
    signs = patterns & grid.sign
    negative, positive = grid.limits
    limits = np.where(magnitudes == grid.infinity, grid.overflow, np.where(signs != 0, negative, positive))
    np.copyto(result, limits | signs, where=(result & ~grid.sign) > grid.largest)
    np.copyto(result, patterns, where=magnitudes > grid.infinity)
