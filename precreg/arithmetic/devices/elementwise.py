"""Which result does a device give for an operation on elements, or for a special function that it approximates?

An operation rounds its exact result once. A special function is reduced to a small range and computed there step by
step, each step rounded to the working format. The reduction, and the scaling by powers of two after it, use float64,
where their error is far smaller.

Formulas: Muller, Elementary Functions, 3rd edition, 2016. Chapters 3 and 6 treat polynomials and tables, chapter 11 the
reduction. Newton's division: Muller et al., Handbook of Floating-Point Arithmetic, 2nd edition, 2018, section 4.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import factorial, log
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic.devices.device import Approximation, Device, Elementwise
from precreg.arithmetic.formats import FORMATS, Rounding
from precreg.arithmetic.operations import add, divide, multiply, sqrt, subtract
from precreg.arithmetic.rounding import round_to
from precreg.storage import Array

# The operations whose exact result is rounded once. Square, reciprocal and powers of 2 and 1/2 become these.
EXACT_UFUNCS: dict[np.ufunc, Callable[..., Array]] = {
    np.add: add,
    np.subtract: subtract,
    np.multiply: multiply,
    np.divide: divide,
    np.sqrt: sqrt,
}

# The functions that numpy computes in float64 and precreg rounds once, if a table does not approximate them.
_BY_FLOAT64 = (
    "power float_power hypot cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 "
    "sinh cosh tanh arcsinh arccosh arctanh logaddexp logaddexp2 deg2rad rad2deg degrees radians"
)
FLOAT64_UFUNCS: frozenset[np.ufunc] = frozenset(getattr(np, name) for name in _BY_FLOAT64.split())

# The dtypes in which no function is approximated: a unit computes them in float32 and rounds at the end.
_NARROW = frozenset(name for name, format in FORMATS.items() if format.precision < FORMATS["float32"].precision)

# The dtypes whose basic operations numpy rounds once, to nearest even. numpy computes the two narrow ones in float32.
# This has more than twice their bits, so the second rounding is harmless (Figueroa, When is double rounding innocuous?,
# 1995).
_IEEE_IN_NUMPY = frozenset({"float64", "float32", "float16", "bfloat16"})


def compute_elementwise(
    device: Device, function: np.ufunc, inputs: tuple[Any, ...], dtype: np.dtype[Any]
) -> Array | None:
    """Return the result of an elementwise function in `dtype`, or None if the table leaves it to numpy."""
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
    if function not in EXACT_UFUNCS:
        return round_to_storage(function(*(value.astype(np.float64) for value in values)), entry, dtype)
    # numpy is faster, and rounds correctly where the format is the dtype's own.
    if entry.rounding is Rounding.NEAREST_EVEN and entry.format == FORMATS[dtype.name] and dtype.name in _IEEE_IN_NUMPY:
        return np.asarray(function(*(value.astype(dtype, copy=False) for value in values)))
    computed = EXACT_UFUNCS[function](*values, entry.format, entry.rounding, seed=entry.seed)
    return computed.astype(dtype, copy=False)


def read_operand(value: Any, entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Return an operand as float32 or float64, as the operation reads it.

    A Python number is rounded to the input format, or else to the format of the operation. An array is rounded to the
    input format, if the operation has one.
    """
    if isinstance(value, bool | int | float):
        return round_to(np.asarray(float(value)), entry.input or entry.format, entry.rounding, seed=entry.seed)
    array = np.asarray(value)
    if array.dtype != dtype:
        array = array.astype(dtype)
    array = to_carrier(array)
    return array if entry.input is None else round_to(array, entry.input, entry.rounding, seed=entry.seed)


