"""Which number of a format is nearest to each element of an array, and which spacing does the format have there?

Here precreg also selects the backend: the compiled core (native) or numpy. Both give the same bits.

exact.py rounds single numbers in rational arithmetic. The tests compare it bit for bit with every backend here.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_of, numpy_dtype, rounding_named
from precreg.arithmetic.rounding_numpy import Start, precisions_at, round_bits, round_scaled
from precreg.errors import UserError
from precreg.storage import Array

# The core reads PRECREG_ISA once, when it is loaded. A request that it could not meet is kept here and reported at the
# first use: an exception during import would also stop commands that round nothing.
_native: ModuleType | None = None
_unmet_isa: str | None = None
try:
    from precreg.arithmetic import native as _built
except ImportError:
    pass
else:
    _native = _built
    _requested_isa = os.environ.get("PRECREG_ISA")
    _unmet_isa = _requested_isa if _requested_isa not in (None, "", _built.ARITHMETIC_INSTRUCTION_SET) else None

FASTEST_BACKEND = "numpy" if _native is None else "native"

# The values of PRECREG_FORM. `plain` is a backend of measuring alone: with it, numpy does the arithmetic.
_BACKENDS = ("numpy", "plain") if _native is None else ("numpy", "plain", "native")

# The dtypes to which numpy's own casts round correctly, so that `cast` need not round before.
_CORRECTLY_ROUNDED_BY_NUMPY = frozenset({"float16", "float32", "float64", "longdouble", "complex64", "complex128"})


def native_backend() -> ModuleType | None:
    """Return the module of the compiled core, or None if it was not built or PRECREG_FORM names another backend.

    Raises UserError (bad-value) for an unknown backend, and for a PRECREG_ISA that the processor or the core lacks.
    """
    # Read at every call, because tests switch backends within one process.
    name = os.environ.get("PRECREG_FORM") or FASTEST_BACKEND
    if name not in _BACKENDS:
        raise UserError(
            "bad-value",
            f"expected one of {', '.join(_BACKENDS)} but got PRECREG_FORM={name}",
            hint=f"set one of them, or none: PRECREG_FORM={next(iter(_BACKENDS))}",
        )
    if name != "native":
        return None
    if _unmet_isa:
        expected = "an instruction set of this processor (generic; avx2, avx512 on some)"
        raise UserError(
            "bad-value",
            f"expected {expected} but got PRECREG_ISA={_unmet_isa}",
            hint="unset the variable, or set PRECREG_ISA=generic",
        )
    return _native


def ulp(values: Array, format: Format) -> Array:
    """Return the distance between neighbours of `format` in the binade of |values|, in the dtype of `values`.

    `values` is float64 or longdouble of any shape, at least as wide as `format`. From zero to the smallest normal
    number, the spacing is the smallest subnormal. Beyond the largest binade, including infinities, it is the spacing of
    the largest binade. NaN gives NaN. This is Goldberg's ulp (Muller et al., Handbook of Floating-Point Arithmetic,
    2018, section 2.3.2).
    """
    smallest, largest = _smallest_and_largest_binade(format, values.dtype)
    significands, exponents = np.frexp(np.minimum(np.maximum(np.abs(values), smallest), largest))
    # The sign of a significand is 1, or NaN where the value is NaN.
    spacing: Array = np.ldexp(np.sign(significands), exponents - precisions_at(exponents - 1, format))
    return spacing


@cache
def _smallest_and_largest_binade(format: Format, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the powers of two at which the two binades begin, once per format: `ulp` runs for many small arrays."""
    one = dtype.type(1)
    return np.ldexp(one, format.min_exponent), np.ldexp(one, format.max_exponent)


def round_to(
    values: Array,
    format: Format,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    seed: int = 0,
    start: Start = 0,
) -> Array:
    """Return each value rounded to a number of `format`, in the dtype of `values`: a real floating dtype.

    - Overflow: each magnitude is first rounded as if there were no largest number. A result beyond the largest number
      becomes `format.overflow`. It stays at the largest number if the rounding is odd, or goes toward zero there.
      An infinity becomes `format.overflow`.
    - Underflow: if the format has no subnormals, a result below the smallest normal number becomes zero.
    - Signs: zeros and overflows keep the sign of the value, unless the format has no negative zero.
    - NaN keeps all its bits.
    - Stochastic rounding draws by `seed` and by the flat C-order index of each element, counted from `start`.
      Chunks thus give the same bits as the whole array. An array `start`, in the shape of `values`, holds every index.
    - If `format` is wider than the dtype, the dtype may lack the largest number. The result is then its nearest number,
      or an infinity.

    Raises UserError: bad-value for other dtypes, unknown-rounding for an unknown name.
    """
    rounding = rounding_named(rounding)
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        return _round_narrow(values, format, rounding, seed, start)
    if _holds(format, values.dtype):
        return values.copy()
    native = native_backend()
    if native is not None and isinstance(start, int) and native.can_round_native(values.dtype, format):
        rounded: Array = native.round_native(values, format, rounding, seed, start)
        return rounded
    # One bit of precision leaves no last bit of the significand to look at, as in some binades of a tapered format, and
    # longdouble has no integer dtype.
    if values.dtype in (np.float32, np.float64) and format.precision > 1 and not format.taper:
        return round_bits(values, format, rounding, seed, start)
    return round_scaled(values, format, rounding, seed, start)


def _round_narrow(values: Array, format: Format, rounding: Rounding, seed: int, start: Start) -> Array:
    """Round through float32: a narrower dtype has no room for the 24 bits that stochastic rounding compares."""
    if values.dtype.name not in FORMATS:
        raise UserError(
            "bad-value",
            f"expected an array of a floating dtype but got dtype={values.dtype.name}",
            hint="convert the array first: array.astype('float32')",
        )
    rounded = round_to(values.astype(np.float32), format, rounding, seed=seed, start=start)
    with np.errstate(over="ignore"):
        return rounded.astype(values.dtype)


def _holds(format: Format, dtype: np.dtype[Any]) -> bool:
    """Return whether a format has every number, infinity and zero of a dtype, so that rounding changes nothing."""
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


def cast(values: Array, dtype_name: str) -> Array:
    """Return real values, or complex values for a complex dtype, each rounded once to a floating dtype.

    `values` is float64 or longdouble. A format without NaN (float6, float4) gets -0.0 for NaN, as ml_dtypes writes it.
    """
    dtype = numpy_dtype(dtype_name)
    # ml_dtypes converts float64 through float32 and would round twice. Numbers of the dtype pass through unchanged.
    if dtype_name not in _CORRECTLY_ROUNDED_BY_NUMPY:
        values = round_to(values, FORMATS[dtype_name])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(dtype)
