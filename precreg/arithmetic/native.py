"""Rounding and sums by the compiled core, for formats whose numbers float32 or float64 have."""

from __future__ import annotations

from functools import cache, lru_cache
from math import isfinite, prod
from struct import pack
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import _core
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.unit import Order, Unit

ARITHMETIC_INTERFACE = 2
"""Raised here and in core/module.cpp whenever what is passed to the core or comes back changes."""


if getattr(_core, "interface", None) != ARITHMETIC_INTERFACE:
    raise ImportError("the core was built from other sources: install precreg anew (in a checkout: make)")


ARITHMETIC_INSTRUCTION_SET: str = _core.instruction_set
"""What the core runs on here: generic, avx2 or avx512. All give the same bits."""


_CARRIERS = {np.dtype(name): FORMATS[name] for name in ("float32", "float64")}

_NUMBERS = {rounding: number for number, rounding in enumerate(Rounding)}

_ORDERS = {order: number for number, order in enumerate(Order)}

_OPERATIONS = {name: number for number, name in enumerate(("add", "subtract", "multiply", "divide", "sqrt", "fma"))}

_FUSED, _MULTIPLIED, _ROUNDED = range(3)

_BY_PROCESSOR = (Rounding.TOWARD_ZERO, Rounding.UP, Rounding.DOWN)


Array = NDArray[Any]


def can_round_native(dtype: np.dtype[Any], format: Format) -> bool:
    """Whether the core rounds arrays of a dtype to a format."""
    return dtype.isnative and _packed(dtype, format) is not None


def round_native(values: Array, format: Format, rounding: Rounding, seed: int, start: int) -> Array:
    """Do what precreg.arithmetic.rounding.round_to does, where `rounds` says so."""
    packed = _packed(values.dtype, format)
    assert packed is not None
    values = np.ascontiguousarray(values).reshape(values.shape)  # numpy makes one dimension of none
    results = np.empty_like(values)
    number = _NUMBERS[rounding]
    _core.round(values, results, values.itemsize, packed, number, seed % 2**64, start % 2**64)
    return results


def compute_native(
    name: str, operands: list[Array], format: Format, rounding: Rounding, seed: int, start: int
) -> Array | None:
    """Compute an operation of operations on arrays of one dtype; return None where the core does not."""
    task = _task(name, operands[0].dtype, format, rounding)
    if task is None:
        return None
    shapes = {operand.shape for operand in operands}
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    results = np.empty(shape, operands[0].dtype)
    x, *others = (_whole(operand, shape) for operand in operands)
    y, z = (*others, x, x)[:2]
    _core.compute(x, y, z, results, results.itemsize, task, seed % 2**64, start % 2**64)
    return results


def _whole(operand: Array, shape: tuple[int, ...]) -> Array:
    """Return an operand in one run of memory, in the shape of the results if it has not one element for all of them."""
    return np.ascontiguousarray(
        operand if operand.size == 1 or operand.shape == shape else np.broadcast_to(operand, shape)
    )


@cache
def _task(name: str, dtype: np.dtype[Any], format: Format, rounding: Rounding) -> bytes | None:
    """Choose as for sums."""
    packed = _packed(dtype, format)
    if packed is None or not dtype.isnative:
        return None
    nearest = rounding is Rounding.NEAREST_EVEN and _is_as_fine(format, dtype)
    is_extended = not nearest and rounding not in _BY_PROCESSOR
    if is_extended and (dtype == np.float64 or _packed(np.dtype(np.float64), format) is None):
        return None
    return packed + pack("<4i", _OPERATIONS[name], _NUMBERS[rounding], is_extended, 0)


@cache
def _packed(dtype: np.dtype[Any], format: Format) -> bytes | None:
    """Return a format as the core reads it; None where the carrier lacks numbers of it, or the core does not serve.

    A format of one digit has no last bit to be even or odd. Below its normal numbers the core adds and takes away
    2**(min_exponent - precision + digits of the carrier), which must be finite.
    """
    carrier = _CARRIERS.get(dtype)
    if carrier is None or not 2 <= format.precision <= carrier.precision or format.min_exponent < carrier.min_exponent:
        return None
    if format.min_exponent - format.precision + carrier.precision > carrier.max_exponent:
        return None
    if not isfinite(format.largest) or not 0 < format.largest <= carrier.largest:
        return None
    flags = format.negative_zero, format.subnormals
    return pack("<4i2d", format.precision, format.min_exponent, *flags, format.largest, format.overflow)


class _Plan(NamedTuple):
    """How the core computes the sums of a unit: in which dtype, and what it is told."""

    dtype: type[np.floating[Any]]
    packed: bytes


