"""Which arithmetic, inputs or params does a case have with a planted fault, and which operations does its subject meet?

OperationRecorder notes the kinds of operations, so that precreg plants only faults that can have an effect. It also
notes the longest sum, from which precreg bounds rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ldexp, prod
from typing import Any

import numpy as np

from precreg.arithmetic.devices import PRODUCTS, Arithmetic, DeviceArithmetic, is_floating, reduction_axes
from precreg.arithmetic.faults.fault import ArithmeticLayer, Fault, OperationKind, is_narrower
from precreg.arithmetic.faults.orders import DroppedEpsilon, FusedMultiplyAdd, MovedEpsilon, SwappedOrder, is_epsilon
from precreg.arithmetic.faults.results import (
    NARROWED_UFUNCS,
    SHORT_SERIES,
    Conversions,
    Flushed,
    NarrowedResults,
    Saturated,
    Truncated,
    WithoutNaN,
    another_library,
    fewer_steps,
    fewer_terms,
)
from precreg.arithmetic.faults.sums import (
    NarrowAccumulator,
    StaleBuffer,
    sum_in_float64,
    sum_in_halves,
    sum_in_reverse,
    sum_naive,
    sum_pairwise,
    sum_through_narrower,
)
from precreg.arithmetic.formats import Rounding, format_of, numpy_dtype
from precreg.arithmetic.unit import Unit
from precreg.storage import Array
from precreg.types import LongSum

# A param above this counts the steps of something else, such as a training run.
MAX_STEPS = 64
STEP_PARAMS = frozenset({"steps", "terms", "iterations", "newton_steps"})

# The precision of float32, in which numpy adds many sums of narrower dtypes.
_SINGLE_PRECISION = 24


def cast_to_narrower(array: Array, *, format: str) -> Array:
    """Return the array converted to a narrower dtype and back."""
    narrow = numpy_dtype(format)
    return array.astype(narrow).astype(array.dtype) if is_narrower(narrow, array.dtype) else array


def misaligned_tail(array: Array, *, block: int) -> Array:
    """Return the array with the incomplete last block of its last axis read one element too early.

    The array is unchanged if the length of the axis is a multiple of the block, or less than one block.
    """
    length = array.shape[-1] if array.ndim else 0
    rest = length % block
    if not rest or rest == length or not is_floating(array.dtype):
        return array
    misread = array.copy("K")
    misread[..., length - rest :] = array[..., length - rest - 1 : length - 1]
    return misread


def one_step_less(params: dict[str, Any]) -> dict[str, Any]:
    """Return params with each count of steps, terms or iterations, from 2 to MAX_STEPS, reduced by one."""

    def is_count(name: str, value: Any) -> bool:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        # A count of 1 stays: without any step, the subject would run another algorithm.
        return name in STEP_PARAMS and is_integer and 2 <= value <= MAX_STEPS

    return {name: value - 1 if is_count(name, value) else value for name, value in params.items()}


# The alterations by the names in the table of faults: layers over an arithmetic, and functions of arrays and params.
OPERATIONS: dict[str, Callable[..., Arithmetic]] = {
    "hop": NarrowedResults,
    "through": sum_through_narrower,
    "naive": sum_naive,
    "stale": StaleBuffer,
    "narrow": NarrowAccumulator,
    "truncated": Truncated,
    "conversions": Conversions,
    "flushed": Flushed,
    "dropped_epsilon": DroppedEpsilon,
    "moved_epsilon": MovedEpsilon,
    "swapped": SwappedOrder,
    "fewer_terms": fewer_terms,
    "fewer_steps": fewer_steps,
    "without_nan": WithoutNaN,
    "saturated": Saturated,
    "in_reverse": sum_in_reverse,
    "in_halves": sum_in_halves,
    "pairwise": sum_pairwise,
    "widened": sum_in_float64,
    "fused": FusedMultiplyAdd,
    "another_library": another_library,
}
INPUTS: dict[str, Callable[..., Array]] = {
    "through_narrower": cast_to_narrower,
    "misaligned_tail": misaligned_tail,
}
PARAMS: dict[str, Callable[..., dict[str, Any]]] = {"one_step_less": one_step_less}


def plant_fault(inner: Arithmetic, fault: Fault) -> Arithmetic:
    """Return the arithmetic with a fault in it, or `inner` itself for a fault of inputs or params.

    The layer may remember operations and sums, so each case needs a layer of its own, for all its repeats.
    """
    return OPERATIONS[fault.alteration](inner, **fault.options) if fault.place == "operations" else inner


def alter_inputs(inputs: dict[str, Array], fault: Fault) -> dict[str, Array]:
    """Return the inputs with a fault in them."""
    if fault.place != "inputs":
        return inputs
    return {name: INPUTS[fault.alteration](array, **fault.options) for name, array in inputs.items()}


def alter_params(params: dict[str, Any], fault: Fault) -> dict[str, Any]:
    """Return the params with a fault in them."""
    return PARAMS[fault.alteration](params, **fault.options) if fault.place == "params" else params


def sum_length(inner: Arithmetic, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> LongSum | None:
    """Return length and precision of a sum by numpy.add.reduce or accumulate; None below two terms or for integers."""
    terms = inputs[0]
    dtype = np.dtype(options.get("dtype") or terms.dtype)
    if not (is_floating(terms.dtype) and is_floating(dtype)):
        return None
    axes = reduction_axes(options.get("axis", 0), terms.ndim)
    length = prod(terms.shape[axis] for axis in axes)
    if length < 2:
        return None
    if isinstance(inner, DeviceArithmetic) and (unit := inner.device.adder(dtype.name)):
        return LongSum(length, _precision_of(unit), products=False)
    # numpy's precision depends on the layout in memory, on the axes that remain and on the axis that it adds along.
    layout = tuple(int(axis) for axis in np.argsort([-abs(stride) for stride in terms.strides], kind="stable"))
    kept = tuple(axis not in axes and terms.shape[axis] > 1 for axis in range(terms.ndim))
    long = tuple(axis for axis in axes if terms.shape[axis] > 1)
    precision = min(_precision_of_sums(method, dtype, layout, kept, axis) for axis in long)
    return LongSum(length, precision, products=False)


def product_length(
    inner: Arithmetic, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]
) -> LongSum | None:
    """Return length and precision of the sums of products by matmul, dot, einsum and so on; None if there are none."""
    arrays = [operand for operand in inputs if isinstance(operand, np.ndarray)]
    known = function is np.matmul or PRODUCTS.get(function) not in (None, "outer", "cross")
    if not known or not arrays or not all(is_floating(array.dtype) and array.size for array in arrays):
        return None
    # Of ones, each result is the number of its terms; a norm is the square root of it. This serves every function and
    # every subscript of einsum without knowledge of shapes.
    ones = tuple(np.ones(each.shape) if isinstance(each, np.ndarray) else each for each in inputs)
    largest = float(np.max(np.abs(function(*ones, **{key: value for key, value in options.items() if key != "dtype"}))))
    length = round(largest**2 if PRODUCTS.get(function) == "norm" else largest)
    dtype = np.result_type(*(array.dtype for array in arrays))
    if isinstance(inner, DeviceArithmetic) and (unit := inner.device.multiplier(dtype.name)):
        return LongSum(length, _precision_of(unit), products=True)
    return LongSum(length, _precision_of_products(function is np.matmul, dtype), products=True) if length > 1 else None


def _precision_of(unit: Unit) -> int:
    """Return the precision of a unit's sums, in bits."""
    # Directed and stochastic roundings err by up to a whole ULP, twice as much as rounding to nearest.
    formats = [each for each in (unit.accumulator, unit.product) if each is not None]
    return min(each.precision for each in formats) - (unit.rounding is not Rounding.NEAREST_EVEN)


