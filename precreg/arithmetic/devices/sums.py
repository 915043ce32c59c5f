"""Reductions, running sums and updates in place, in the order and the formats of a device's table."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import accumulate
from precreg.arithmetic import arith_operations as operations
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.devices.elementwise import carried
from precreg.arithmetic.unit import Unit

Array = NDArray[Any]

Apply = Callable[..., Any]
"""Computes a function of elements on a device."""


def summed(unit: Unit, terms: Array, options: dict[str, Any], apply: Apply) -> Array:
    """Return numpy.add.reduce of `terms`, which have the dtype of the result; axes are added in their C order.

    Where `where` leaves terms out, zeros are added in their place. `initial` is added at the end.
    """
    if options.get("where", True) is not True:
        terms = np.where(options["where"], terms, terms.dtype.type(0))
    axes = axes_of(options.get("axis", 0), terms.ndim)
    shape = kept_shape(terms.shape, axes, keepdims=bool(options.get("keepdims")))
    total = accumulate.total(carried(together(terms, axes)), unit).astype(terms.dtype).reshape(shape)
    initial = options.get("initial")
    if initial is None or initial is np._NoValue:
        return total
    return np.asarray(apply(np.add, np.asarray(initial, terms.dtype), total))


def running(unit: Unit, terms: Array, axis: int) -> Array:
    """Return numpy.add.accumulate: sequential, whatever the order of the unit; it begins with the first term."""
    along = np.moveaxis(carried(terms), axis, 0)
    read = round_to(along, unit.input, unit.conversion, seed=unit.seed + 2)
    sums = np.empty(along.shape, operations.carrier(unit.accumulator))
    total: Any = 0.0
    for k in range(len(read)):
        total = operations.add(total, read[k], unit.accumulator, unit.rounding, seed=unit.seed, start=k * read[k].size)
        sums[k] = total
    written = round_to(sums, unit.output, unit.conversion, seed=unit.seed + 4).astype(terms.dtype)
    return np.moveaxis(written, 0, axis)


def folded(function: np.ufunc, terms: Array, options: dict[str, Any], apply: Apply) -> Array:
    """Return the reduction by any other function of two numbers: one term after the other, from the first."""
    if options.get("where", True) is not True:
        terms = np.where(options["where"], terms, _identity(function, terms.dtype))
    axes = axes_of(options.get("axis", 0), terms.ndim)
    shape = kept_shape(terms.shape, axes, keepdims=bool(options.get("keepdims")))
    along = np.moveaxis(together(terms, axes), -1, 0)
    initial = options.get("initial")
    parts = [*along] if initial is None or initial is np._NoValue else [terms.dtype.type(initial), *along]
    if not parts:
        return np.full(shape, _identity(function, terms.dtype))
    result = reduce(lambda total, part: apply(function, total, part), parts)
    return np.broadcast_to(result, along.shape[1:]).reshape(shape)


def _identity(function: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Return the number that changes no other. Raises ValueError, as numpy does, for a function without one."""
    if function.identity is None:
        raise ValueError(f"expected terms, or a function with an identity, but got numpy.{function.__name__}")
    return dtype.type(function.identity)


def folded_along(function: np.ufunc, terms: Array, axis: int, apply: Apply) -> Array:
    """Return the running results of any other function of two numbers."""
    along = np.moveaxis(terms, axis, 0).copy()
    for k in range(1, len(along)):
        along[k] = apply(function, along[k - 1], along[k])
    return np.moveaxis(along, 0, axis)


def updated_at(function: np.ufunc, target: Array, indices: Any, values: tuple[Any, ...], apply: Apply) -> None:
    """Do what function.at does: change elements in place, each as often as it is named, in the order of the names."""
    places = np.arange(target.size).reshape(target.shape)[indices]
    operands = [np.broadcast_to(value, places.shape).ravel() for value in values]
    flat = places.ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else order
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    for time in range(int(rank.max(initial=-1)) + 1):
        chosen = rank == time
        where = np.unravel_index(flat[chosen], target.shape)
        target[where] = apply(function, target[where], *(operand[chosen] for operand in operands))


def axes_of(asked: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction, counted from 0: all of them for None.

    Raises numpy's errors, which an array of one element gives, for an axis that is not there, and for one named twice.
    """
    np.add.reduce(np.ones((1,) * ndim), axis=asked)
    if asked is None:
        return tuple(range(ndim))
    return tuple(axis % ndim for axis in (asked if isinstance(asked, tuple) else (asked,))) if ndim else ()


def together(terms: Array, axes: tuple[int, ...]) -> Array:
    """Return the terms with the axes that are reduced as one last axis."""
    others = [axis for axis in range(terms.ndim) if axis not in axes]
    count = int(np.prod([terms.shape[axis] for axis in axes], dtype=np.int64))
    return terms.transpose(*others, *sorted(axes)).reshape(*(terms.shape[axis] for axis in others), count)


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...], *, keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a reduction's result."""
    if keepdims:
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)
