"""Which results do operations give if each is rounded up or down at random, with a probability by the distance?

This is the random rounding of Monte Carlo arithmetic (Parker, Monte Carlo arithmetic, 1997): the expected value of each
result is the exact one. Operations are the device's, or numpy's with its formats and, as far as numpy documents it, its
order of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import replace

from precreg.arithmetic.devices import (
    FLOAT64_UFUNCS,
    MATRIX_UFUNCS,
    PRODUCTS,
    Arithmetic,
    Cast,
    Device,
    DeviceArithmetic,
    Elementwise,
    NumpyArithmetic,
    compute_elementwise,
    is_floating,
    read_operand,
    reduction_axes,
    result_dtype,
    to_carrier,
)
from precreg.arithmetic.faults.fault import is_narrower
from precreg.arithmetic.faults.planting import sum_length
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.rounding_numpy import random_bits
from precreg.arithmetic.unit import Order, Unit
from precreg.storage import Array

# Units draw with up to five seeds that follow each other (arithmetic/sums.py).
_SEEDS_OF_A_STEP = 8

# OpenBLAS adds so many products to a sum with fused multiply-add before it begins the next (sgemm, K panels of 256).
_PANEL = 256

# Functions whose result is a number that an operand has, or is exact by their definition.
_EXACT = frozenset(
    {
        *("negative", "positive", "absolute", "fabs", "conjugate", "sign", "copysign", "maximum", "minimum", "fmax"),
        *("fmin", "clip", "floor", "ceil", "trunc", "rint", "nextafter", "spacing", "ldexp", "fmod", "remainder"),
        *("floor_divide", "heaviside"),
    }
)

_WIDE_IS_WIDER = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant

_FLOAT32 = FORMATS["float32"]


@cache
def _numpy_device() -> Device:
    """Return numpy's own arithmetic as a device, with rounding to nearest."""
    return Device(
        "numpy",
        elementwise={name: Elementwise(format) for name, format in FORMATS.items()},
        matmul={name: _product_unit(format) for name, format in FORMATS.items()},
    )


def _product_unit(format: Format) -> Unit:
    # numpy adds the products of narrower formats in float32.
    accumulator = format if format.precision > _FLOAT32.precision else _FLOAT32
    return Unit(format, accumulator, format, order=Order.BLOCKS, width=_PANEL)


def _joined(own: Device) -> Device:
    """Return a device with numpy's operations for the dtypes that its table lacks."""
    plain = _numpy_device()
    products = {name: unit for name, unit in plain.matmul.items() if name not in own.elementwise}
    return replace(own, elementwise={**plain.elementwise, **own.elementwise}, matmul={**products, **own.matmul})


