"""Inputs moved in their last bits: what an operator makes of others that are as good as those it was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import PARTS, format_of, numpy_dtype
from precreg.suite.inputs.bits import word_stream

Array = NDArray[Any]


_MEASURED = frozenset({"normal", "uniform", "log_uniform", "legacy_normal", "file"})
"""Distributions whose last bits are as good as others. Bits of constants, special values, whole numbers and sums of a
chosen condition are chosen: to move them is to ask for something else."""


def is_movable(mapping: Mapping[str, Any]) -> bool:
    """Tell whether an input, {shape, dtype, DISTRIBUTION: options}, has last bits to move."""
    return format_of(mapping["dtype"]) is not None and bool(_MEASURED & mapping.keys())


def moved(array: Array, name: str, seed: int, number: int) -> Array:
    """Return the array with each element moved to a neighbour in its dtype, up or down, or left, by equal chance.

    The moves follow from the input's name, its seed and the number of the move, and are the same everywhere. Zeros,
    NaN and infinities stay: their neighbours are of another kind. So does what would become one of them. The parts of
    complex numbers move by themselves; integers and booleans do not move. Returns an array in C order.
    """
    if array.dtype.name in PARTS:
        parts = np.ascontiguousarray(array).reshape(*array.shape, 1).view(numpy_dtype(PARTS[array.dtype.name]))
        return moved(parts, name, seed, number).view(array.dtype).reshape(array.shape)
    number_format = format_of(array.dtype.name)
    if number_format is None:
        return array
    steps = (word_stream(name, seed, f"last bits {number}")(array.size) % np.uint64(3)).reshape(array.shape)
    largest = np.finfo(array.dtype).max if array.dtype.char == "g" else array.dtype.type(number_format.largest)
    up, down = np.nextafter(array, largest), np.nextafter(array, -largest)
    neighbours = np.where(steps == 0, array, np.where(steps == 1, up, down))
    stays = ~np.isfinite(array) | (array == 0) | (neighbours == 0)
    return np.where(stays, array, neighbours).astype(array.dtype)
