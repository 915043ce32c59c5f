"""Which faults alter the result of an operation: lost bits, other roundings and formats, or short approximations?"""

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
from precreg.storage import Array

Doubles = NDArray[np.float64]

TRUNCATED_UFUNCS = frozenset({np.add, np.subtract, np.multiply, np.divide})

# The functions that the vector unit of an accelerator computes element by element, and mostly approximates.
NARROWED_UFUNCS = frozenset(
    {
        *(np.sqrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.power, np.float_power, np.cbrt),
        *(np.sin, np.cos, np.tan, np.tanh, np.sinh, np.cosh, np.arctan, np.arctan2, np.arcsin, np.arccos, np.arctanh),
    }
)

# The functions that ignore NaN where the first one propagates it.
_WITHOUT_NAN: dict[np.ufunc, np.ufunc] = {np.maximum: np.fmax, np.minimum: np.fmin}


class Truncated(ArithmeticLayer):
    """Cut the last bits off the results of additions, subtractions, multiplications and divisions, toward zero."""

    def __init__(self, inner: Arithmetic, *, bits: int) -> None:
        super().__init__(inner)
        self._bits = bits

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and cut the last bits off."""
        result = super().ufunc(function, method, inputs, options)
        # Long doubles stay unchanged, because no integer dtype has their bits.
        if (
            method == "__call__"
            and function in TRUNCATED_UFUNCS
            and is_floating(result.dtype)
            and result.dtype.itemsize <= 8
        ):
            return truncate_bits(np.asarray(result), self._bits)
        return result


class Conversions(ArithmeticLayer):
    """Round conversions to narrower dtypes in another way before they are stored."""

    def __init__(self, inner: Arithmetic, *, extra_bits: int = 0, rounding: str = "nearest_even") -> None:
        super().__init__(inner)
        self._extra_bits, self._rounding = extra_bits, Rounding(rounding)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Round by this layer's rounding, to `extra_bits` more bits than `dtype` has, and then convert."""
        format = format_of(dtype.name)
        if format is not None and is_narrower(dtype, values.dtype) and values.dtype.name != "longdouble":
            wide = values if values.dtype.itemsize >= 4 else values.astype(np.float32)
            if self._extra_bits:
                # Without a largest number, because overflow is left to the conversion after it.
                format = replace(format, precision=format.precision + self._extra_bits, largest=float("inf"))
            values = round_to(wide, format, self._rounding)
        return super().cast(values, dtype)


class NarrowedResults(ArithmeticLayer):
    """Pass the results of functions such as sqrt, exp and tanh through a narrower dtype."""

    def __init__(self, inner: Arithmetic, *, format: str) -> None:
        super().__init__(inner)
        self._narrow = numpy_dtype(format)

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute, and pass the result through the narrower dtype."""
        result = super().ufunc(function, method, inputs, options)
        if method == "__call__" and function in NARROWED_UFUNCS and is_narrower(self._narrow, result.dtype):
            return self.inner.cast(self.inner.cast(np.asarray(result), self._narrow), result.dtype)
        return result


class Flushed(ResultLayer):
    """Replace results below the smallest normal number of their dtype by zeros of the same sign."""

    def altered(self, result: Array, inputs: tuple[Any, ...], by_element: bool) -> Array:
        """Flush subnormal results to zero."""
        small = np.abs(result) < _format(result.dtype).smallest_normal
        return np.where(small, np.copysign(result.dtype.type(0), result), result) if small.any() else result


class Saturated(ResultLayer):
    """Return the largest number of the dtype if finite operands give an infinity."""

    def altered(self, result: Array, inputs: tuple[Any, ...], by_element: bool) -> Array:
        """Saturate infinities."""
        beyond = _is_new(np.isinf, result, inputs, by_element)
        if not beyond.any():
            return result
        largest = result.dtype.type(_format(result.dtype).largest)
        return np.where(beyond, np.copysign(largest, result), result)


class WithoutNaN(ArithmeticLayer):
    """Hide NaN: maximum, minimum and clip take the other operand, sums skip it, invalid operations give zero."""

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
            invalid = _is_new(np.isnan, np.asarray(result), inputs, is_elementwise(function, method))
            return np.where(invalid, result.dtype.type(0), result) if invalid.any() else result
        return result


def _is_new(kind: np.ufunc, result: Array, inputs: tuple[Any, ...], by_element: bool) -> NDArray[np.bool_]:
    """Return the elements of a result that are NaN, or infinite, although the operands are not."""
    found: NDArray[np.bool_] = kind(result)
    if found.any():
        for operand in inputs:
            if _is_number(operand):
                had = kind(operand)
                # In a product of matrices any operand element may have reached any result.
                found = found & ~(had if by_element else had.any())
    return found


def truncate_bits(values: Array, bits: int) -> Array:
    """Set the last bits of every number to zero, which rounds toward zero. NaN and infinities stay unchanged."""
    patterns = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    mask = patterns.dtype.type(np.iinfo(patterns.dtype).max - (2**bits - 1))
    cut = (patterns & mask).view(values.dtype).reshape(values.shape)
    return np.where(np.isfinite(values), cut, values)


def _format(dtype: np.dtype[Any]) -> Format:
    format = format_of(dtype.name)
    assert format is not None, dtype
    return format


def _is_number(operand: Any) -> bool:
    return isinstance(operand, int | float | np.generic) or (
        isinstance(operand, np.ndarray) and is_floating(operand.dtype)
    )


class InDouble(ArithmeticLayer):
    """Compute some functions in float64, in place of the arithmetic below, and round their results once.

    So the function's own error is the only one besides one rounding. The result of the arithmetic below remains if it
    is zero, or if it or the value of the function is not finite.
    """

    def __init__(self, inner: Arithmetic, functions: dict[np.ufunc, Callable[..., Any]]) -> None:
        super().__init__(inner)
        self._functions = functions

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute in float64, if this layer has the function."""
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
    """Compute functions by series with one term less than float32 needs: relative errors up to 5.1e-6."""
    return InDouble(inner, SHORT_SERIES)


