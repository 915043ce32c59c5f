"""Faults and changes that need to know where an operand came from: swapped order, epsilons, fused multiply-add."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices import Arithmetic, is_floating
from precreg.arithmetic.faults.fault import ArithmeticLayer
from precreg.arithmetic.formats import FORMATS
from precreg.arithmetic.operations import fma

Array = NDArray[Any]


MAX_REMEMBERED_OPERATIONS = 8

MAX_EPSILON = 1e-3
"""A number up to this, added before or after a square root, or to what one divides by, is there to keep off zero."""


class RecordedOperation(NamedTuple):
    """An operation that was computed: its operands as they were, and the shape, dtype and bits of what it gave."""

    function: np.ufunc
    operands: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bits: bytes


class RememberingLayer(ArithmeticLayer):
    """Knows of the last operations of some functions where their results are used next.

    A result is known by its bits, wherever it was written to: a kernel may work in place. Operands are copied, for
    what comes next may be written over them.
    """

    def __init__(self, inner: Arithmetic, remembered: frozenset[np.ufunc]) -> None:
        super().__init__(inner)
        self._remembered = remembered
        self._recent: deque[RecordedOperation] = deque(maxlen=MAX_REMEMBERED_OPERATIONS)

    def computed(self, function: np.ufunc, operands: tuple[Any, ...]) -> Array:
        """Compute by the arithmetic below, and remember it."""
        result = np.asarray(self.apply(function, *operands))
        if function in self._remembered and result.size:
            copies = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in operands)
            self._recent.append(RecordedOperation(function, copies, result.shape, result.dtype, result.tobytes()))
        return result

    def origin(self, operand: Any, *functions: np.ufunc) -> tuple[Any, ...] | None:
        """Return the operands of the operation, of one of the functions, that gave an operand; None where none did."""
        if not isinstance(operand, np.ndarray):
            return None
        alike = [each for each in reversed(self._recent) if each.function in functions and _is_alike(operand, each)]
        bits = operand.tobytes() if alike else b""
        return next((each.operands for each in alike if each.bits == bits), None)


class SwappedOrder(RememberingLayer):
    """Multiplies before it divides where the kernel divides first, and the reverse: (a / b) c is (a c) / b."""

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner, frozenset({np.divide, np.multiply}))

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Swap a product with a quotient inside it, or a quotient with a product inside it."""
        if method != "__call__" or function not in self._remembered or options:
            return super().ufunc(function, method, inputs, options)
        first, second = inputs
        if function is np.multiply:
            for operand, other in ((first, second), (second, first)):
                if quotient := self.origin(operand, np.divide):
                    return self.apply(np.divide, self.apply(np.multiply, quotient[0], other), quotient[1])
        elif product := self.origin(first, np.multiply):
            return self.apply(np.multiply, product[0], self.apply(np.divide, product[1], second))
        return self.computed(function, inputs)


class _Epsilon(RememberingLayer):
    """Finds the epsilon in a sum that a square root, a logarithm, a power or a division takes next."""

    TAKERS = frozenset({np.sqrt, np.log, np.log2, np.log10, np.power, np.float_power, np.divide, np.reciprocal})

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner, frozenset({np.add, np.sqrt}))

    def guarded(self, operand: Any) -> tuple[Any, Any] | None:
        """Return (v, epsilon) where an operand is v + epsilon."""
        return split_epsilon(self.origin(operand, np.add) or ())


def split_epsilon(operands: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """Return (v, epsilon) of the operands of an addition, one of which is an epsilon."""
    for index, operand in enumerate(operands):
        if is_epsilon(operand):
            return operands[1 - index], operand
    return None


def is_epsilon(operand: Any) -> bool:
    """Say whether an operand is one small number above zero."""
    single = isinstance(operand, float | np.generic) or (isinstance(operand, np.ndarray) and not operand.ndim)
    return single and np.isrealobj(operand) and 0 < float(operand) <= MAX_EPSILON


class DroppedEpsilon(_Epsilon):
    """Takes v for v + epsilon in square roots, logarithms, powers and divisors."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute without the epsilon."""
        if method == "__call__" and function in self.TAKERS:
            place = len(inputs) - 1 if function is np.divide else 0
            if found := self.guarded(inputs[place]):
                inputs = (*inputs[:place], found[0], *inputs[place + 1 :])
        elif method == "__call__" and function is np.add and not options:
            return self.computed(function, inputs)
        return super().ufunc(function, method, inputs, options)


class MovedEpsilon(_Epsilon):
    """Adds the epsilon after the square root where the kernel adds it before, and the reverse."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Move the epsilon in or out of the root."""
        if method != "__call__" or function not in self._remembered or options:
            return super().ufunc(function, method, inputs, options)
        if function is np.sqrt and (inside := self.guarded(inputs[0])):
            return self.apply(np.add, self.apply(np.sqrt, inside[0]), inside[1])
        if function is np.add and (outside := split_epsilon(inputs)):
            root = self.origin(outside[0], np.sqrt)
            if root:
                return self.apply(np.sqrt, self.apply(np.add, root[0], outside[1]))
        return self.computed(function, inputs)


class FusedMultiplyAdd(RememberingLayer):
    """Rounds a product and the addition or subtraction after it once, as a fused multiply-add does (up to float32)."""

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner, frozenset({np.multiply}))

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Fuse an addition with the product that it adds."""
        if method == "__call__" and function is np.multiply and not options:
            return self.computed(function, inputs)
        if method == "__call__" and function in (np.add, np.subtract) and not options:
            for place, operand in enumerate(inputs):
                if _is_short(operand) and (factors := self.origin(operand, np.multiply)):
                    return self._fused(function, factors, inputs, place)
        return super().ufunc(function, method, inputs, options)

    def _fused(self, function: np.ufunc, factors: tuple[Any, ...], inputs: tuple[Any, ...], place: int) -> Array:
        """Return x * y + z, where the operand at `place` is the product of the factors x and y."""
        separate: Array = np.asarray(self.apply(function, *inputs))
        dtype = separate.dtype
        if dtype.name not in FORMATS:  # complex numbers and long doubles
            return separate
        x, y = (np.asarray(factor).astype(inputs[place].dtype) for factor in factors)
        z = np.asarray(inputs[1 - place]).astype(dtype)
        if function is np.subtract:
            x, z = (x, -z) if place == 0 else (-x, z)
        return fma(x, y, z, FORMATS[dtype.name]).astype(dtype, copy=False)


def _is_alike(operand: Array, operation: RecordedOperation) -> bool:
    return operand.shape == operation.shape and operand.dtype == operation.dtype


def _is_short(operand: Any) -> bool:
    return isinstance(operand, np.ndarray) and is_floating(operand.dtype) and operand.dtype.itemsize <= 4
