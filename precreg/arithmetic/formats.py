"""The ways a number between two neighbours of a format goes to one of them.

Number formats as values: what a dtype can represent, in five numbers.

A binary floating-point format holds +-m * 2**(e - precision + 1) with an integer significand m < 2**precision and
an exponent e >= min_exponent. What lies beyond its largest number differs between formats, so that is a field too.

Formats beyond the named ones: those that flush or saturate, and those a user defines.

Number formats by the names people give them: dtypes, their short forms, and formats that no dtype has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from math import frexp, inf, ldexp, nan
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

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


COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
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
    return FORMATS.get(COMPLEX_PARTS.get(dtype_name, dtype_name))


def _longdouble_format() -> Format:
    """Ask numpy, because C leaves long double to the machine: 53, 64 or 113 bits."""
    import numpy as np

    limits = np.finfo(np.longdouble)
    return Format("longdouble", int(limits.nmant) + 1, int(limits.minexp), float(limits.max))


class Rounding(StrEnum):
    """Roundings of IEEE 754-2019, section 4.3, and three more: away, odd and stochastic.

    away goes to the neighbour of larger magnitude; odd goes to the one whose last bit is 1, unless the number is exact
    (Boldo and Melquiond, 2008); stochastic goes up in magnitude with the probability of its distance, in steps of
    2^-24.
    """

    NEAREST_EVEN = "nearest_even"
    NEAREST_AWAY = "nearest_away"
    TOWARD_ZERO = "toward_zero"
    UP = "up"
    DOWN = "down"
    AWAY = "away"
    ODD = "odd"
    STOCHASTIC = "stochastic"


def rounding_named(name: str) -> Rounding:
    """Return the rounding of that name. Raises UserError (unknown-rounding)."""
    try:
        return Rounding(name)
    except ValueError:
        known = [rounding.value for rounding in Rounding]
        message = f"expected one of {', '.join(known)} but got rounding={name}{nearest(name, known)}"
        raise UserError("unknown-rounding", message) from None


def overflow_results(format: Format, rounding: Rounding) -> tuple[float, float]:
    """Return the magnitudes that finite numbers beyond the largest become: of negative ones, and of positive ones.

    A rounding that goes toward zero stays at the largest number, and so does odd; all others give `format.overflow`,
    stochastic too, once the draw has gone up to what would be the next number.
    """
    stays = {
        Rounding.TOWARD_ZERO: (True, True),
        Rounding.ODD: (True, True),
        Rounding.UP: (True, False),
        Rounding.DOWN: (False, True),
    }.get(rounding, (False, False))
    negative, positive = (format.largest if stay else format.overflow for stay in stays)
    return negative, positive


WIDEST = {"precision": 53, "min_exponent": -1022, "max_exponent": 1023}
"""The bounds of float64, in which every number of a format must be found."""


REQUIRED = ("precision", "min_exponent", "max_exponent")

SWITCHES = {"subnormals": True, "negative_zero": True, "zero": True}

OVERFLOWS = ("infinity", "nan", "saturate")

KEYS = (*REQUIRED, "overflow", *SWITCHES)
"""Everything a definition may say: three integers, one of OVERFLOWS (infinity), and three switches (all true)."""


def with_saturation(format: Format) -> Format:
    """Return the same format, in which what is beyond the largest number, infinities too, becomes the largest."""
    return replace(format, name=f"{format.name}_sat", overflow=format.largest)


def without_subnormals(format: Format) -> Format:
    """Return the same format without subnormals."""
    return replace(format, name=f"{format.name}_flush", subnormals=False)


def parse_format(name: str, definition: Mapping[str, Any]) -> Format:
    """Return the format that a mapping with the keys KEYS defines. Raises UserError (bad-format), without a place.

    The largest number is (2 - 2**(1 - precision)) * 2**max_exponent. 1 must be a number of the format, and every
    number of it one of float64.
    """
    for key in definition:
        if key not in KEYS:
            raise _bad(name, f"expected one of {', '.join(KEYS)} but got key={key}{nearest(str(key), KEYS)}")
    precision, low, high = (_integer(name, definition, key) for key in REQUIRED)
    switches = {key: _switch(name, key, definition.get(key, default)) for key, default in SWITCHES.items()}
    if not switches.pop("zero"):
        raise _bad(name, "expected a format with a zero but got zero=false")
    _check_range(name, precision, low, high)
    largest = ldexp(2**precision - 1, high - precision + 1)
    return Format(name, precision, low, largest, _overflow(name, definition, largest), **switches)


def _integer(name: str, definition: Mapping[str, Any], key: str) -> int:
    if key not in definition:
        raise _bad(name, f"expected an integer {key} but there is none")
    value = definition[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(name, f"expected an integer but got {key}={value}")
    return value


def _switch(name: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _bad(name, f"expected true or false but got {key}={value}")
    return value


def _overflow(name: str, definition: Mapping[str, Any], largest: float) -> float:
    overflow = definition.get("overflow", "infinity")
    if overflow not in OVERFLOWS:
        raise _bad(
            name,
            f"expected one of {', '.join(OVERFLOWS)} but got overflow={overflow}{nearest(str(overflow), OVERFLOWS)}",
        )
    return {"infinity": inf, "nan": nan, "saturate": largest}[overflow]


def _check_range(name: str, precision: int, low: int, high: int) -> None:
    """Refuse what has no numbers, what float64 has not, and what has no 1."""
    if precision < 1:
        raise _bad(name, f"expected at least 1 bit of precision but got precision={precision}")
    if low > high:
        raise _bad(name, f"expected min_exponent <= max_exponent but got min_exponent={low}, max_exponent={high}")
    wider = precision > WIDEST["precision"] or low < WIDEST["min_exponent"] or high > WIDEST["max_exponent"]
    if wider or low - precision < WIDEST["min_exponent"] - WIDEST["precision"]:
        said = f"precision={precision}, min_exponent={low}, max_exponent={high}"
        raise _bad(name, f"expected a format within float64 (53, -1022, 1023) but got {said}")
    if not low <= 0 <= high:
        said = f"min_exponent={low}, max_exponent={high}"
        raise _bad(name, f"expected a format that has the number 1, min_exponent <= 0 <= max_exponent, but got {said}")


def _bad(name: str, message: str) -> UserError:
    return UserError("bad-format", f"format {name}: {message}")


SIMULATED_FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("tf32", 11, -126, ldexp(2**11 - 1, 117)),
        Format("float32_m20", 21, -126, ldexp(2**21 - 1, 107), subnormals=False),
    )
}
"""Formats that devices compute in and no array is stored in: both rest in float32.

