"""Elementwise operations on arrays, each result the exact one rounded once to a format.

The operands are float32 or float64 arrays (narrower floats are widened), and broadcast as numpy's do. Their numbers are
taken as they are: whoever simulates a device rounds them to its input format before. The result has the dtype
`carrier(format)`. arith_exact_operations.py says the same of single numbers; the tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic.formats import FORMATS, Format, Rounding, rounding_named
from precreg.arithmetic.operations_numpy import RoundedOperation, choose_evaluator
from precreg.arithmetic.rounding import native_backend
from precreg.arithmetic.rounding_numpy import Start
from precreg.errors import UserError

OPERATION_CHUNK = 2**15
"""Elements computed at a time: few enough that the float64 steps between find them in cache."""


def carrier_dtype(format: Format) -> type[np.floating[Any]]:
    """Return the dtype that results of a format come in: float32 if it has all their numbers, else float64."""
    fits = format.precision <= 24 and format.min_exponent - format.precision >= -150
    return np.float32 if fits and format.largest <= FORMATS["float32"].largest else np.float64


def add(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[Any]:
    """Return x + y, each sum rounded once to `format`.

    Stochastic rounding draws as `round_to` does: by `seed` and by the flat index in the result, counted from `start`,
    or by the indices that `start` holds. The functions below take the same arguments.
    """
    return _computed("add", (x, y), format, rounding, seed, start)


def subtract(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[Any]:
    """Return x - y."""
    return _computed("subtract", (x, y), format, rounding, seed, start)


def multiply(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[Any]:
    """Return x * y."""
    return _computed("multiply", (x, y), format, rounding, seed, start)


def divide(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[Any]:
    """Return x / y: an infinity (or what the format has for it) where y is 0 and x is not."""
    return _computed("divide", (x, y), format, rounding, seed, start)


def sqrt(
    x: ArrayLike, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, *, seed: int = 0, start: Start = 0
) -> NDArray[Any]:
    """Return the square root of x: NaN below zero."""
    return _computed("sqrt", (x,), format, rounding, seed, start)


def fma(
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[Any]:
    """Return x * y + z, rounded once (fused multiply-add)."""
    return _computed("fma", (x, y, z), format, rounding, seed, start)


def tiles(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Cut an array into parts of at most `most` elements, each a run of its C order; every axis has its slice."""
    whole = tuple(slice(0, length) for length in shape)
    if prod(shape) <= most:
        yield whole
        return
    rows = max(1, most // prod(shape[1:]))
    for begin in range(0, shape[0], rows):
        here = slice(begin, min(begin + rows, shape[0]))
        if rows > 1:
            yield (here, *whole[1:])
        else:
            yield from ((here, *rest) for rest in tiles(shape[1:], most))


def operand_slice(own: tuple[int, ...], tile: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return where an operand has what a tile of the result needs: all of an axis of one, which is broadcast."""
    aligned = tile[len(tile) - len(own) :]
    return tuple(slice(None) if length == 1 else here for length, here in zip(own, aligned, strict=True))


def compute_numpy(operation: RoundedOperation, arrays: list[NDArray[Any]], start: Start) -> NDArray[Any]:
    """Compute without the core, tile by tile: the steps between are float64, and stay in cache."""
    compute = choose_evaluator(operation, arrays)
    result = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)), carrier_dtype(operation.format))
    with np.errstate(all="ignore"):
        for tile in tiles(result.shape, OPERATION_CHUNK):
            parts = [array[operand_slice(array.shape, tile)].astype(np.float64, copy=False) for array in arrays]
            result[tile] = compute(operation, parts, _start_of(start, tile, result.shape))
    return result


def _computed(
    name: str, operands: tuple[ArrayLike, ...], format: Format, rounding: Rounding, seed: int, start: Start
) -> NDArray[Any]:
    arrays = [widen_operand(operand) for operand in operands]
    rounding = rounding_named(rounding)
    ready = _by_hardware(name, arrays, format) if rounding is Rounding.NEAREST_EVEN else None
    if ready is None:
        ready = _by_core(name, arrays, format, rounding, seed, start)
    return compute_numpy(RoundedOperation(name, format, rounding, seed), arrays, start) if ready is None else ready


def widen_operand(operand: ArrayLike) -> NDArray[Any]:
    """Return an operand as float32, if every number of its dtype is one, else as float64.

    Raises UserError (bad-value) for what holds no real numbers.
    """
    array = np.asarray(operand)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf" and array.dtype.name not in FORMATS:
        raise UserError("bad-value", f"expected real numbers but got an array of dtype={array.dtype.name}")
    return array.astype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)


def _by_hardware(name: str, arrays: list[NDArray[Any]], format: Format) -> NDArray[Any] | None:
    """Return what the processor rounds as it is asked to: float32 and float64, to nearest even."""
    if name == "fma":
        return None
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        if _is_dtype(format, "float32") and all(array.dtype == np.float32 for array in arrays):
            return np.asarray(function(*arrays))
        if _is_dtype(format, "float64"):
            return np.asarray(function(*(array.astype(np.float64, copy=False) for array in arrays)))
    return None


def _by_core(
    name: str, arrays: list[NDArray[Any]], format: Format, rounding: Rounding, seed: int, start: Start
) -> NDArray[Any] | None:
    """Return what the compiled core computes, where it was built and serves."""
    native = native_backend()
    if native is None or isinstance(start, np.ndarray):
        return None
    dtype = np.float32 if all(array.dtype == np.float32 for array in arrays) else np.float64
    wide = [array.astype(dtype, copy=False) for array in arrays]
    results: NDArray[Any] | None = native.compute_native(name, wide, format, rounding, seed, start)
    return None if results is None else results.astype(carrier_dtype(format), copy=False)


def _is_dtype(format: Format, name: str) -> bool:
    """Say whether a format has the numbers, and the overflow, of a dtype, whatever it is called."""
    return replace(format, name=name) == FORMATS[name]


def _start_of(start: Start, tile: tuple[slice, ...], shape: tuple[int, ...]) -> Start:
    if isinstance(start, np.ndarray):
        return start[tile]
    first: int = start + sum(here.start * prod(shape[axis + 1 :]) for axis, here in enumerate(tile))
    return first
