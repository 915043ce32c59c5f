"""Which bits, exact decimal, neighbours and rounding errors does one number of a format have?

Numbers are read exactly from text: no float64 comes between a text and its value. The layout of a pattern follows from
the format alone. The exponent field counts the binades, plus one code for zero and subnormals. Formats with infinities
have another code, for infinities and NaN.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from math import copysign, frexp, inf, isfinite, isinf, isnan, nan
from typing import NamedTuple

from msgspec import Struct

from precreg.arithmetic.exact import exact_round, exact_ulp
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.hifloat8 import decode_hifloat8, encode_hifloat8, hifloat8_fields
from precreg.errors import UserError

# A rational number, or a float that is an infinity, NaN or -0.0, which a Fraction cannot be.
ExactNumber = Fraction | float

# No format has numbers beyond these bounds: a longdouble ends near 10**4932, all others within float64. Without
# bounds, reading 1e999999999 exactly would take memory without limit.
MAX_CHARACTERS = 2000
MAX_LITERAL_EXPONENT = 2000

# re.ASCII, because \d would also match the digits of other scripts.
_DECIMAL = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)
_RATIO = re.compile(r"([+-]?)(\d+)/(\d+)", re.ASCII)
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([\da-fA-F]+)\.?([\da-fA-F]*)[pP]([+-]?\d+)", re.ASCII)
_SPECIAL = {"inf": inf, "infinity": inf, "nan": nan}

# The digits after which a decimal is cut if it has no end. 1100 digits hold every float64: the smallest subnormal,
# 2**-1074, has 751 of them.
_SHOWN_DIGITS = 20
_MAX_DIGITS = 1100


def parse_number(text: str) -> ExactNumber:
    """Return the value of a decimal (1.12, -2e-3), a ratio (1/3), a hexadecimal float (0x1.8p3), inf or nan.

    Raises UserError (bad-value).
    """
    special = _SPECIAL.get(text.lower().lstrip("+-"))
    if special is not None and len(text) - len(text.lstrip("+-")) <= 1:
        return -special if text.startswith("-") else special
    for read in (_read_decimal, _read_ratio, _read_hexadecimal):
        magnitude = read(text) if len(text) <= MAX_CHARACTERS else None
        if magnitude is not None:
            negative = text.startswith("-")
            return -0.0 if negative and not magnitude else -magnitude if negative else magnitude
    raise UserError(
        "bad-value",
        f"expected a number such as 1.12, 1/3, 0x1.8p3, inf or nan but got value={text[:80]}",
        hint="write a number: precreg bits 1.12, precreg bits 1/3 or precreg bits 0x1.8p3",
    )


def parse_pattern(text: str) -> int | None:
    """Return the integer of a pattern such as bits:0x3c7c or bits:0b0011, or None for text without the prefix bits:.

    Raises UserError (bad-value) if no digits with 0x or 0b follow the prefix.
    """
    prefix, _, digits = text.partition(":")
    if prefix != "bits":
        return None
    if not re.fullmatch(r"0[xX][\da-fA-F]{1,16}|0[bB][01]{1,64}", digits):
        raise UserError(
            "bad-value",
            f"expected a pattern such as bits:0x3c7c or bits:0b0011 but got value={text[:80]}",
            hint="write 0x with up to 16 digits, or 0b with up to 64: precreg bits bits:0x3c7c --format float16",
        )
    return int(digits, 0)


def _read_decimal(text: str) -> Fraction | None:
    found = _DECIMAL.fullmatch(text)
    if found is None or not _is_bounded(found[3]):
        return None
    return Fraction(found[2]) * Fraction(10) ** int(found[3] or 0)


def _read_ratio(text: str) -> Fraction | None:
    found = _RATIO.fullmatch(text)
    return Fraction(int(found[2]), int(found[3])) if found is not None and int(found[3]) else None


def _read_hexadecimal(text: str) -> Fraction | None:
    found = _HEXADECIMAL.fullmatch(text)
    if found is None or not _is_bounded(found[4]):
        return None
    return Fraction(int(found[2] + found[3], 16)) * Fraction(2) ** (int(found[4]) - 4 * len(found[3]))


def _is_bounded(exponent: str | None) -> bool:
    # The length comes first: int() of a long text takes quadratic time.
    return exponent is None or (len(exponent) < 9 and abs(int(exponent)) <= MAX_LITERAL_EXPONENT)


class BitFields(NamedTuple):
    """Hold the bits of a number, as strings of 0 and 1."""

    sign: str
    exponent: str
    mantissa: str

    @property
    def pattern(self) -> str:
        """Return all bits as one hexadecimal number."""
        bits = "".join(self)
        return f"0x{int(bits, 2):0{-(-len(bits) // 4)}x}"


def field_widths(format: Format) -> tuple[int, int]:
    """Return the number of bits of exponent and mantissa. The sign takes one more.

    The fields of a tapered format have other widths in other binades; the sum is the same.
    """
    if format.taper:
        return 4, format.precision - 1
    codes = format.max_exponent - format.min_exponent + 2 + (format.overflow == inf)
    return (codes - 1).bit_length(), format.precision - 1


def bit_fields(value: float, format: Format) -> BitFields | None:
    """Return the bits of a number of `format`, of an infinity, or of the usual NaN; None if the format lacks a NaN."""
    if format.taper:
        return _tapered_fields(encode_hifloat8(value))
    exponent_bits, mantissa_bits = field_widths(format)
    if isnan(value):
        return _nan_fields(format)
    if isinf(value):
        exponent, mantissa = 2**exponent_bits - 1, 0
    else:
        quantum = exact_ulp(Fraction(value), format)
        significand = int(abs(Fraction(value)) / quantum)
        is_normal = significand >> mantissa_bits
        binade = _log2(quantum) + mantissa_bits
        exponent = binade - format.min_exponent + 1 if is_normal else 0
        mantissa = significand - (is_normal << mantissa_bits)
    return _join_fields(copysign(1.0, value) < 0, exponent, mantissa, format)


def _tapered_fields(code: int) -> BitFields:
    """Return the fields of a code of HiFloat8. The dot field comes first: it gives the other two their lengths."""
    fields = hifloat8_fields(code)
    return BitFields(fields.sign, fields.dot + fields.exponent, fields.mantissa)


def split_pattern(pattern: int, format: Format) -> BitFields:
    """Return the fields of a pattern. Raises UserError (bad-value) for a pattern with too many bits."""
    exponent_bits, mantissa_bits = field_widths(format)
    if pattern.bit_length() > 1 + exponent_bits + mantissa_bits:
        room = f"a pattern of {1 + exponent_bits + mantissa_bits} bits"
        raise UserError(
            "bad-value",
            f"expected {room} for {format.name} but got bits:{pattern:#x}",
            hint="name a wider format, or fewer bits: precreg bits bits:0x3c7c --format float16",
        )
    if format.taper:
        return _tapered_fields(pattern)
    sign, rest = divmod(pattern, 1 << exponent_bits + mantissa_bits)
    return _join_fields(bool(sign), *divmod(rest, 1 << mantissa_bits), format)


def decode_fields(bits: BitFields, format: Format) -> float:
    """Return the number that the bits encode, which may be an infinity or NaN."""
    if format.taper:
        return decode_hifloat8(int("".join(bits), 2))
    mantissa_bits = format.precision - 1
    sign, exponent, mantissa = int(bits.sign), int(bits.exponent, 2), int(bits.mantissa or "0", 2)
    # Exponent 0 encodes subnormals: the binade of exponent 1, without the implicit bit.
    significand = mantissa + (1 << mantissa_bits if exponent else 0)
    binade = max(exponent, 1) - 1 + format.min_exponent
    magnitude = Fraction(significand) * Fraction(2) ** (binade - mantissa_bits)
    if sign and not magnitude and not format.negative_zero:
        return nan
    # Codes above the largest number are special. An all-zero mantissa is the infinity, if the format has one.
    if magnitude > format.largest:
        return copysign(inf, -sign) if not mantissa and format.overflow == inf else nan
    return copysign(float(magnitude), -1.0 if sign else 1.0)


def _nan_fields(format: Format) -> BitFields | None:
    """Return the usual NaN of a format, or None if it has none.

    fnuz formats use the pattern of -0.0. Formats with infinities use a quiet NaN, whose first mantissa bit is set.
    The "fn" formats use all ones.
    """
    exponent_bits, mantissa_bits = field_widths(format)
    top = 2**exponent_bits - 1
    if not format.negative_zero:
        return _join_fields(True, 0, 0, format)
    if format.max_exponent - format.min_exponent + 1 < top:
        return _join_fields(False, top, 1 << mantissa_bits - 1, format) if mantissa_bits else None
    all_ones = _join_fields(False, top, 2**mantissa_bits - 1, format)
    return all_ones if isnan(decode_fields(all_ones, format)) else None


def _join_fields(is_negative: bool, exponent: int, mantissa: int, format: Format) -> BitFields:
    exponent_bits, mantissa_bits = field_widths(format)
    return BitFields(
        str(int(is_negative)),
        f"{exponent:0{exponent_bits}b}",
        f"{mantissa:0{mantissa_bits}b}" if mantissa_bits else "",
    )


class RoundingErrors(Struct, frozen=True):
    """Hold the difference of a number and the value that was rounded to it, each figure rounded to float64.

    All are None if one of the two is not finite.
    """

    absolute: float | None = None
    # The absolute error over the spacing of the format at the exact value.
    ulp: float | None = None
    # The absolute error over the magnitude of the exact value; None for zero.
    relative: float | None = None


class Anatomy(Struct, frozen=True):
    """Describe a number of a format. Decimals are strings, and exact unless they end in `...`.

    Fields are None if the number lacks them, such as a neighbour beyond the largest number, or the exponent of an
    integer. `precreg bits --json` prints these fields.
    """

    format: str
    value: str
    # zero, subnormal, normal, infinity, nan or integer.
    kind: str
    sign: str | None
    exponent: str | None
    # The exponent of the number's binade.
    power: int | None
    mantissa: str | None
    pattern: str | None
    below: str | None
    above: str | None
    error: RoundingErrors


def describe_number(value: float, exact: ExactNumber, format: Format, bits: BitFields | None = None) -> Anatomy:
    """Return the anatomy of `value`, to which `exact` was rounded. `bits` may hold the own pattern of a NaN."""
    bits = bits or bit_fields(value, format)
    below, above = neighbours(value, format)
    has_power = value and isfinite(value)
    return Anatomy(
        format.name,
        exact_decimal(value),
        _kind(value, format),
        bits and bits.sign,
        bits and bits.exponent,
        _power(value, format) if has_power else None,
        bits and bits.mantissa,
        bits and bits.pattern,
        below,
        above,
        rounding_errors(value, exact, exact_ulp(Fraction(exact), format) if is_finite(exact) else Fraction(1)),
    )


def _power(value: float, format: Format) -> int:
    """Return the exponent that the fields of a number stand for: that of the smallest normal one for subnormals."""
    if format.taper:
        return frexp(value)[1] - 1
    return _log2(exact_ulp(Fraction(value), format)) + format.precision - 1


def rounding_errors(value: ExactNumber, exact: ExactNumber, ulp: Fraction) -> RoundingErrors:
    """Return the errors of rounding `exact` to `value`, where the format has the spacing `ulp`."""
    if not (is_finite(value) and is_finite(exact)):
        return RoundingErrors()
    error = Fraction(value) - Fraction(exact)
    relative = _round_to_float64(error / abs(Fraction(exact))) if exact else None
    return RoundingErrors(_round_to_float64(error), _round_to_float64(error / ulp), relative)


def is_finite(value: ExactNumber) -> bool:
    """Return whether a value is neither an infinity nor NaN. A Fraction may be too large for math.isfinite."""
    return isinstance(value, Fraction) or isfinite(value)


def neighbours(value: float, format: Format) -> tuple[str | None, str | None]:
    """Return the next number below and the next above a number of `format`, as decimals. Infinities count."""
    if isnan(value):
        return None, None
    above = _next_above(value, format)
    below = 0.0 - _next_above(-value, format)  # 0.0 - x, because -x would give -0.0
    return _decimal_or_none(below, value), _decimal_or_none(above, value)


def exact_decimal(value: ExactNumber) -> str:
    """Return all digits of a number. A fraction with endless digits gets 20 of them and three dots."""
    if not isinstance(value, Fraction):
        return str(Decimal(value)).replace("E", "e").replace("Infinity", "inf").replace("NaN", "nan")
    context = Context(prec=_MAX_DIGITS, Emax=10**6, Emin=-(10**6))
    digits = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if not context.flags[Inexact]:
        return str(digits).replace("E", "e")
    return f"{Context(prec=_SHOWN_DIGITS, Emax=10**6, Emin=-(10**6)).plus(digits)}...".replace("E", "e")


def _decimal_or_none(near: float, value: float) -> str | None:
    return None if isnan(near) or near == value else exact_decimal(near)


def _next_above(value: float, format: Format) -> float:
    """Return the next larger number of a format; NaN, or the number itself, where the format ends."""
    if isinf(value):
        return -format.largest if value < 0 else nan
    if value == 0 and not format.subnormals:
        return format.smallest_normal
    # Half of the smallest spacing is less than any distance of neighbours, so rounding up cannot pass the next number.
    step = Fraction(format.smallest_subnormal) / 2
    return exact_round(Fraction(value) + step, format, Rounding.UP) + 0.0


def _kind(value: float, format: Format) -> str:
    if not isfinite(value):
        return "nan" if isnan(value) else "infinity"
    if abs(value) >= format.smallest_normal:
        return "normal"
    return "subnormal" if value else "zero"


def _log2(power: Fraction) -> int:
    """Return the exponent of a power of two."""
    return power.numerator.bit_length() - power.denominator.bit_length()


def _round_to_float64(value: Fraction) -> float:
    return exact_round(value, FORMATS["float64"])
