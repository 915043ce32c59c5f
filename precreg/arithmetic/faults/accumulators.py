"""Faults of the accumulator: partial sums that are too narrow, and a buffer that still holds what was left in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.faults.layer import Layer, is_narrower
from precreg.arithmetic.faults.sums import SummedBy, sum_from
from precreg.arithmetic.formats import numpy_dtype

Array = NDArray[Any]


SUMS_REMEMBERED = 4
"""How many sums back an addition finds the partial sum that it goes on with: loops keep two or three at a time."""


class NarrowAccumulator(Layer):
    """Rounds every partial sum to a narrower dtype, in sums over axes, products of matrices, running sums and loops.

    A loop is seen by its partial sums: an addition one of whose operands is, to the bit, what one of the last
    SUMS_REMEMBERED additions gave. Its sum is rounded, too.
    """

    def __init__(self, inner: Arithmetic, *, format: str) -> None:
        super().__init__(inner)
        self._narrow = numpy_dtype(format)
        self._sums = SummedBy(inner, self._total, self._product)
        self._recent: deque[Array] = deque(maxlen=SUMS_REMEMBERED)

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Add up in the narrow accumulator."""
        if function is np.add and method == "accumulate" and is_floating(inputs[0].dtype):
            return self._accumulated(inputs[0], options)
        if function is np.add and method == "__call__":
            return self._added(inputs, options)
        return self._sums.ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply and add up in the narrow accumulator."""
        return self._sums.contraction(function, inputs, options)

    def _rounded(self, sums: Array) -> Array:
        if is_narrower(self._narrow, sums.dtype):
            return self.inner.cast(self.inner.cast(sums, self._narrow), sums.dtype)
        return sums

    def _added(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = super().ufunc(np.add, "__call__", inputs, options)
        if not (isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype)):
            return result
        total = np.asarray(result)
        if any(_same_bits(operand, recent) for operand in inputs for recent in self._recent):
            total = self._rounded(total)
        self._recent.append(total)
        return total

    def _accumulated(self, terms: Array, options: dict[str, Any]) -> Array:
        along = np.moveaxis(np.array(terms, dtype=options.get("dtype")), options.get("axis", 0), 0)
        for k in range(1, len(along)):
            along[k] = self._rounded(np.asarray(self.apply(np.add, along[k - 1], along[k])))
        return np.moveaxis(along, 0, options.get("axis", 0))

    def _total(self, inner: Arithmetic, terms: Array) -> Array:
        running = terms[..., 0]
        for k in range(1, terms.shape[-1]):
            running = self._rounded(np.asarray(self.apply(np.add, running, terms[..., k])))
        return running

    def _product(self, inner: Arithmetic, a: Array, b: Array) -> Array:
        running = np.asarray(self.apply(np.multiply, a[..., :, 0, None], b[..., 0, None, :]))
        for k in range(1, a.shape[-1]):
            term = self.apply(np.multiply, a[..., :, k, None], b[..., k, None, :])
            running = self._rounded(np.asarray(self.apply(np.add, running, term)))
        return running


class StaleBuffer(Layer):
    """Lets each sum over axes begin with a small share of what the sum before it left, instead of zero.

    The first sum finds a clean buffer. The buffer outlives the call: the next run of the same case finds what the last
    one left, so that repeats differ. A running sum begins so, too.
    """

    def __init__(self, inner: Arithmetic, *, share: float) -> None:
        super().__init__(inner)
        self._share, self._left = share, 0.0

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Begin with what was left, and leave the last sum."""
        summed = function is np.add and method == "reduce" and sum_from(self.inner, inputs, options) is not None
        running = function is np.add and method == "accumulate" and is_floating(inputs[0].dtype)
        result = super().ufunc(function, method, inputs, options)
        return self._begun_with_rest(np.asarray(result)) if summed or running else result

    def _begun_with_rest(self, sums: Array) -> Array:
        begun = np.asarray(self.apply(np.add, sums, sums.dtype.type(self._left)))
        last = float(begun.flat[-1]) if begun.size else 0.0
        self._left = self._share * last if np.isfinite(last) else 0.0
        return begun


def _same_bits(operand: Any, recent: Array) -> bool:
    if not isinstance(operand, np.ndarray) or operand.shape != recent.shape or operand.dtype != recent.dtype:
        return False
    return bool(operand.size) and operand.tobytes() == recent.tobytes()
