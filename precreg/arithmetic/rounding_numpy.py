"""Which numbers of a format does the numpy backend round arrays to?

`round_bits` works on the bit patterns of float32 and float64, a chunk at a time. `round_scaled` divides by the spacing,
rounds to integers and multiplies again. It is slower and shorter, and serves longdouble as well. The tests compare the
two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import Format, Rounding, overflow_results
from precreg.storage import Array

# The index of the first element, from which the others count in C order; or an array with the index of every element.
Start = int | NDArray[np.integer[Any]]

# The roundings for which numpy has a function with correct results for every float, -0.0 included.
_BY_NUMPY: dict[Rounding, Callable[[Array], Array]] = {
    Rounding.NEAREST_EVEN: np.rint,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.UP: np.ceil,
    Rounding.DOWN: np.floor,
}

# Elements rounded at a time. The buffers of one chunk, 256 KiB each for float64, stay in the L2 cache between steps.
BIT_ROUNDING_CHUNK = 2**15


def random_bits(seed: int, start: Start, count: int) -> NDArray[np.uint32]:
    """Return 24 random bits for each of `count` indices, from seed and index alone, so that chunks draw like the whole.

    The generator is SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014). Its state
    is a counter, so any index can be drawn without drawing those before it.
    """
    with np.errstate(over="ignore"):
        if isinstance(start, np.ndarray):
            indices = start.ravel().astype(np.uint64, copy=False)
        else:
            indices = np.uint64(int(start) % 2**64) + np.arange(count, dtype=np.uint64)
        # The increment is 2**64 over the golden ratio. Shifts and multipliers are mix13 of Stafford (2011).
        mixed = np.uint64(seed % 2**64) + (indices + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    # The upper 24 bits: enough to compare exactly with all bits that a normal float32 loses.
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(40)).astype(np.uint32)


def round_scaled(values: Array, format: Format, rounding: Rounding, seed: int = 0, start: Start = 0) -> Array:
    """Round as `precreg.arithmetic.rounding.round_to` does, for any floating dtype of numpy.

    The quantum is the spacing of the format in a value's binade, a power of two. Both scalings are exact. A value below
    2**e over 2**(e - precision) has at most `precision` bits before the point. A quantum that is the smallest
    subnormal is at most 1. The quotient is then at least as large as the value, and loses no bits to underflow.
    """
    exponents = np.frexp(values)[1]
    binades = np.maximum(exponents, format.min_exponent + 1)
    quanta = binades - precisions_at(binades - 1, format)
    draws = random_bits(seed, start, values.size).reshape(values.shape) if rounding is Rounding.STOCHASTIC else None
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.ldexp(round_quotients(np.ldexp(values, -quanta), rounding, draws), quanta)
        magnitudes = np.where(np.isnan(values), values, _limit_magnitudes(values, np.abs(rounded), format, rounding))
    # The sign comes from the value, because an underflow to zero or a NaN in place of an overflow must keep it.
    result: Array = np.copysign(magnitudes, values)
    return result if format.negative_zero else np.where(result == 0, values.dtype.type(0), result)


def precisions_at(exponents: NDArray[np.integer[Any]], format: Format) -> NDArray[np.integer[Any]]:
    """Return the bits of the significand in the binade of each 2**exponent."""
    if not format.taper:
        return np.broadcast_to(np.asarray(format.precision, exponents.dtype), exponents.shape)
    limits, bits = zip(*format.taper, strict=True)
    places = np.searchsorted(np.asarray(limits), np.abs(exponents))
    found: NDArray[np.integer[Any]] = np.asarray((*bits, 1), exponents.dtype)[places]
    return found


def _limit_magnitudes(values: Array, magnitudes: Array, format: Format, rounding: Rounding) -> Array:
    """Replace rounded magnitudes that overflow, and those that underflow if the format has no subnormals."""
    negative, positive = overflow_results(format, rounding)
    limits = np.where(np.isfinite(values), np.where(np.signbit(values), negative, positive), format.overflow)
    # The second condition matters where float32 has no number beyond the format's largest.
    is_beyond = (magnitudes > format.largest) | np.isinf(values)
    within = np.where(is_beyond, limits.astype(values.dtype), magnitudes)
    return within if format.subnormals else np.where(within < format.smallest_normal, values.dtype.type(0), within)


def round_quotients(quotients: Array, rounding: Rounding, draws: NDArray[np.uint32] | None = None) -> Array:
    """Return each quotient rounded to an integer, in its own dtype and with its sign, even if it is zero.

    `draws` are the random bits of stochastic rounding, one for each quotient.
    """
    if rounding in _BY_NUMPY:
        return _BY_NUMPY[rounding](quotients)
    magnitudes = np.abs(quotients)
    floors = np.floor(magnitudes)
    rest = magnitudes - floors  # exact: magnitude and floor share a binade, or the floor is 0
    if rounding is Rounding.NEAREST_AWAY:
        upward = rest >= 0.5
    elif rounding is Rounding.AWAY:
        upward = rest > 0
    elif rounding is Rounding.ODD:
        upward = (rest > 0) & (np.fmod(floors, 2) == 0)
    else:
        upward = np.floor(rest * 2.0**24) > draws
    integers: Array = np.copysign(floors + upward, quotients)
    return integers


class _Grid(NamedTuple):
    """Hold a format as bit patterns of a dtype. All numbers are scalars of `unsigned`: numpy 1 would widen others."""

    unsigned: type[np.unsignedinteger[Any]]
    # The low bits of the significand that the format lacks: their count, and all of them set.
    dropped: Any
    low: Any
    sign: Any
    infinity: Any
    smallest_normal: Any
    largest: Any
    # True if the dtype has normal numbers where the format has subnormals: there the spacing stops following binades.
    has_fixed_spacing: bool
    # The results of overflow, for negative and for positive finite numbers, and for infinities.
    limits: tuple[Any, Any]
    overflow: Any


def _make_grid(format: Format, rounding: Rounding, dtype: np.dtype[Any]) -> _Grid:
    unsigned = np.uint32 if dtype == np.float32 else np.uint64
    limits = np.finfo(dtype)

    def pattern(value: float) -> Any:
        return dtype.type(value).view(unsigned)

    dropped = max(limits.nmant + 1 - format.precision, 0)
    return _Grid(
        unsigned,
        dropped=unsigned(dropped),
        low=unsigned(2**dropped - 1),
        sign=unsigned(2 ** (8 * dtype.itemsize - 1)),
        infinity=pattern(np.inf),
        smallest_normal=pattern(format.smallest_normal),
        largest=pattern(format.largest),
        has_fixed_spacing=format.min_exponent > int(limits.minexp),
        limits=tuple(pattern(limit) for limit in overflow_results(format, rounding)),
        overflow=pattern(format.overflow),
    )


def round_bits(values: Array, format: Format, rounding: Rounding, seed: int = 0, start: Start = 0) -> Array:
    """Round as `round_to` does, for float32 and float64, and formats with at least 2 bits of precision."""
    fits_float32 = format.precision <= 24 and format.min_exponent >= -126 and format.largest < 2.0**128
    if values.dtype == np.float32 and not fits_float32:
        # The format has no pattern in float32, so float64 rounds; NaN keeps the bits that a conversion would change.
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = round_bits(values.astype(np.float64), format, rounding, seed, start).astype(np.float32)
        return np.where(np.isnan(values), values, narrow)
    grid = _make_grid(format, rounding, values.dtype)
    flat = np.ascontiguousarray(values).reshape(-1)
    indices = start.reshape(-1) if isinstance(start, np.ndarray) else None
    rounded = np.empty_like(flat)
    for begin in range(0, flat.size, BIT_ROUNDING_CHUNK):
        chunk = slice(begin, begin + BIT_ROUNDING_CHUNK)
        first = start + begin if indices is None else indices[chunk]
        draws = random_bits(seed, first, flat[chunk].size) if rounding is Rounding.STOCHASTIC else None
        rounded[chunk] = _round_chunk(flat[chunk], grid, format, rounding, draws)
    return rounded.reshape(values.shape)


def _round_chunk(
    values: Array, grid: _Grid, format: Format, rounding: Rounding, draws: NDArray[np.uint32] | None
) -> Array:
    patterns = values.view(grid.unsigned)
    signs = patterns & grid.sign
    magnitudes = patterns ^ signs
    result = _round_patterns(patterns, grid, rounding, draws)
    if grid.has_fixed_spacing:
        near = np.flatnonzero(magnitudes < grid.smallest_normal)
        near_draws = None if draws is None else draws[near]
        result[near] = _round_near_zero(values[near], format, rounding, near_draws).view(grid.unsigned)
    # Only a magnitude above the largest number can round beyond it, since the largest is a multiple of the spacing.
    if magnitudes.max() > grid.largest:
        negative, positive = grid.limits
        limits = np.where(magnitudes == grid.infinity, grid.overflow, np.where(signs != 0, negative, positive))
        np.copyto(result, limits | signs, where=(result & ~grid.sign) > grid.largest)
        # Patterns above infinity are NaN. Rounding may have changed them, so their own bits come back.
        np.copyto(result, patterns, where=magnitudes > grid.infinity)
    if not format.subnormals:
        np.copyto(result, signs, where=(result & ~grid.sign) < grid.smallest_normal)
    if not format.negative_zero:
        result[result == grid.sign] = 0
    return result.view(values.dtype)


def _round_patterns(patterns: Array, grid: _Grid, rounding: Rounding, draws: NDArray[np.uint32] | None) -> Array:
    """Return patterns rounded to multiples of 2**dropped, as if exponents had no bounds. NaN may become anything.

    From one number of the format to the next, a pattern grows by 2**dropped, within a binade and across binades. So
    rounding adds an increment and clears the low bits. A carry goes into the exponent, as it should.
    """
    dropped, low, one = grid.dropped, grid.low, grid.unsigned(1)
    if not dropped:
        return patterns.copy()
    moved: Any
    if rounding is Rounding.TOWARD_ZERO:
        moved = patterns
    elif rounding is Rounding.ODD:
        # The sum carries into the last kept bit if any low bit is set; OR sets that bit without carrying further.
        moved = patterns | ((patterns & low) + low)
    elif rounding is Rounding.NEAREST_EVEN:
        # Just below half a spacing, and the last kept bit: a tie carries only if that bit is 1.
        moved = patterns + ((low >> one) + ((patterns >> dropped) & one))
    elif rounding is Rounding.NEAREST_AWAY:
        moved = patterns + ((low >> one) + one)
    elif rounding is Rounding.AWAY:
        moved = patterns + low
    elif rounding in (Rounding.UP, Rounding.DOWN):
        # An arithmetic shift fills every negative pattern with ones. Upward means away from zero for positive numbers.
        bits = 8 * patterns.dtype.itemsize
        negative = (patterns.view(f"i{patterns.dtype.itemsize}") >> (bits - 1)).view(patterns.dtype)
        moved = patterns + (low & (~negative if rounding is Rounding.UP else negative))
    else:
        moved = patterns + _exceeds_draw(patterns & low, int(dropped), draws) * (low + one)
    rounded: Array = moved & ~low
    return rounded


def _exceeds_draw(rest: Array, dropped: int, draws: NDArray[np.uint32] | None) -> NDArray[np.bool_]:
    """Return where the dropped bits, in steps of 2**-24 of the spacing, exceed the draw, so that the number goes up."""
    steps = rest << rest.dtype.type(24 - dropped) if dropped <= 24 else rest >> rest.dtype.type(dropped - 24)
    exceeds: NDArray[np.bool_] = steps > draws
    return exceeds


def _round_near_zero(values: Array, format: Format, rounding: Rounding, draws: NDArray[np.uint32] | None) -> Array:
    """Return values below the smallest normal number rounded to multiples of the smallest subnormal."""
    quantum = format.min_exponent - format.precision + 1
    scaled: Array = np.ldexp(round_quotients(np.ldexp(values, -quantum), rounding, draws), quantum)
    return scaled
