"""What does a rewrite make of one execution of an operation?

Each function here takes an execution and options, and returns another result: of another precision, operand, constant,
function, axis, order or block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precreg.arithmetic import Rounding, format_named, numpy_dtype, round_to
from precreg.arithmetic.devices import is_floating, reduction_axes
from precreg.arithmetic.faults import truncate_bits
from precreg.diagnose.rewrites.hypothesis import Executed
from precreg.run import Arrays
from precreg.storage import Array


def through_format(values: Array, format: str, rounding: str = "nearest_even") -> Array:
    """Return values rounded to a format, in their own dtype."""
    if rounding == "nearest_even":
        return values.astype(numpy_dtype(format)).astype(values.dtype)
    wide = values if values.dtype.itemsize >= 4 else values.astype(np.float32)
    return round_to(wide, format_named(format), Rounding(rounding)).astype(values.dtype)


def result_through(executed: Executed, *, format: str, rounding: str = "nearest_even") -> Array:
    """Pass the result through a narrower format."""
    return through_format(executed.compute(), format, rounding)


def operand_through(executed: Executed, *, operand: int, format: str, rounding: str = "nearest_even") -> Array:
    """Pass one operand through a narrower format."""
    value = np.asarray(executed.inputs[operand])
    # A Python number takes the dtype of the other operand in numpy; it must stay one.
    narrowed = through_format(value, format, rounding)
    return executed.compute(*executed.with_operand(operand, narrowed if value.ndim else _like(executed, narrowed)))


def _like(executed: Executed, narrowed: Array) -> Any:
    given = next((each for each in executed.inputs if isinstance(each, int | float)), None)
    return narrowed if given is None else float(narrowed)


def computed_in(executed: Executed, *, format: str) -> Array:
    """Convert the operands to a narrower format, compute in it, and return the result in its own dtype."""
    narrow = numpy_dtype(format)
    result = executed.compute()
    if executed.function is None:
        return through_format(result, format)
    operands = [_narrowed(each, narrow) for each in executed.inputs]
    options = {**executed.options, "dtype": narrow} if executed.options.get("dtype") else executed.options
    with np.errstate(all="ignore"):
        return executed._replace(options=options).compute(*operands).astype(result.dtype)


def added_at(executed: Executed, *, format: str) -> None:
    """Add at indices in a narrower format, and write the sums into the first operand."""
    totals, *others = executed.inputs
    narrow = np.asarray(totals).astype(numpy_dtype(format))
    # The terms keep their dtype: numpy adds each of them in the wider one, and rounds the sum.
    executed.compute_at(narrow, *others)
    totals[...] = narrow.astype(totals.dtype)


def _narrowed(value: Any, narrow: np.dtype[Any]) -> Any:
    is_array = isinstance(value, np.ndarray | np.generic) and is_floating(value.dtype)
    return np.asarray(value).astype(narrow) if is_array else value


def operand_offset(executed: Executed, *, operand: int, value: float) -> Array:
    """Add a constant to one operand."""
    given = np.asarray(executed.inputs[operand])
    return executed.compute(*executed.with_operand(operand, given + given.dtype.type(value)))


def operand_scaled(executed: Executed, *, operand: int, factor: float) -> Array:
    """Multiply one operand by a constant."""
    given = np.asarray(executed.inputs[operand])
    return executed.compute(*executed.with_operand(operand, given * given.dtype.type(factor)))


def exact(executed: Executed) -> Array:
    """Compute in float64, and round the result once to the dtype that it has."""
    if executed.function is None:
        return np.asarray(executed.inputs[0])
    result = executed.compute()
    wide = [_widened(each) for each in executed.inputs]
    options = {name: value for name, value in executed.options.items() if name != "dtype"}
    with np.errstate(all="ignore"):
        if isinstance(executed.function, np.ufunc):
            value = getattr(executed.function, executed.method)(*wide, **options)
        else:
            value = executed.function(*wide, **options)
        return np.asarray(value).astype(result.dtype)


def _widened(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and is_floating(value.dtype):
        return np.asarray(value).astype(np.float64)
    return value


def without_rounding(executed: Executed) -> Array:
    """Return the operand of a conversion as it is, in its wider dtype."""
    return np.asarray(executed.inputs[0])


def only_operand(executed: Executed, *, operand: int) -> Array:
    """Return one operand in place of the result."""
    result = executed.compute()
    return np.broadcast_to(np.asarray(executed.inputs[operand]), result.shape).astype(result.dtype)


def operand_twice(executed: Executed, *, operand: int) -> Array:
    """Apply the operation to its result and one of its operands once more."""
    return executed.compute(*executed.with_operand(1 - operand, executed.compute()))


def other_constant(executed: Executed, *, operand: int, value: float) -> Array:
    """Compute with another number in the place of a constant."""
    given = executed.inputs[operand]
    if isinstance(given, np.ndarray | np.generic) and is_floating(given.dtype):
        return executed.compute(*executed.with_operand(operand, np.asarray(value).astype(given.dtype)))
    return executed.compute(*executed.with_operand(operand, value))


def scaled_result(executed: Executed, *, factor: float) -> Array:
    """Multiply the result by a constant."""
    result = executed.compute()
    return np.asarray(result * result.dtype.type(factor))


def offset_result(executed: Executed, *, value: float) -> Array:
    """Add a constant to the result."""
    result = executed.compute()
    return np.asarray(result + result.dtype.type(value))


def other_operand(executed: Executed, *, array: Array, operands: tuple[int, ...]) -> Array:
    """Compute with another array in the place of some operands."""
    inputs = executed.inputs
    for at in operands:
        inputs = (*inputs[:at], array, *inputs[at + 1 :])
    return executed.compute(*inputs)


def on_grid(values: Array, *, bits: int) -> Array:
    """Return values rounded to multiples of 2^-bits."""
    return np.asarray(np.rint(values * values.dtype.type(2.0**bits)) * values.dtype.type(2.0**-bits))


def result_on_grid(executed: Executed, *, bits: int) -> Array:
    """Round the result to multiples of 2^-bits, as fixed-point numbers are."""
    return on_grid(executed.compute(), bits=bits)


def power_of_two(executed: Executed, *, way: str) -> Array:
    """Round the size of the result to a power of two: the next one above, below, or the nearest."""
    result = executed.compute()
    with np.errstate(all="ignore"):
        exponents = np.log2(np.abs(result))
    rounded = {"above": np.ceil, "below": np.floor, "nearest": np.rint}[way](exponents)
    return np.asarray(np.copysign(np.exp2(rounded), result)).astype(result.dtype)


def flushed_below(executed: Executed, *, least: float) -> Array:
    """Replace results that are smaller than a number by zero."""
    return flush_below(executed.compute(), least)


def flush_below(values: Array, least: float) -> Array:
    """Replace numbers whose size is below `least` by zero."""
    return np.where(np.abs(values) < values.dtype.type(least), values.dtype.type(0), values)


def alter_arrays(names: tuple[str, ...], alter: Callable[[Array], Array], arrays: Arrays) -> Arrays:
    """Return the arrays with those of some names altered."""
    return {name: alter(array) if name in names else array for name, array in arrays.items()}


def clipped(executed: Executed, *, largest: float, way: str) -> Array:
    """Limit the result from above, from below, or in size."""
    result = executed.compute()
    limit = result.dtype.type(largest)
    limits = {"above": (None, limit), "below": (limit, None), "size": (-abs(limit), abs(limit))}[way]
    return np.asarray(np.clip(result, *limits))


def other_function(executed: Executed, *, function: str) -> Array:
    """Call another function of numpy with the same operands."""
    found: np.ufunc = getattr(np, function)
    result = executed.compute()
    return np.asarray(executed.inner.ufunc(found, executed.method, executed.inputs, executed.options)).astype(
        result.dtype
    )


def away_from_zero(executed: Executed) -> Array:
    """Round to integers with ties away from zero, or to even where the operation rounds ties away."""
    value = np.asarray(executed.inputs[0])
    rounded: Array = np.copysign(np.floor(np.abs(value) + value.dtype.type(0.5)), value)
    return rounded


def exchanged_operands(executed: Executed) -> Array:
    """Exchange both operands of a subtraction, a division or a product of matrices."""
    result = executed.compute()
    exchanged = executed.compute(executed.inputs[1], executed.inputs[0])
    return exchanged if exchanged.shape == result.shape else result


def by_reciprocal(executed: Executed) -> Array:
    """Multiply by a rounded reciprocal in place of dividing."""
    dividend, divisor = executed.inputs
    result = executed.compute()
    inverse = np.asarray(executed.inner.ufunc(np.divide, "__call__", (result.dtype.type(1), divisor), {}))
    return np.asarray(executed.inner.ufunc(np.multiply, "__call__", (dividend, inverse), {})).astype(result.dtype)


def by_division(executed: Executed) -> Array:
    """Divide by the rounded reciprocal of a constant in place of multiplying by the constant."""
    result = executed.compute()
    at = next(at for at, each in enumerate(executed.inputs) if np.ndim(each) == 0)
    inverse = result.dtype.type(1) / result.dtype.type(executed.inputs[at])
    return np.asarray(executed.inner.ufunc(np.divide, "__call__", (executed.inputs[1 - at], inverse), {}))


def transposed_operand(executed: Executed, *, operand: int) -> Array:
    """Exchange the last two axes of one operand."""
    return executed.compute(*executed.with_operand(operand, np.swapaxes(executed.inputs[operand], -1, -2)))


def other_axis(executed: Executed, *, axis: int) -> Array:
    """Reduce along another axis."""
    result = executed.compute()
    moved = Executed.compute(executed._replace(options={**executed.options, "axis": axis}))
    return np.broadcast_to(moved, result.shape) if moved.shape != result.shape and moved.ndim == result.ndim else moved


def all_axes(executed: Executed) -> Array:
    """Reduce along all axes at once, and give each element that one result."""
    result = executed.compute()
    options = {name: value for name, value in executed.options.items() if name not in ("axis", "keepdims")}
    total = Executed.compute(executed._replace(options={**options, "axis": None}))
    return np.broadcast_to(total, result.shape).copy()


def fewer_summed(executed: Executed, *, start: int, stop: int) -> Array:
    """Leave the first or the last terms of a reduction out."""
    terms = np.asarray(executed.inputs[0])
    axis = reduction_axes(executed.options.get("axis", 0), terms.ndim)[-1]
    chosen = terms.take(np.arange(start, terms.shape[axis] + stop), axis)
    return executed.compute(chosen, *executed.inputs[1:])


def shifted(executed: Executed, *, axis: int, by: int) -> Array:
    """Move the elements of the result along an axis."""
    return np.roll(executed.compute(), by, axis)


def bits_cut(executed: Executed, *, bits: int) -> Array:
    """Cut the last bits off the result, toward zero."""
    return truncate_bits(executed.compute(), bits)


def tail_altered(values: Array, *, block: int, way: str, axis: int = -1) -> Array:
    """Alter the elements beyond the last full block along an axis.

    `way` says which elements take their place: "early" reads one element too early, "zero" gives zeros, "stale" those
    of the block before, "repeated" the last element of the last full block, and "aligned" those from the last multiple
    of 8 elements in memory on, where rows lie one after the other.
    """
    moved = np.moveaxis(values, axis, -1).copy()
    start, rest = tail_of(moved.shape[-1], block)
    if rest:
        if way == "early":
            moved[..., start:] = moved[..., start - 1 : -1].copy()
        elif way == "zero":
            moved[..., start:] = 0
        elif way == "stale":
            moved[..., start:] = moved[..., start - block : start - block + rest]
        elif way == "aligned":
            moved[..., start:] = _from_aligned(moved, start, rest)
        else:
            moved[..., start:] = moved[..., start - 1 : start]
    return np.moveaxis(moved, -1, axis)


# Elements of float32 between two addresses that a unit with 32 bytes reads from.
_ALIGNED = 8


def _from_aligned(values: Array, start: int, rest: int) -> Array:
    """Return `rest` elements of each row from the last aligned address before its tail on."""
    length = values.shape[-1]
    addresses = np.arange(values.size // length) * length + start
    places = (addresses - addresses % _ALIGNED)[:, None] + np.arange(rest)
    return np.asarray(values.reshape(-1)[places].reshape(*values.shape[:-1], rest))


def tail_of(length: int, block: int) -> tuple[int, int]:
    """Return the start and the length of the elements beyond the last full block; no rest without a full block."""
    rest = length % block
    return length - rest, rest if length > block else 0


def result_tail(executed: Executed, *, block: int, way: str, axis: int = -1) -> Array:
    """Alter the elements of the result beyond the last full block."""
    return tail_altered(executed.compute(), block=block, way=way, axis=axis)


def summed_in_blocks(executed: Executed, *, block: int, format: str = "") -> Array:
    """Add blocks of terms, and then their sums one after another, which may pass through a narrower format.

    Products of matrices multiply blocks of the shared axis.
    """
    result = executed.compute()
    parts = list(_block_results(executed, block))
    total = parts[0]
    for part in parts[1:]:
        total = np.asarray(executed.inner.ufunc(np.add, "__call__", (total, part), {}))
        if format:
            total = through_format(total, format)
    return np.asarray(total.astype(result.dtype))


def _block_results(executed: Executed, block: int) -> Any:
    first = np.asarray(executed.inputs[0])
    if executed.method == "reduce":
        axis = reduction_axes(executed.options.get("axis", 0), first.ndim)[-1]
        for start in range(0, first.shape[axis], block):
            yield executed.compute(_slice(first, axis, start, block), *executed.inputs[1:])
    else:
        second = np.asarray(executed.inputs[1])
        shared = -2 if second.ndim > 1 else -1
        for start in range(0, first.shape[-1], block):
            yield executed.compute(_slice(first, -1, start, block), _slice(second, shared, start, block))


def _slice(values: Array, axis: int, start: int, length: int) -> Array:
    index: list[Any] = [slice(None)] * values.ndim
    index[axis] = slice(start, start + length)
    chosen: Array = values[tuple(index)]
    return chosen
