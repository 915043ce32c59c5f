"""How many terms a sum adds up, and how precisely: what a bound on its rounding errors is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ldexp, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import is_floating
from precreg.arithmetic.devices.computing import DeviceArithmetic
from precreg.arithmetic.devices.contraction import PRODUCTS
from precreg.arithmetic.devices.sums import axes_of
from precreg.arithmetic.formats import format_of
from precreg.arithmetic.roundings import Rounding
from precreg.arithmetic.unit import Unit
from precreg.types.replicate import LongSum

Array = NDArray[Any]


_SINGLE = 24
"""Bits of float32, in which numpy adds up much of what is narrower."""


def sum_length(inner: Arithmetic, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> LongSum | None:
    """Return what numpy.add.reduce or accumulate adds up; None below two terms, and where they are no floats."""
    terms = inputs[0]
    dtype = np.dtype(options.get("dtype") or terms.dtype)
    if not (is_floating(terms.dtype) and is_floating(dtype)):
        return None
    axes = axes_of(options.get("axis", 0), terms.ndim)
    length = prod(terms.shape[axis] for axis in axes)
    if length < 2:
        return None
    if isinstance(inner, DeviceArithmetic) and (unit := inner.device.adder(dtype.name)):
        return LongSum(length, _precision_of(unit), products=False)
    layout = tuple(int(axis) for axis in np.argsort([-abs(stride) for stride in terms.strides], kind="stable"))
    kept = tuple(axis not in axes and terms.shape[axis] > 1 for axis in range(terms.ndim))
    long = tuple(axis for axis in axes if terms.shape[axis] > 1)
    precision = min(_precision_of_sums(method, dtype, layout, kept, axis) for axis in long)
    return LongSum(length, precision, products=False)


def product_length(
    inner: Arithmetic, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]
) -> LongSum | None:
    """Return the sums of products that matmul, dot, einsum and the like take; None where there are none of floats.

    How many terms there are is what the function gives of ones, and numpy's norms are the square roots of it.
    """
    arrays = [operand for operand in inputs if isinstance(operand, np.ndarray)]
    known = function is np.matmul or PRODUCTS.get(function) not in (None, "outer", "cross")
    if not known or not arrays or not all(is_floating(array.dtype) and array.size for array in arrays):
        return None
    ones = tuple(np.ones(each.shape) if isinstance(each, np.ndarray) else each for each in inputs)
    most = float(np.max(np.abs(function(*ones, **{key: value for key, value in options.items() if key != "dtype"}))))
    length = round(most**2 if PRODUCTS.get(function) == "norm" else most)
    dtype = np.result_type(*(array.dtype for array in arrays))
    if isinstance(inner, DeviceArithmetic) and (unit := inner.device.multiplier(dtype.name)):
        return LongSum(length, _precision_of(unit), products=True)
    return LongSum(length, _precision_of_products(function is np.matmul, dtype), products=True) if length > 1 else None


def _precision_of(unit: Unit) -> int:
    """Return the bits of a unit's accumulator, one less where it does not round to nearest."""
    formats = [each for each in (unit.accumulator, unit.product) if each is not None]
    return min(each.precision for each in formats) - (unit.rounding is not Rounding.NEAREST_EVEN)


@cache
def _precision_of_sums(
    method: str, dtype: np.dtype[Any], layout: tuple[int, ...], kept: tuple[bool, ...], along: int
) -> int:
    """Ask numpy how precisely it adds along one axis of an array that is laid out so.

    Rows along the last axis of a float16 array are added in float32, and its columns in float16.
    """
    shape = [2 if each else 1 for each in kept]
    shape[along] = 3
    terms = np.empty([shape[axis] for axis in layout], dtype).transpose(np.argsort(layout))

    def added(three: Array) -> Array:
        terms[...] = np.expand_dims(three, tuple(range(1, terms.ndim))).swapaxes(0, along)
        if method == "accumulate":
            return np.asarray(np.add.accumulate(terms, axis=along)).take([-1], along)
        return np.asarray(np.add.reduce(terms, axis=along))

    return _precision(added, dtype)


@cache
def _precision_of_products(is_matmul: bool, dtype: np.dtype[Any]) -> int:
    ones = np.ones((3, 2), dtype)
    return _precision(lambda three: np.asarray(three[None, :] @ ones if is_matmul else np.dot(three, ones)), dtype)


def _precision(added: Callable[[Array], Array], dtype: np.dtype[Any]) -> int:
    """Return the bits in which three terms are added: those of the dtype, or of float32 where it is narrower.

    1 + u - 1 is 0 in the dtype itself, where u is its unit roundoff, and u in what is wider.
    """
    number_format = format_of(dtype.name)
    if number_format is None or number_format.precision >= _SINGLE:
        return number_format.precision if number_format else _SINGLE
    three = np.array([1, ldexp(1, -number_format.precision), -1]).astype(dtype)
    return _SINGLE if added(three).astype(np.float64).any() else number_format.precision
