"""At which powers of two do magnitudes cross the limits of a format, rounding included?

Multiplication by a power of two is exact, so a magnitude crosses a limit from one exponent on. That exponent follows
from the bits of the magnitude, and serves all scales at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import frexp, isinf, ldexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import Format
from precreg.errors import UserError
from precreg.storage import Array

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Elements at a time: a few buffers of 256 KiB stay in the L2 cache.
CHUNK_ELEMENTS = 2**15
_FRACTION_BITS = 52
_FRACTIONS = 2**_FRACTION_BITS
# frexp's significand is in [0.5, 1), so its exponent is one more than in IEEE 754.
_BIAS = 1022
_SIGN = np.int64(2**63 - 1)
_INFINITY = np.int64(0x7FF << _FRACTION_BITS)
# Squares above it would make sums of squares infinite.
MAX_SQUARE = 1e290


class Limit(NamedTuple):
    """Hold significand * 2**exponent, the significand in [0.5, 1). Magnitudes at it cross it if it is included."""

    significand: float
    exponent: int
    is_included: bool


class FormatLimits(NamedTuple):
    """Hold the limits from which magnitudes stay nonzero, stay normal, and leave a format."""

    nonzero: Limit
    normal: Limit
    beyond: Limit


@cache
def format_limits(format: Format) -> FormatLimits:
    """Return the limits of a format under rounding to nearest, ties to even.

    Raises:
        UserError: bad-format, for a longdouble, whose largest number no float64 holds.
    """
    if isinf(format.largest):
        raise UserError(
            "bad-format",
            f"expected a format whose largest number is a float64 but got format={format.name}",
            hint="name another one, such as float16, bfloat16 or float8_e4m3fn",
        )
    precision = format.precision
    # Half the smallest subnormal is a tie, and zero is even.
    nonzero = Limit(0.5, format.min_exponent - precision + 1, is_included=False)
    # Half a spacing below the smallest normal number is a tie too. The subnormal below it is odd with 2 bits or more;
    # with 1 bit it is zero.
    normal = Limit(1 - ldexp(1.0, -precision), format.min_exponent, is_included=precision > 1)
    significand, exponent = frexp(format.largest)
    # Half a spacing above the largest number is a tie. It goes up from an odd number, as in IEEE 754, and down to the
    # 448 of e4m3fn, which is even.
    is_odd = int(ldexp(significand, precision)) % 2 == 1
    if precision == _FRACTION_BITS + 1:
        # No float64 is between the largest number and the next one.
        beyond = Limit(significand, exponent, is_included=False)
    else:
        beyond = Limit(significand + ldexp(1.0, -precision - 1), exponent, is_included=is_odd)
    return FormatLimits(nonzero if format.subnormals else normal, normal, beyond)


class Magnitudes(NamedTuple):
    """Hold a chunk of finite nonzero magnitudes, and their bits with an exponent that may go below float64's."""

    values: Floats
    patterns: Integers

    def crossings(self, limit: Limit) -> Integers:
        """Return for each magnitude the smallest k for which magnitude * 2**k crosses the limit."""
        fraction = int((2 * limit.significand - 1) * _FRACTIONS) + (not limit.is_included)
        # The subtraction borrows from the exponent if the magnitude's fraction is smaller than the limit's.
        return limit.exponent + _BIAS - ((self.patterns - fraction) >> _FRACTION_BITS)

    def exponents(self) -> Integers:
        """Return floor(log2(magnitude)) for each magnitude."""
        return (self.patterns >> _FRACTION_BITS) - (_BIAS + 1)

    def squares(self) -> Floats:
        """Return the squares, at most MAX_SQUARE."""
        with np.errstate(over="ignore"):
            return np.minimum(self.values * self.values, MAX_SQUARE)


class MagnitudeChunk(NamedTuple):
    """Hold the finite nonzero magnitudes of a chunk, and the numbers of its other elements."""

    magnitudes: Magnitudes
    zeros: int
    nonfinite: int


def magnitude_chunks(values: Array) -> Iterator[MagnitudeChunk]:
    """Yield the magnitudes of a float array, a chunk at a time. The conversion to float64 is exact."""
    flat = np.asarray(values).reshape(-1)
    for begin in range(0, flat.size, CHUNK_ELEMENTS):
        chunk = flat[begin : begin + CHUNK_ELEMENTS].astype(np.float64)
        patterns = chunk.view(np.int64) & _SIGN
        is_finite = patterns < _INFINITY
        is_nonzero = patterns > 0
        zeros = int(patterns.size - np.count_nonzero(is_nonzero))
        nonfinite = int(patterns.size - np.count_nonzero(is_finite))
        kept = patterns[is_finite & is_nonzero] if zeros or nonfinite else patterns
        magnitudes = kept.view(np.float64)
        yield MagnitudeChunk(Magnitudes(magnitudes, _normalized(magnitudes, kept)), zeros, nonfinite)


def _normalized(magnitudes: Floats, patterns: Integers) -> Integers:
    """Return the patterns; subnormals have them as if float64 had smaller exponents."""
    low = np.flatnonzero(patterns < _FRACTIONS)
    if not low.size:
        return patterns
    significands, exponents = np.frexp(magnitudes[low])
    normalized = patterns.copy()
    fractions = ((2 * significands - 1) * _FRACTIONS).astype(np.int64)
    normalized[low] = (exponents.astype(np.int64) + _BIAS) * _FRACTIONS + fractions
    return normalized


def count_crossings(crossings: Integers, first: int, count: int, weights: Floats | None = None) -> NDArray[Any]:
    """Return for `count` exponents from `first` on how many magnitudes, or which sum of weights, cross exactly there.

    The entry before the others holds those that cross earlier, the entry after them those that cross later.
    """
    places = np.clip(crossings - (first - 1), 0, count + 1)
    return np.bincount(places, weights, minlength=count + 2)
