"""Which operations of a device does a wider unit compute, and with which results?

A wider unit computes an operation in float64, on the operands as they are, and rounds the result once to its dtype. A
place is the name of operations, a line of the user's code, or both: `add.reduce`, `kernels.py:12`, `exp@kernels.py:12`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic.devices.array import Arithmetic, is_floating
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import Device
from precreg.arithmetic.devices.elementwise import result_dtype
from precreg.arithmetic.formats import FORMATS
from precreg.arithmetic.frames import user_frame
from precreg.storage import Array

_WIDEST = FORMATS["float64"].precision


class _Place(NamedTuple):
    """A pattern of names of operations, and a file and line; line 0 is any."""

    name: str
    file: str = ""
    line: int = 0

    def matches(self, name: str) -> bool:
        if not fnmatchcase(name, self.name):
            return False
        if not self.line:
            return True
        frame = user_frame(2)
        file = frame.f_code.co_filename
        return frame.f_lineno == self.line and (file == self.file or file.endswith(f"/{self.file}"))


def _read_place(text: str) -> _Place:
    name, at, site = text.partition("@")
    if not at and ":" in text:
        name, site = "*", text
    file, _, line = site.rpartition(":")
    return _Place(name, file, int(line or 0))


class WideUnit:
    """Compute chosen operations in float64, and pass all others on to the arithmetic below."""

    def __init__(self, inner: Arithmetic, places: Sequence[str]) -> None:
        self.inner, self._places = inner, tuple(map(_read_place, places))

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a method of a ufunc (see `Arithmetic.ufunc`)."""
        name = function.__name__ + ("" if method == "__call__" else f".{method}")
        # `at` writes into its first operand.
        if method == "at" or not self._is_chosen(name):
            return self.inner.ufunc(function, method, inputs, options)
        return self._compute(getattr(function, method), inputs, options, _dtype_of(function, method, inputs, options))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a compiled function of numpy (see `Arithmetic.contraction`)."""
        if not self._is_chosen(function.__name__):
            return self.inner.contraction(function, inputs, options)
        floats = [each.dtype for each in _arrays((*inputs, *options.values())) if is_floating(each.dtype)]
        return self._compute(function, inputs, options, np.result_type(*floats) if floats else None)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Convert values to a dtype: a wider unit rounds once, as numpy does."""
        return values.astype(dtype) if self._is_chosen("astype") else self.inner.cast(values, dtype)

    def _is_chosen(self, name: str) -> bool:
        return any(place.matches(name) for place in self._places)

    def _compute(
        self, compute: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any], dtype: np.dtype[Any] | None
    ) -> Any:
        if dtype is None or not is_floating(dtype):
            return compute(*inputs, **options)
        wide = np.dtype(np.longdouble if FORMATS[dtype.name].precision >= _WIDEST else np.float64)
        given = tuple(_widened(each, wide) for each in inputs)
        kept = {name: _widened(each, wide) for name, each in options.items() if name != "dtype"}
        return _rounded(compute(*given, **kept), dtype)


def _dtype_of(function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype of the result, as numpy chooses it."""
    chosen: np.dtype[Any]
    if options.get("dtype") is not None:
        chosen = np.dtype(options["dtype"])
    elif method != "__call__":
        chosen = np.asarray(inputs[0]).dtype
    elif function.signature is not None:
        chosen = np.result_type(*(np.asarray(each).dtype for each in inputs))
    else:
        chosen = result_dtype(function, inputs, options)
    return chosen


def _arrays(values: Sequence[Any]) -> list[Array]:
    return [each for each in values if isinstance(each, np.ndarray)]


def _widened(value: Any, wide: np.dtype[Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_widened(each, wide) for each in value)
    is_array = isinstance(value, np.ndarray | np.generic)
    return np.asarray(value).astype(wide) if is_array and is_floating(value.dtype) else value


def _rounded(result: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_rounded(each, dtype) for each in result)
    return np.asarray(result).astype(dtype) if is_floating(np.asarray(result).dtype) else result


def arithmetic_of_device(device: Device) -> Arithmetic:
    """Return the arithmetic of a device, with the operations of its wider unit."""
    plain = DeviceArithmetic(device)
    return WideUnit(plain, device.wide) if device.wide else plain