tf32 is NVIDIA's TensorFloat-32: the exponents of float32 and the precision of float16 (NVIDIA A100 Tensor Core GPU
Architecture, 2020). float32_m20 is float32 of which 20 of the 23 bits of the mantissa are used, without subnormals.
"""


SHORT: dict[str, str] = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32_m20": "float32_m20",
    "fp8_e4m3fn": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e4m3fnuz": "float8_e4m3fnuz",
    "fp8_e5m2fnuz": "float8_e5m2fnuz",
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
}
"""Short forms, and the names they stand for."""


NAMED_FORMATS: dict[str, Format] = FORMATS | SIMULATED_FORMATS


FORMAT_SUFFIXES: dict[str, Callable[[Format], Format]] = {"_sat": with_saturation, "_flush": without_subnormals}
"""What may follow a name, once or both: fp16_sat is float16 that saturates, fp32_flush float32 without subnormals."""


WITHOUT_ZERO = frozenset({"float8_e8m0fnu", "fp8_e8m0fnu", "e8m0fnu"})
"""Formats that exist and cannot be rounded to, because 0 is no number of theirs: they hold scales."""


def format_named(name: str, others: Iterable[str] = ()) -> Format:
    """Return the format of a name or of its short form, with any of FORMS behind it.

    `others` are names that would have been taken, too, where the name was found: an error tells the nearest of all.
    Raises UserError (unknown-format, or bad-format for a format without a zero).
    """
    for suffix, form in FORMAT_SUFFIXES.items():
        stem = name.removesuffix(suffix)
        if stem != name:
            return form(format_named(stem, others))
    name = SHORT.get(name, name)
    if name in WITHOUT_ZERO:
        raise UserError("bad-format", f"expected a format with a zero but got format={name}")
    if name not in NAMED_FORMATS:
        known = (*NAMED_FORMATS, *SHORT, *others)
        raise UserError("unknown-format", f"expected the name of a format but got format={name}{nearest(name, known)}")
    return NAMED_FORMATS[name]
