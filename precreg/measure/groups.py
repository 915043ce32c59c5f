"""Sum errors over the groups of each axis, and encode the sums for baselines.

Groups are the samples of the statistics (see tally.Groups). A baseline stores each sum as two base-64 digits, so that
the sums of a case fit into one line of its file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from math import prod
from typing import NamedTuple

import numpy as np

from precreg.measure.pairing import Array
from precreg.measure.tally import Groups
from precreg.types import AxisGroups, AxisSums, Comparison, KeptSums

# The groups of an axis with at least as many elements; the cores have the same constant.
MAX_GROUPS_PER_AXIS = 16
BASE64_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# Two digits hold 12 bits. 2^11 encodes 0, and 1 and 2^12 - 1 encode the largest sum of either sign.
ZERO = 2**11
# Layouts from long to short: the number of neighbouring groups that are joined, and of axes, longest first (None: all).
# A baseline takes the first layout that fits into its line.
GROUP_LAYOUTS = ((1, None), (2, None), (4, None), (2, 1), (4, 1))
# The sums of AxisGroups that a baseline keeps. It keeps no counts: shapes give them.
GROUP_SUMS = ("absolute", "signed", "squared", "ulps", "logs")


def keep_group_sums(seeds: Sequence[Comparison], joined: int, axes: int | None) -> list[AxisSums]:
    """Return the sums of one output, seed by seed, along its axes of two groups or more, in one of GROUP_LAYOUTS."""
    shape = seeds[0].shape
    long = [axis for axis, groups in enumerate(seeds[0].groups) if len(groups.n) > 1]
    longest = sorted(long, key=lambda axis: -shape[axis])[:axes]
    return [
        AxisSums(axis, joined, *(_keep_seeds(seeds, axis, name, joined) for name in GROUP_SUMS))
        for axis in sorted(longest)
        if all(len(seed.groups) > axis for seed in seeds)
    ]


def _keep_seeds(seeds: Sequence[Comparison], axis: int, name: str, joined: int) -> list[KeptSums | None]:
    return [_encode_sums(join_groups(getattr(seed.groups[axis], name), joined)) for seed in seeds]


def join_groups(sums: Sequence[float | None], joined: int) -> list[float | None]:
    """Return the sums of `joined` neighbouring groups; None where one of them is beyond float64."""
    return [_add_known(sums[start : start + joined]) for start in range(0, len(sums), joined)]


def _add_known(sums: Sequence[float | None]) -> float | None:
    known = [number for number in sums if number is not None]
    return sum(known) if len(known) == len(sums) else None


def _encode_sums(sums: Sequence[float | None]) -> KeptSums | None:
    """Return sums in units of the largest; None if one is beyond float64, and without a sum."""
    known = [number for number in sums if number is not None]
    if not known or len(known) < len(sums):
        return None
    largest = float(f"{max(map(abs, known)):.6g}")
    if largest - largest != 0:  # rounding to six digits may exceed float64
        return None
    return KeptSums(largest, "".join(_encode_share(number / largest if largest else 0.0) for number in known))


def _encode_share(share: float) -> str:
    number = ZERO + round(share * (ZERO - 1))
    return BASE64_DIGITS[number >> 6] + BASE64_DIGITS[number & 63]


def read_group_sums(sums: AxisSums, seed: int, name: str) -> list[float] | None:
    """Return the sums of one seed along an axis; None if the baseline has none.

    The error of each is at most the largest of them, in size, divided by 2**12.
    """
    seeds: list[KeptSums | None] = getattr(sums, name)
    of_seed = seeds[seed] if seed < len(seeds) else None
    return None if of_seed is None else [*_decode_sums(of_seed)]


def _decode_sums(sums: KeptSums) -> Iterator[float]:
    for first, second in zip(*[iter(sums.shares)] * 2, strict=True):
        number = BASE64_DIGITS.index(first) << 6 | BASE64_DIGITS.index(second)
        yield (number - ZERO) / (ZERO - 1) * sums.largest


def group_counts(groups: AxisGroups, joined: int) -> list[int]:
    """Return the numbers of finite pairs in the same joined groups."""
    parts: Iterable[Iterable[int]] = zip_longest(*(groups.n[start::joined] for start in range(joined)), fillvalue=0)
    return [sum(part) for part in parts]


def group_sizes(shape: Sequence[int], sums: AxisSums) -> list[int]:
    """Return the number of elements in each stored group of an axis."""
    length = shape[sums.axis]
    groups = min(length, MAX_GROUPS_PER_AXIS)
    edges = [*(group * length // groups for group in range(0, groups, sums.joined)), length]
    across = prod(shape) // length
    return [(end - begin) * across for begin, end in pairwise(edges)]


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
    """Growing sums of |d|, d, d^2, U and log2(U* + 1/4) over the groups of a range of positions.

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
