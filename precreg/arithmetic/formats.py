"""Number formats as values: what a dtype can represent, in five numbers.

A binary floating-point format holds +-m * 2**(e - precision + 1) with an integer significand m < 2**precision and
an exponent e >= min_exponent. What lies beyond its largest number differs between formats, so that is a field too.
"""

from __future__ import annotations

from functools import cache
from math import frexp, inf, ldexp, nan
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    import numpy as np


class Format(Struct, frozen=True):
    """A binary floating-point format.

    `precision` counts the bits of the significand, the implicit one included; the smallest normal number is
    2**min_exponent. `overflow` is what a magnitude beyond `largest`, an infinity included, becomes: an infinity, a
    NaN where the format has no infinities, or the largest number where it has no NaN either, or saturates.
    `negative_zero` is false where the pattern of -0.0 means NaN. Without `subnormals`, what rounds to less than the
    smallest normal number is zero. A longdouble has `largest` inf, because no float holds its own.
    """

    name: str
    precision: int
    min_exponent: int
    largest: float
    overflow: float = inf
    negative_zero: bool = True
    subnormals: bool = True

    @property
    def max_exponent(self) -> int:
        """The exponent of the largest binade, as a power of two."""
        return 1 - self.min_exponent if self.largest == inf else frexp(self.largest)[1] - 1

    @property
    def smallest_normal(self) -> float:
        """The smallest number with full precision (0.0 for a longdouble wider than float)."""
        return ldexp(1.0, self.min_exponent)

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number (0.0 for a longdouble wider than float)."""
        return ldexp(1.0, self.min_exponent - self.precision + 1)

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding to nearest: 2**-precision."""
        return ldexp(1.0, -self.precision)


_NUMPY_FORMATS = (
    Format("float16", 11, -14, 65504.0),
    Format("float32", 24, -126, ldexp(2**24 - 1, 104)),
    Format("float64", 53, -1022, ldexp(2**53 - 1, 971)),
)

_ML_FORMATS = (
    Format("bfloat16", 8, -126, ldexp(2**8 - 1, 120)),
    Format("float8_e3m4", 5, -2, 15.5),
    Format("float8_e4m3", 4, -6, 240.0),
    Format("float8_e4m3b11fnuz", 4, -10, 30.0, overflow=nan, negative_zero=False),
    Format("float8_e4m3fn", 4, -6, 448.0, overflow=nan),
    Format("float8_e4m3fnuz", 4, -7, 240.0, overflow=nan, negative_zero=False),
    Format("float8_e5m2", 3, -14, 57344.0),
    Format("float8_e5m2fnuz", 3, -15, 57344.0, overflow=nan, negative_zero=False),
    Format("float6_e2m3fn", 4, 0, 7.5, overflow=7.5),
    Format("float6_e3m2fn", 3, -2, 28.0, overflow=28.0),
    Format("float4_e2m1fn", 2, 0, 6.0, overflow=6.0),
)

FORMATS: dict[str, Format] = {format.name: format for format in (*_NUMPY_FORMATS, *_ML_FORMATS)}
"""The formats that are the same on every machine, by the name of their dtype."""


_ML_NAMES = frozenset(format.name for format in _ML_FORMATS)

_INTEGER_NAMES = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

DTYPE_NAMES: tuple[str, ...] = (*FORMATS, "longdouble", *_INTEGER_NAMES, "bool", "complex64", "complex128")
"""Every dtype a suite may name."""


PARTS = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the real and the imaginary part."""


_LONGDOUBLE_NAMES = frozenset({"longdouble", "clongdouble", "float96", "float128", "complex192", "complex256"})


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of that name, numpy's or ml_dtypes'.

    Raises UserError (unknown-dtype) for a name outside DTYPE_NAMES, and for one the installed ml_dtypes lacks.
    """
    if name not in DTYPE_NAMES:
        raise UserError(
            "unknown-dtype", f"expected the name of a dtype but got dtype={name}{nearest(name, DTYPE_NAMES)}"
        )
    import numpy as np

    if name not in _ML_NAMES:
        return np.dtype(name)
    import ml_dtypes

    if not hasattr(ml_dtypes, name):
        installed = f"ml_dtypes {ml_dtypes.__version__}"
        raise UserError("unknown-dtype", f"expected a dtype that {installed} has but got dtype={name}")
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype as a suite writes it: longdouble, where numpy counts the bits that one takes."""
    return "longdouble" if dtype.name in ("float96", "float128") else dtype.name


@cache
def format_of(dtype_name: str) -> Format | None:
    """Return the format of a dtype (of a complex one: of its parts), or None for integers, bool and the unknown.

    The names numpy itself gives a longdouble (float128 and the like) are known besides those of DTYPE_NAMES.
    """
    if dtype_name in _LONGDOUBLE_NAMES:
        return _longdouble_format()
    return FORMATS.get(PARTS.get(dtype_name, dtype_name))


def _longdouble_format() -> Format:
    """Ask numpy, because C leaves long double to the machine: 53, 64 or 113 bits."""
    import numpy as np

    limits = np.finfo(np.longdouble)
    return Format("longdouble", int(limits.nmant) + 1, int(limits.minexp), float(limits.max))
