"""A layer over an arithmetic: it alters a few operations, and hands on all others as they came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.formats import format_of


class Layer:
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


class ResultLayer(Layer):
    """Alters what operations give, by `altered(result, ...)`, where it is one array or number of floating point."""

    def altered(self, result: NDArray[Any], inputs: tuple[Any, ...], by_element: bool) -> NDArray[Any]:
        """Return what the operation gives in place of its result; `inputs` are its operands.

        `by_element` says that each element comes from the elements in the same place of the operands alone.
        """
        raise NotImplementedError

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and alter the result."""
        result = super().ufunc(function, method, inputs, options)
        return self._altered(result, inputs, is_by_element(function, method))

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


def is_by_element(function: np.ufunc, method: str) -> bool:
    """Say whether a ufunc is called element by element; products of matrices are not, nor are folds."""
    return method == "__call__" and function.signature is None


def is_narrower(dtype: np.dtype[Any], than: np.dtype[Any]) -> bool:
    """Say whether a dtype has a smaller precision than another."""
    narrow, wide = format_of(dtype.name), format_of(than.name)
    return narrow is not None and wide is not None and narrow.precision < wide.precision
