"""Count errors by size, and compute percentiles, shares and means from the counts.

A sketch has bins that end at the numbers of 8 significant bits: see tally.Sketch.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import fsum, inf, log2
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.measure.tally import Sketch
from precreg.types import Histogram

PERMILLES = (500, 900, 950, 990, 999)
# Upper ends of bins, so that the counts of larger values are exact.
COUNTED_ENDS = (0.5, 1.0, 2.0, 32.0)
# 52 - 45 leaves 7 bits below the leading one: 8 significant bits, and percentiles within 1/128.
_SHIFT = 45
# 5 bits less: the four bins an octave of a record's histogram.
_COARSER = 5
_ZERO_KEY = -1
_SMALLEST = 5e-324
# Rounding drops a summand of 2^-60 beside 1/4, so the table of logarithms begins there.
_NEGLIGIBLE = 2.0**-60


def key_of(value: float) -> int:
    """Return the key of a value that is not negative; infinity has the key of the largest float64."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return (bits - 1) >> _SHIFT


def upper_end(key: int) -> float:
    """Return the largest value of a bin, infinite for the last."""
    end: float = struct.unpack("<d", struct.pack("<q", (key + 1) << _SHIFT))[0]
    return end


class SketchBuilder:
    """A growing sketch over the range of the keys that occur."""

    def __init__(self) -> None:
        self.zeros = 0
        self._low = 0
        self._counts = np.empty(0, np.int64)

    def add(self, values: NDArray[Any], smallest: float, largest: float, scratch: NDArray[Any]) -> int:
        """Count float64 values, and return the number of zeros.

        `smallest` and `largest` bound the values above zero. The function overwrites `scratch`, an int64 array at
        least as long as the values.
        """
        low = key_of(smallest if smallest > _SMALLEST else _SMALLEST)  # also for a NaN, which bounds nothing
        keys = scratch[: values.size]
        np.subtract(values.view(np.int64), 1 + ((low - 1) << _SHIFT), out=keys)
        np.right_shift(keys, _SHIFT, out=keys)
        try:
            counts = np.bincount(keys)  # the zeros come first
        except ValueError:  # zeros have keys below 0, which bincount refuses
            counts = np.bincount(np.maximum(keys, 0, out=keys))
        self._grow(low, key_of(largest) + 1)
        self._counts[low - self._low : low - self._low + counts.size - 1] += counts[1:]
        zeros = int(counts[0])
        self.zeros += zeros
        return zeros

    def _grow(self, low: int, high: int) -> None:
        """Widen the range to keys from `low` to `high`, exclusive."""
        if not self._counts.size:
            self._low = low
        end = self._low + self._counts.size
        if low < self._low or high > end:
            wider = np.zeros(max(high, end) - min(low, self._low), np.int64)
            offset = self._low - min(low, self._low)
            wider[offset : offset + self._counts.size] = self._counts
            self._low, self._counts = min(low, self._low), wider

    def sketch(self) -> Sketch:
        """Return the sketch of all counted values."""
        filled = self._counts.nonzero()[0]
        keys, counts = filled + self._low, self._counts[filled]
        if self.zeros:
            keys, counts = np.insert(keys, 0, _ZERO_KEY), np.insert(counts, 0, self.zeros)
        return Sketch(keys.astype("<i4").tobytes(), counts.astype("<i8").tobytes())


def add_sketches(sketches: Sequence[Sketch]) -> Sketch:
    """Return the sketch of the values of all sketches."""
    filled = [sketch for sketch in sketches if sketch.keys]
    if len(filled) < 2:
        return filled[0] if filled else Sketch()
    keys = np.concatenate([np.frombuffer(sketch.keys, "<i4") for sketch in filled])
    counts = np.concatenate([np.frombuffer(sketch.counts, "<i8") for sketch in filled])
    lowest = int(keys.min())
    sums = np.bincount(keys - lowest, counts)  # float64, exact as long as fewer than 2**53 values are counted
    present = sums.nonzero()[0]
    return Sketch((present + lowest).astype("<i4").tobytes(), sums[present].astype("<i8").tobytes())


class SketchStatistics(NamedTuple):
    """Statistics of counted values.

    `percentiles` has, for each of PERMILLES, the upper end of the bin of the nearest-rank value, at most the largest
    value. It exceeds the true value by less than 1/128 of it. `above` counts the values above each of COUNTED_ENDS.
    `mean_log2` is the mean of log2(v* + 1/4), where v* is the upper end of a value's bin. `bins` and `counts` belong to
    the coarser histogram, four bins an octave, with its zeros.
    """

    percentiles: tuple[float, ...]
    above: tuple[int, ...]
    mean_log2: float
    bins: list[int]
    counts: list[int]


def read_sketch(sketch: Sketch, largest: float) -> SketchStatistics:
    """Compute the statistics of a sketch of at least one value; `largest` is its largest value."""
    keys = struct.unpack(f"<{len(sketch.keys) // 4}i", sketch.keys)
    counts = struct.unpack(f"<{len(sketch.counts) // 8}q", sketch.counts)
    running = tuple(accumulate(counts))
    ranks = [max(-(-permille * running[-1] // 1000), 1) for permille in PERMILLES]
    lasts = [bisect_left(keys, key_of(end) + 1) for end in COUNTED_ENDS]
    coarse: dict[int, int] = {}
    for key, count in zip(keys, counts, strict=True):
        coarse[key >> _COARSER] = coarse.get(key >> _COARSER, 0) + count
    return SketchStatistics(
        tuple(min(upper_end(keys[bisect_left(running, rank)]), largest) for rank in ranks),
        tuple(running[-1] - (running[last - 1] if last else 0) for last in lasts),
        fsum(map(mul, counts, map(log2_above, keys))) / running[-1],
        list(coarse),
        list(coarse.values()),
    )


@lru_cache(maxsize=1 << 14)
def log2_above(key: int) -> float:
    """Return log2(v* + 1/4), where v* is the largest value of a bin."""
    return log2(upper_end(key) + 0.25)


def log2_above_array(values: NDArray[Any], scratch: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """Write log2(v* + 1/4) of float64 values that are not negative to `out`; `scratch` is as in SketchBuilder.add."""
    keys = scratch[: values.size]
    np.subtract(values.view(np.int64), 1 + (key_of(_NEGLIGIBLE) << _SHIFT), out=keys)
    np.right_shift(keys, _SHIFT, out=keys)
    return np.take(_logs_from_negligible(), keys, out=out[: values.size], mode="clip")


@cache
def _logs_from_negligible() -> NDArray[Any]:
    keys = np.arange(key_of(_NEGLIGIBLE), key_of(inf) + 1)
    logs: NDArray[Any] = np.log2(((keys + 1) << _SHIFT).view(np.float64) + 0.25)
    return logs


def _compiled(sketch: Sketch, largest: float) -> SketchStatistics:
    return SketchStatistics(*_core.sizes(sketch.keys, sketch.counts, largest))


# The compiled core reads a sketch without a loop in Python; read_sketch is its reference implementation.
try:
    from precreg.measure.compiled import _core
except ImportError:
    sizes = read_sketch
else:
    sizes = _compiled


def sketch_histogram(sketch: Sketch) -> Histogram:
    """Return the histogram of a record: four bins an octave, with zeros apart."""
    coarse = sizes(sketch, inf)
    zeros = coarse.bins[0] == _ZERO_KEY
    return Histogram(coarse.counts[0] if zeros else 0, coarse.bins[zeros:], coarse.counts[zeros:])