@cache
def _precision_of_sums(
    method: str, dtype: np.dtype[Any], layout: tuple[int, ...], kept: tuple[bool, ...], along: int
) -> int:
    """Measure the precision of numpy's sums along one axis of an array with this layout.

    For example, numpy adds along the last axis of a float16 array in float32, but its columns in float16.
    """
    shape = [2 if each else 1 for each in kept]
    shape[along] = 3
    terms = np.empty([shape[axis] for axis in layout], dtype).transpose(np.argsort(layout))

    def added(three: Array) -> Array:
        terms[...] = np.expand_dims(three, tuple(range(1, terms.ndim))).swapaxes(0, along)
        if method == "accumulate":
            return np.asarray(np.add.accumulate(terms, axis=along)).take([-1], along)
        return np.asarray(np.add.reduce(terms, axis=along))

    return _precision(added, dtype)


@cache
def _precision_of_products(is_matmul: bool, dtype: np.dtype[Any]) -> int:
    ones = np.ones((3, 2), dtype)
    return _precision(lambda three: np.asarray(three[None, :] @ ones if is_matmul else np.dot(three, ones)), dtype)


def _precision(added: Callable[[Array], Array], dtype: np.dtype[Any]) -> int:
    """Return the precision in which `added` sums three terms: the dtype's own, or the precision of float32.

    With the unit roundoff u of the dtype, 1 + u - 1 gives 0 in the dtype itself, and u in a wider format.
    """
    number_format = format_of(dtype.name)
    if number_format is None or number_format.precision >= _SINGLE_PRECISION:
        return number_format.precision if number_format else _SINGLE_PRECISION
    three = np.array([1, ldexp(1, -number_format.precision), -1]).astype(dtype)
    return _SINGLE_PRECISION if added(three).astype(np.float64).any() else number_format.precision


