"""Special functions as devices approximate them: reduced to a small range, and computed there step by step.

The reduction, and the scaling by powers of two after it, are done in float64, where they err far less than the rest
does. Every step between is rounded to the working format. Formulas: Muller, Elementary Functions, 3rd edition, 2016:
reduction chapter 11, Taylor polynomials and tables chapters 3 and 6; Newton's division, 4.7 of Muller et al., Handbook
of Floating-Point Arithmetic, 2nd edition, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import factorial, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import arith_operations as operations
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.devices.device import Approximation, Elementwise

Array = NDArray[Any]


class _Steps(NamedTuple):
    """Basic operations, each rounded once to the working format."""

    working: Elementwise

    def __call__(self, operation: Callable[..., Array], *operands: Any) -> Array:
        return operation(*operands, self.working.format, self.working.rounding, seed=self.working.seed)

    def read(self, values: Array) -> Array:
        """Return float64 values rounded to the working format."""
        return round_to(values, self.working.format, self.working.rounding, seed=self.working.seed)

    def horner(self, x: Array, coefficients: Sequence[float]) -> Array:
        """Return the polynomial with these coefficients, that of x^0 first: a product and a sum for each power."""
        known = self.read(np.array(coefficients, np.float64))
        total = np.full(x.shape, known[-1])
        for coefficient in known[-2::-1]:
            total = self(operations.add, self(operations.multiply, total, x), coefficient)
        return total


@np.errstate(all="ignore")
def approximated(name: str, values: tuple[Array, ...], approximation: Approximation, working: Elementwise) -> Array:
    """Return the approximated function of float32 or float64 values, in float64: the caller rounds to its format.

    `name` is one of METHODS, and so is the way. Zeros, infinities, NaN and what lies outside the function's domain
    give what numpy does.
    """
    wide = tuple(np.asarray(value, np.float64) for value in np.broadcast_arrays(*values))
    exact = np.asarray(getattr(np, name)(*wide), np.float64)
    usual = np.isfinite(exact)
    for value in wide:
        usual &= np.isfinite(value) & (value != 0)
    sound = tuple(np.where(usual, value, 1.0) for value in wide)
    near = _FUNCTIONS[name](_Steps(working), approximation, *sound)
    return np.where(usual, near, exact)


def _exp(steps: _Steps, way: Approximation, x: Array) -> Array:
    """2^k exp(r) with |r| <= ln(2) / 2: Taylor's polynomial, or between entries of a table."""
    k = np.rint(x / log(2))
    return _scaled(_exp_near_zero(steps, way, steps.read(x - k * log(2))), k)


def _exp2(steps: _Steps, way: Approximation, x: Array) -> Array:
    k = np.rint(x)
    return _scaled(_exp_near_zero(steps, way, steps.read((x - k) * log(2))), k)


def _exp_near_zero(steps: _Steps, way: Approximation, r: Array) -> Array:
    if way.method == "table":
        return _between(steps, way.size, r, "exp", -0.35, 0.35)
    return steps.horner(r, [1 / factorial(power) for power in range(way.size)])


def _log(steps: _Steps, way: Approximation, x: Array) -> Array:
    """E ln(2) + ln(m) with m in [sqrt(1/2), sqrt(2)): 2 (s + s^3/3 + ...), s = (m - 1) / (m + 1), or a table."""
    e, near = _log_parts(steps, way, x)
    return steps(operations.add, steps.read(e * log(2)), near)


def _log2(steps: _Steps, way: Approximation, x: Array) -> Array:
    e, near = _log_parts(steps, way, x)
    return steps(operations.add, e, steps(operations.multiply, near, steps.read(np.array(1 / log(2)))))


def _log_parts(steps: _Steps, way: Approximation, x: Array) -> tuple[Array, Array]:
    m, e = np.frexp(x)
    low = m < sqrt(0.5)
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e).astype(np.float64)
    if way.method == "table":
        return e, _between(steps, way.size, m, "log", 0.7, 1.42)
    s = steps(operations.divide, steps.read(m - 1), steps.read(m + 1))
    odd = steps.horner(steps(operations.multiply, s, s), [2 / (2 * term + 1) for term in range(way.size)])
    return e, steps(operations.multiply, s, odd)


def _sin(steps: _Steps, way: Approximation, x: Array) -> Array:
    return _circular(steps, way, x, 0)


def _cos(steps: _Steps, way: Approximation, x: Array) -> Array:
    return _circular(steps, way, x, 1)


def _circular(steps: _Steps, way: Approximation, x: Array, quarters: int) -> Array:
    """Return the sine, `quarters` of a turn further on: of |r| <= pi / 4, in the quarter k."""
    k, rest = quarter_turns(x)
    r = steps.read(rest)
    quarter = (k + quarters) % 4
    if way.method == "table":
        sine, cosine = (_between(steps, way.size, r, name, -0.8, 0.8) for name in ("sin", "cos"))
    else:
        squares = steps(operations.multiply, r, r)
        odd = [(-1) ** term / factorial(2 * term + 1) for term in range(way.size)]
        even = [(-1) ** term / factorial(2 * term) for term in range(way.size)]
        sine, cosine = steps(operations.multiply, r, steps.horner(squares, odd)), steps.horner(squares, even)
    return np.where(quarter % 2 == 0, sine, cosine) * np.where(quarter >= 2, -1.0, 1.0)


