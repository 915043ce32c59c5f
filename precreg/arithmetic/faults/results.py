"""Faults of what operations give: bits cut off, subnormals flushed, overflow that saturates, dtypes on the way.

Functions with fewer terms, quotients and roots with fewer Newton steps, and functions of another good library.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, log
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic.devices import Arithmetic, is_floating, quarter_turns
from precreg.arithmetic.faults.fault import ArithmeticLayer, ResultLayer, is_elementwise, is_narrower
from precreg.arithmetic.formats import Format, Rounding, format_of, numpy_dtype
from precreg.arithmetic.rounding import cast, round_to

Array = NDArray[Any]


TRUNCATED_UFUNCS = frozenset({np.add, np.subtract, np.multiply, np.divide})

NARROWED_UFUNCS = frozenset(
    {
        *(np.sqrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.power, np.float_power, np.cbrt),
        *(np.sin, np.cos, np.tan, np.tanh, np.sinh, np.cosh, np.arctan, np.arctan2, np.arcsin, np.arccos, np.arctanh),
    }
)
"""What a vector unit computes element by element, and mostly only approximates."""


class Truncated(ArithmeticLayer):
    """Cuts the last bits off what additions, subtractions, multiplications and divisions give: toward zero.

    Long doubles stay as they are: no integer has their bits.
    """

    def __init__(self, inner: Arithmetic, *, bits: int) -> None:
        super().__init__(inner)
        self._bits = bits

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and cut off."""
        result = super().ufunc(function, method, inputs, options)
        if (
            method == "__call__"
            and function in TRUNCATED_UFUNCS
            and is_floating(result.dtype)
            and result.dtype.itemsize <= 8
        ):
            return truncate_bits(np.asarray(result), self._bits)
        return result


class Conversions(ArithmeticLayer):
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


class NarrowedResults(ArithmeticLayer):
    """Lets what functions such as sqrt, exp and tanh give pass through a narrower dtype."""

    def __init__(self, inner: Arithmetic, *, format: str) -> None:
        super().__init__(inner)
        self._narrow = numpy_dtype(format)

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and pass the result through."""
        result = super().ufunc(function, method, inputs, options)
        if method == "__call__" and function in NARROWED_UFUNCS and is_narrower(self._narrow, result.dtype):
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


class WithoutNaN(ArithmeticLayer):
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
            invalid = _anew(np.isnan, np.asarray(result), inputs, is_elementwise(function, method))
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


def truncate_bits(values: Array, bits: int) -> Array:
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


Doubles = NDArray[np.float64]

Function = Callable[[Doubles], Doubles]


class InDouble(ArithmeticLayer):
    """Computes some functions of float64 values, in place of the arithmetic below, and rounds what they give once.

    So the only error beside that rounding is the function's own. Where the function or its value is not finite, or the
    value is zero, the result of the arithmetic below stands.
    """

    def __init__(self, inner: Arithmetic, functions: dict[np.ufunc, Callable[..., Any]]) -> None:
        super().__init__(inner)
        self._functions = functions

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute in double, where this layer has the function."""
        result = super().ufunc(function, method, inputs, options)
        if method != "__call__" or function not in self._functions or not is_floating(result.dtype):
            return result
        result = np.asarray(result)
        operands = [np.asarray(operand).astype(np.float64) for operand in inputs]
        with np.errstate(all="ignore"):
            values = np.broadcast_to(self._functions[function](*operands), result.shape)
        usable = np.isfinite(values) & np.isfinite(result) & (result != 0)
        return np.where(usable, cast(np.asarray(values, np.float64), result.dtype.name), result)


def fewer_terms(inner: Arithmetic) -> ArithmeticLayer:
    """Compute functions by series of one term fewer than float32 needs: relative errors up to 5.1e-6."""
    return InDouble(inner, SHORT_SERIES)


