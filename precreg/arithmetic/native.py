"""Rounding, operations and sums by the compiled core, for formats whose numbers float32 or float64 have."""

from __future__ import annotations

from functools import cache, lru_cache
from math import isfinite, prod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from precreg.arithmetic import _core
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.structs import structs_of
from precreg.arithmetic.unit import Order, Unit
from precreg.storage import Array

_OPERATION_NAMES = ("add", "subtract", "multiply", "divide", "sqrt", "fma")
# The rules that choose a power of two for a block, as ScaleRule in core/job.hpp explains them.
SCALE_RULES = ("floor", "covering")
_PRODUCT_NAMES = ("fused", "multiplied", "rounded")


class CoreFormat(NamedTuple):
    """The fields of a format that rounding needs."""

    precision: int
    min_exponent: int
    negative_zero: bool
    subnormals: bool
    largest: float
    overflow: float


class CoreTask(NamedTuple):
    """The arithmetic of an operation on elements, as Task in core/job.hpp explains it."""

    format: CoreFormat
    operation: int
    rounding: int
    extended: bool


class SumPlan(NamedTuple):
    """The arithmetic of a sum, as Plan in core/job.hpp explains it."""

    accumulator: CoreFormat
    product_format: CoreFormat
    product: int
    rounding: int
    extended: bool
    order: int
    width: int


class BlockPlan(NamedTuple):
    """A format of blocks with powers of two as scales, as BlockPlan in core/job.hpp explains it."""

    format: CoreFormat
    rounding: int
    rule: int
    top_binade: int
    least_scale: int
    most_scale: int
    length: int


# core/job.hpp and core/module.cpp declare these names in this order. A core of other names is refused: the ImportError
# says that it was built from other sources, and numpy serves.
_STRUCTS = structs_of(
    _core,
    {
        "Rounding": Rounding,
        "Format": CoreFormat._fields,
        "Product": _PRODUCT_NAMES,
        "Order": Order,
        "Plan": SumPlan._fields,
        "Operation": _OPERATION_NAMES,
        "Task": CoreTask._fields,
        "round": ("values", "results", "itemsize", "format", "rounding", "seed", "start"),
        "add_up": ("a", "t", "c", "itemsize", "plan", "seed"),
        "compute": ("x", "y", "z", "results", "itemsize", "task", "seed", "start"),
        "ScaleRule": SCALE_RULES,
        "BlockPlan": BlockPlan._fields,
        "round_blocks": ("values", "results", "columns", "plan"),
        "block_maxima": ("values", "results", "columns", "length"),
        "round_quotients": (
            *("values", "divisors", "factors", "results", "columns", "length"),
            *("format", "rounding"),
        ),
    },
)

# generic, avx2 or avx512: all give the same bits.
ARITHMETIC_INSTRUCTION_SET: str = _core.instruction_set

_CARRIERS = {np.dtype(name): FORMATS[name] for name in ("float32", "float64")}
_NUMBERS = {rounding: number for number, rounding in enumerate(Rounding)}
_ORDERS = {order: number for number, order in enumerate(Order)}
_OPERATIONS = {name: number for number, name in enumerate(_OPERATION_NAMES)}
_FUSED, _MULTIPLIED, _ROUNDED = range(len(_PRODUCT_NAMES))
_BY_PROCESSOR = (Rounding.TOWARD_ZERO, Rounding.UP, Rounding.DOWN)


def can_round_native(dtype: np.dtype[Any], format: Format) -> bool:
    """Return True if the core rounds arrays of a dtype to a format."""
    return dtype.isnative and _packed(dtype, format) is not None


def round_native(values: Array, format: Format, rounding: Rounding, seed: int, start: int) -> Array:
    """Round as precreg.arithmetic.rounding.round_to does, where `rounds` is true."""
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
    """Compute an operation on arrays of one dtype; return None if the core lacks it."""
    task = _task(name, operands[0].dtype, format, rounding)
    if task is None:
        return None
    shapes = {operand.shape for operand in operands}
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    results = np.empty(shape, operands[0].dtype)
    x, *others = (_contiguous(operand, shape) for operand in operands)
    y, z = (*others, x, x)[:2]
    _core.compute(x, y, z, results, results.itemsize, task, seed % 2**64, start % 2**64)
    return results


def _contiguous(operand: Array, shape: tuple[int, ...]) -> Array:
    """Return an operand as contiguous memory, in the shape of the results unless it has a single element."""
    return np.ascontiguousarray(
        operand if operand.size == 1 or operand.shape == shape else np.broadcast_to(operand, shape)
    )


@cache
def _task(name: str, dtype: np.dtype[Any], format: Format, rounding: Rounding) -> bytes | None:
    """Pack an operation by the processor, or extended; return None if the core does not serve it."""
    core_format = _core_format(dtype, format)
    if core_format is None or not dtype.isnative:
        return None
    nearest = rounding is Rounding.NEAREST_EVEN and _is_as_fine(format, dtype)
    is_extended = not nearest and rounding not in _BY_PROCESSOR
    if is_extended and (dtype == np.float64 or _core_format(np.dtype(np.float64), format) is None):
        return None
    task = CoreTask(core_format, _OPERATIONS[name], _NUMBERS[rounding], is_extended)
    return np.array(task, _STRUCTS["Task"]).tobytes()


