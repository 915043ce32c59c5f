"""Arrays that look like numpy's, and whose every operation is computed by an arithmetic that is given to them.

numpy asks an array before it computes with it: ufuncs by NEP 13 (`__array_ufunc__`), other functions by NEP 18
(`__array_function__`). So a kernel that is written for numpy runs unchanged. Where a kernel leaves numpy (float(x),
math.sqrt, a plain array of its own that meets no simulated one), it leaves the arithmetic, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arith.formats import FORMATS
from precreg.simulate.arithmetic import Arithmetic, NumpyArithmetic

CONTRACTIONS: frozenset[Callable[..., Any]] = frozenset({np.dot, np.vdot, np.inner, np.einsum})
"""numpy's sums of products that are compiled and no ufuncs. tensordot, kron and the like call these."""


class SimulatedArray(np.ndarray[Any, np.dtype[Any]]):
    """A view of an array whose operations `arithmetic` computes. Its bits, dtype and shape are the array's.

    What an operation gives is simulated again if it is floating point; integers and truth values are plain. Single
    elements are arrays of no dimension, so that they stay simulated.
    """

    arithmetic: Arithmetic = NumpyArithmetic()

    def __array_finalize__(self, source: object) -> None:
        if isinstance(source, SimulatedArray):
            self.arithmetic = source.arithmetic

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arithmetic = _arithmetic_of((*inputs, *options.get("out", ())))
        out = options.pop("out", None)
        plain_options = {name: plain(value) for name, value in options.items()}
        result = arithmetic.ufunc(ufunc, method, tuple(map(plain, inputs)), plain_options)
        if out is not None and any(place is not None for place in out):
            return _written(result, out, plain_options.get("where", True) if method == "__call__" else True)
        return _simulated(result, arithmetic)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        if func in CONTRACTIONS:
            arithmetic, out = _arithmetic_of(args), kwargs.get("out")
            plain_options = {name: plain(value) for name, value in kwargs.items() if name != "out"}
            result = arithmetic.contraction(func, tuple(map(plain, args)), plain_options)
            return _simulated(result, arithmetic) if out is None else _written(result, (out,), True)
        result = super().__array_function__(func, types, args, kwargs)
        return _simulated(result, _arithmetic_of((*args, *kwargs.values())))

    def __getitem__(self, key: Any) -> Any:
        return _simulated(super().__getitem__(key), self.arithmetic)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and is_floating(value.dtype) and value.dtype != self.dtype:
            value = self.arithmetic.cast(plain(value), self.dtype)
        plain(self)[key] = plain(value)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Convert by the arithmetic where both dtypes are floating point; all else is numpy's."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype or not (is_floating(wanted) and is_floating(self.dtype)):
            return _simulated(plain(self).astype(dtype, *args, **options), self.arithmetic)
        return _simulated(self.arithmetic.cast(plain(self), wanted), self.arithmetic)

    def dot(self, other: Any, out: Any = None) -> Any:
        """Multiply as numpy.dot does; the method itself asks no arithmetic."""
        return np.dot(self, other, out=out)


def simulated(array: NDArray[Any], arithmetic: Arithmetic) -> SimulatedArray:
    """Return a view of an array that computes by an arithmetic."""
    view = array.view(SimulatedArray)
    view.arithmetic = arithmetic
    return view


def plain(value: Any) -> Any:
    """Return the plain array of a simulated one; lists and tuples are searched; all else comes back as it is."""
    if isinstance(value, SimulatedArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and any(isinstance(item, SimulatedArray) for item in value):
        return type(value)(map(plain, value))
    return value


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Say whether a dtype is of floating-point numbers, numpy's or ml_dtypes'; complex ones are not."""
    return dtype.kind == "f" or dtype.name in FORMATS


def _arithmetic_of(values: Iterable[Any]) -> Arithmetic:
    """Return the arithmetic of the first simulated array."""
    for value in values:
        if isinstance(value, SimulatedArray):
            return value.arithmetic
        if isinstance(value, list | tuple):
            found = [item for item in value if isinstance(item, SimulatedArray)]
            if found:
                return found[0].arithmetic
    return SimulatedArray.arithmetic


def _simulated(result: Any, arithmetic: Arithmetic) -> Any:
    if isinstance(result, tuple | list):
        parts = [_simulated(part, arithmetic) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype):
        return simulated(np.asarray(result), arithmetic)
    return plain(result)


def _written(result: Any, out: tuple[Any, ...], where: Any) -> Any:
    """Put results where the caller wants them, but for elements that `where` leaves out, and return those places."""
    for place, part in zip(out, result if isinstance(result, tuple) else (result,), strict=True):
        if place is not None:
            np.copyto(plain(place), part, casting="unsafe", where=where)
    return out[0] if len(out) == 1 else out
