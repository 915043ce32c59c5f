"""Rounding float32 and float64 arrays on their bit patterns: numpy's fast form, a chunk at a time.

From one number of a format to the next, the pattern of a float32 (or float64) grows by 2**dropped, within a binade and
across. So to round is to add something to the pattern and to clear its low bits; a carry goes into the exponent, as it
should. Only where the format has subnormals and the dtype still has normal numbers, spacing does not follow the
pattern: these values are rounded as multiples of the smallest subnormal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import Format
from precreg.arithmetic.random_bits import Start, random_bits
from precreg.arithmetic.roundings import Rounding, beyond_largest
from precreg.arithmetic.scaled_rounding import to_integers

CHUNK = 2**15
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
        tuple(pattern(limit) for limit in beyond_largest(format, rounding)),
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
    for begin in range(0, flat.size, CHUNK):
        chunk = slice(begin, begin + CHUNK)
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
    return _scaled(to_integers(_scaled(values, -quantum), rounding, draws), quantum)


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
