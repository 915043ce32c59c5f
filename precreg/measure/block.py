"""Bounds on the errors and references of a block of finite pairs, and the regions of standards that they lie in."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from precreg.measure.metrics import Regions
from precreg.measure.pairing import Array, ElementPairs


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
