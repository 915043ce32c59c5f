"""Which numbers does a format have, and which names do formats and roundings have?

A binary floating-point format has the numbers +-m * 2**(e - precision + 1). The significand m is an integer below
2**precision, and the exponent e is at least min_exponent. A format is a value: five numbers and two switches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from math import frexp, inf, ldexp, nan
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.errors import UserError, name_hint, nearest

if TYPE_CHECKING:
    import numpy as np


class Format(Struct, frozen=True):
    """Describe a binary floating-point format. A longdouble has `largest` inf, because no float can hold its own."""

    name: str
    # The bits of the significand, including the implicit bit.
    precision: int
    # The smallest normal number is 2**min_exponent.
    min_exponent: int
    largest: float
    # The result of a magnitude beyond `largest`, an infinity included. Formats differ here: an infinity, NaN if the
    # format has no infinities, or the largest number if it has no NaN either or saturates.
    overflow: float = inf
    # False where the bit pattern of -0.0 encodes NaN (the "uz" of fnuz: unsigned zero).
    negative_zero: bool = True
    # False where results below the smallest normal number become zero.
    subnormals: bool = True
    # Tapered precision: (largest |exponent|, bits) in rising order, for formats whose binades have fewer bits away from
    # 1. Beyond the last entry a binade has one bit. `precision` is the most of them. Empty for all other formats.
    taper: tuple[tuple[int, int], ...] = ()

    def precision_at(self, exponent: int) -> int:
        """Return the bits of the significand in the binade of 2**exponent."""
        if not self.taper:
            return self.precision
        return next((bits for most, bits in self.taper if abs(exponent) <= most), 1)

    @property
    def max_exponent(self) -> int:
        """Return the exponent of the largest binade, as a power of two."""
        # IEEE 754 fixes emax = 1 - emin, which also serves a longdouble whose largest number is beyond float.
        return 1 - self.min_exponent if self.largest == inf else frexp(self.largest)[1] - 1

    @property
    def smallest_normal(self) -> float:
        """Return the smallest number with full precision (0.0 for a longdouble wider than float)."""
        return ldexp(1.0, self.min_exponent)

    @property
    def smallest_subnormal(self) -> float:
        """Return the smallest positive number (0.0 for a longdouble wider than float)."""
        return ldexp(1.0, self.min_exponent - self.precision_at(self.min_exponent) + 1)

    @property
    def unit_roundoff(self) -> float:
        """Return the largest relative error of rounding a normal number to nearest: 2**-precision of any binade."""
        return ldexp(1.0, -self.precision_at(self.min_exponent))


# IEEE 754-2019, table 3.5. ldexp(2**p - 1, e) is exact where a decimal literal would need 17 digits.
_NUMPY_FORMATS = (
    Format("float16", 11, -14, 65504.0),
    Format("float32", 24, -126, ldexp(2**24 - 1, 104)),
    Format("float64", 53, -1022, ldexp(2**53 - 1, 971)),
)

# The formats of ml_dtypes. bfloat16 is float32 with 8 bits of significand. Sources: Micikevicius et al., FP8 Formats
# for Deep Learning (2022) for e4m3fn and e5m2. Noune et al., 8-bit Numerical Formats for Deep Neural Networks (2022)
# for fnuz. OCP Microscaling Formats (2023) for float6 and float4. tests/arithmetic/test_formats.py compares the limits
# with ml_dtypes.
_ML_FORMATS = (
    Format("bfloat16", 8, -126, ldexp(2**8 - 1, 120)),
    Format("float8_e3m4", 5, -2, 15.5),
    Format("float8_e4m3", 4, -6, 240.0),
    Format("float8_e4m3b11fnuz", 4, -10, 30.0, overflow=nan, negative_zero=False),
    # "fn" is finite: the top exponent holds numbers too, so 448 is the largest number and not 240.
    Format("float8_e4m3fn", 4, -6, 448.0, overflow=nan),
    Format("float8_e4m3fnuz", 4, -7, 240.0, overflow=nan, negative_zero=False),
    Format("float8_e5m2", 3, -14, 57344.0),
    Format("float8_e5m2fnuz", 3, -15, 57344.0, overflow=nan, negative_zero=False),
    # Every pattern of these is a number: with neither infinity nor NaN, they can only saturate.
    Format("float6_e2m3fn", 4, 0, 7.5, overflow=7.5),
    Format("float6_e3m2fn", 3, -2, 28.0, overflow=28.0),
    Format("float4_e2m1fn", 2, 0, 6.0, overflow=6.0),
)
_ML_NAMES = frozenset(format.name for format in _ML_FORMATS)

# The formats that are the same on every machine, by the name of their dtype. longdouble is not: see format_of.
FORMATS: dict[str, Format] = {format.name: format for format in (*_NUMPY_FORMATS, *_ML_FORMATS)}

# The dtypes that a suite may name.
_INTEGER_NAMES = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPE_NAMES: tuple[str, ...] = (*FORMATS, "longdouble", *_INTEGER_NAMES, "bool", "complex64", "complex128")

# The dtype of the real and of the imaginary part.
COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}

# numpy names a longdouble by the bits that it takes in memory, padding included, so the name depends on the platform.
_LONGDOUBLE_NAMES = frozenset({"longdouble", "clongdouble", "float96", "float128", "complex192", "complex256"})


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype with this name, from numpy or ml_dtypes.

    Raises UserError (unknown-dtype) for a name outside DTYPE_NAMES, or if the installed ml_dtypes lacks the dtype.
    """
    if name not in DTYPE_NAMES:
        message = f"expected the name of a dtype but got dtype={name}{nearest(name, DTYPE_NAMES)}"
        raise UserError("unknown-dtype", message, hint=name_hint(name, DTYPE_NAMES))
    import numpy as np

    if name not in _ML_NAMES:
        return np.dtype(name)
    import ml_dtypes

    if not hasattr(ml_dtypes, name):
        installed = f"ml_dtypes {ml_dtypes.__version__}"
        message = f"expected a dtype that {installed} has but got dtype={name}"
        raise UserError("unknown-dtype", message, hint="install a newer one: python -m pip install --upgrade ml_dtypes")
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