def can_sum_native(unit: Unit) -> bool:
    """Whether the core adds up as a unit does."""
    return _plan(unit) is not None


def matmul_native(a: Array, b: Array, unit: Unit) -> Array:
    """Do what precreg.arithmetic.sums.matmul does, where `sums` says so, in float32 or float64."""
    rows, terms, columns = *a.shape[-2:], b.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    plan = _plan(unit)
    assert plan is not None
    first, second = (_matrices(operand, batch, plan.dtype) for operand in (a, b))
    results = np.empty((*batch, rows, columns), plan.dtype)
    shape = prod(batch), rows, terms, columns, first.ndim > 2, second.ndim > 2
    if results.size:
        _core.add_up(first, second, results, results.itemsize, shape, plan.packed, unit.seed % 2**64)
    return results


def total_native(x: Array, unit: Unit) -> Array:
    """Do what precreg.arithmetic.sums.total does, where `sums` says so: terms are products by 1."""
    columns = x.reshape(prod(x.shape[:-1]), x.shape[-1]).T
    ones = np.ones((1, len(columns)), columns.dtype)
    return matmul_native(ones, columns, msgspec.structs.replace(unit, product=None)).reshape(x.shape[:-1])


def _matrices(operand: Array, batch: tuple[int, ...], dtype: type[np.floating[Any]]) -> Array:
    """Return contiguous matrices of a dtype: one for all, with two axes, or one for each of a batch."""
    matrix = operand.shape[-2:]
    if operand.size == matrix[0] * matrix[1]:
        return np.ascontiguousarray(operand.reshape(matrix), dtype)
    return np.ascontiguousarray(np.broadcast_to(operand, (*batch, *matrix)), dtype)


@lru_cache(maxsize=256)  # a unit has a seed, of which there may be many
def _plan(unit: Unit) -> _Plan | None:
    """Choose: the processor's own rounding; or any rounding, of float32 numbers in float64; or None of both."""
    formats = unit.input, unit.accumulator, unit.product or unit.input
    in_float32 = all(_packed(np.dtype(np.float32), format) for format in formats)
    dtype = np.float32 if in_float32 else np.float64
    if _is_by_processor(unit, dtype):
        return _packed_plan(unit, dtype, is_extended=False)
    if in_float32 and unit.rounding not in _BY_PROCESSOR:
        return _packed_plan(unit, np.float64, is_extended=True)
    return None


def _is_by_processor(unit: Unit, dtype: type[np.floating[Any]]) -> bool:
    """Whether the processor rounds sums and products in a dtype as the unit does, or so that it can be gone on with.

    What is rounded in one direction may be rounded further in that direction. What is rounded to nearest may not.
    """
    if unit.rounding in _BY_PROCESSOR:
        return True
    rounded = [format for format in (unit.accumulator, unit.product) if format is not None]
    return unit.rounding is Rounding.NEAREST_EVEN and all(_is_as_fine(format, np.dtype(dtype)) for format in rounded)


def _is_as_fine(format: Format, dtype: np.dtype[Any]) -> bool:
    own = _CARRIERS[dtype]
    return format.precision == own.precision and format.min_exponent == own.min_exponent


def _packed_plan(unit: Unit, dtype: type[np.floating[Any]], *, is_extended: bool) -> _Plan | None:
    accumulator = _packed(np.dtype(dtype), unit.accumulator)
    product = _packed(np.dtype(dtype), unit.product or unit.accumulator)
    if accumulator is None or product is None or _packed(np.dtype(dtype), unit.input) is None:
        return None
    numbers = _product(unit, dtype), _NUMBERS[unit.rounding], is_extended, _ORDERS[unit.order]
    return _Plan(dtype, accumulator + product + pack("<4iq", *numbers, min(unit.width, 2**31)))


def _product(unit: Unit, dtype: type[np.floating[Any]]) -> int:
    own = _CARRIERS[np.dtype(dtype)]
    if unit.product is not None:
        return _MULTIPLIED if unit.product == own else _ROUNDED
    has_fused = ARITHMETIC_INSTRUCTION_SET != "generic"  # else each takes a call
    return _FUSED if has_fused or not _has_exact_products(unit.input, own) else _MULTIPLIED


def _has_exact_products(format: Format, own: Format) -> bool:
    """Whether the products of numbers of a format are numbers of another, so that there is nothing to fuse."""
    smallest = 2 * (format.min_exponent - format.precision + 1) >= own.min_exponent - own.precision + 1
    return 2 * format.precision <= own.precision and smallest and format.largest <= own.largest**0.5
