"""Which kinds of operation a subject computes: a fault whose kinds it has none of finds nothing to act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.faults.fault import Kind
from precreg.arithmetic.faults.functions import SHORT_SERIES
from precreg.arithmetic.faults.layer import Layer, is_narrower
from precreg.arithmetic.faults.lengths import product_length, sum_length
from precreg.arithmetic.faults.orders import is_epsilon
from precreg.arithmetic.faults.results import FUNCTIONS
from precreg.arithmetic.formats import format_of
from precreg.types.replicate import LongSum

_KINDS: dict[np.ufunc, Kind] = {
    np.add: "addition",
    np.subtract: "addition",
    np.multiply: "multiplication",
    np.divide: "division",
    np.reciprocal: "division",
    np.matmul: "product",
}

_METHODS: dict[str, Kind] = {"reduce": "sum", "accumulate": "running sum"}


class Recorder(Layer):
    """Alters nothing, and notes in `met` the kinds of operation, and of numbers, that it meets.

    `longest` is the sum of the largest product of terms and unit roundoff among those over axes, running sums and
    products of matrices; None before one is met, and where none has a known length.
    """

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner)
        self.met: set[Kind] = set()
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
        if function in FUNCTIONS:
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
