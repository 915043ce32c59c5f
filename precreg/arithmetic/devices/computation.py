"""What computes as a device's table says: each operation of a simulated array comes here with plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.devices.device import Device
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
from precreg.arithmetic.rounding import round_to

Array = NDArray[Any]


class DeviceArithmetic:
    """The arithmetic of a device. What its table has no entry for, numpy computes."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute as `Arithmetic.ufunc` says."""
        if method == "__call__":
            return self._called(function, inputs, options)
        if function.nin != 2 and method != "at":
            return getattr(function, method)(*inputs, **options)
        return {
            "reduce": self._reduced,
            "accumulate": self._accumulated,
            "reduceat": self._reduced_at,
            "outer": self._outer,
            "at": self._at,
        }[method](function, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute as `Arithmetic.contraction` says.

        Raises NotImplementedError for what is not made of a device's operations: numpy would compute it in secret.
        """
        name = PRODUCTS.get(function)
        arrays = [value for value in (*inputs, *options.values()) if isinstance(value, np.ndarray)]
        if not any(value.dtype.name in self._known for value in arrays):
            return function(*inputs, **options)
        if name is None:
            raise NotImplementedError(
                f"{function.__module__}.{function.__name__} is not simulated on {self.device.name}"
            )
        return getattr(Products(self.ufunc), name)(*inputs, **options)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Round once to the format of the table, or as numpy does."""
        entry = self.device.casts.get(dtype.name)
        if entry is None:
            return values.astype(dtype)
        return round_to(to_carrier(values), entry.format, entry.rounding).astype(dtype)

    @property
    def _known(self) -> set[str]:
        """The dtypes that the table has entries for."""
        return {*self.device.elementwise, *self.device.matmul, *self.device.reductions}

    def _apply(self, function: np.ufunc, *inputs: Any) -> Any:
        return self._called(function, inputs, {})

    def _called(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if function in MATRIX_UFUNCS:
            return self._multiplied(function, inputs, options)
        if function.nout != 1 or not any(_is_floating(value) for value in inputs):
            return function(*inputs, **options)
        dtype = result_dtype(function, inputs, options)
        result = compute_elementwise(self.device, function, inputs, dtype) if is_floating(dtype) else None
        return function(*inputs, **options) if result is None else result

    def _multiplied(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply on the matrix unit of the result's dtype."""
        a, b = (np.asarray(value) for value in inputs)
        dtype = np.dtype(options.get("dtype") or np.result_type(a, b))
        unit = self.device.multiplier(dtype.name)
        if unit is None:
            return function(*inputs, **options)
        if "axes" in options or "axis" in options:
            raise NotImplementedError(f"numpy.{function.__name__} with axes of its own is not simulated")
        return multiply_on_unit(unit, function, a, b, dtype)

    def _terms(self, function: np.ufunc, terms: Any, options: dict[str, Any]) -> Array | None:
        """Return the terms of a reduction in the dtype of its result, or None where the table leaves it to numpy."""
        terms = np.asarray(terms)
        dtype = np.dtype(options.get("dtype") or terms.dtype)
        if not (is_floating(terms.dtype) and dtype.name in self._known):
            return None
        return terms if terms.dtype == dtype else self.cast(terms, dtype)

    def _reduced(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        terms = self._terms(function, inputs[0], options)
        if terms is None or not self._rounds(function, terms.dtype):
            return function.reduce(*inputs, **options)
        unit = self.device.adder(terms.dtype.name)
        if function is np.add and unit is not None:
            return reduce_add(unit, terms, options, self._apply)
        return reduce_ufunc(function, terms, options, self._apply)

    def _accumulated(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        terms = self._terms(function, inputs[0], options)
        if terms is None or not self._rounds(function, terms.dtype):
            return function.accumulate(*inputs, **options)
        axis = options.get("axis", 0)
        unit = self.device.adder(terms.dtype.name)
        if function is np.add and unit is not None:
            return accumulate_add(unit, terms, axis)
        return accumulate_ufunc(function, terms, axis, self._apply)

    def _reduced_at(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Reduce from each index to the next; one that is not smaller gives its own element alone."""
        terms = self._terms(function, inputs[0], options)
        if terms is None or not self._rounds(function, terms.dtype):
            return function.reduceat(*inputs, **options)
        axis = options.get("axis", 0)
        starts = np.asarray(inputs[1])
        np.add.reduceat(np.empty(terms.shape[axis]), starts)  # raises where an index is none
        ends = np.append(starts[1:], terms.shape[axis])
        along = np.moveaxis(terms, axis, 0)
        parts = [
            self._reduced(function, (along[start : max(end, start + 1)],), {"axis": 0})
            for start, end in zip(starts, ends, strict=True)
        ]
        return np.moveaxis(np.stack(parts), 0, axis)

    def _outer(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        a, b = (np.asarray(value) for value in inputs)
        return self._called(function, (a.reshape(*a.shape, *(1,) * b.ndim), b), options)

    def _at(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        target, indices, *values = inputs
        if not self._rounds(function, target.dtype):
            return function.at(*inputs, **options)
        return apply_ufunc_at(function, target, indices, tuple(values), self._updated)

    def _updated(self, function: np.ufunc, target: Array, *values: Any) -> Any:
        """Return what elements of the target become, in its dtype."""
        result = self._apply(function, target, *values)
        return result if result.dtype == target.dtype else self.cast(result, target.dtype)

    def _rounds(self, function: np.ufunc, dtype: np.dtype[Any]) -> bool:
        """Say whether the table has its say in a function of elements of a dtype, or in sums of them."""
        if function is np.add and self.device.adder(dtype.name) is not None:
            return True
        one = np.ones((), dtype)
        return compute_elementwise(self.device, function, (one,) * function.nin, dtype) is not None


def _is_floating(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray | np.generic) and is_floating(value.dtype))