_KINDS: dict[np.ufunc, OperationKind] = {
    np.add: "addition",
    np.subtract: "addition",
    np.multiply: "multiplication",
    np.divide: "division",
    np.reciprocal: "division",
    np.matmul: "product",
}

_METHODS: dict[str, OperationKind] = {"reduce": "sum", "accumulate": "running sum"}


class OperationRecorder(ArithmeticLayer):
    """Note the kinds of operations and numbers in `met`, and the longest sum in `longest`. Alter nothing."""

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner)
        self.met: set[OperationKind] = set()
        # The sum with the largest product of terms and unit roundoff, because this product bounds its error. None
        # before the first sum of known length.
        self.longest: LongSum | None = None

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note the operation, and pass it on."""
        if function is np.add and method in _METHODS:
            self.met.add(_METHODS[method])
            self._note_sum(sum_length(self.inner, method, inputs, options))
        elif method == "__call__":
            self._note_function(function, inputs)
        return self._note_result(super().ufunc(function, method, inputs, options), inputs)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note the operation, and pass it on."""
        self.met.add("product")
        self._note_sum(product_length(self.inner, function, inputs, options))
        return self._note_result(super().contraction(function, inputs, options), inputs)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Note the operation, and pass it on."""
        if is_narrower(dtype, values.dtype):
            self.met.add("narrowing")
        result: Array = self._note_result(super().cast(values, dtype), (values,))
        return result

    def _note_function(self, function: np.ufunc, inputs: tuple[Any, ...]) -> None:
        if function in _KINDS:
            self.met.add(_KINDS[function])
        if function is np.matmul:
            self._note_sum(product_length(self.inner, function, inputs, {}))
        if function in NARROWED_UFUNCS:
            self.met.add("function")
        if function is np.sqrt:
            self.met.add("root")
        if function in SHORT_SERIES:
            self.met.add("series")
        if function is np.add and any(map(is_epsilon, inputs)):
            self.met.add("epsilon")

    def _note_sum(self, found: LongSum | None) -> None:
        longest = self.longest
        if found and (not longest or found.terms * 2.0**-found.precision > longest.terms * 2.0**-longest.precision):
            self.longest = found

    def _note_result(self, result: Any, inputs: tuple[Any, ...]) -> Any:
        """Note the kinds of numbers in a result and its operands, and return the result."""
        for each in (result, *inputs):
            if isinstance(each, np.ndarray | np.generic) and is_floating(each.dtype):
                self._note_numbers(np.asarray(each))
        return result

    def _note_numbers(self, numbers: Array) -> None:
        # One pass finds out that all numbers are finite, which is the usual case.
        if not np.isfinite(numbers).all():
            if np.isnan(numbers).any():
                self.met.add("nan")
            if np.isinf(numbers).any():
                self.met.add("infinity")
        format = format_of(numbers.dtype.name)
        if "subnormal" not in self.met and format is not None:
            small = np.abs(numbers) < format.smallest_normal
            if small.any() and numbers[small].any():
                self.met.add("subnormal")
