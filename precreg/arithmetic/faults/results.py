"""Faults of what operations give: bits cut off, subnormals flushed, overflow that saturates, dtypes on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.faults.layer import Layer, ResultLayer, is_by_element, is_narrower
from precreg.arithmetic.formats import Format, format_of, numpy_dtype
from precreg.arithmetic.roundings import Rounding

Array = NDArray[Any]


BASIC = frozenset({np.add, np.subtract, np.multiply, np.divide})

FUNCTIONS = frozenset(
    {
        *(np.sqrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.power, np.float_power, np.cbrt),
        *(np.sin, np.cos, np.tan, np.tanh, np.sinh, np.cosh, np.arctan, np.arctan2, np.arcsin, np.arccos, np.arctanh),
    }
)
"""What a vector unit computes element by element, and mostly only approximates."""


class Truncated(Layer):
    """Cuts the last bits off what additions, subtractions, multiplications and divisions give: toward zero.

    Long doubles stay as they are: no integer has their bits.
    """

    def __init__(self, inner: Arithmetic, *, bits: int) -> None:
        super().__init__(inner)
        self._bits = bits

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and cut off."""
        result = super().ufunc(function, method, inputs, options)
        if method == "__call__" and function in BASIC and is_floating(result.dtype) and result.dtype.itemsize <= 8:
            return without_last_bits(np.asarray(result), self._bits)
        return result


class Conversions(Layer):
    """Rounds conversions to narrower dtypes in another way, by `rounded(values, format)`, before they are stored."""

    def __init__(self, inner: Arithmetic, *, extra_bits: int = 0, rounding: str = "nearest_even") -> None:
        super().__init__(inner)
        self._extra_bits, self._rounding = extra_bits, Rounding(rounding)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Round first, by this rounding and to `extra_bits` more bits than `dtype` has; then convert."""
        format = format_of(dtype.name)
        if format is not None and is_narrower(dtype, values.dtype) and values.dtype.name != "longdouble":
            wide = values if values.dtype.itemsize >= 4 else values.astype(np.float32)
            values = round_to(wide, _longer(format, self._extra_bits), self._rounding)
        return super().cast(values, dtype)


class Hop(Layer):
    """Lets what functions such as sqrt, exp and tanh give pass through a narrower dtype."""

    def __init__(self, inner: Arithmetic, *, format: str) -> None:
        super().__init__(inner)
        self._narrow = numpy_dtype(format)

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and pass the result through."""
        result = super().ufunc(function, method, inputs, options)
        if method == "__call__" and function in FUNCTIONS and is_narrower(self._narrow, result.dtype):
            return self.inner.cast(self.inner.cast(np.asarray(result), self._narrow), result.dtype)
        return result


class Flushed(ResultLayer):
    """Gives zero, of the same sign, for every result below the smallest normal number of its dtype."""

    def altered(self, result: Array, inputs: tuple[Any, ...], by_element: bool) -> Array:
        """Flush."""
        small = np.abs(result) < _format(result.dtype).smallest_normal
        return np.where(small, np.copysign(result.dtype.type(0), result), result) if small.any() else result


class Saturated(ResultLayer):
    """Gives the largest number of the dtype where finite operands give an infinity."""

    def altered(self, result: Array, inputs: tuple[Any, ...], by_element: bool) -> Array:
        """Saturate."""
        beyond = _anew(np.isinf, result, inputs, by_element)
        if not beyond.any():
            return result
        largest = result.dtype.type(_format(result.dtype).largest)
        return np.where(beyond, np.copysign(largest, result), result)


_WITHOUT_NAN: dict[np.ufunc, np.ufunc] = {np.maximum: np.fmax, np.minimum: np.fmin}


class WithoutNaN(Layer):
    """Swallows NaN: maximum, minimum and clip take the other operand, sums skip it, invalid operations give zero."""

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute without NaN."""
        if function is np.add and method in ("reduce", "accumulate") and is_floating(inputs[0].dtype):
            terms = inputs[0]
            return super().ufunc(function, method, (np.where(np.isnan(terms), terms.dtype.type(0), terms),), options)
        if function.__name__ == "clip" and method == "__call__":
            values, low, high = inputs
            return self.apply(np.fmin, self.apply(np.fmax, values, low), high)
        result = super().ufunc(_WITHOUT_NAN.get(function, function), method, inputs, options)
        if method == "__call__" and isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype):
            invalid = _anew(np.isnan, np.asarray(result), inputs, is_by_element(function, method))
            return np.where(invalid, result.dtype.type(0), result) if invalid.any() else result
        return result


def _anew(kind: np.ufunc, result: Array, inputs: tuple[Any, ...], by_element: bool) -> NDArray[np.bool_]:
    """Say which elements of a result are NaN, or infinite, and come from operands that are not."""
    found: NDArray[np.bool_] = kind(result)
    if found.any():
        for operand in inputs:
            if _is_number(operand):
                had = kind(operand)
                found = found & ~(had if by_element else had.any())
    return found


def without_last_bits(values: Array, bits: int) -> Array:
    """Set the last bits of every number to zero, which moves it toward zero; NaN and infinities stay."""
    patterns = values.view(f"u{values.dtype.itemsize}") if values.flags.c_contiguous else _patterns(values)
    mask = patterns.dtype.type(np.iinfo(patterns.dtype).max - (2**bits - 1))
    cut = (patterns & mask).view(values.dtype).reshape(values.shape)
    return np.where(np.isfinite(values), cut, values)


def _patterns(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _longer(format: Format, bits: int) -> Format:
    """Return a format with more bits of the significand. What overflows is left to the conversion after it."""
    return format if not bits else replace(format, precision=format.precision + bits, largest=float("inf"))


def _format(dtype: np.dtype[Any]) -> Format:
    format = format_of(dtype.name)
    assert format is not None, dtype
    return format


def _is_number(operand: Any) -> bool:
    return isinstance(operand, int | float | np.generic) or (
        isinstance(operand, np.ndarray) and is_floating(operand.dtype)
    )