def fewer_steps(inner: Arithmetic) -> ArithmeticLayer:
    """Compute quotients and roots by Newton's iteration with two steps, of the three that float32 needs."""
    divided, rooted = _divided, _rooted
    return InDouble(inner, {np.divide: divided, np.reciprocal: lambda x: divided(np.ones_like(x), x), np.sqrt: rooted})


def another_library(inner: Arithmetic) -> ArithmeticLayer:
    """Compute functions in float64 and round once: as a library does whose functions are correctly rounded."""
    return InDouble(inner, {function: function for function in NARROWED_UFUNCS})


def short_exp(x: Doubles) -> Doubles:
    """Give 2**k times the series of e**r up to r**5 / 5!, with x = k log(2) + r and |r| <= log(2) / 2."""
    k = np.rint(x / log(2))
    r = x - k * log(2)
    series = np.polyval([1 / factorial(n) for n in range(5, -1, -1)], r)
    scaled: Doubles = np.ldexp(series, np.clip(k, -1100, 1100).astype(np.int64))
    return scaled


def short_log(x: Doubles) -> Doubles:
    """Give k log(2) + 2 (s + s**3 / 3 + s**5 / 5), with x = 2**k m, s = (m - 1) / (m + 1), m from 0.71 to 1.41."""
    m, k = np.frexp(x)
    small = m < np.sqrt(0.5)
    m, k = np.where(small, 2 * m, m), k - small
    s = (m - 1) / (m + 1)
    value: Doubles = k * log(2) + 2 * s * np.polyval([1 / 5, 1 / 3, 1], s * s)
    return value


def short_tanh(x: Doubles) -> Doubles:
    """Give four levels of the continued fraction x / (1 + x**2 / (3 + ...)); 1 - 2 / (exp(2|x|) + 1) from 0.9."""
    square = x * x
    near = x / (1 + square / (3 + square / (5 + square / 7)))
    far = np.copysign(1 - 2 / (short_exp(2 * np.abs(x)) + 1), x)
    return np.where(np.abs(x) < 0.9, near, far)


def short_sin(x: Doubles, quarters: int = 0) -> Doubles:
    """Give series up to r**7 / 7! (sine) and r**6 / 6! (cosine), with x = k pi / 2 + r and |r| <= pi / 4.

    The sine of `quarters` of a turn more: the cosine is that of one.
    """
    k, r = quarter_turns(x)
    square = r * r
    odd = r * np.polyval([(-1) ** n / factorial(2 * n + 1) for n in range(3, -1, -1)], square)
    even = np.polyval([(-1) ** n / factorial(2 * n) for n in range(3, -1, -1)], square)
    quadrant = (k + quarters) % 4
    return np.where(quadrant % 2 == 0, odd, even) * np.where(quadrant < 2, 1, -1)


SHORT_SERIES: dict[np.ufunc, Callable[..., Any]] = {
    np.exp: short_exp,
    np.log: short_log,
    np.tanh: short_tanh,
    np.sin: short_sin,
    np.cos: lambda x: short_sin(x, 1),
}


def _divided(a: Doubles, b: Doubles) -> Doubles:
    """Multiply by an approximation of 1 / b: two steps y <- y (2 - b y) from a line that is 1 / 17 off at most."""
    m, k = np.frexp(b)
    sign, m = np.sign(m), np.abs(m)
    y = 48 / 17 - 32 / 17 * m
    for _ in range(2):
        y = y * (2 - m * y)
    return a * sign * np.ldexp(y, -k)


def _rooted(x: Doubles) -> Doubles:
    """Take two steps y <- (y + m / y) / 2 from (1 + m) / 2, for x = 4**k m and m from 0.5 to 2: 1.5e-6 off at most."""
    m, k = np.frexp(x)
    odd = k % 2 != 0
    m, k = np.where(odd, 2 * m, m), np.where(odd, k - 1, k)
    y = (1 + m) / 2
    for _ in range(2):
        y = (y + m / y) / 2
    root: Doubles = np.ldexp(y, k // 2)
    return root
