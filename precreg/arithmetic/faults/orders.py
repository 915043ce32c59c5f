"""Which faults depend on the origin of an operand: swapped order, epsilons and fused multiply-add?

Such a layer remembers the last operations, and recognises their results by their bits when they are used next.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic.devices import Arithmetic, is_floating
from precreg.arithmetic.faults.fault import ArithmeticLayer
from precreg.arithmetic.formats import FORMATS
from precreg.arithmetic.operations import fma
from precreg.storage import Array

# Kernels use a quotient or a product within a few operations. Each remembered operation keeps copies of its operands,
# so a longer memory costs more than it finds.
MAX_REMEMBERED_OPERATIONS = 8

# A number up to this, added before or after a square root or to a divisor, keeps the result away from zero. Common
# values are 1e-3 (BatchNorm in Keras) to 1e-12 (BERT's LayerNorm).
MAX_EPSILON = 1e-3


class RecordedOperation(NamedTuple):
    """Hold a computed operation: its operands as they were, and shape, dtype and bits of its result."""

    function: np.ufunc
    operands: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bits: bytes


class RememberingLayer(ArithmeticLayer):
    """Remember the last operations of some functions, to find the origin of an operand."""

    def __init__(self, inner: Arithmetic, remembered: frozenset[np.ufunc]) -> None:
        super().__init__(inner)
        self._remembered = remembered
        self._recent: deque[RecordedOperation] = deque(maxlen=MAX_REMEMBERED_OPERATIONS)

    def computed(self, function: np.ufunc, operands: tuple[Any, ...]) -> Array:
        """Compute by the arithmetic below, and remember the operation."""
        result = np.asarray(self.apply(function, *operands))
        if function in self._remembered and result.size:
            # Copies, because a kernel may work in place and overwrite operands and results. For the same reason the
            # bits identify a result, and not its place in memory.
            copies = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in operands)
            self._recent.append(RecordedOperation(function, copies, result.shape, result.dtype, result.tobytes()))
        return result

    def compute_unaltered(
        self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Compute by the arithmetic below, and remember the operation as the origin of an operand."""
        if method == "__call__" and function in self._remembered and not options:
            return self.computed(function, inputs)
        return super().compute_unaltered(function, method, inputs, options)

    def origin(self, operand: Any, *functions: np.ufunc) -> tuple[Any, ...] | None:
        """Return the operands of the remembered operation, of one of the functions, that gave an operand; or None."""
        if not isinstance(operand, np.ndarray):
            return None
        candidates = [
            each
            for each in reversed(self._recent)
            if each.function in functions and (each.shape, each.dtype) == (operand.shape, operand.dtype)
        ]
        # Copying the bits of a large operand takes longer than all other tests.
        bits = operand.tobytes() if candidates else b""
        return next((each.operands for each in candidates if each.bits == bits), None)


class SwappedOrder(RememberingLayer):
    """Multiply before dividing where the kernel divides first, and the reverse: (a / b) c becomes (a c) / b."""

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
    """Find the epsilon in a sum that a square root, a logarithm, a power or a division takes next."""

    TAKERS = frozenset({np.sqrt, np.log, np.log2, np.log10, np.power, np.float_power, np.divide, np.reciprocal})

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner, frozenset({np.add, np.sqrt}))

    def split_epsilon_sum(self, operand: Any) -> tuple[Any, Any] | None:
        """Return (v, epsilon) if an operand was computed as v + epsilon."""
        return split_epsilon(self.origin(operand, np.add) or ())


def split_epsilon(operands: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """Return (v, epsilon) from the operands of an addition, or None if neither operand is an epsilon."""
    for index, operand in enumerate(operands):
        if is_epsilon(operand):
            return operands[1 - index], operand
    return None


def is_epsilon(operand: Any) -> bool:
    """Return whether an operand is a single number above zero, at most MAX_EPSILON."""
    single = isinstance(operand, float | np.generic) or (isinstance(operand, np.ndarray) and not operand.ndim)
    return single and np.isrealobj(operand) and 0 < float(operand) <= MAX_EPSILON


class DroppedEpsilon(_Epsilon):
    """Compute with v in place of v + epsilon in square roots, logarithms, powers and divisors."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute without the epsilon."""
        if method == "__call__" and function in self.TAKERS:
            index = len(inputs) - 1 if function is np.divide else 0  # the divisor, or the only operand
            if found := self.split_epsilon_sum(inputs[index]):
                inputs = (*inputs[:index], found[0], *inputs[index + 1 :])
        elif method == "__call__" and function is np.add and not options:
            return self.computed(function, inputs)
        return super().ufunc(function, method, inputs, options)


class MovedEpsilon(_Epsilon):
    """Add the epsilon after the square root if the kernel adds it before, and the reverse."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Move the epsilon into or out of the root."""
        if method != "__call__" or function not in self._remembered or options:
            return super().ufunc(function, method, inputs, options)
        if function is np.sqrt and (inside := self.split_epsilon_sum(inputs[0])):
            return self.apply(np.add, self.apply(np.sqrt, inside[0]), inside[1])
        if function is np.add and (outside := split_epsilon(inputs)):
            root = self.origin(outside[0], np.sqrt)
            if root:
                return self.apply(np.sqrt, self.apply(np.add, root[0], outside[1]))
        return self.computed(function, inputs)


class FusedMultiplyAdd(RememberingLayer):
    """Round a product and the addition or subtraction after it once, as a fused multiply-add does, up to float32."""

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner, frozenset({np.multiply}))

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Fuse an addition with the product that it adds."""
        if method == "__call__" and function is np.multiply and not options:
            return self.computed(function, inputs)
        if method == "__call__" and function in (np.add, np.subtract) and not options:
            for index, operand in enumerate(inputs):
                if _is_short(operand) and (factors := self.origin(operand, np.multiply)):
                    return self._fuse(function, factors, inputs, index)
        return super().ufunc(function, method, inputs, options)

    def _fuse(self, function: np.ufunc, factors: tuple[Any, ...], inputs: tuple[Any, ...], index: int) -> Array:
        """Return x * y + z, where `inputs[index]` is the product of the factors x and y."""
        # numpy's own result gives the dtype, and the result for complex numbers and long doubles.
        separate: Array = np.asarray(self.apply(function, *inputs))
        dtype = separate.dtype
        if dtype.name not in FORMATS:
            return separate
        x, y = (np.asarray(factor).astype(inputs[index].dtype) for factor in factors)
        z = np.asarray(inputs[1 - index]).astype(dtype)
        if function is np.subtract:
            x, z = (x, -z) if index == 0 else (-x, z)
        return fma(x, y, z, FORMATS[dtype.name]).astype(dtype, copy=False)


def _is_short(operand: Any) -> bool:
    """Return whether an operand is an array of at most 4 bytes an element."""
    return isinstance(operand, np.ndarray) and is_floating(operand.dtype) and operand.dtype.itemsize <= 4
