"""Special functions as devices approximate them: reduced to a small range, and computed there step by step.

The reduction, and the scaling by powers of two after it, are done in float64, where they err far less than the rest
does. Every step between is rounded to the working format. Formulas: Muller, Elementary Functions, 3rd edition, 2016:
reduction chapter 11, Taylor polynomials and tables chapters 3 and 6; Newton's division, 4.7 of Muller et al., Handbook
of Floating-Point Arithmetic, 2nd edition, 2018.

Operations on elements as a device's table rounds them: the exact result once, and special functions besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import factorial, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.device import Approximation, Device, Elementwise
from precreg.arithmetic.formats import FORMATS, Rounding
from precreg.arithmetic.operations import add, divide, multiply, sqrt, subtract
from precreg.arithmetic.rounding import round_to

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
            total = self(add, self(multiply, total, x), coefficient)
        return total


@np.errstate(all="ignore")
def approximate_function(
    name: str, values: tuple[Array, ...], approximation: Approximation, working: Elementwise
) -> Array:
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
    return steps(add, steps.read(e * log(2)), near)


def _log2(steps: _Steps, way: Approximation, x: Array) -> Array:
    e, near = _log_parts(steps, way, x)
    return steps(add, e, steps(multiply, near, steps.read(np.array(1 / log(2)))))


def _log_parts(steps: _Steps, way: Approximation, x: Array) -> tuple[Array, Array]:
    m, e = np.frexp(x)
    low = m < math.sqrt(0.5)
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e).astype(np.float64)
    if way.method == "table":
        return e, _between(steps, way.size, m, "log", 0.7, 1.42)
    s = steps(divide, steps.read(m - 1), steps.read(m + 1))
    odd = steps.horner(steps(multiply, s, s), [2 / (2 * term + 1) for term in range(way.size)])
    return e, steps(multiply, s, odd)


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
        squares = steps(multiply, r, r)
        odd = [(-1) ** term / factorial(2 * term + 1) for term in range(way.size)]
        even = [(-1) ** term / factorial(2 * term) for term in range(way.size)]
        sine, cosine = steps(multiply, r, steps.horner(squares, odd)), steps.horner(squares, even)
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
    squares = steps(multiply, small, small)
    near = steps(multiply, small, steps.horner(squares, _tanh_coefficients(way.size)))
    denominator = steps(add, steps.read(_exp(steps, way, 2 * np.minimum(size, 40))), 1.0)
    far = steps(subtract, 1.0, steps(divide, 2.0, denominator))
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
    y = steps(subtract, steps.read(np.array(48 / 17)), steps(multiply, steps.read(np.array(32 / 17)), m))
    for _ in range(way.size):
        y = steps(multiply, y, steps(subtract, 2.0, steps(multiply, m, y)))
    return np.copysign(_scaled(y, -e), x)


def _divide(steps: _Steps, way: Approximation, x: Array, y: Array) -> Array:
    """X times the reciprocal of y: by their significands, so that only the result can overflow."""
    m, e = np.frexp(x)
    n, f = np.frexp(y)
    return _scaled(steps(multiply, m, steps.read(_reciprocal(steps, way, n))), e - f)


def _sqrt(steps: _Steps, way: Approximation, x: Array) -> Array:
    """M y with Newton's y (3/2 - m y^2 / 2) for 1 / sqrt(m), from 7/3 - 4/3 m, with m in [1/4, 1)."""
    m, e = np.frexp(x)
    odd = e % 2 == 1
    m, e = np.where(odd, m / 2, m), np.where(odd, e + 1, e)
    seed = steps.read(np.array(7 / 3)), steps.read(np.array(4 / 3))
    y = steps(subtract, seed[0], steps(multiply, seed[1], m))
    for _ in range(way.size):
        half = steps(multiply, steps(multiply, m / 2, y), y)
        y = steps(multiply, y, steps(subtract, 1.5, half))
    return _scaled(steps(multiply, m, y), e // 2)


def _between(steps: _Steps, count: int, r: Array, name: str, low: float, high: float) -> Array:
    """Interpolate linearly between count + 1 entries of a function, spread evenly over [low, high]."""
    entries = steps.read(getattr(np, name)(np.linspace(low, high, count + 1)))
    place = (np.asarray(r, np.float64) - low) * (count / (high - low))
    index = np.clip(np.floor(place), 0, count - 1).astype(np.int64)
    rise = steps(subtract, entries[index + 1], entries[index])
    return steps(add, entries[index], steps(multiply, steps.read(place - index), rise))


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


EXACT_UFUNCS: dict[np.ufunc, Callable[..., Array]] = {
    np.add: add,
    np.subtract: subtract,
    np.multiply: multiply,
    np.divide: divide,
    np.sqrt: sqrt,
}
"""Operations whose exact result is rounded once. Square, reciprocal and powers of 2 and 1/2 are made of these."""


_BY_FLOAT64 = (
    "power float_power hypot cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 "
    "sinh cosh tanh arcsinh arccosh arctanh logaddexp logaddexp2 deg2rad rad2deg degrees radians"
)

FLOAT64_UFUNCS: frozenset[np.ufunc] = frozenset(getattr(np, name) for name in _BY_FLOAT64.split())
"""Functions that numpy computes in float64, and that are rounded once, where a table does not approximate them."""


_NARROW = frozenset(name for name, format in FORMATS.items() if format.precision < FORMATS["float32"].precision)

_IEEE_IN_NUMPY = frozenset({"float64", "float32", "float16", "bfloat16"})
"""dtypes whose basic operations numpy rounds once, to nearest even: the narrow ones by way of float32, which has more
than twice their bits (Figueroa, When is double rounding innocuous?, 1995)."""


def compute_elementwise(
    device: Device, function: np.ufunc, inputs: tuple[Any, ...], dtype: np.dtype[Any]
) -> Array | None:
    """Return the result of a function of elements in `dtype`, or None where the table leaves it to numpy."""
    entry = device.elementwise.get(dtype.name)
    if entry is None:
        return None
    if function is np.square:
        return compute_elementwise(device, np.multiply, (inputs[0], inputs[0]), dtype)
    if function is np.reciprocal and "reciprocal" not in device.functions:
        return compute_elementwise(device, np.divide, (1.0, inputs[0]), dtype)
    if function not in EXACT_UFUNCS and function not in FLOAT64_UFUNCS and function is not np.reciprocal:
        return None
    values = tuple(read_operand(value, entry, dtype) for value in inputs)
    approximation = device.functions.get(function.__name__)
    if approximation is not None:
        working = device.elementwise.get("float32", entry) if dtype.name in _NARROW else entry
        return round_to_storage(approximate_function(function.__name__, values, approximation, working), entry, dtype)
    if function in EXACT_UFUNCS:
        return _basic(function, values, entry, dtype)
    return round_to_storage(function(*(value.astype(np.float64) for value in values)), entry, dtype)


def _basic(function: np.ufunc, values: tuple[Array, ...], entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Round once; numpy does that itself where the format is the dtype's own and goes to nearest even."""
    if entry.rounding is Rounding.NEAREST_EVEN and entry.format == FORMATS[dtype.name] and dtype.name in _IEEE_IN_NUMPY:
        return np.asarray(function(*(value.astype(dtype, copy=False) for value in values)))
    computed = EXACT_UFUNCS[function](*values, entry.format, entry.rounding, seed=entry.seed)
    return computed.astype(dtype, copy=False)


def read_operand(value: Any, entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Return an operand as float32 or float64, as the operation reads it.

    A Python number is rounded to the format of the operation, an array to the format that operands are read in.
    """
    if isinstance(value, bool | int | float):
        return round_to(np.asarray(float(value)), entry.input or entry.format, entry.rounding, seed=entry.seed)
    array = np.asarray(value)
    if array.dtype != dtype:
        array = array.astype(dtype)
    array = to_carrier(array)
    return array if entry.input is None else round_to(array, entry.input, entry.rounding, seed=entry.seed)


def to_carrier(array: Array) -> Array:
    """Return floating-point numbers as float32, or as float64 if they are that already."""
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def round_to_storage(values: Array, entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Round float64 values once, and return them in the dtype, which has all numbers of the format."""
    return round_to(np.asarray(values, np.float64), entry.format, entry.rounding, seed=entry.seed).astype(dtype)


def result_dtype(function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype that numpy gives a function's result: it is asked with one element of each input."""
    small = tuple(_one_of(value) for value in inputs)
    chosen = {name: options[name] for name in ("dtype", "casting", "signature") if options.get(name) is not None}
    with np.errstate(all="ignore"):
        result = function(*small, **chosen)
    dtype: np.dtype[Any] = (result[0] if isinstance(result, tuple) else result).dtype
    return dtype


def _one_of(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return np.ones((1,) * value.ndim, value.dtype)
    return value
