"""What computes the operations of simulated arrays, and numpy itself as the plainest example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Arithmetic(Protocol):
    """Computes operations on plain arrays: a simulated array hands each of its operations to its arithmetic.

    A layer that changes a few operations holds the arithmetic below it, and hands on what it does not change.
    """

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute `getattr(function, method)(*inputs, **options)`: products, reductions, element-wise functions.

        `method` is __call__, reduce, accumulate, reduceat, outer or at. `inputs` are plain arrays and scalars, and
        `options` has no `out`; numpy has put arguments by place, such as an axis, into it by their names.
        """

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute what numpy computes in compiled code of its own and is no ufunc: dot, einsum, numpy.linalg.norm, ...

        `function` is one of array.COMPILED. NotImplementedError says that it cannot be computed.
        """

    def cast(self, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return `values` in another dtype, as `astype` does."""


class NumpyArithmetic:
    """numpy's own: a simulated array with it gives the bits of a plain one."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call the ufunc, or the named method of it."""
        return getattr(function, method)(*inputs, **options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call the function."""
        return function(*inputs, **options)

    def cast(self, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Round to nearest even, as numpy does."""
        return values.astype(dtype)
