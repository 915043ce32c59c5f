"""Which mistake does a fault make, and where does it intervene?

A fault of operations is a layer over an arithmetic: it alters a few operations, and passes all others on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field

from precreg.arithmetic.devices import Arithmetic, is_floating
from precreg.arithmetic.formats import format_of
from precreg.storage import Array

FaultTarget = Literal["operations", "inputs", "params"]

# A kind of operation, or of number, that a subject meets. OperationRecorder in planting.py finds them out.
OperationKind = Literal[
    "addition",
    "multiplication",
    "division",
    "root",
    "function",
    "series",
    "sum",
    "running sum",
    "product",
    "narrowing",
    "epsilon",
    "subnormal",
    "infinity",
    "nan",
]


class Fault(Struct, frozen=True):
    """Describe a change to the computation of a case: a fault, or a harmless change that no gate should mind."""

    name: str
    # The kind of error that the fault represents.
    source: str
    # Its effect, in words.
    about: str
    # The operations, inputs or params on which it can act, in words.
    where: str
    # The part of a case that it alters: the subject's operations, its inputs or its params.
    place: FaultTarget
    # The name of a function or layer in planting.py, and its options.
    alteration: str
    options: dict[str, float | str] = field(default_factory=dict)
    # A subject must meet one of these kinds, or the fault has no effect. So precreg need not run the subject with it.
    needs: tuple[OperationKind, ...] = ()
    harmful: bool = True


class ArithmeticLayer:
    """Pass every operation on to the arithmetic below, `inner`. Subclasses override the operations that they alter."""

    def __init__(self, inner: Arithmetic) -> None:
        self.inner = inner

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a method of a ufunc (see `Arithmetic.ufunc`)."""
        return self.inner.ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a compiled function of numpy (see `Arithmetic.contraction`)."""
        return self.inner.contraction(function, inputs, options)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Convert values to a dtype (see `Arithmetic.cast`)."""
        return self.inner.cast(values, dtype)

    def compute_unaltered(
        self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Compute by the arithmetic below, and remember what altering a later operation needs.

        An operation that this layer must not alter, although it could, comes here.
        """
        return self.inner.ufunc(function, method, inputs, options)

    def apply(self, function: np.ufunc, *inputs: Any) -> Any:
        """Apply an elementwise function by the arithmetic below."""
        return self.inner.ufunc(function, "__call__", inputs, {})


class ResultLayer(ArithmeticLayer):
    """Alter floating-point results of operations by `altered`. Integers, truth values and tuples stay unchanged."""

    def altered(self, result: Array, inputs: tuple[Any, ...], by_element: bool) -> Array:
        """Return the altered result of an operation with the operands `inputs`.

        `by_element` is true if each element depends only on the elements at the same position of the operands.
        """
        raise NotImplementedError

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and alter the result."""
        result = super().ufunc(function, method, inputs, options)
        return self._alter(result, inputs, is_elementwise(function, method))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and alter the result."""
        return self._alter(super().contraction(function, inputs, options), inputs, False)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Convert, and alter the result."""
        return self.altered(super().cast(values, dtype), (values,), True)

    def _alter(self, result: Any, inputs: tuple[Any, ...], by_element: bool) -> Any:
        if isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype):
            return self.altered(np.asarray(result), inputs, by_element)
        return result


def is_elementwise(function: np.ufunc, method: str) -> bool:
    """Return whether a ufunc is called element by element. Products of matrices and reductions are not."""
    return method == "__call__" and function.signature is None


def is_narrower(dtype: np.dtype[Any], than: np.dtype[Any]) -> bool:
    """Return whether a dtype has less precision than another."""
    # Bits of precision and not bytes: float16 and bfloat16 take the same memory.
    narrow, wide = format_of(dtype.name), format_of(than.name)
    return narrow is not None and wide is not None and narrow.precision < wide.precision
