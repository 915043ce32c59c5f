"""What computes the operations of simulated arrays, and numpy itself as the plainest example.

Arrays that look like numpy's, and whose every operation is computed by an arithmetic that is given to them.

numpy asks an array before it computes with it: ufuncs by NEP 13 (`__array_ufunc__`), other functions by NEP 18
(`__array_function__`). So a kernel that is written for numpy runs unchanged. Where a kernel leaves numpy (float(x),
math.sqrt, numpy.asarray(x), a plain array of its own that meets no simulated one), it leaves the arithmetic, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import FORMATS


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


_COMPILED = (
    "dot vdot inner einsum tensordot outer cross convolve correlate interp bincount unwrap vander cov corrcoef poly "
    "polyfit polymul polydiv roots"
)

_LINEAR_ALGEBRA = (
    "norm vector_norm matrix_norm outer cross tensordot inv pinv det slogdet solve lstsq cholesky qr svd svdvals eig "
    "eigh eigvals eigvalsh cond matrix_rank tensorinv tensorsolve"
)

_TRANSFORMS = "fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn"

COMPILED_FUNCTIONS: frozenset[Callable[..., Any]] = frozenset(
    getattr(module, name)
    for module, names in ((np, _COMPILED), (np.linalg, _LINEAR_ALGEBRA), (np.fft, _TRANSFORMS))
    for name in names.split()
    if hasattr(module, name)
)
"""numpy's functions that compute on plain copies of what they are given. All others move numbers, or call ufuncs."""


_WITH_THIRD_OUT = frozenset({np.dot, np.outer})
"""Those of them whose third operand, where it is given without its name, is `out`."""


_FOLDS = ("reduce", "accumulate", "reduceat")
"""The methods of ufuncs that compute many terms in one dtype."""


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
        plain_options = {name: plain_array(value) for name, value in options.items()}
        is_placed = out is not None and any(place is not None for place in out)
        if is_placed and method in _FOLDS and options.get("dtype") is None:
            plain_options |= _dtype_of_fold(inputs[0], out[0])
        operands = tuple(_counted(value, out[0]) for value in inputs) if is_placed else inputs
        where = plain_options.pop("where", True) if is_placed and method == "__call__" else True
        result = arithmetic.ufunc(ufunc, method, tuple(map(plain_array, operands)), plain_options)
        if is_placed:
            return _written(result, out, arithmetic, where, options.get("casting", "same_kind"))
        return _simulated(result, arithmetic)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        arithmetic = _arithmetic_of((*args, *kwargs.values()))
        if func in COMPILED_FUNCTIONS:
            args, out = (args[:2], *args[2:]) if func in _WITH_THIRD_OUT and args[2:] else (args, kwargs.get("out"))
            plain_options = {name: plain_array(value) for name, value in kwargs.items() if name != "out"}
            result = arithmetic.contraction(func, tuple(map(plain_array, args)), plain_options)
            return _simulated(result, arithmetic) if out is None else _written(result, (out,), arithmetic)
        if func is np.copyto:
            return _copied(arithmetic, *args, **kwargs)
        return _simulated(super().__array_function__(func, types, args, kwargs), arithmetic)

    def __getitem__(self, key: Any) -> Any:
        return _simulated(super().__getitem__(key), self.arithmetic)

    def __setitem__(self, key: Any, value: Any) -> None:
        plain_array(self)[key] = _cast(value, self.dtype, self.arithmetic)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Convert by the arithmetic where both dtypes are floating point; all else is numpy's."""
        wanted = np.dtype(dtype)
        casting = options.get("casting", args[1] if len(args) > 1 else "unsafe")
        floating = is_floating(wanted) and is_floating(self.dtype)
        if wanted == self.dtype or not floating or not np.can_cast(self.dtype, wanted, casting):
            return _simulated(plain_array(self).astype(dtype, *args, **options), self.arithmetic)
        return _simulated(self.arithmetic.cast(plain_array(self), wanted), self.arithmetic)

    def dot(self, other: Any, out: Any = None) -> Any:
        """Multiply as numpy.dot does; the method itself asks no arithmetic."""
        return np.dot(self, other, out=out)

    def mean(self, *args: Any, **options: Any) -> Any:
        """Divide the sum; that of float16 is a float32 until it is converted, as numpy's is."""
        asked = options.get("dtype", args[1] if len(args) > 1 else None)
        if self.dtype != np.float16 or asked is not None or options.get("out", args[2:3] or None) is not None:
            return _simulated(super().mean(*args, **options), self.arithmetic)
        options |= zip(("axis", "dtype", "out", "keepdims"), args, strict=False)
        return _simulated(super().mean(**{**options, "dtype": np.float32}), self.arithmetic).astype(np.float16)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """Scale, round and scale back; the method itself keeps what is between in a plain array."""
        rounded = super().round(decimals, np.empty_like(self))
        return rounded if out is None else _written(rounded, (out,), self.arithmetic)

    def trace(self, *args: Any, **options: Any) -> Any:
        """Add the diagonal; the method itself would give a number that is not simulated."""
        return _simulated(super().trace(*args, **options), self.arithmetic)

    def __round__(self, digits: int | None = None) -> Any:
        """Round a single element as the number would be, which numpy's arrays cannot."""
        return int(np.rint(self)) if digits is None else np.round(self, digits)

    def __repr__(self) -> str:
        return repr(plain_array(self))

    def __str__(self) -> str:
        return str(plain_array(self))

    def __reduce__(self) -> Any:
        """Pickle the plain array: what computes on it is for the process that reads it."""
        return plain_array(self).__reduce__()