def to_carrier(array: Array) -> Array:
    """Return floating-point numbers as float32, or unchanged if they are float32 or float64."""
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def round_to_storage(values: Array, entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Return float64 values rounded once, in the dtype, which has all numbers of the format."""
    return round_to(np.asarray(values, np.float64), entry.format, entry.rounding, seed=entry.seed).astype(dtype)


def result_dtype(function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype that numpy gives the result of a function."""
    # numpy's rules depend on Python scalars, casting and signatures, and changed with numpy 2 (NEP 50). Calling the
    # function with one element of each input applies the rules of the installed version.
    small = tuple(
        np.ones((1,) * value.ndim, value.dtype) if isinstance(value, np.ndarray) and value.ndim else value
        for value in inputs
    )
    chosen = {name: options[name] for name in ("dtype", "casting", "signature") if options.get(name) is not None}
    with np.errstate(all="ignore"):
        result = function(*small, **chosen)
    dtype: np.dtype[Any] = (result[0] if isinstance(result, tuple) else result).dtype
    return dtype


class _Steps(NamedTuple):
    """Apply basic operations, each rounded once to the working format."""

    working: Elementwise

    def __call__(self, operation: Callable[..., Array], *operands: Any) -> Array:
        return operation(*operands, self.working.format, self.working.rounding, seed=self.working.seed)

    def read(self, values: Array) -> Array:
        """Return float64 values rounded to the working format."""
        return round_to(values, self.working.format, self.working.rounding, seed=self.working.seed)

    def horner(self, x: Array, coefficients: Sequence[float]) -> Array:
        """Return the polynomial with these coefficients, constant first, by Horner's rule."""
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

    `name` is a key of FUNCTION_METHODS, and the method one of its values. numpy gives the result for zeros, infinities,
    NaN and operands outside the domain of the function.
    """
    wide = tuple(np.asarray(value, np.float64) for value in np.broadcast_arrays(*values))
    exact = np.asarray(getattr(np, name)(*wide), np.float64)
    usual = np.isfinite(exact)
    for value in wide:
        usual &= np.isfinite(value) & (value != 0)
    # 1 lies in the domain of every function, so that no step meets a special value.
    sound = tuple(np.where(usual, value, 1.0) for value in wide)
    near = _FUNCTIONS[name](_Steps(working), approximation, *sound)
    return np.where(usual, near, exact)


def _exp(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return 2^k exp(r), with x = k ln(2) + r and |r| <= ln(2) / 2."""
    k = np.rint(x / log(2))
    return _scale(_exp_near_zero(steps, approximation, steps.read(x - k * log(2))), k)


def _exp2(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return 2^k exp(r ln(2)), with x = k + r and |r| <= 1/2."""
    k = np.rint(x)
    return _scale(_exp_near_zero(steps, approximation, steps.read((x - k) * log(2))), k)


def _exp_near_zero(steps: _Steps, approximation: Approximation, r: Array) -> Array:
    """Return exp(r) for |r| <= ln(2) / 2 = 0.347, by a table or Taylor's polynomial."""
    if approximation.method == "table":
        return _interpolate(steps, approximation.size, r, "exp", -0.35, 0.35)
    return steps.horner(r, [1 / factorial(power) for power in range(approximation.size)])


def _log(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return e ln(2) + ln(m), with x = 2^e m."""
    e, near = _log_parts(steps, approximation, x)
    return steps(add, steps.read(e * log(2)), near)


def _log2(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return e + ln(m) / ln(2), with x = 2^e m."""
    e, near = _log_parts(steps, approximation, x)
    return steps(add, e, steps(multiply, near, steps.read(np.array(1 / log(2)))))


def _log_parts(steps: _Steps, approximation: Approximation, x: Array) -> tuple[Array, Array]:
    """Return e and ln(m), with x = 2^e m and m in [sqrt(1/2), sqrt(2)), by a table or a polynomial in s.

    ln(m) = 2 artanh(s) = 2 (s + s^3/3 + ...), with s = (m - 1) / (m + 1).
    """
    # frexp gives m in [1/2, 1). Centring m on 1 keeps ln(m) small next to x = 1, where e ln(2) would cancel.
    m, e = np.frexp(x)
    low = m < math.sqrt(0.5)
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e).astype(np.float64)
    if approximation.method == "table":
        return e, _interpolate(steps, approximation.size, m, "log", 0.7, 1.42)
    s = steps(divide, steps.read(m - 1), steps.read(m + 1))
    series = steps.horner(steps(multiply, s, s), [2 / (2 * term + 1) for term in range(approximation.size)])
    return e, steps(multiply, s, series)


def _sin(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    return _shifted_sin(steps, approximation, x, 0)


def _cos(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    return _shifted_sin(steps, approximation, x, 1)


def _shifted_sin(steps: _Steps, approximation: Approximation, x: Array, quarters: int) -> Array:
    """Return sin(x + quarters * pi / 2), from the sine and cosine of r with |r| <= pi / 4 = 0.785."""
    k, rest = quarter_turns(x)
    r = steps.read(rest)
    quarter = (k + quarters) % 4
    if approximation.method == "table":
        sine, cosine = (_interpolate(steps, approximation.size, r, name, -0.8, 0.8) for name in ("sin", "cos"))
    else:
        squares = steps(multiply, r, r)
        odd = [(-1) ** term / factorial(2 * term + 1) for term in range(approximation.size)]
        even = [(-1) ** term / factorial(2 * term) for term in range(approximation.size)]
        sine, cosine = steps(multiply, r, steps.horner(squares, odd)), steps.horner(squares, even)
    return np.where(quarter % 2 == 0, sine, cosine) * np.where(quarter >= 2, -1.0, 1.0)


def quarter_turns(x: Array) -> tuple[Array, Array]:
    """Return k from 0 to 3 and r with |r| <= pi / 4: any float64 x is k pi / 2 + r, up to whole turns."""
    # Subtracting k pi / 2 from a large x would lose r in float64. libm reduces x with pi of many more bits, so the sine
    # and cosine that it gives determine k and r.
    sine, cosine = np.sin(x), np.cos(x)
    is_even = np.abs(sine) <= np.abs(cosine)
    k = np.where(is_even, np.where(cosine > 0, 0, 2), np.where(sine > 0, 1, 3))
    return k, np.arctan(np.where(is_even, sine, -cosine) / np.where(is_even, cosine, sine))


def _tanh(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return tanh by a table, or by Taylor's polynomial below 0.55 and 1 - 2 / (exp(2 |x|) + 1) from there on."""
    size = np.abs(x)
    if approximation.method == "table":
        # 1 - tanh(10) is 4e-9, below half the spacing of float32 under 1, so the table ends there.
        return np.copysign(_interpolate(steps, approximation.size, steps.read(np.minimum(size, 10)), "tanh", 0, 10), x)
    # The polynomial converges slowly towards pi / 2. The other formula cancels near 0.
    small = steps.read(np.minimum(size, 0.55))
    squares = steps(multiply, small, small)
    near = steps(multiply, small, steps.horner(squares, _tanh_coefficients(approximation.size)))
    # Beyond 40 the result is 1 in float64, and exp(80) still fits in float32.
    denominator = steps(add, steps.read(_exp(steps, approximation, 2 * np.minimum(size, 40))), 1.0)
    far = steps(subtract, 1.0, steps(divide, 2.0, denominator))
    return np.copysign(np.where(size < 0.55, near, far), x)


@lru_cache(maxsize=64)
def _tanh_coefficients(count: int) -> tuple[float, ...]:
    """Return the Taylor coefficients of x, x^3, ... of tanh, from its differential equation tanh' = 1 - tanh^2."""
    series = [0.0]
    for power in range(2 * count - 1):
        square = sum(series[i] * series[power - i] for i in range(power + 1))
        series.append(((power == 0) - square) / (power + 1))
    return tuple(series[1::2])


def _reciprocal(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return 1 / x by Newton's iteration y <- y (2 - m y), with |x| = 2^e m and m in [1/2, 1)."""
    m, e = np.frexp(np.abs(x))
    # 48/17 - 32/17 m is the line with the smallest largest error on [1/2, 1]: 1/17 of 1 / m.
    y = steps(subtract, steps.read(np.array(48 / 17)), steps(multiply, steps.read(np.array(32 / 17)), m))
    for _ in range(approximation.size):
        y = steps(multiply, y, steps(subtract, 2.0, steps(multiply, m, y)))
    return np.copysign(_scale(y, -e), x)


def _divide(steps: _Steps, approximation: Approximation, x: Array, y: Array) -> Array:
    """Return x times the reciprocal of y. Significands are divided, so that only the result can overflow."""
    m, e = np.frexp(x)
    n, f = np.frexp(y)
    return _scale(steps(multiply, m, steps.read(_reciprocal(steps, approximation, n))), e - f)


def _sqrt(steps: _Steps, approximation: Approximation, x: Array) -> Array:
    """Return 2^k m / sqrt(m), where x = 4^k m and m lies in [1/4, 1)."""
    # Newton's iteration for 1 / sqrt(m), y <- y (3/2 - m y^2 / 2), needs no division. The one for sqrt(m) would.
    m, e = np.frexp(x)
    odd = e % 2 == 1
    m, e = np.where(odd, m / 2, m), np.where(odd, e + 1, e)
    # The line 7/3 - 4/3 m meets 1 / sqrt(m) at both ends: 2 at 1/4, and 1 at 1.
    seed = steps.read(np.array(7 / 3)), steps.read(np.array(4 / 3))
    y = steps(subtract, seed[0], steps(multiply, seed[1], m))
    for _ in range(approximation.size):
        half = steps(multiply, steps(multiply, m / 2, y), y)
        y = steps(multiply, y, steps(subtract, 1.5, half))
    return _scale(steps(multiply, m, y), e // 2)


def _interpolate(steps: _Steps, count: int, r: Array, name: str, low: float, high: float) -> Array:
    """Interpolate linearly between count + 1 entries of a function, spread evenly over [low, high]."""
    # The ranges above are a little wider than the reduced arguments, so rounding r cannot leave the table.
    entries = steps.read(getattr(np, name)(np.linspace(low, high, count + 1)))
    position = (np.asarray(r, np.float64) - low) * (count / (high - low))
    index = np.clip(np.floor(position), 0, count - 1).astype(np.int64)
    rise = steps(subtract, entries[index + 1], entries[index])
    return steps(add, entries[index], steps(multiply, steps.read(position - index), rise))


def _scale(values: Array, exponents: Array) -> Array:
    """Multiply by powers of two, in float64."""
    # Any exponent beyond 2000 overflows or underflows; clipping avoids wrapping in the conversion to integers.
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
