"""Rounding arrays to a number format, once.

arith_exact_rounding.py says the same for one number in rational arithmetic; the tests hold all forms together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import forms
from precreg.arithmetic.bit_rounding import round_bits
from precreg.arithmetic.formats import FORMATS, Format, format_of, numpy_dtype
from precreg.arithmetic.random_bits import Start
from precreg.arithmetic.roundings import Rounding, rounding_named
from precreg.arithmetic.scaled_rounding import round_scaled
from precreg.errors import UserError

_CORRECTLY_ROUNDED_BY_NUMPY = frozenset({"float16", "float32", "float64", "longdouble", "complex64", "complex128"})


def round_to(
    values: NDArray[Any],
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> NDArray[Any]:
    """Return each value rounded to a number of `format`, in the dtype of `values`: a floating one, not complex.

    A magnitude is rounded as if there were no largest number. What then lies beyond it becomes `format.overflow`, or
    stays the largest number where the rounding goes toward zero, or is odd; an infinity becomes `format.overflow`.
    Without subnormals, what was rounded to one becomes zero, by whatever rounding. A result of zero keeps the sign of
    its value, unless the format has no negative zero; an overflow keeps it, too. A NaN keeps all its bits.

    Stochastic rounding draws by `seed` and by each element's flat C-order index, counted from `start`: chunks give
    what the whole does. Where `start` is an array of the shape of `values`, it holds each element's index itself.

    The largest number of a format that is wider than the dtype of `values` may be none of its numbers: a result that
    should be it is the nearest one of the dtype, or infinite.

    Raises UserError: bad-value for arrays of no such dtype, unknown-rounding for a name that is none.
    """
    rounding = rounding_named(rounding)
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        return _round_narrow(values, format, rounding, seed, start)
    if _holds(format, values.dtype):
        return values.copy()
    native = forms.native()
    if native is not None and isinstance(start, int) and native.rounds(values.dtype, format):
        rounded: NDArray[Any] = native.round_to(values, format, rounding, seed, start)
        return rounded
    if values.dtype in (np.float32, np.float64) and format.precision > 1:
        return round_bits(values, format, rounding, seed, start)
    return round_scaled(values, format, rounding, seed, start)


def _round_narrow(values: NDArray[Any], format: Format, rounding: Rounding, seed: int, start: Start) -> NDArray[Any]:
    """Round by way of float32: a dtype of fewer bits has no room for the 24 that a draw is compared with."""
    if values.dtype.name not in FORMATS:
        raise UserError("bad-value", f"expected an array of a floating dtype but got dtype={values.dtype.name}")
    rounded = round_to(values.astype(np.float32), format, rounding, seed=seed, start=start)
    with np.errstate(over="ignore"):
        return rounded.astype(values.dtype)


def _holds(format: Format, dtype: np.dtype[Any]) -> bool:
    """Tell whether a format has every number, infinity and zero of a dtype, so that there is nothing to round."""
    own = format_of(dtype.name)
    return format == own or (
        own is not None
        and format.precision >= own.precision
        and format.min_exponent <= own.min_exponent
        and format.largest >= own.largest
        and format.overflow == own.overflow
        and format.subnormals
        and format.negative_zero
    )


def cast(values: NDArray[Any], dtype_name: str) -> NDArray[Any]:
    """Return real (or, for complex dtypes, complex) values in a floating dtype, each rounded once.

    `values` is float64 or longdouble. numpy rounds to its own dtypes correctly; ml_dtypes goes from float64 through
    float32 and would round twice, so the numbers it gets are already representable. A format without NaN (float6,
    float4) holds NaN as ml_dtypes writes it: -0.0.
    """
    dtype = numpy_dtype(dtype_name)
    if dtype_name not in _CORRECTLY_ROUNDED_BY_NUMPY:
        values = round_to(values, FORMATS[dtype_name])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(dtype)