def simulate_array(array: NDArray[Any], arithmetic: Arithmetic) -> SimulatedArray:
    """Return a view of an array that computes by an arithmetic."""
    view = array.view(SimulatedArray)
    view.arithmetic = arithmetic
    return view


def plain_array(value: Any) -> Any:
    """Return the plain array of a simulated one; lists and tuples are searched; all else comes back as it is."""
    if isinstance(value, SimulatedArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and _first_simulated(value) is not None:
        return type(value)(map(plain_array, value))
    return value


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Say whether a dtype is of floating-point numbers, numpy's or ml_dtypes'; complex ones are not."""
    return dtype.kind == "f" or dtype.name in FORMATS


def _arithmetic_of(values: Iterable[Any]) -> Arithmetic:
    """Return the arithmetic of the first simulated array."""
    found = _first_simulated(values)
    return SimulatedArray.arithmetic if found is None else found.arithmetic


def _first_simulated(values: Iterable[Any]) -> SimulatedArray | None:
    for value in values:
        if isinstance(value, SimulatedArray):
            return value
        if isinstance(value, list | tuple) and (found := _first_simulated(value)) is not None:
            return found
    return None


def _simulated(result: Any, arithmetic: Arithmetic) -> Any:
    if isinstance(result, tuple | list):
        parts = [_simulated(part, arithmetic) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype):
        return simulate_array(np.asarray(result), arithmetic)
    return plain_array(result)


def _counted(value: Any, place: Any) -> Any:
    """Return an integer as Python's where the place for the result has a float for it.

    numpy's means divide by such counts into their own sum, and would do that in float64, which no device has.
    """
    if isinstance(value, np.integer) and isinstance(place, np.ndarray) and is_floating(place.dtype):
        return int(value) if float(place.dtype.type(value)) == value else value
    return value


def _dtype_of_fold(terms: Any, place: Any) -> dict[str, Any]:
    """Return the dtype that numpy folds in where the result has a place of another: what both have in common."""
    dtypes = np.asarray(plain_array(terms)).dtype, place.dtype
    return {"dtype": np.result_type(*dtypes)} if all(map(is_floating, dtypes)) and dtypes[0] != dtypes[1] else {}


def _written(
    result: Any, out: tuple[Any, ...], arithmetic: Arithmetic, where: Any = True, casting: Any = "same_kind"
) -> Any:
    """Put results where the caller wants them, but for elements that `where` leaves out, and return those places.

    Raises TypeError where numpy would not convert the result so.
    """
    for place, part in zip(out, result if isinstance(result, tuple) else (result,), strict=True):
        if place is not None:
            values = np.asarray(part)
            if not np.can_cast(values.dtype, place.dtype, casting):
                raise TypeError(f"cannot cast {values.dtype} to the output's {place.dtype} with casting={casting!r}")
            np.copyto(plain_array(place), _cast(values, place.dtype, arithmetic), casting="unsafe", where=where)
    return out[0] if len(out) == 1 else out


def _copied(arithmetic: Arithmetic, dst: Any, src: Any, *rest: Any, **options: Any) -> None:
    """Do what numpy.copyto does, whose names these are."""
    np.copyto(plain_array(dst), _cast(src, dst.dtype, arithmetic), *rest, **options)


def _cast(values: Any, dtype: np.dtype[Any], arithmetic: Arithmetic) -> Any:
    """Return an array converted by the arithmetic where both dtypes are floating point and differ; or as it is."""
    values = plain_array(values)
    floating = isinstance(values, np.ndarray) and is_floating(values.dtype) and is_floating(dtype)
    return arithmetic.cast(values, dtype) if floating and values.dtype != dtype else values
