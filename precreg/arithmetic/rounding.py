"""Which form of rounding and adding serves: numpy's or the compiled core's. They give the same bits.

The spacing of a number format at given values: the unit in the last place.

Rounding arrays to a number format, once.

arith_exact_rounding.py says the same for one number in rational arithmetic; the tests hold all forms together.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_of, numpy_dtype, rounding_named
from precreg.arithmetic.rounding_numpy import Start, round_bits, round_scaled
from precreg.errors import UserError

_native: ModuleType | None = None

_UNMET = None

try:
    from precreg.arithmetic import native as _built
except ImportError:
    pass
else:
    _native = _built
    _ASKED = os.environ.get("PRECREG_ISA")
    _UNMET = _ASKED if _ASKED not in (None, "", _built.ARITHMETIC_INSTRUCTION_SET) else None


FASTEST_BACKEND = "numpy" if _native is None else "native"

_NAMES = ("numpy", "plain") if _native is None else ("numpy", "plain", "native")
"""What PRECREG_FORM may name: `plain` is a form of measuring, beside which numpy rounds and adds."""


def native_backend() -> ModuleType | None:
    """Return the module of the compiled core where that serves: where it was built, unless PRECREG_FORM names another.

    Raises UserError (bad-value) for a name that is none, or that of a form which was not built; and where the core
    serves, for a PRECREG_ISA that names none of its instruction sets, or one that the processor lacks.
    """
    name = os.environ.get("PRECREG_FORM") or FASTEST_BACKEND
    if name not in _NAMES:
        raise UserError("bad-value", f"expected one of {', '.join(_NAMES)} but got PRECREG_FORM={name}")
    if name != "native":
        return None
    if _UNMET:
        expected = "an instruction set of this processor (generic; avx2, avx512 on some)"
        raise UserError("bad-value", f"expected {expected} but got PRECREG_ISA={_UNMET}")
    return _native


def ulp(values: NDArray[Any], format: Format) -> NDArray[Any]:
    """Return the distance between neighbours of `format` in the binade of |values|.

    `values` is float64 or longdouble of any shape, at least as wide as `format`; so is the result. From zero to the
    smallest normal number the spacing is the smallest subnormal; beyond the largest binade, at infinities too, it
    is the largest binade's. NaN gives NaN. This is Goldberg's ulp (Muller et al., Handbook of Floating-Point
    Arithmetic, 2018, section 2.3.2).
    """
    smallest, largest = _binades(format, values.dtype)
    significands, exponents = np.frexp(np.minimum(np.maximum(np.abs(values), smallest), largest))
    spacing: NDArray[Any] = np.ldexp(np.sign(significands), exponents - format.precision)
    return spacing


@cache
def _binades(format: Format, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return where the smallest and the largest binade begin."""
    one = dtype.type(1)
    return np.ldexp(one, format.min_exponent), np.ldexp(one, format.max_exponent)


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
    native = native_backend()
    if native is not None and isinstance(start, int) and native.can_round_native(values.dtype, format):
        rounded: NDArray[Any] = native.round_native(values, format, rounding, seed, start)
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
