"""Which arithmetic computes the operations of an array that looks like numpy's?

numpy consults an array before it computes with it: for ufuncs by NEP 13 (`__array_ufunc__`), for other functions by
NEP 18 (`__array_function__`). So a kernel that is written for numpy runs unchanged. A kernel that leaves numpy also
leaves the arithmetic: float(x), math.sqrt, numpy.asarray(x), or a plain array that never meets a simulated one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from precreg.arithmetic.formats import FORMATS
from precreg.storage import Array


class Arithmetic(Protocol):
    """Compute operations on plain arrays, for the simulated arrays that hold this arithmetic.

    A layer that changes a few operations holds the arithmetic below it, and passes all others on.
    """

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return `getattr(function, method)(*inputs, **options)`: products, reductions, elementwise functions.

        `method` is __call__, reduce, accumulate, reduceat, outer or at. `inputs` are plain arrays and scalars.
        `options` never has `out`. numpy puts positional options, such as an axis, into it by name.
        """

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return `function(*inputs, **options)` for one of COMPILED_FUNCTIONS: dot, einsum, numpy.linalg.norm, ...

        Raises NotImplementedError for functions that the arithmetic cannot compute.
        """

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Return `values` in another dtype, as `astype` does."""


class NumpyArithmetic:
    """Compute with numpy itself: a simulated array gives the bits of a plain array."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call the ufunc, or one of its methods."""
        return getattr(function, method)(*inputs, **options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call the function."""
        return function(*inputs, **options)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Round to nearest even, as numpy does."""
        return values.astype(dtype)


class WatchedArithmetic:
    """Pass every operation on to another arithmetic, and note whether it computed a floating-point result.

    Comparisons and moved numbers do not count, because no arithmetic rounds them.
    """

    def __init__(self, inner: Arithmetic) -> None:
        self.inner, self.has_computed = inner, False

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a method of a ufunc (see `Arithmetic.ufunc`)."""
        return self._note(self.inner.ufunc(function, method, inputs, options))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a compiled function of numpy (see `Arithmetic.contraction`)."""
        return self._note(self.inner.contraction(function, inputs, options))

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Convert values (see `Arithmetic.cast`)."""
        self.has_computed = True
        return self.inner.cast(values, dtype)

    def _note(self, result: Any) -> Any:
        # The method `at` changes its first operand and returns None.
        parts = result if isinstance(result, tuple | list) else (result,)
        self.has_computed |= any(part is None or is_floating(np.asarray(part).dtype) for part in parts)
        return result


# numpy's functions that compute in compiled code, on plain copies of their arguments. All others move numbers, or call
# ufuncs, which come back to the array. tests/arithmetic/devices/test_array.py calls functions of numpy to verify this.
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
    if hasattr(module, name)  # numpy 1 lacks some
)

# Compiled functions that accept `out` as third positional argument.
_WITH_THIRD_OUT = frozenset({np.dot, np.outer})

# The methods of ufuncs that compute many terms in one dtype.
_FOLDS = ("reduce", "accumulate", "reduceat")


class SimulatedArray(np.ndarray[Any, np.dtype[Any]]):
    """View an array, and let `arithmetic` compute its operations. Bits, dtype and shape are the array's.

    Floating-point results are simulated arrays again. Integers and truth values are plain. Single elements are arrays
    without dimensions, because numpy's scalars would leave the arithmetic.
    """

    arithmetic: Arithmetic = NumpyArithmetic()

    def __array_finalize__(self, source: object) -> None:
        if isinstance(source, SimulatedArray):
            self.arithmetic = source.arithmetic

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arithmetic = _find_arithmetic((*inputs, *options.get("out", ())))
        out = options.pop("out", None)
        plain_options = {name: plain_array(value) for name, value in options.items()}
        has_out = out is not None and any(target is not None for target in out)
        if has_out and method in _FOLDS and options.get("dtype") is None:
            plain_options |= _dtype_of_fold(inputs[0], out[0])
        operands = tuple(_count_as_int(value, out[0]) for value in inputs) if has_out else inputs
        # With `where`, numpy leaves the other elements of `out` as they are, so only the final write may apply it.
        where = plain_options.pop("where", True) if has_out and method == "__call__" else True
        result = arithmetic.ufunc(ufunc, method, tuple(map(plain_array, operands)), plain_options)
        if has_out:
            return _write_out(result, out, arithmetic, where, options.get("casting", "same_kind"))
        return _simulate_result(result, arithmetic)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        arithmetic = _find_arithmetic((*args, *kwargs.values()))
        if func in COMPILED_FUNCTIONS:
            args, out = (args[:2], *args[2:]) if func in _WITH_THIRD_OUT and args[2:] else (args, kwargs.get("out"))
            plain_options = {name: plain_array(value) for name, value in kwargs.items() if name != "out"}
            result = arithmetic.contraction(func, tuple(map(plain_array, args)), plain_options)
            return _simulate_result(result, arithmetic) if out is None else _write_out(result, (out,), arithmetic)
        if func is np.copyto:
            return _copy_to(arithmetic, *args, **kwargs)
        return _simulate_result(super().__array_function__(func, types, args, kwargs), arithmetic)

    def __getitem__(self, key: Any) -> Any:
        return _simulate_result(super().__getitem__(key), self.arithmetic)

    def __setitem__(self, key: Any, value: Any) -> None:
        plain_array(self)[key] = _cast(value, self.dtype, self.arithmetic)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Convert by the arithmetic if both dtypes are floating point, else by numpy."""
        target = np.dtype(dtype)
        casting = options.get("casting", args[1] if len(args) > 1 else "unsafe")
        floating = is_floating(target) and is_floating(self.dtype)
        # numpy raises the error for a cast that `casting` forbids.
        if target == self.dtype or not floating or not np.can_cast(self.dtype, target, casting):
            return _simulate_result(plain_array(self).astype(dtype, *args, **options), self.arithmetic)
        return _simulate_result(self.arithmetic.cast(plain_array(self), target), self.arithmetic)

    def dot(self, other: Any, out: Any = None) -> Any:
        """Multiply as numpy.dot does, because the method of ndarray consults no arithmetic."""
        return np.dot(self, other, out=out)

    def mean(self, *args: Any, **options: Any) -> Any:
        """Return the mean. The sum of float16 stays float32 until the division is done, as in numpy."""
        # numpy itself converts this mean by numpy.float16(...), which leaves the arithmetic. With dtype=float32 it does
        # not convert, and `astype` does.
        dtype = options.get("dtype", args[1] if len(args) > 1 else None)
        if self.dtype != np.float16 or dtype is not None or options.get("out", args[2:3] or None) is not None:
            return _simulate_result(super().mean(*args, **options), self.arithmetic)
        options |= zip(("axis", "dtype", "out", "keepdims"), args, strict=False)
        return _simulate_result(super().mean(**{**options, "dtype": np.float32}), self.arithmetic).astype(np.float16)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """Scale, round and scale back. The method of ndarray would keep intermediate results in a plain array."""
        rounded = super().round(decimals, np.empty_like(self))
        return rounded if out is None else _write_out(rounded, (out,), self.arithmetic)

    def trace(self, *args: Any, **options: Any) -> Any:
        """Sum the diagonal. The method of ndarray would return a plain number."""
        return _simulate_result(super().trace(*args, **options), self.arithmetic)

    def __round__(self, digits: int | None = None) -> Any:
        """Round a single element as Python rounds a number, which ndarray lacks."""
        return int(np.rint(self)) if digits is None else np.round(self, digits)

    def __repr__(self) -> str:
        return repr(plain_array(self))

    def __str__(self) -> str:
        return str(plain_array(self))

    def __reduce__(self) -> Any:
        """Pickle the plain array: the process that reads it may have another arithmetic, or none."""
        return plain_array(self).__reduce__()


def simulate_array(array: Array, arithmetic: Arithmetic) -> SimulatedArray:
    """Return a view of an array whose operations an arithmetic computes."""
    view = array.view(SimulatedArray)
    view.arithmetic = arithmetic
    return view


def plain_array(value: Any) -> Any:
    """Return the plain array of a simulated array, also within lists and tuples. Other values come back unchanged."""
    if isinstance(value, SimulatedArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and _first_simulated(value) is not None:
        return type(value)(map(plain_array, value))
    return value


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype holds real floating-point numbers, of numpy or ml_dtypes."""
    # ml_dtypes have kind "V", as raw bytes do, so their names decide.
    return dtype.kind == "f" or dtype.name in FORMATS


def _find_arithmetic(values: Iterable[Any]) -> Arithmetic:
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


def _simulate_result(result: Any, arithmetic: Arithmetic) -> Any:
    """Return floating-point results as simulated arrays, also within tuples; other results are plain."""
    if isinstance(result, tuple | list):
        parts = [_simulate_result(part, arithmetic) for part in result]
        # A named tuple, such as the result of slogdet, takes its fields one by one.
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype):
        return simulate_array(np.asarray(result), arithmetic)
    return plain_array(result)


def _count_as_int(value: Any, out: Any) -> Any:
    """Return a numpy integer as a Python int if the result goes to a float array that can hold it.

    numpy's means divide their own sum by such counts. With numpy's int64 they would divide in float64, a dtype that
    devices lack.
    """
    if isinstance(value, np.integer) and isinstance(out, np.ndarray) and is_floating(out.dtype):
        return int(value) if float(out.dtype.type(value)) == value else value
    return value


def _dtype_of_fold(terms: Any, out: Any) -> dict[str, Any]:
    """Return the dtype in which numpy folds if `out` has another dtype than the terms: their common dtype."""
    dtypes = np.asarray(plain_array(terms)).dtype, out.dtype
    return {"dtype": np.result_type(*dtypes)} if all(map(is_floating, dtypes)) and dtypes[0] != dtypes[1] else {}


def _write_out(
    result: Any, out: tuple[Any, ...], arithmetic: Arithmetic, where: Any = True, casting: Any = "same_kind"
) -> Any:
    """Write results into the caller's arrays, except for elements that `where` leaves out, and return these arrays.

    Raises TypeError for a conversion that numpy would refuse.
    """
    for target, part in zip(out, result if isinstance(result, tuple) else (result,), strict=True):
        if target is not None:
            values = np.asarray(part)
            if not np.can_cast(values.dtype, target.dtype, casting):
                raise TypeError(f"cannot cast {values.dtype} to the output's {target.dtype} with casting={casting!r}")
            np.copyto(plain_array(target), _cast(values, target.dtype, arithmetic), casting="unsafe", where=where)
    return out[0] if len(out) == 1 else out


def _copy_to(arithmetic: Arithmetic, dst: Any, src: Any, *rest: Any, **options: Any) -> None:
    """Do the work of numpy.copyto, whose parameters have these names."""
    np.copyto(plain_array(dst), _cast(src, dst.dtype, arithmetic), *rest, **options)


def _cast(values: Any, dtype: np.dtype[Any], arithmetic: Arithmetic) -> Any:
    """Return values converted by the arithmetic if both dtypes are floating point and differ, else unchanged."""
    values = plain_array(values)
    floating = isinstance(values, np.ndarray) and is_floating(values.dtype) and is_floating(dtype)
    return arithmetic.cast(values, dtype) if floating and values.dtype != dtype else values