def quarter_turns(x: Array) -> tuple[Array, Array]:
    """Return k, from 0 to 3, and r, |r| <= pi / 4, with x = k pi / 2 + r but for whole turns, of any float64 x.

    What is left of a large x after so many times pi / 2 is lost in float64; its sine and cosine tell it.
    """
    sine, cosine = np.sin(x), np.cos(x)
    is_even = np.abs(sine) <= np.abs(cosine)
    k = np.where(is_even, np.where(cosine > 0, 0, 2), np.where(sine > 0, 1, 3))
    return k, np.arctan(np.where(is_even, sine, -cosine) / np.where(is_even, cosine, sine))


def _tanh(steps: _Steps, way: Approximation, x: Array) -> Array:
    """Taylor's polynomial below 0.55, and 1 - 2 / (exp(2 |x|) + 1) beyond; or a table up to 10, where it is 1."""
    size = np.abs(x)
    if way.method == "table":
        return np.copysign(_between(steps, way.size, steps.read(np.minimum(size, 10)), "tanh", 0.0, 10.0), x)
    small = steps.read(np.minimum(size, 0.55))
    squares = steps(operations.multiply, small, small)
    near = steps(operations.multiply, small, steps.horner(squares, _tanh_coefficients(way.size)))
    denominator = steps(operations.add, steps.read(_exp(steps, way, 2 * np.minimum(size, 40))), 1.0)
    far = steps(operations.subtract, 1.0, steps(operations.divide, 2.0, denominator))
    return np.copysign(np.where(size < 0.55, near, far), x)


@lru_cache(maxsize=64)
def _tanh_coefficients(count: int) -> tuple[float, ...]:
    """Return those of x, x^3, ... of tanh, whose derivative is 1 - tanh^2."""
    series = [0.0]
    for power in range(2 * count - 1):
        square = sum(series[i] * series[power - i] for i in range(power + 1))
        series.append(((power == 0) - square) / (power + 1))
    return tuple(series[1::2])


def _reciprocal(steps: _Steps, way: Approximation, x: Array) -> Array:
    """Newton's y (2 - m y) from 48/17 - 32/17 m, with m in [1/2, 1)."""
    m, e = np.frexp(np.abs(x))
    y = steps(
        operations.subtract, steps.read(np.array(48 / 17)), steps(operations.multiply, steps.read(np.array(32 / 17)), m)
    )
    for _ in range(way.size):
        y = steps(operations.multiply, y, steps(operations.subtract, 2.0, steps(operations.multiply, m, y)))
    return np.copysign(_scaled(y, -e), x)


def _divide(steps: _Steps, way: Approximation, x: Array, y: Array) -> Array:
    """X times the reciprocal of y: by their significands, so that only the result can overflow."""
    m, e = np.frexp(x)
    n, f = np.frexp(y)
    return _scaled(steps(operations.multiply, m, steps.read(_reciprocal(steps, way, n))), e - f)


def _sqrt(steps: _Steps, way: Approximation, x: Array) -> Array:
    """M y with Newton's y (3/2 - m y^2 / 2) for 1 / sqrt(m), from 7/3 - 4/3 m, with m in [1/4, 1)."""
    m, e = np.frexp(x)
    odd = e % 2 == 1
    m, e = np.where(odd, m / 2, m), np.where(odd, e + 1, e)
    seed = steps.read(np.array(7 / 3)), steps.read(np.array(4 / 3))
    y = steps(operations.subtract, seed[0], steps(operations.multiply, seed[1], m))
    for _ in range(way.size):
        half = steps(operations.multiply, steps(operations.multiply, m / 2, y), y)
        y = steps(operations.multiply, y, steps(operations.subtract, 1.5, half))
    return _scaled(steps(operations.multiply, m, y), e // 2)


def _between(steps: _Steps, count: int, r: Array, name: str, low: float, high: float) -> Array:
    """Interpolate linearly between count + 1 entries of a function, spread evenly over [low, high]."""
    entries = steps.read(getattr(np, name)(np.linspace(low, high, count + 1)))
    place = (np.asarray(r, np.float64) - low) * (count / (high - low))
    index = np.clip(np.floor(place), 0, count - 1).astype(np.int64)
    rise = steps(operations.subtract, entries[index + 1], entries[index])
    return steps(operations.add, entries[index], steps(operations.multiply, steps.read(place - index), rise))


def _scaled(values: Array, exponents: Array) -> Array:
    """Multiply by powers of two, in float64."""
    return np.ldexp(np.asarray(values, np.float64), np.clip(exponents, -2000, 2000).astype(np.int64))


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "log2": _log2,
    "sin": _sin,
    "cos": _cos,
    "tanh": _tanh,
    "divide": _divide,
    "reciprocal": _reciprocal,
    "sqrt": _sqrt,
}