# numpy builds a dtype's name anew at each access, and the arrays of a run share a few dtypes.
@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in suites: "longdouble" for numpy's float96 and float128."""
    return "longdouble" if dtype.name in ("float96", "float128") else dtype.name


@cache
def format_of(dtype_name: str) -> Format | None:
    """Return the format of a dtype, or of the parts of a complex dtype; None for integers, bool and unknown names.

    Accepts numpy's own names of a longdouble (float128 and so on) in addition to DTYPE_NAMES.
    """
    if dtype_name not in _LONGDOUBLE_NAMES:
        return FORMATS.get(COMPLEX_PARTS.get(dtype_name, dtype_name))
    import numpy as np

    # C leaves the precision of long double to the machine (53, 64 or 113 bits), so numpy's limits decide.
    limits = np.finfo(np.longdouble)
    return Format("longdouble", int(limits.nmant) + 1, int(limits.minexp), float(limits.max))


class Rounding(StrEnum):
    """Name the roundings of IEEE 754-2019, section 4.3, and three more: away, odd and stochastic.

    - away rounds to the neighbour of larger magnitude.
    - odd keeps an exact number, and rounds any other to the neighbour whose last bit is 1. Boldo and Melquiond
      (Emulation of FMA and correctly rounded sums, 2008) show that rounding the result again is then harmless.
    - stochastic rounds up in magnitude with a probability equal to the remainder, in steps of 2**-24 of the spacing.
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
    """Return the rounding with this name. Raises UserError (unknown-rounding)."""
    try:
        return Rounding(name)
    except ValueError:
        known = [rounding.value for rounding in Rounding]
        message = f"expected one of {', '.join(known)} but got rounding={name}{nearest(name, known)}"
        raise UserError("unknown-rounding", message, hint=name_hint(name, known)) from None


def overflow_results(format: Format, rounding: Rounding) -> tuple[float, float]:
    """Return the magnitudes to which negative and positive finite numbers beyond the largest are rounded.

    A rounding toward zero stays at the largest number (IEEE 754-2019, section 7.4). So does odd: its result must not be
    an infinity, whose last bit is 0. All others give `format.overflow`.
    """
    # Stochastic rounding overflows as well: its draw went up to the number that would follow the largest.
    stays = {
        Rounding.TOWARD_ZERO: (True, True),
        Rounding.ODD: (True, True),
        Rounding.UP: (True, False),
        Rounding.DOWN: (False, True),
    }.get(rounding, (False, False))
    negative, positive = (format.largest if stay else format.overflow for stay in stays)
    return negative, positive


# Every number of a user's format must be a float64, because arrays of the format are computed and stored in it.
WIDEST = {"precision": 53, "min_exponent": -1022, "max_exponent": 1023}

# The keys of a definition: three integers, one of OVERFLOWS (default infinity), and three switches (default true).
REQUIRED = ("precision", "min_exponent", "max_exponent")
SWITCHES = {"subnormals": True, "negative_zero": True, "zero": True}
OVERFLOWS = ("infinity", "nan", "saturate")
KEYS = (*REQUIRED, "overflow", *SWITCHES)


def with_saturation(format: Format) -> Format:
    """Return the format with saturation: magnitudes beyond the largest number, infinities too, become the largest."""
    return replace(format, name=f"{format.name}_sat", overflow=format.largest)


def without_subnormals(format: Format) -> Format:
    """Return the format without subnormals: results below the smallest normal number become zero."""
    return replace(format, name=f"{format.name}_flush", subnormals=False)


def parse_format(name: str, definition: Mapping[str, Any]) -> Format:
    """Return the format that a mapping with the keys KEYS defines. Raises UserError (bad-format), without file or line.

    The largest number is (2 - 2**(1 - precision)) * 2**max_exponent. 1 must be a number of the format, and every
    number of the format must be a float64.
    """
    for key in definition:
        if key not in KEYS:
            raise _bad(name, f"expected one of {', '.join(KEYS)} but got key={key}{nearest(str(key), KEYS)}")
    precision, low, high = (_integer(name, definition, key) for key in REQUIRED)
    switches = {key: _switch(name, key, definition.get(key, default)) for key, default in SWITCHES.items()}
    # Formats without a zero exist (e8m0 holds scales), so the key gets a clear answer instead of "unknown key".
    if not switches.pop("zero"):
        raise _bad(name, "expected a format with a zero but got zero=false")
    _check_range(name, precision, low, high)
    largest = ldexp(2**precision - 1, high - precision + 1)
    overflow = _overflow(name, definition, largest)
    return Format(
        name,
        precision,
        low,
        largest,
        overflow,
        negative_zero=switches["negative_zero"],
        subnormals=switches["subnormals"],
    )


def _integer(name: str, definition: Mapping[str, Any], key: str) -> int:
    if key not in definition:
        raise _bad(name, f"expected an integer {key} but there is none")
    value = definition[key]
    # bool is a subclass of int, and YAML reads "yes" and "on" as true.
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
    """Refuse formats without numbers, formats wider than float64, and formats without the number 1."""
    if precision < 1:
        raise _bad(name, f"expected at least 1 bit of precision but got precision={precision}")
    if low > high:
        raise _bad(name, f"expected min_exponent <= max_exponent but got min_exponent={low}, max_exponent={high}")
    wider = precision > WIDEST["precision"] or low < WIDEST["min_exponent"] or high > WIDEST["max_exponent"]
    # The second condition compares the smallest subnormals, 2**(min_exponent - precision + 1).
    if wider or low - precision < WIDEST["min_exponent"] - WIDEST["precision"]:
        given = f"precision={precision}, min_exponent={low}, max_exponent={high}"
        raise _bad(name, f"expected a format within float64 (53, -1022, 1023) but got {given}")
    # rounding_numpy.round_scaled divides by the smallest subnormal without overflow because it is at most 1.
    if not low <= 0 <= high:
        given = f"min_exponent={low}, max_exponent={high}"
        raise _bad(name, f"expected a format that has the number 1, min_exponent <= 0 <= max_exponent, but got {given}")


def _bad(name: str, message: str) -> UserError:
    return UserError("bad-format", f"format {name}: {message}")


# Formats in which devices compute and no dtype stores arrays: float32 holds the numbers of both.
SIMULATED_FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        # NVIDIA's TensorFloat-32: the exponents of float32 with the precision of float16 (NVIDIA A100 Tensor Core GPU
        # Architecture, 2020).
        Format("tf32", 11, -126, ldexp(2**11 - 1, 117)),
        # float32 with 20 of its 23 mantissa bits and without subnormals, for units that drop the low bits.
        Format("float32_m20", 21, -126, ldexp(2**21 - 1, 107), subnormals=False),
        # HiFloat8: 4 bits up to 2**3, 3 bits up to 2**7, 2 bits up to 2**15, and powers of two from 2**-16 down to
        # 2**-22. hifloat8.py has its source and its codes.
        Format("hif8", 4, -22, 2.0**15, negative_zero=False, taper=((3, 4), (7, 3), (15, 2))),
    )
}

# Short forms, and the names that they abbreviate.
SHORT: dict[str, str] = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32_m20": "float32_m20",
    "hifloat8": "hif8",
    "fp8_e4m3fn": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e4m3fnuz": "float8_e4m3fnuz",
    "fp8_e5m2fnuz": "float8_e5m2fnuz",
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
}

NAMED_FORMATS: dict[str, Format] = FORMATS | SIMULATED_FORMATS

# Suffixes of a name, once or both: fp16_sat is float16 with saturation, fp32_flush is float32 without subnormals.
FORMAT_SUFFIXES: dict[str, Callable[[Format], Format]] = {"_sat": with_saturation, "_flush": without_subnormals}

# These formats exist for block scales. Underflow and the sign of zero would have no result in them.
WITHOUT_ZERO = frozenset({"float8_e8m0fnu", "fp8_e8m0fnu", "e8m0fnu"})


def format_named(name: str, others: Iterable[str] = ()) -> Format:
    """Return the format with this name or short form, which may end in any of FORMAT_SUFFIXES.

    `others` are names that the caller knows already, for the suggestion in the error.
    Raises UserError (unknown-format, or bad-format for a format without a zero).
    """
    for suffix, derive in FORMAT_SUFFIXES.items():
        stem = name.removesuffix(suffix)
        if stem != name:
            return derive(format_named(stem, others))
    name = SHORT.get(name, name)
    if name in WITHOUT_ZERO:
        raise UserError("bad-format", f"expected a format with a zero but got format={name}")
    if name not in NAMED_FORMATS:
        known = (*NAMED_FORMATS, *SHORT, *others)
        message = f"expected the name of a format but got format={name}{nearest(name, known)}"
        raise UserError("unknown-format", message, hint=name_hint(name, known))
    return NAMED_FORMATS[name]
