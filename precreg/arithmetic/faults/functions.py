"""Functions with fewer terms, quotients and roots with fewer Newton steps, and functions of another good library."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.arith_rounding import cast
from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.devices.functions import quarter_turns
from precreg.arithmetic.faults.layer import Layer
from precreg.arithmetic.faults.results import FUNCTIONS

Array = NDArray[Any]

Doubles = NDArray[np.float64]

Function = Callable[[Doubles], Doubles]


class InDouble(Layer):
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


def fewer_terms(inner: Arithmetic) -> Layer:
    """Compute functions by series of one term fewer than float32 needs: relative errors up to 5.1e-6."""
    return InDouble(inner, SHORT_SERIES)


def fewer_steps(inner: Arithmetic) -> Layer:
    """Compute quotients and roots by Newton's iteration with two steps, of the three that float32 needs."""
    divided, rooted = _divided, _rooted
    return InDouble(inner, {np.divide: divided, np.reciprocal: lambda x: divided(np.ones_like(x), x), np.sqrt: rooted})


def another_library(inner: Arithmetic) -> Layer:
    """Compute functions in float64 and round once: as a library does whose functions are correctly rounded."""
    return InDouble(inner, {function: function for function in FUNCTIONS})


def exp(x: Doubles) -> Doubles:
    """Give 2**k times the series of e**r up to r**5 / 5!, with x = k log(2) + r and |r| <= log(2) / 2."""
    k = np.rint(x / log(2))
    r = x - k * log(2)
    series = np.polyval([1 / factorial(n) for n in range(5, -1, -1)], r)
    scaled: Doubles = np.ldexp(series, np.clip(k, -1100, 1100).astype(np.int64))
    return scaled


def logarithm(x: Doubles) -> Doubles:
    """Give k log(2) + 2 (s + s**3 / 3 + s**5 / 5), with x = 2**k m, s = (m - 1) / (m + 1), m from 0.71 to 1.41."""
    m, k = np.frexp(x)
    small = m < np.sqrt(0.5)
    m, k = np.where(small, 2 * m, m), k - small
    s = (m - 1) / (m + 1)
    value: Doubles = k * log(2) + 2 * s * np.polyval([1 / 5, 1 / 3, 1], s * s)
    return value


def tanh(x: Doubles) -> Doubles:
    """Give four levels of the continued fraction x / (1 + x**2 / (3 + ...)); 1 - 2 / (exp(2|x|) + 1) from 0.9."""
    square = x * x
    near = x / (1 + square / (3 + square / (5 + square / 7)))
    far = np.copysign(1 - 2 / (exp(2 * np.abs(x)) + 1), x)
    return np.where(np.abs(x) < 0.9, near, far)


def sine(x: Doubles, quarters: int = 0) -> Doubles:
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
    np.exp: exp,
    np.log: logarithm,
    np.tanh: tanh,
    np.sin: sine,
    np.cos: lambda x: sine(x, 1),
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
