"""Which result does a device's table give for an operation of a simulated array?

SimulatedArray calls this arithmetic with plain arrays. An operation without an entry in the table is numpy's.
`cast_through_device` shows the values at each place of a device, so that a case can check every conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precreg.arithmetic.devices.array import (
    Arithmetic,
    SimulatedArray,
    WatchedArithmetic,
    is_floating,
    plain_array,
    simulate_array,
)
from precreg.arithmetic.devices.device import Device, StorageCast, device_named
from precreg.arithmetic.devices.elementwise import compute_elementwise, result_dtype, to_carrier
from precreg.arithmetic.devices.reductions import (
    MATRIX_UFUNCS,
    PRODUCTS,
    Products,
    accumulate_add,
    accumulate_ufunc,
    apply_ufunc_at,
    multiply_on_unit,
    reduce_add,
    reduce_ufunc,
)
from precreg.arithmetic.formats import FORMATS, Rounding, numpy_dtype
from precreg.arithmetic.operations import carrier_dtype
from precreg.arithmetic.rounding import round_to
from precreg.storage import Array


class DeviceArithmetic:
    """Compute operations by the table of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._dtypes = {*device.elementwise, *device.matmul, *device.reductions}

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a method of a ufunc (see `Arithmetic.ufunc`)."""
        if method == "__call__":
            return self._call(function, inputs, options)
        # numpy raises its own errors for methods that only functions of two operands have.
        if function.nin != 2 and method != "at":
            return getattr(function, method)(*inputs, **options)
        return {
            "reduce": self._reduce,
            "accumulate": self._accumulate,
            "reduceat": self._reduce_at,
            "outer": self._outer,
            "at": self._apply_at,
        }[method](function, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a compiled function of numpy (see `Arithmetic.contraction`).

        Raises NotImplementedError if the function cannot be composed of the device's operations.
        """
        arrays = [value for value in (*inputs, *options.values()) if isinstance(value, np.ndarray)]
        if not any(value.dtype.name in self._dtypes for value in arrays):
            return function(*inputs, **options)
        # Falling back to numpy would return results of another arithmetic without notice, so the case fails instead.
        if function not in PRODUCTS:
            raise NotImplementedError(
                f"{function.__module__}.{function.__name__} is not simulated on {self.device.name}"
            )
        return getattr(Products(self.ufunc), PRODUCTS[function])(*inputs, **options)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Round once to the format of the table, or as numpy does."""
        entry = self.device.casts.get(dtype.name)
        if entry is None:
            return values.astype(dtype)
        return round_to(to_carrier(values), entry.format, entry.rounding).astype(dtype)

    def _apply(self, function: np.ufunc, *inputs: Any) -> Any:
        return self._call(function, inputs, {})

    def _call(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if function in MATRIX_UFUNCS:
            return self._multiply_matrices(function, inputs, options)
        if function.nout != 1 or not any(_is_floating_value(value) for value in inputs):
            return function(*inputs, **options)
        dtype = result_dtype(function, inputs, options)
        result = compute_elementwise(self.device, function, inputs, dtype) if is_floating(dtype) else None
        return function(*inputs, **options) if result is None else result

    def _multiply_matrices(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply on the matrix unit for the dtype of the result."""
        a, b = (np.asarray(value) for value in inputs)
        dtype = np.dtype(options.get("dtype") or np.result_type(a, b))
        unit = self.device.multiplier(dtype.name)
        if unit is None:
            return function(*inputs, **options)
        if "axes" in options or "axis" in options:
            raise NotImplementedError(f"numpy.{function.__name__} with axes of its own is not simulated")
        return multiply_on_unit(unit, function, a, b, dtype)

    def _simulated_terms(self, function: np.ufunc, terms: Any, options: dict[str, Any]) -> Array | None:
        """Return the terms of a reduction in the dtype of its result, or None if the table leaves it to numpy."""
        terms = np.asarray(terms)
        dtype = np.dtype(options.get("dtype") or terms.dtype)
        if not (is_floating(terms.dtype) and dtype.name in self._dtypes):
            return None
        terms = terms if terms.dtype == dtype else self.cast(terms, dtype)
        return terms if self._simulates(function, dtype) else None

    def _reduce(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        terms = self._simulated_terms(function, inputs[0], options)
        if terms is None:
            return function.reduce(*inputs, **options)
        unit = self.device.adder(terms.dtype.name)
        if function is np.add and unit is not None:
            return reduce_add(unit, terms, options, self._apply)
        return reduce_ufunc(function, terms, options, self._apply)

    def _accumulate(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        terms = self._simulated_terms(function, inputs[0], options)
        if terms is None:
            return function.accumulate(*inputs, **options)
        axis = options.get("axis", 0)
        unit = self.device.adder(terms.dtype.name)
        if function is np.add and unit is not None:
            return accumulate_add(unit, terms, axis)
        return accumulate_ufunc(function, terms, axis, self._apply)

    def _reduce_at(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Reduce from each index to the next. An index that does not increase gives its own element, as in numpy."""
        terms = self._simulated_terms(function, inputs[0], options)
        if terms is None:
            return function.reduceat(*inputs, **options)
        axis = options.get("axis", 0)
        starts = np.asarray(inputs[1])
        # numpy's own call raises its error for an index out of range; the result is not used.
        np.add.reduceat(np.empty(terms.shape[axis]), starts)
        ends = np.append(starts[1:], terms.shape[axis])
        along = np.moveaxis(terms, axis, 0)
        parts = [
            self._reduce(function, (along[start : max(end, start + 1)],), {"axis": 0})
            for start, end in zip(starts, ends, strict=True)
        ]
        return np.moveaxis(np.stack(parts), 0, axis)

    def _outer(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        a, b = (np.asarray(value) for value in inputs)
        return self._call(function, (a.reshape(*a.shape, *(1,) * b.ndim), b), options)

    def _apply_at(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        target, indices, *values = inputs
        if not self._simulates(function, target.dtype):
            return function.at(*inputs, **options)

        def apply(function: np.ufunc, elements: Array, *others: Any) -> Any:
            result = self._apply(function, elements, *others)
            return result if result.dtype == target.dtype else self.cast(result, target.dtype)

        return apply_ufunc_at(function, target, indices, tuple(values), apply)

    def _simulates(self, function: np.ufunc, dtype: np.dtype[Any]) -> bool:
        """Return whether the table has an entry for a function of elements of a dtype, or for their sums."""
        if function is np.add and self.device.adder(dtype.name) is not None:
            return True
        # Only compute_elementwise knows its functions, so a call with ones finds out.
        one = np.ones((), dtype)
        return compute_elementwise(self.device, function, (one,) * function.nin, dtype) is not None


def _is_floating_value(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray | np.generic) and is_floating(value.dtype))


def cast_through_device(x: Array, device: Device | str | None = None) -> dict[str, Array]:
    """Return the values at each place of a device, by the names of the places, each converted from the place before.

    `device` is a device, the name of a shipped device, or None for the device that computes x. A place holds values in
    the dtype of its format. If its format has no dtype, float32 holds them, or float64 if float32 lacks some numbers.

    Raises UserError (unknown-device). Raises ValueError if the device has no places, or if x and `device` name none.
    """
    # The arithmetic of x converts, and not only its device, so that a planted fault of casts shows at its place.
    arithmetic = x.arithmetic if isinstance(x, SimulatedArray) else None
    found = _find_device(device, arithmetic)
    if not found.storage_casts:
        raise ValueError(f"expected a device with hops but got device={found.name}")
    computing = arithmetic or DeviceArithmetic(found)
    if isinstance(arithmetic, WatchedArithmetic):
        # Some places round their values without a cast of the arithmetic.
        arithmetic.has_computed = True
    places: dict[str, Array] = {}
    values = plain_array(np.asarray(x))
    for storage_cast in found.storage_casts:
        values = _convert_for_place(values, storage_cast, computing)
        places[storage_cast.place] = values if arithmetic is None else simulate_array(values, arithmetic)
    return places


def multiply_as(a: Array, b: Array, format: str, device: Device | str | None = None) -> Array:
    """Return the matrix product of operands that a device reads in a format of its own, such as mxfp8_e4m3.

    `device` is a device, the name of a shipped device, or None for the device that computes a or b. The entry `format`
    of `operands` in its table names the unit. The result is float32.

    Raises UserError: unknown-device, unsupported-format for a format that the device lacks. Raises ValueError if
    neither `device` nor an operand names a device.
    """
    arithmetic = next((each.arithmetic for each in (a, b) if isinstance(each, SimulatedArray)), None)
    unit = _find_device(device, arithmetic).operand_unit(format)
    if isinstance(arithmetic, WatchedArithmetic):
        # The arithmetic does not see products in formats of their own.
        arithmetic.has_computed = True
    left, right = (plain_array(np.asarray(each)) for each in (a, b))
    product = multiply_on_unit(unit, np.matmul, left, right, np.dtype(np.float32))
    return product if arithmetic is None else simulate_array(product, arithmetic)


def _find_device(device: Device | str | None, arithmetic: Arithmetic | None) -> Device:
    """Return the named device, or the device below the layers of an arithmetic."""
    if isinstance(device, Device):
        return device
    if device is not None:
        return device_named(device)
    inner: Any = arithmetic
    while inner is not None and not isinstance(inner, DeviceArithmetic):
        inner = getattr(inner, "inner", None)
    if inner is None:
        raise ValueError("expected the name of a device, or an array that a device computes, but got neither")
    found: Device = inner.device
    return found


def _convert_for_place(values: Array, storage_cast: StorageCast, arithmetic: Arithmetic) -> Array:
    """Return the values as the next place holds them."""
    format = storage_cast.format
    if format == FORMATS.get(format.name) and storage_cast.rounding is None:
        dtype = numpy_dtype(format.name)
        return values if values.dtype == dtype else arithmetic.cast(values, dtype)
    # No cast of the device has this format or this rounding, so the values are rounded directly.
    wide = carrier_dtype(format)
    storage_dtype = numpy_dtype(format.name) if format.name in FORMATS else np.dtype(wide)
    read = values if values.dtype == np.float64 else values.astype(wide)
    return round_to(read, format, storage_cast.rounding or Rounding.NEAREST_EVEN).astype(storage_dtype)