@cache
def _packed(dtype: np.dtype[Any], format: Format) -> bytes | None:
    core_format = _core_format(dtype, format)
    return None if core_format is None else np.array(core_format, _STRUCTS["Format"]).tobytes()


@cache
def _core_format(dtype: np.dtype[Any], format: Format) -> CoreFormat | None:
    """Return a format for the core; None if the carrier lacks some of its numbers, or the core does not serve it.

    A format of one digit has no last bit to be even or odd. Below the smallest normal number the core adds and
    subtracts 2**(min_exponent - precision + digits of the carrier), which must be finite.
    """
    carrier = _CARRIERS.get(dtype)
    if format.taper:
        return None
    if carrier is None or not 2 <= format.precision <= carrier.precision or format.min_exponent < carrier.min_exponent:
        return None
    if format.min_exponent - format.precision + carrier.precision > carrier.max_exponent:
        return None
    if not isfinite(format.largest) or not 0 < format.largest <= carrier.largest:
        return None
    return CoreFormat(*(getattr(format, name) for name in CoreFormat._fields))


# Of what scaling by a power of two loses, these round all to zero, as they round the unscaled quotient.
_ROUNDINGS_OF_BLOCKS = (Rounding.NEAREST_EVEN, Rounding.NEAREST_AWAY, Rounding.TOWARD_ZERO)

# Results that are larger go past the caches, for which they begin where a vector of the widest registers may.
_LARGE_BLOCKS, _REGISTER = 2**22, 64


@cache
def block_plan(element: Format, rounding: Rounding, rule: str, exponents: tuple[int, int], length: int) -> bytes | None:
    """Pack a format of blocks, whose scales are powers of two with `exponents` as limits; None if the core lacks it."""
    core_format = _core_format(np.dtype(np.float32), element)
    if core_format is None or rounding not in _ROUNDINGS_OF_BLOCKS or rule not in SCALE_RULES:
        return None
    top = element.max_exponent
    low, high = max(exponents[0], -127), min(exponents[1], 127 - top)
    has_room = element.min_exponent - element.precision >= -23 and top >= 0 and element.min_exponent <= 23
    if not has_room or low != exponents[0] or low > high:
        return None
    number = _NUMBERS[rounding]
    plan = BlockPlan(core_format, number, SCALE_RULES.index(rule), top, low, high, min(length, 2**62))
    return np.array(plan, _STRUCTS["BlockPlan"]).tobytes()


def round_blocks_native(values: Array, plan: bytes) -> tuple[Array, int]:
    """Round rows of float32 values in blocks, as a plan says; also return how many blocks have NaN or infinities.

    Those blocks of the result hold nothing of use: the caller rounds them.
    """
    values = np.ascontiguousarray(values)
    results = _aligned(values.shape)
    left = _core.round_blocks(values, results, values.shape[-1], plan) if values.size else 0
    return results, left


