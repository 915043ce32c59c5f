"""A fault as a value: what goes wrong, where it can, and the alteration with its figures.

A layer over an arithmetic: it alters a few operations, and hands on all others as they came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from precreg.arithmetic.devices import Arithmetic, is_floating
from precreg.arithmetic.formats import format_of

FaultTarget = Literal["operations", "inputs", "params"]

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
"""A kind of operation, or of number, that a subject meets; fault/recorder.py tells which it does."""


class Fault(Struct, frozen=True):
    """A change to how a case is computed: a fault, or where it is not `harmful` one that no gate should mind.

    `source` is the kind of error it stands for, and `about` what it does. It alters the subject's operations, its
    inputs or its params (`place`), by the alteration of that name with those options. `where` says in words what it
    can act on, and `needs` names the kinds, one of which a subject must meet for its operations to be altered at all.
    """

    name: str
    source: str
    about: str
    where: str
    place: FaultTarget
    alteration: str
    options: dict[str, float | str] = field(default_factory=dict)
    needs: tuple[OperationKind, ...] = ()
    harmful: bool = True


class ArithmeticLayer:
    """Hands every operation on to the arithmetic below, `inner`: that is what a fault alters nothing of."""

    def __init__(self, inner: Arithmetic) -> None:
        self.inner = inner

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute as `Arithmetic.ufunc` says."""
        return self.inner.ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute as `Arithmetic.contraction` says."""
        return self.inner.contraction(function, inputs, options)

    def cast(self, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Compute as `Arithmetic.cast` says."""
        return self.inner.cast(values, dtype)

    def apply(self, function: np.ufunc, *inputs: Any) -> Any:
        """Apply a function element by element, by the arithmetic below."""
        return self.inner.ufunc(function, "__call__", inputs, {})


class ResultLayer(ArithmeticLayer):
    """Alters what operations give, by `altered(result, ...)`, where it is one array or number of floating point."""

    def altered(self, result: NDArray[Any], inputs: tuple[Any, ...], by_element: bool) -> NDArray[Any]:
        """Return what the operation gives in place of its result; `inputs` are its operands.

        `by_element` says that each element comes from the elements in the same place of the operands alone.
        """
        raise NotImplementedError

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and alter the result."""
        result = super().ufunc(function, method, inputs, options)
        return self._altered(result, inputs, is_elementwise(function, method))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and alter the result."""
        return self._altered(super().contraction(function, inputs, options), inputs, False)

    def cast(self, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Convert, and alter the result."""
        return self.altered(super().cast(values, dtype), (values,), True)

    def _altered(self, result: Any, inputs: tuple[Any, ...], by_element: bool) -> Any:
        if isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype):
            return self.altered(np.asarray(result), inputs, by_element)
        return result


def is_elementwise(function: np.ufunc, method: str) -> bool:
    """Say whether a ufunc is called element by element; products of matrices are not, nor are folds."""
    return method == "__call__" and function.signature is None


def is_narrower(dtype: np.dtype[Any], than: np.dtype[Any]) -> bool:
    """Say whether a dtype has a smaller precision than another."""
    narrow, wide = format_of(dtype.name), format_of(than.name)
    return narrow is not None and wide is not None and narrow.precision < wide.precision
