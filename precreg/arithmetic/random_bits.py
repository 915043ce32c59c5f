"""The random bits of stochastic rounding, a function of seed and index: chunks draw what the whole does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