def fewer_steps(inner: Arithmetic) -> ArithmeticLayer:
    """Compute quotients and roots by two steps of Newton's iteration, where float32 needs three."""
    return InDouble(
        inner,
        {np.divide: _short_divide, np.reciprocal: lambda x: _short_divide(np.ones_like(x), x), np.sqrt: _short_sqrt},
    )


def another_library(inner: Arithmetic) -> ArithmeticLayer:
    """Compute functions in float64 and round once, as a library with correctly rounded functions does."""
    return InDouble(inner, {function: function for function in NARROWED_UFUNCS})


# The short series below end one term before their error falls below half an ULP of float32 (6e-8). Reductions use
# float64 throughout, so truncation of the series is their only visible error. tests/arithmetic/faults/test_functions.py
# measures it against mpmath.


def short_exp(x: Doubles) -> Doubles:
    """Return 2^k times the series of e^r up to r^5 / 5!, with x = k ln(2) + r and |r| <= ln(2) / 2."""
    k = np.rint(x / log(2))
    r = x - k * log(2)
    series = np.polyval([1 / factorial(n) for n in range(5, -1, -1)], r)
    # Any exponent beyond 1100 overflows or underflows in float64.
    scaled: Doubles = np.ldexp(series, np.clip(k, -1100, 1100).astype(np.int64))
    return scaled


def short_log(x: Doubles) -> Doubles:
    """Return k ln(2) + 2 (s + s^3 / 3 + s^5 / 5).

    Here x = 2^k m with m from 0.71 to 1.41, and s = (m - 1) / (m + 1).
    """
    m, k = np.frexp(x)
    small = m < np.sqrt(0.5)
    m, k = np.where(small, 2 * m, m), k - small
    s = (m - 1) / (m + 1)
    value: Doubles = k * log(2) + 2 * s * np.polyval([1 / 5, 1 / 3, 1], s * s)
    return value


def short_tanh(x: Doubles) -> Doubles:
    """Return tanh by four levels of its continued fraction, x / (1 + x^2 / (3 + ...)).

    From 0.9 on, where the fraction would need more levels, it is 1 - 2 / (exp(2 |x|) + 1).
    """
    square = x * x
    near = x / (1 + square / (3 + square / (5 + square / 7)))
    far = np.copysign(1 - 2 / (short_exp(2 * np.abs(x)) + 1), x)
    return np.where(np.abs(x) < 0.9, near, far)


def short_sin(x: Doubles, quarters: int = 0) -> Doubles:
    """Return the sine of x + quarters * pi / 2: one quarter gives the cosine.

    The series go up to r^7 / 7! (sine) and r^6 / 6! (cosine), with x = k pi / 2 + r and |r| <= pi / 4.
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


def _short_divide(a: Doubles, b: Doubles) -> Doubles:
    """Return a times an approximate 1 / b: two steps y <- y (2 - m y), with |b| = 2^k m."""
    m, k = np.frexp(b)
    sign, m = np.sign(m), np.abs(m)
    # The best line on [1/2, 1]: 1/17 off at most. Each step squares the relative error, so two leave 1.2e-5.
    y = 48 / 17 - 32 / 17 * m
    for _ in range(2):
        y = y * (2 - m * y)
    return a * sign * np.ldexp(y, -k)


def _short_sqrt(x: Doubles) -> Doubles:
    """Return 2^k times an approximate root of m: two steps y <- (y + m / y) / 2, with x = 4^k m and 1/2 <= m < 2."""
    m, k = np.frexp(x)
    odd = k % 2 != 0
    m, k = np.where(odd, 2 * m, m), np.where(odd, k - 1, k)
    # The tangent at m = 1. Two steps leave 1.5e-6 at most.
    y = (1 + m) / 2
    for _ in range(2):
        y = (y + m / y) / 2
    root: Doubles = np.ldexp(y, k // 2)
    return root