class RandomRounding(DeviceArithmetic):
    """Round the results of the operations of numpy, or of a device, at random.

    The random numbers follow from the seed, the number of the operation and the element's index, and from nothing else.
    Results without a wider format (functions of float64 where longdouble is float64, functions of other libraries, and
    linear algebra) move by at most one place: each counts as the exact value with an error within half of its last.
    """

    def __init__(self, inner: Arithmetic, seed: int) -> None:
        own = inner.device if isinstance(inner, DeviceArithmetic) else Device("numpy")
        # Matrices and sums of dtypes in the device's table are the device's.
        self._own = {*own.elementwise, *own.matmul, *own.reductions}
        self._simulates_device = isinstance(inner, DeviceArithmetic)
        self._base = _joined(own)
        super().__init__(self._base)
        self._seed, self._steps = seed, 0

    def _next(self) -> int:
        """Return the first seed of the next operation."""
        self._steps += 1
        return self._seed + _SEEDS_OF_A_STEP * self._steps

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a compiled function of numpy: by products and sums, or by numpy with noise in the last place.

        Raises NotImplementedError as the device does.
        """
        if function in PRODUCTS or self._simulates_device:
            try:
                return super().contraction(function, inputs, options)
            except (NotImplementedError, TypeError):
                if self._simulates_device:
                    raise
        return self._moved(function(*inputs, **options))

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Round once to a narrower dtype, at random."""
        entry = self._base.casts.get(dtype.name)
        if entry is None and not is_narrower(dtype, values.dtype):
            return values.astype(dtype)
        entry = entry or Cast(FORMATS[dtype.name])
        wide = values if values.dtype.kind == "f" and values.dtype.itemsize >= 4 else to_carrier(values)
        return round_to(wide, entry.format, Rounding.STOCHASTIC, seed=self._next()).astype(dtype)

    def _call(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        seed = self._next()
        if function in MATRIX_UFUNCS:
            self.device = _with_drawing_units(self._base, seed)
            return self._multiply_matrices(function, inputs, options)
        if function.nout != 1 or not any(_has_fraction(value) for value in inputs):
            return function(*inputs, **options)
        dtype = result_dtype(function, inputs, options)
        if not is_floating(dtype) or function.__name__ in _EXACT:
            return function(*inputs, **options)
        is_plain = options.get("where", True) is True and function.signature is None
        if not is_plain or dtype.name not in self._base.elementwise:
            return self._moved(function(*inputs, **options))
        values = tuple(self._constant(value, dtype) for value in inputs)
        if dtype == np.float64 and function in FLOAT64_UFUNCS and not self._is_own(function, dtype):
            return self._by_longdouble(function, values, seed)
        computed = compute_elementwise(self._drawing_elements(dtype, seed), function, values, dtype)
        return self._moved(function(*inputs, **options)) if computed is None else computed

    def _drawing_elements(self, dtype: np.dtype[Any], seed: int) -> Device:
        """Return a device whose elementwise operations of a dtype round at random."""
        # Only the entries that the operation reads: it takes less time than their replacement.
        entries = {name: self._base.elementwise[name] for name in (dtype.name, "float32")}
        drawing = {name: replace(each, rounding=Rounding.STOCHASTIC, seed=seed) for name, each in entries.items()}
        return replace(self._base, elementwise=drawing)

    def _constant(self, value: Any, dtype: np.dtype[Any]) -> Any:
        """Return a Python number as the operation reads it: a constant is not a result of an operation."""
        if isinstance(value, bool | int | float):
            entry = self._base.elementwise.get(dtype.name)
            return float(value) if entry is None else read_operand(value, entry, dtype).astype(dtype)
        return value

    def _is_own(self, function: np.ufunc, dtype: np.dtype[Any]) -> bool:
        """Return whether the device's table approximates a function, or rounds it to another format."""
        return (
            function.__name__ in self._base.functions
            or self._base.elementwise[dtype.name].format != FORMATS[dtype.name]
        )

    def _by_longdouble(self, function: np.ufunc, values: tuple[Any, ...], seed: int) -> Array:
        if not _WIDE_IS_WIDER:
            return np.asarray(self._moved(function(*values)))
        wide = np.asarray(function(*(np.asarray(value).astype(np.longdouble) for value in values)))
        return round_to(wide, FORMATS["float64"], Rounding.STOCHASTIC, seed=seed).astype(np.float64)

    def _reduce(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self._fold("reduce", function, inputs, options)

    def _accumulate(self, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self._fold("accumulate", function, inputs, options)

    def _fold(self, method: str, function: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a reduction or running results; numpy's sums in the precision and order that numpy has for them."""
        seed = self._next()
        terms = np.asarray(inputs[0])
        dtype = np.dtype(options.get("dtype") or terms.dtype)
        if function is np.add and dtype.name in FORMATS and is_floating(terms.dtype):
            own = self._base.adder(dtype.name) if dtype.name in self._own else None
            unit = own or _sum_unit(method, terms, dtype, options)
            self.device = replace(self._base, reductions={dtype.name: _drawing_unit(unit, seed)})
        elif dtype.kind == "f" and dtype.name not in FORMATS:
            # A longdouble has no wider format, and its results move by one place.
            return self._moved(getattr(function, method)(*inputs, **options))
        if method == "reduce":
            return super()._reduce(function, inputs, options)
        return super()._accumulate(function, inputs, options)

    def _moved(self, result: Any) -> Any:
        """Return floating-point results with noise in the last place, also within tuples and complex numbers."""
        if isinstance(result, tuple | list):
            parts = [self._moved(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        if not isinstance(result, np.ndarray | np.generic):
            return result
        array = np.asarray(result)
        if array.dtype.kind == "c":
            real, imaginary = self._moved(array.real.copy()), self._moved(array.imag.copy())
            return (real + 1j * imaginary).astype(array.dtype)
        return move_by_one_place(array, self._next()) if is_floating(array.dtype) else result


def move_by_one_place(values: Array, seed: int) -> Array:
    """Return the values, each moved to the neighbour above or below with a probability of 1/8 each.

    So random rounding moves an exact value within half a place of the result, if all such values are equally probable.
    Zeros, NaN and infinities stay, and nothing becomes zero or infinite.
    """
    draws = random_bits(seed, 0, values.size).reshape(values.shape) >> np.uint32(21)
    largest = np.asarray(np.inf, values.dtype)
    with np.errstate(all="ignore"):
        moved = np.where(
            draws == 0, np.nextafter(values, largest), np.where(draws == 1, np.nextafter(values, -largest), values)
        ).astype(values.dtype)
    keeps = ~np.isfinite(values) | (values == 0) | (moved == 0) | ~np.isfinite(moved)
    return np.where(keeps, values, moved).astype(values.dtype)


def _sum_unit(method: str, terms: Array, dtype: np.dtype[Any], options: dict[str, Any]) -> Unit:
    """Return the unit that adds as numpy does: in its precision, by pairs along contiguous terms, else in order."""
    own = FORMATS[dtype.name]
    length = sum_length(NumpyArithmetic(), method, (terms,), options)
    wider = length is not None and own.precision < length.precision
    axes = reduction_axes(options.get("axis", 0), terms.ndim) if terms.ndim else ()
    long = [axis for axis in range(terms.ndim) if terms.shape[axis] > 1]
    # numpy adds by pairs along the fastest axis in memory (notes of numpy.sum); dtypes of ml_dtypes never.
    is_contiguous = bool(long) and min(long, key=lambda axis: abs(terms.strides[axis])) in axes
    by_pairs = is_contiguous and dtype.kind == "f"
    return Unit(own, _FLOAT32 if wider else own, own, order=Order.PAIRWISE if by_pairs else Order.SEQUENTIAL)


def _drawing_unit(unit: Unit, seed: int) -> Unit:
    return replace(unit, rounding=Rounding.STOCHASTIC, conversion=Rounding.STOCHASTIC, seed=seed)


def _with_drawing_units(base: Device, seed: int) -> Device:
    """Return a device whose matrix units round at random; `multiplier` finds the units of its elementwise entries."""
    names = {*base.elementwise, *base.matmul}
    units = {name: unit for name in names if (unit := base.multiplier(name)) is not None}
    return replace(base, matmul={name: _drawing_unit(unit, seed) for name, unit in units.items()})


def _has_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray | np.generic) and is_floating(value.dtype))
