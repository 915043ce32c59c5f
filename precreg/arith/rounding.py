"""Rounding arrays to a number format, to nearest with ties to even, once.

precreg/arith/exact.py says the same for one number in rational arithmetic; the tests hold the two together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arith.formats import FORMATS, Format, numpy_dtype

_CORRECTLY_ROUNDED_BY_NUMPY = frozenset({"float16", "float32", "float64", "longdouble", "complex64", "complex128"})


def round_nearest_even(values: NDArray[Any], format: Format) -> NDArray[Any]:
    """Return the number of `format` nearest to each value, in the dtype of `values` (float64 or longdouble).

    Subnormals are kept; NaN stays NaN; magnitudes that round beyond the largest number become `format.overflow`.

    Values are divided by their quantum (the spacing of the format in their binade, a power of two), rounded to an
    integer and multiplied again. Both scalings are exact: the quotient of a value below 2**e by 2**(e - precision) has
    at most `precision` bits before the point, and where the quantum is the smallest subnormal the quotient is
    larger than the value, so nothing overflows and no bit falls off the small end.
    """
    if format.precision > np.finfo(values.dtype).nmant:
        return values.copy()
    exponents = np.frexp(values)[1]
    quanta = np.maximum(exponents, format.min_exponent + 1) - format.precision
    integers = np.rint(np.ldexp(values, -quanta))
    with np.errstate(over="ignore"):
        rounded: NDArray[Any] = np.ldexp(integers, quanta)
    rounded = np.where(np.abs(rounded) > format.largest, np.copysign(format.overflow, rounded), rounded)
    return rounded if format.negative_zero else rounded + 0.0


def cast(values: NDArray[Any], dtype_name: str) -> NDArray[Any]:
    """Return real (or, for complex dtypes, complex) values in a floating dtype, each rounded once.

    `values` is float64 or longdouble. numpy rounds to its own dtypes correctly; ml_dtypes goes from float64 through
    float32 and would round twice, so the numbers it gets are already representable. A format without NaN (float6,
    float4) holds NaN as ml_dtypes writes it: -0.0.
    """
    dtype = numpy_dtype(dtype_name)
    if dtype_name not in _CORRECTLY_ROUNDED_BY_NUMPY:
        values = round_nearest_even(values, FORMATS[dtype_name])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(dtype)
