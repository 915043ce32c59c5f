"""Which bounds hold for a block of finite pairs, which regions does it touch, and which groups does it add to?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from math import inf, prod
from typing import NamedTuple

import numpy as np

from precreg.measure.groups import GROUP_SUMS, MAX_GROUPS_PER_AXIS
from precreg.measure.metrics import Regions
from precreg.measure.pairing import ElementPairs
from precreg.measure.tally import Groups
from precreg.storage import Array


class Block(NamedTuple):
    """Finite pairs of a block, and bounds on their errors |d| and magnitudes |r|.

    Smallest sizes are lower bounds on the sizes above zero. `worst` is the index of the largest error. Every d is a
    multiple of `unit`, every r of `magnitude_unit`, unless these are 0. `kept` marks the positions of the pairs, from
    `position` on; None stands for all positions.
    """

    pairs: ElementPairs
    position: int
    kept: Array | None
    largest_error: float
    smallest_error: float
    largest_magnitude: float
    smallest_magnitude: float
    zeros: int
    worst: int
    unit: float = 0.0
    magnitude_unit: float = 0.0

    def place(self, index: int) -> int:
        """Return the flat position of a pair."""
        return self.position + (index if self.kept is None else int(np.flatnonzero(self.kept)[index]))


def make_block(pairs: ElementPairs, position: int, kept: Array | None) -> Block:
    """Return a block with its smallest and largest sizes; a smallest error of 0 is not known yet."""
    error, magnitude = pairs.error, pairs.magnitude
    worst = int(error.argmax())
    largest = float(error[worst]), float(np.maximum.reduce(magnitude))
    smallest, zeros = float(np.minimum.reduce(magnitude)), 0
    if smallest == 0:
        zeros = magnitude.size - count_true(magnitude)
        smallest = min_nonzero(magnitude)
    least = float(np.minimum.reduce(error))
    return Block(pairs, position, kept, largest[0], least, largest[1], smallest, zeros, worst)


def relative_error_lower_bound(block: Block, ratios: Array, floor: float) -> float:
    """Return a lower bound on the values of |d| / (|r| + floor) above zero."""
    if block.pairs.wide is not None:
        return min_nonzero(ratios)
    most = block.largest_magnitude + floor
    return block.smallest_error / most * 0.5 if most else inf  # half, because both quotients are rounded


def count_regions(block: Block, ratios: Array, largest: float, regions: Regions) -> dict[str, int]:
    """Count pairs in the regions of standards, by the names of tally.Counts; no ratio is larger than `largest`."""
    counts: dict[str, int] = {}
    error, size = block.pairs.error, block.pairs.magnitude
    least = 0.0 if block.zeros else block.smallest_magnitude  # most blocks lie outside most regions
    bound = max(regions.small_bound, regions.cancellation_bound)
    if least < bound:
        places = np.flatnonzero(size < bound)
        few, errors, quotients = size[places], error[places], ratios[places]
        small = few < regions.small_bound
        counts["small_values"] = count_true(small)
        counts["small_value_errors"] = count_true(small & (errors > regions.small_error))
        within = (few < regions.cancellation_bound) & ~small
        counts["cancellations"] = count_true(within)
        counts["cancellation_errors"] = count_true(within & (quotients > regions.cancellation_rtol))
    if least < regions.threshold_bound and block.largest_error > regions.threshold_atol:
        small = size < regions.threshold_bound
        counts["absolute_violations"] = count_true(small & (error > regions.threshold_atol))
    if regions.threshold_bound and largest > regions.threshold_rtol:
        large = size >= regions.threshold_bound
        counts["relative_violations"] = count_true(large & (ratios > regions.threshold_rtol))
    return counts


def min_nonzero(sizes: Array) -> float:
    """Return the smallest number other than 0; infinity without any."""
    smallest = float(np.minimum.reduce(sizes))
    return smallest or float(np.minimum.reduce(np.where(sizes == 0, inf, sizes)))


def count_true(mask: Array) -> int:
    """Count the elements that are true, or not 0."""
    return int(np.count_nonzero(mask))


# Axes of at most 4096 elements form a tile. Rows of at least 2048 elements keep numpy's overhead per row small.
_MAX_TILE = 4096
_MIN_ROW = 2048
_BLOCK = 1 << 15
_SUMS = len(GROUP_SUMS)


class GroupedAxis(NamedTuple):
    """An axis: its length, and its stride in elements."""

    length: int
    stride: int

    @property
    def groups(self) -> int:
        """The number of groups."""
        return min(self.length, MAX_GROUPS_PER_AXIS)

    def group_of(self, positions: Array) -> Array:
        """Return the group of each flat position."""
        groups: Array = ((positions // self.stride % self.length + 1) * self.groups - 1) // self.length
        return groups

    def edges(self, low: int, high: int) -> Array:
        """Return the positions strictly between low and high at which a group begins."""
        cycle = self.length * self.stride
        starts = np.arange(self.groups) * self.length // self.groups * self.stride
        edges: Array = (np.arange(low // cycle, high // cycle + 1)[:, None] * cycle + starts).reshape(-1)
        return edges[(edges > low) & (edges < high)]


def grouped_axes(shape: tuple[int, ...]) -> list[GroupedAxis]:
    """Return the axes of a shape."""
    return [GroupedAxis(length, prod(shape[place + 1 :])) for place, length in enumerate(shape)]


class GroupSums:
    """Growing sums of |d|, d, d sign(r), d^2, U, U^2 and log2(U* + 1/4) over the groups of a range of positions.

    Blocks are added in order. Trailing axes with few elements together form a tile that repeats: blocks are added to it
    row by row, because a bincount for each axis would read every element several times. Along leading axes a group is
    a run of at least some hundred elements, and the sum of each run is kept.
    """

    def __init__(self, shape: tuple[int, ...], start: int, stop: int) -> None:
        axes = grouped_axes(shape)
        trailing = [axis for axis in axes if axis.length * axis.stride <= _MAX_TILE]
        leading = axes[: len(axes) - len(trailing)]
        self._axes = axes
        self._leading = len(leading)
        self._tile = trailing[0].length * trailing[0].stride if trailing else 1
        self.width = self._tile * max(_MIN_ROW // self._tile, 1)
        self._sums = np.zeros((_SUMS + 1, self.width if trailing else 0))
        edges = [axis.edges(start, stop) for axis in leading if axis.length > 1]
        self._edges: list[int] = np.unique(np.concatenate(edges)).tolist() if edges else []
        self._runs: list[tuple[int, list[float]]] = []

    def blocks(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Cut a range into blocks of about 2**15 positions that end where a tile does."""
        size = max(_BLOCK // self.width, 1) * self.width
        cuts = [start, *range((start // size + 1) * size, stop, size), stop]
        return list(pairwise(cuts))

    def add(self, position: int, values: tuple[Array, ...], sums: list[float], kept: Array | None) -> None:
        """Add a block: an array per quantity, and its sum; `kept` marks the positions of the values, None for all."""
        size = len(values[0]) if kept is None else len(kept)
        if kept is not None:
            values = tuple(_fill_zeros(array, kept) for array in values)
        if self._sums.size:
            for row, array in zip(self._sums, values, strict=False):
                self._fold(row, array, position)
            self._fold(self._sums[_SUMS], np.ones(size) if kept is None else kept.astype(np.float64), position)
        if self._leading:
            self._add_runs(position, position + size, values, sums, kept)

    def _fold(self, row: Array, array: Array, position: int) -> None:
        offset = position % self.width
        head = min(-offset % self.width, array.size)
        row[offset : offset + head] += array[:head]
        rows, rest = divmod(array.size - head, self.width)
        if rows:
            row += np.add.reduce(array[head : array.size - rest].reshape(rows, self.width), axis=0)
        row[:rest] += array[array.size - rest :]

    def _add_runs(self, low: int, high: int, values: tuple[Array, ...], sums: list[float], kept: Array | None) -> None:
        inner = self._edges[bisect_right(self._edges, low) : bisect_left(self._edges, high)]
        if not inner:
            self._runs.append((low, [*sums, float(values[0].size if kept is None else np.count_nonzero(kept))]))
            return
        starts = [low, *inner]
        offsets = np.array(starts) - low
        rows = [np.add.reduceat(array, offsets).tolist() for array in values]
        if kept is None:
            rows.append(np.diff(np.array([*starts, high])).tolist())
        else:
            rows.append(np.add.reduceat(kept, offsets, dtype=np.int64).tolist())
        self._runs += zip(starts, map(list, zip(*rows, strict=True)), strict=True)

    def groups(self) -> tuple[Groups, ...]:
        """Return the sums of groups, one entry per axis."""
        positions = np.array([start for start, _ in self._runs], np.int64)
        runs = np.array([sums for _, sums in self._runs]).T if self._runs else np.zeros((_SUMS + 1, 0))
        leading = [_sum_groups(axis, positions, runs) for axis in self._axes[: self._leading]]
        columns = np.arange(self._sums.shape[1]) % self._tile
        return (*leading, *(_sum_groups(axis, columns, self._sums) for axis in self._axes[self._leading :]))


def _fill_zeros(values: Array, kept: Array) -> Array:
    spread = np.zeros(kept.size)
    spread[kept] = values
    return spread


def _sum_groups(axis: GroupedAxis, positions: Array, sums: Array) -> Groups:
    groups = axis.group_of(positions)
    rows = [np.bincount(groups, row, minlength=axis.groups).tolist() for row in sums]
    return Groups([round(number) for number in rows[_SUMS]], *rows[:_SUMS])
