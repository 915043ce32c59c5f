"""Faults of what a subject is given: inputs that pass through another dtype or are loaded askew, and params.

Planting: an arithmetic, inputs or params as a fault leaves them.

Which kinds of operation a subject computes: a fault whose kinds it has none of finds nothing to act on.

How many terms a sum adds up, and how precisely: what a bound on its rounding errors is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ldexp, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from precreg.types import LongSum

Array = NDArray[Any]


MAX_STEPS = 64
"""Params above this count steps of something else, such as a training run."""


STEP_PARAMS = frozenset({"steps", "terms", "iterations", "newton_steps"})


def cast_to_narrower(array: Array, *, format: str) -> Array:
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
    return name in STEP_PARAMS and isinstance(value, int) and not isinstance(value, bool) and 2 <= value <= MAX_STEPS


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

INPUTS: dict[str, Callable[..., NDArray[Any]]] = {
    "through_narrower": cast_to_narrower,
    "misaligned_tail": misaligned_tail,
}

PARAMS: dict[str, Callable[..., dict[str, Any]]] = {"one_step_less": one_step_less}


def plant_fault(inner: Arithmetic, fault: Fault) -> Arithmetic:
    """Return the arithmetic with a fault in it; `inner` itself where the fault alters no operations.

    The layer may remember operations and sums: one layer serves one case, and all repeats of it.
    """
    return OPERATIONS[fault.alteration](inner, **fault.options) if fault.place == "operations" else inner


def alter_inputs(inputs: dict[str, NDArray[Any]], fault: Fault) -> dict[str, NDArray[Any]]:
    """Return inputs as a fault leaves them."""
    if fault.place != "inputs":
        return inputs
    return {name: INPUTS[fault.alteration](array, **fault.options) for name, array in inputs.items()}


def alter_params(params: dict[str, Any], fault: Fault) -> dict[str, Any]:
    """Return params as a fault leaves them."""
    return PARAMS[fault.alteration](params, **fault.options) if fault.place == "params" else params


_SINGLE = 24
"""Bits of float32, in which numpy adds up much of what is narrower."""


def sum_length(inner: Arithmetic, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> LongSum | None:
    """Return what numpy.add.reduce or accumulate adds up; None below two terms, and where they are no floats."""
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
    layout = tuple(int(axis) for axis in np.argsort([-abs(stride) for stride in terms.strides], kind="stable"))
    kept = tuple(axis not in axes and terms.shape[axis] > 1 for axis in range(terms.ndim))
    long = tuple(axis for axis in axes if terms.shape[axis] > 1)
    precision = min(_precision_of_sums(method, dtype, layout, kept, axis) for axis in long)
    return LongSum(length, precision, products=False)


def product_length(
    inner: Arithmetic, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]
) -> LongSum | None:
    """Return the sums of products that matmul, dot, einsum and the like take; None where there are none of floats.

    How many terms there are is what the function gives of ones, and numpy's norms are the square roots of it.
    """
    arrays = [operand for operand in inputs if isinstance(operand, np.ndarray)]
    known = function is np.matmul or PRODUCTS.get(function) not in (None, "outer", "cross")
    if not known or not arrays or not all(is_floating(array.dtype) and array.size for array in arrays):
        return None
    ones = tuple(np.ones(each.shape) if isinstance(each, np.ndarray) else each for each in inputs)
    most = float(np.max(np.abs(function(*ones, **{key: value for key, value in options.items() if key != "dtype"}))))
    length = round(most**2 if PRODUCTS.get(function) == "norm" else most)
    dtype = np.result_type(*(array.dtype for array in arrays))
    if isinstance(inner, DeviceArithmetic) and (unit := inner.device.multiplier(dtype.name)):
        return LongSum(length, _precision_of(unit), products=True)
    return LongSum(length, _precision_of_products(function is np.matmul, dtype), products=True) if length > 1 else None


def _precision_of(unit: Unit) -> int:
    """Return the bits of a unit's accumulator, one less where it does not round to nearest."""
    formats = [each for each in (unit.accumulator, unit.product) if each is not None]
    return min(each.precision for each in formats) - (unit.rounding is not Rounding.NEAREST_EVEN)


@cache
def _precision_of_sums(
    method: str, dtype: np.dtype[Any], layout: tuple[int, ...], kept: tuple[bool, ...], along: int
) -> int:
    """Ask numpy how precisely it adds along one axis of an array that is laid out so.

    Rows along the last axis of a float16 array are added in float32, and its columns in float16.
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
    """Return the bits in which three terms are added: those of the dtype, or of float32 where it is narrower.

    1 + u - 1 is 0 in the dtype itself, where u is its unit roundoff, and u in what is wider.
    """
    number_format = format_of(dtype.name)
    if number_format is None or number_format.precision >= _SINGLE:
        return number_format.precision if number_format else _SINGLE
    three = np.array([1, ldexp(1, -number_format.precision), -1]).astype(dtype)
    return _SINGLE if added(three).astype(np.float64).any() else number_format.precision


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
    """Alters nothing, and notes in `met` the kinds of operation, and of numbers, that it meets.

    `longest` is the sum of the largest product of terms and unit roundoff among those over axes, running sums and
    products of matrices; None before one is met, and where none has a known length.
    """

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner)
        self.met: set[OperationKind] = set()
        self.longest: LongSum | None = None

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note and hand on."""
        if function is np.add and method in _METHODS:
            self.met.add(_METHODS[method])
            self._note_sum(sum_length(self.inner, method, inputs, options))
        elif method == "__call__":
            self._note(function, inputs)
        return self._noted(super().ufunc(function, method, inputs, options), inputs)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note and hand on."""
        self.met.add("product")
        self._note_sum(product_length(self.inner, function, inputs, options))
        return self._noted(super().contraction(function, inputs, options), inputs)

    def cast(self, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Note and hand on."""
        if is_narrower(dtype, values.dtype):
            self.met.add("narrowing")
        result: NDArray[Any] = self._noted(super().cast(values, dtype), (values,))
        return result

    def _note(self, function: np.ufunc, inputs: tuple[Any, ...]) -> None:
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

    def _noted(self, result: Any, inputs: tuple[Any, ...]) -> Any:
        """Note the kinds of number in an operation's result and in its operands."""
        for each in (result, *inputs):
            if isinstance(each, np.ndarray | np.generic) and is_floating(each.dtype):
                self._note_numbers(np.asarray(each))
        return result

    def _note_numbers(self, numbers: NDArray[Any]) -> None:
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
