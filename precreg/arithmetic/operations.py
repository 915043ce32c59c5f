"""Which results do elementwise operations on arrays give, if each is the exact result rounded once to a format?

Operands are float32 or float64 arrays, and broadcast as in numpy. Narrower floats are widened first. Operands are not
rounded: to simulate a device, round them to its input format before. Results have the dtype `carrier_dtype(format)`.
exact.py computes the same for single numbers in rational arithmetic, and the tests compare the two bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from precreg.arithmetic.formats import FORMATS, Format, Rounding, rounding_named
from precreg.arithmetic.operations_numpy import RoundedOperation, choose_evaluator
from precreg.arithmetic.rounding import native_backend
from precreg.arithmetic.rounding_numpy import Start
from precreg.errors import UserError
from precreg.storage import Array

# Elements computed at a time by the numpy backend. A float64 buffer of 256 KiB stays in the L2 cache between steps.
OPERATION_CHUNK = 2**15


def carrier_dtype(format: Format) -> type[np.floating[Any]]:
    """Return the dtype that holds numbers of a format: float32 if it has all of them, else float64."""
    # -150 and not -149: min_exponent - precision is one less than the exponent of the smallest subnormal.
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
) -> Array:
    """Return x + y, each sum rounded once to `format`.

    Stochastic rounding draws as `round_to` does: by `seed` and by the flat index in the result, counted from `start`.
    An array `start` holds every index itself. The functions below take the same arguments.
    """
    return _compute("add", (x, y), format, rounding, seed, start)


def subtract(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> Array:
    """Return x - y."""
    return _compute("subtract", (x, y), format, rounding, seed, start)


def multiply(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> Array:
    """Return x * y."""
    return _compute("multiply", (x, y), format, rounding, seed, start)


def divide(
    x: ArrayLike,
    y: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> Array:
    """Return x / y: an infinity, or `format.overflow`, where y is 0 and x is not."""
    return _compute("divide", (x, y), format, rounding, seed, start)


def sqrt(
    x: ArrayLike, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, *, seed: int = 0, start: Start = 0
) -> Array:
    """Return the square root of x, NaN below zero."""
    return _compute("sqrt", (x,), format, rounding, seed, start)


def fma(
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> Array:
    """Return x * y + z, rounded once (fused multiply-add)."""
    return _compute("fma", (x, y, z), format, rounding, seed, start)


def _compute(
    name: str, operands: tuple[ArrayLike, ...], format: Format, rounding: Rounding, seed: int, start: Start
) -> Array:
    arrays = [widen_operand(operand) for operand in operands]
    rounding = rounding_named(rounding)
    # From the fastest to the most general. All give the same bits wherever they apply.
    result = _compute_by_processor(name, arrays, format) if rounding is Rounding.NEAREST_EVEN else None
    if result is None:
        result = _compute_by_core(name, arrays, format, rounding, seed, start)
    if result is None:
        result = compute_numpy(RoundedOperation(name, format, rounding, seed), arrays, start)
    return result


def widen_operand(operand: ArrayLike) -> Array:
    """Return an operand as float32 if that has every number of its dtype, else as float64.

    Raises UserError (bad-value) unless the operand is an array of real numbers.
    """
    # Integers of more than 16 bits become float64. Those beyond 2**53, and long doubles, are rounded to it.
    array = np.asarray(operand)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf" and array.dtype.name not in FORMATS:
        raise UserError(
            "bad-value",
            f"expected real numbers but got an array of dtype={array.dtype.name}",
            hint="convert the array first: array.astype('float64'), or array.real",
        )
    return array.astype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)


def _compute_by_processor(name: str, arrays: list[Array], format: Format) -> Array | None:
    """Compute with numpy's own operation if the processor rounds it to the format: float32 or float64, nearest even."""
    # numpy has no fma: it would round the product before it adds.
    if name == "fma":
        return None
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        # All operands must be float32: converting a float64 operand would round it before the operation does.
        if _is_format_of_dtype(format, "float32") and all(array.dtype == np.float32 for array in arrays):
            return np.asarray(function(*arrays))
        if _is_format_of_dtype(format, "float64"):
            return np.asarray(function(*(array.astype(np.float64, copy=False) for array in arrays)))
    return None


def _is_format_of_dtype(format: Format, name: str) -> bool:
    """Return whether a format has the numbers and the overflow of a dtype. Its own name does not matter."""
    return replace(format, name=name) == FORMATS[name]


def _compute_by_core(
    name: str, arrays: list[Array], format: Format, rounding: Rounding, seed: int, start: Start
) -> Array | None:
    """Compute with the compiled core; return None if it is not in use or lacks this operation."""
    native = native_backend()
    # The core counts indices from one start, and takes no array of them.
    if native is None or isinstance(start, np.ndarray):
        return None
    dtype = np.float32 if all(array.dtype == np.float32 for array in arrays) else np.float64
    wide = [array.astype(dtype, copy=False) for array in arrays]
    results: Array | None = native.compute_native(name, wide, format, rounding, seed, start)
    return None if results is None else results.astype(carrier_dtype(format), copy=False)


def compute_numpy(operation: RoundedOperation, arrays: list[Array], start: Start) -> Array:
    """Compute an operation with the numpy backend, tile by tile, with float64 between the steps."""
    compute = choose_evaluator(operation, arrays)
    result = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)), carrier_dtype(operation.format))
    with np.errstate(all="ignore"):
        for tile in tiles(result.shape, OPERATION_CHUNK):
            parts = [array[operand_slice(array.shape, tile)].astype(np.float64, copy=False) for array in arrays]
            result[tile] = compute(operation, parts, _start_of_tile(start, tile, result.shape))
    return result


def tiles(shape: tuple[int, ...], max_elements: int) -> Iterator[tuple[slice, ...]]:
    """Yield the parts of an array of at most `max_elements` elements, with a slice for every axis.

    Each part is a contiguous run in C order, so that an index of its first element fixes the indices of all others.
    """
    whole = tuple(slice(0, length) for length in shape)
    if prod(shape) <= max_elements:
        yield whole
        return
    rows = max(1, max_elements // prod(shape[1:]))
    for begin in range(0, shape[0], rows):
        here = slice(begin, min(begin + rows, shape[0]))
        if rows > 1:
            yield (here, *whole[1:])
        else:
            # A single row may still be too long, so the axes after it are cut as well.
            yield from ((here, *rest) for rest in tiles(shape[1:], max_elements))


def operand_slice(own: tuple[int, ...], tile: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return the part of an operand of shape `own` that a tile of the result needs; axes of length 1 broadcast."""
    aligned = tile[len(tile) - len(own) :]
    return tuple(slice(None) if length == 1 else here for length, here in zip(own, aligned, strict=True))


def _start_of_tile(start: Start, tile: tuple[slice, ...], shape: tuple[int, ...]) -> Start:
    if isinstance(start, np.ndarray):
        return start[tile]
    first: int = start + sum(here.start * prod(shape[axis + 1 :]) for axis, here in enumerate(tile))
    return first
