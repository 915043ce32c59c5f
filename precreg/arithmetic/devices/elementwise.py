"""Operations on elements as a device's table rounds them: the exact result once, and special functions besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import arith_operations as operations
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.devices.device import Device, Elementwise
from precreg.arithmetic.devices.functions import approximated
from precreg.arithmetic.formats import FORMATS
from precreg.arithmetic.roundings import Rounding

Array = NDArray[Any]


BASIC: dict[np.ufunc, Callable[..., Array]] = {
    np.add: operations.add,
    np.subtract: operations.subtract,
    np.multiply: operations.multiply,
    np.divide: operations.divide,
    np.sqrt: operations.sqrt,
}
"""Operations whose exact result is rounded once. Square, reciprocal and powers of 2 and 1/2 are made of these."""


_BY_FLOAT64 = (
    "power float_power hypot cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 "
    "sinh cosh tanh arcsinh arccosh arctanh logaddexp logaddexp2 deg2rad rad2deg degrees radians"
)

FUNCTIONS: frozenset[np.ufunc] = frozenset(getattr(np, name) for name in _BY_FLOAT64.split())
"""Functions that numpy computes in float64, and that are rounded once, where a table does not approximate them."""


_NARROW = frozenset(name for name, format in FORMATS.items() if format.precision < FORMATS["float32"].precision)

_IEEE_IN_NUMPY = frozenset({"float64", "float32", "float16", "bfloat16"})
"""dtypes whose basic operations numpy rounds once, to nearest even: the narrow ones by way of float32, which has more
than twice their bits (Figueroa, When is double rounding innocuous?, 1995)."""


def elementwise(device: Device, function: np.ufunc, inputs: tuple[Any, ...], dtype: np.dtype[Any]) -> Array | None:
    """Return the result of a function of elements in `dtype`, or None where the table leaves it to numpy."""
    entry = device.elementwise.get(dtype.name)
    if entry is None:
        return None
    if function is np.square:
        return elementwise(device, np.multiply, (inputs[0], inputs[0]), dtype)
    if function is np.reciprocal and "reciprocal" not in device.functions:
        return elementwise(device, np.divide, (1.0, inputs[0]), dtype)
    if function not in BASIC and function not in FUNCTIONS and function is not np.reciprocal:
        return None
    values = tuple(operand(value, entry, dtype) for value in inputs)
    approximation = device.functions.get(function.__name__)
    if approximation is not None:
        working = device.elementwise.get("float32", entry) if dtype.name in _NARROW else entry
        return stored(approximated(function.__name__, values, approximation, working), entry, dtype)
    if function in BASIC:
        return _basic(function, values, entry, dtype)
    return stored(function(*(value.astype(np.float64) for value in values)), entry, dtype)


def _basic(function: np.ufunc, values: tuple[Array, ...], entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Round once; numpy does that itself where the format is the dtype's own and goes to nearest even."""
    if entry.rounding is Rounding.NEAREST_EVEN and entry.format == FORMATS[dtype.name] and dtype.name in _IEEE_IN_NUMPY:
        return np.asarray(function(*(value.astype(dtype, copy=False) for value in values)))
    computed = BASIC[function](*values, entry.format, entry.rounding, seed=entry.seed)
    return computed.astype(dtype, copy=False)


def operand(value: Any, entry: Elementwise, dtype: np.dtype[Any]) -> Array:
    """Return an operand as float32 or float64, as the operation reads it.

    A Python number is rounded to the format of the operation, an array to the format that operands are read in.
    """
    if isinstance(value, bool | int | float):
        return round_to(np.asarray(float(value)), entry.input or entry.format, entry.rounding, seed=entry.seed)
    array = np.asarray(value)
    if array.dtype != dtype:
        array = array.astype(dtype)
    array = carried(array)
    return array if entry.input is None else round_to(array, entry.input, entry.rounding, seed=entry.seed)


def carried(array: Array) -> Array:
    """Return floating-point numbers as float32, or as float64 if they are that already."""
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def stored(values: Array, entry: Elementwise, dtype: np.dtype[Any]) -> Array:
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