def block_maxima_native(values: Array, length: int) -> Array:
    """Return the largest magnitude of each block of rows of float32 values: NaN or an infinity, if it has one."""
    columns = values.shape[-1]
    results = np.empty((*values.shape[:-1], -(-columns // length)), np.float32)
    if values.size:
        _core.block_maxima(np.ascontiguousarray(values), results, columns, length)
    return results


# The least divisor of a block: below it remainders of quotients may underflow.
_LEAST_DIVISOR = 2.0**-60


def round_quotients_native(
    values: Array, divisors: Array, factors: Array, element: Format, rounding: Rounding, length: int
) -> Array | None:
    """Return values / divisor rounded to `element`, times factor: one of each for every block of rows of float32.

    Each quotient is rounded once. NaN and infinities count as zeros. Returns None for what the core lacks: other
    roundings, formats of more than 20 bits, and divisors below 2**-60.
    """
    packed = _packed(np.dtype(np.float32), element)
    wide = element.precision > 20 or element.min_exponent - element.precision < -23 or element.largest > 1e30
    if packed is None or wide or rounding not in _ROUNDINGS_OF_BLOCKS:
        return None
    if not values.size or np.min(divisors) < _LEAST_DIVISOR:
        return None
    results = _aligned(values.shape)
    given, down, up = (np.ascontiguousarray(side, np.float32) for side in (values, divisors, factors))
    _core.round_quotients(given, down, up, results, values.shape[-1], length, packed, _NUMBERS[rounding])
    return results


def _aligned(shape: tuple[int, ...]) -> Array:
    size = prod(shape)
    if size * 4 < _LARGE_BLOCKS:
        return np.empty(shape, np.float32)
    memory = np.empty(size + _REGISTER // 4, np.float32)
    skipped = -memory.ctypes.data % _REGISTER // 4
    return memory[skipped : skipped + size].reshape(shape)


class _Plan(NamedTuple):
    """The core's arithmetic for the sums of a unit: the dtype of the arrays, and a packed SumPlan."""

    dtype: type[np.floating[Any]]
    packed: bytes


def can_sum_native(unit: Unit) -> bool:
    """Return True if the core adds as a unit does."""
    return _plan(unit) is not None


def matmul_native(a: Array, b: Array, unit: Unit) -> Array:
    """Multiply as precreg.arithmetic.numpy_form.sums.matmul does, in float32 or float64, where `sums` is true."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    plan = _plan(unit)
    assert plan is not None
    first, second = (_matrices(operand, batch, plan.dtype) for operand in (a, b))
    results = np.empty((prod(batch), a.shape[-2], b.shape[-1]), plan.dtype)
    _core.add_up(first, second, results, results.itemsize, plan.packed, unit.seed % 2**64)
    return results.reshape(*batch, *results.shape[1:])


def total_native(x: Array, unit: Unit) -> Array:
    """Add as precreg.arithmetic.numpy_form.sums.total does, where `sums` is true: terms are products by 1."""
    columns = x.reshape(prod(x.shape[:-1]), x.shape[-1]).T
    ones = np.ones((1, len(columns)), columns.dtype)
    return matmul_native(ones, columns, msgspec.structs.replace(unit, product=None)).reshape(x.shape[:-1])


def _matrices(operand: Array, batch: tuple[int, ...], dtype: type[np.floating[Any]]) -> Array:
    """Return contiguous matrices of a dtype: one with two axes, or a batch with three."""
    matrix = operand.shape[-2:]
    if operand.size == matrix[0] * matrix[1]:
        return np.ascontiguousarray(operand.reshape(matrix), dtype)
    every = np.broadcast_to(operand, (*batch, *matrix))
    return np.ascontiguousarray(every, dtype).reshape(prod(batch), *matrix)


@lru_cache(maxsize=256)  # bounded, because every seed makes another unit
def _plan(unit: Unit) -> _Plan | None:
    """Choose the processor's own rounding, or any rounding of float32 numbers in float64; None without either."""
    formats = unit.input, unit.accumulator, unit.product or unit.input
    in_float32 = all(_core_format(np.dtype(np.float32), format) for format in formats)
    dtype = np.float32 if in_float32 else np.float64
    if _is_by_processor(unit, dtype):
        return _packed_plan(unit, dtype, is_extended=False)
    if in_float32 and unit.rounding not in _BY_PROCESSOR:
        return _packed_plan(unit, np.float64, is_extended=True)
    return None


def _is_by_processor(unit: Unit, dtype: type[np.floating[Any]]) -> bool:
    """Return True if the processor's rounding in a dtype is the unit's, or a first step towards it.

    A number rounded in one direction may be rounded further in that direction; one rounded to nearest may not.
    """
    if unit.rounding in _BY_PROCESSOR:
        return True
    rounded = [format for format in (unit.accumulator, unit.product) if format is not None]
    return unit.rounding is Rounding.NEAREST_EVEN and all(_is_as_fine(format, np.dtype(dtype)) for format in rounded)


def _is_as_fine(format: Format, dtype: np.dtype[Any]) -> bool:
    own = _CARRIERS[dtype]
    return format.precision == own.precision and format.min_exponent == own.min_exponent


def _packed_plan(unit: Unit, dtype: type[np.floating[Any]], *, is_extended: bool) -> _Plan | None:
    accumulator = _core_format(np.dtype(dtype), unit.accumulator)
    product_format = _core_format(np.dtype(dtype), unit.product or unit.accumulator)
    if accumulator is None or product_format is None or _core_format(np.dtype(dtype), unit.input) is None:
        return None
    plan = SumPlan(
        accumulator=accumulator,
        product_format=product_format,
        product=_product(unit, dtype),
        rounding=_NUMBERS[unit.rounding],
        extended=is_extended,
        order=_ORDERS[unit.order],
        width=min(unit.width, 2**31),  # no array has as many terms
    )
    return _Plan(dtype, np.array(plan, _STRUCTS["Plan"]).tobytes())


def _product(unit: Unit, dtype: type[np.floating[Any]]) -> int:
    own = _CARRIERS[np.dtype(dtype)]
    if unit.product is not None:
        return _MULTIPLIED if unit.product == own else _ROUNDED
    has_fused = ARITHMETIC_INSTRUCTION_SET != "generic"  # there each fused product is a function call
    return _FUSED if has_fused or not _has_exact_products(unit.input, own) else _MULTIPLIED


def _has_exact_products(format: Format, own: Format) -> bool:
    """Return True if every product of two numbers of a format is a number of `own`: then fusing changes nothing."""
    smallest = 2 * (format.min_exponent - format.precision + 1) >= own.min_exponent - own.precision + 1
    return 2 * format.precision <= own.precision and smallest and format.largest <= own.largest**0.5
