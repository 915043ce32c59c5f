"""Which rewrites alter a part of an array alone: the indices that errors touch?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from precreg.arithmetic import format_of
from precreg.arithmetic.devices import is_floating
from precreg.diagnose.locations import ErrorLocation
from precreg.diagnose.places import SourcePlace
from precreg.diagnose.rewrites import alterations
from precreg.diagnose.rewrites.hypothesis import AlteredOperation, Executed, Hypothesis
from precreg.run import Arrays
from precreg.storage import Array

_HOPS = ("float16", "bfloat16")
_WAYS = ("zero", "before", "after")
# An array with one index of the axis is altered there; a part with more indices may also be narrower.
_RANK = 3
# Every index of an axis with up to so many, after all other rewrites: these are many runs.
MAX_INDICES, _LAST_RANK = 128, 9

_Part = tuple[str, dict[str, float | str], Callable[[Array], Array]]


def located_hypotheses(
    places: Sequence[SourcePlace], inputs: Arrays, outputs: Arrays, locations: Sequence[ErrorLocation]
) -> Iterator[Hypothesis]:
    """Yield rewrites of the part of each input, output and result that has the indices of the errors."""
    for location in locations:
        for place in places:
            if is_floating(place.dtype):
                yield from _of_place(place, location)
        for name, array in inputs.items():
            for rewrite, options, alter in _of_array(array.shape, array.dtype, location):
                change = partial(alterations.alter_arrays, (name,), alter)
                yield Hypothesis(rewrite, options, "input", _RANK, name=name, inputs=change)
        for name, array in outputs.items():
            for rewrite, options, alter in _of_array(array.shape, array.dtype, location):
                change = partial(alterations.alter_arrays, (name,), alter)
                yield Hypothesis(rewrite, options, "output", _RANK, name=name, outputs=change)


def index_hypotheses(places: Sequence[SourcePlace]) -> Iterator[Hypothesis]:
    """Yield one altered index at a time, for axes that may be channels: an early one may spread errors everywhere."""
    for place in places:
        for axis, length in enumerate(place.shape):
            if is_floating(place.dtype) and 1 < length <= MAX_INDICES:
                for index in range(length):
                    at = ErrorLocation(length, index, index + 1, 1)
                    found = _of_place(place, at, axis)
                    yield from (each._replace(rank=_LAST_RANK) for each in found if each.rewrite == "one_index")


def _of_place(place: SourcePlace, location: ErrorLocation, only: int | None = None) -> Iterator[Hypothesis]:
    for rewrite, options, alter in _of_array(place.shape, place.dtype, location, only):
        bound = partial(_altered_result, alter)
        layer = partial(AlteredOperation, alter=bound)
        yield Hypothesis(rewrite, options, "operation", _RANK, (place.key,), place.key.name, layer)


def _altered_result(alter: Callable[[Array], Array], executed: Executed) -> Array:
    return alter(executed.compute())


def _of_array(
    shape: tuple[int, ...], dtype: np.dtype[Any], location: ErrorLocation, only: int | None = None
) -> Iterator[_Part]:
    own = format_of(dtype.name)
    for axis, length in enumerate(shape):
        if length != location.length or only not in (None, axis):
            continue
        part: dict[str, float | str] = {"axis": axis, "indices": location.text}
        name = "tail" if 0 < location.start < location.stop - 1 and location.stop == length else "one_index"
        for way in _WAYS:
            alter = partial(part_replaced, axis=axis, indices=location.indices, way=way)
            yield name, {**part, "way": way}, alter
        for format in _HOPS:
            narrow = format_of(format)
            if own is not None and narrow is not None and narrow.precision < own.precision:
                alter = partial(part_through, axis=axis, indices=location.indices, format=format)
                yield "hop_of_part", {**part, "format": format}, alter


def part_replaced(values: Array, *, axis: int, indices: slice, way: str) -> Array:
    """Replace a part by zeros, or by as many elements before or after it."""
    moved = np.moveaxis(np.array(values), axis, 0)
    step = (indices.stop - indices.start) * (1 if way == "after" else -1)
    moved[indices] = 0 if way == "zero" else np.roll(moved, -step, 0)[indices]
    return np.moveaxis(moved, 0, axis)


def part_through(values: Array, *, axis: int, indices: slice, format: str) -> Array:
    """Pass a part through a narrower format."""
    moved = np.moveaxis(np.array(values), axis, 0)
    moved[indices] = alterations.through_format(np.ascontiguousarray(moved[indices]), format)
    return np.moveaxis(moved, 0, axis)
