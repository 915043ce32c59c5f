"""Faults of what a subject is given: inputs that pass through another dtype or are loaded askew, and params."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.faults.layer import is_narrower
from precreg.arithmetic.formats import numpy_dtype

Array = NDArray[Any]


MOST_STEPS = 64
"""Params above this count steps of something else, such as a training run."""


STEPS = frozenset({"steps", "terms", "iterations", "newton_steps"})


def through_narrower(array: Array, *, format: str) -> Array:
    """Return the array as it comes back from a narrower dtype."""
    narrow = numpy_dtype(format)
    return array.astype(narrow).astype(array.dtype) if is_narrower(narrow, array.dtype) else array


def misaligned_tail(array: Array, *, block: int) -> Array:
    """Return the array with the last block of its last axis, where it is not a full one, read one element too early.

    No fault is seen where the last axis is a multiple of the block, or shorter than one.
    """
    length = array.shape[-1] if array.ndim else 0
    rest = length % block
    if not rest or rest == length or not is_floating(array.dtype):
        return array
    askew = array.copy("K")
    askew[..., length - rest :] = array[..., length - rest - 1 : length - 1]
    return askew


def one_step_less(params: dict[str, Any]) -> dict[str, Any]:
    """Return params in which what counts steps, terms or iterations, from 2 to MOST_STEPS, is one less."""
    return {name: value - 1 if _counts(name, value) else value for name, value in params.items()}


def _counts(name: str, value: Any) -> bool:
    return name in STEPS and isinstance(value, int) and not isinstance(value, bool) and 2 <= value <= MOST_STEPS
