"""Numbers as people write them, read exactly: no float64 stands between the text and its value.

Where sign, exponent and mantissa of a number stand in the bits of a format, and which patterns mean something else.

All of it follows from a format's few numbers. The exponent's field has as many bits as it takes to count the binades,
one pattern for zero and subnormals, and one for infinities and NaN where there are infinities.

What there is to see of one number in a format: bits, exact decimal, neighbours, and the error of rounding to it.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, nan
from typing import NamedTuple

from msgspec import Struct

from precreg.arithmetic.exact import exact_round, exact_ulp
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.errors import UserError

MAX_CHARACTERS = 2000

MAX_LITERAL_EXPONENT = 2000
"""Beyond these bounds lie no numbers of any format, and reading them exactly would take memory without end."""


ExactNumber = Fraction | float
"""A rational number; or a float, which is an infinity, NaN or -0.0."""


_DECIMAL = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)

_RATIO = re.compile(r"([+-]?)(\d+)/(\d+)", re.ASCII)

_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([\da-fA-F]+)\.?([\da-fA-F]*)[pP]([+-]?\d+)", re.ASCII)

_SPECIAL = {"inf": inf, "infinity": inf, "nan": nan}


def parse_number(text: str) -> ExactNumber:
    """Return the value of a decimal (1.12, -2e-3), a ratio (1/3), a hexadecimal float (0x1.8p3), inf or nan.

    Raises UserError (bad-value).
    """
    special = _SPECIAL.get(text.lower().lstrip("+-"))
    if special is not None and len(text) - len(text.lstrip("+-")) <= 1:
        return -special if text.startswith("-") else special
    for read in (_decimal, _ratio, _hexadecimal):
        magnitude = read(text) if len(text) <= MAX_CHARACTERS else None
        if magnitude is not None:
            negative = text.startswith("-")
            return -0.0 if negative and not magnitude else -magnitude if negative else magnitude
    raise UserError("bad-value", f"expected a number such as 1.12, 1/3, 0x1.8p3, inf or nan but got value={text[:80]}")


def parse_pattern(text: str) -> int | None:
    """Return the integer of a pattern such as bits:0x3c7c or bits:0b0011; None for text that is no pattern.

    Raises UserError (bad-value) for what begins with bits: and does not go on with 0x or 0b and digits.
    """
    prefix, _, digits = text.partition(":")
    if prefix != "bits":
        return None
    if not re.fullmatch(r"0[xX][\da-fA-F]{1,16}|0[bB][01]{1,64}", digits):
        raise UserError("bad-value", f"expected a pattern such as bits:0x3c7c or bits:0b0011 but got value={text[:80]}")
    return int(digits, 0)


def _decimal(text: str) -> Fraction | None:
    found = _DECIMAL.fullmatch(text)
    if found is None or not _is_near(found[3]):
        return None
    return Fraction(found[2]) * Fraction(10) ** int(found[3] or 0)


def _ratio(text: str) -> Fraction | None:
    found = _RATIO.fullmatch(text)
    return Fraction(int(found[2]), int(found[3])) if found is not None and int(found[3]) else None


def _hexadecimal(text: str) -> Fraction | None:
    found = _HEXADECIMAL.fullmatch(text)
    if found is None or not _is_near(found[4]):
        return None
    return Fraction(int(found[2] + found[3], 16)) * Fraction(2) ** (int(found[4]) - 4 * len(found[3]))


def _is_near(exponent: str | None) -> bool:
    return exponent is None or (len(exponent) < 9 and abs(int(exponent)) <= MAX_LITERAL_EXPONENT)


class BitFields(NamedTuple):
    """The bits of a number, as strings of 0 and 1."""

    sign: str
    exponent: str
    mantissa: str

    @property
    def pattern(self) -> str:
        """All bits as one hexadecimal number."""
        bits = "".join(self)
        return f"0x{int(bits, 2):0{-(-len(bits) // 4)}x}"


def field_widths(format: Format) -> tuple[int, int]:
    """Return the number of bits of exponent and mantissa; a sign makes one more."""
    codes = format.max_exponent - format.min_exponent + 2 + (format.overflow == inf)
    return (codes - 1).bit_length(), format.precision - 1


def bit_fields(value: float, format: Format) -> BitFields | None:
    """Return the bits of a number of `format`, of an infinity, or of the NaN that is usual; None if it has no such."""
    exponent_bits, mantissa_bits = field_widths(format)
    if isnan(value):
        return _nan_fields(format)
    if isinf(value):
        exponent, mantissa = 2**exponent_bits - 1, 0
    else:
        quantum = exact_ulp(Fraction(value), format)
        significand = int(abs(Fraction(value)) / quantum)
        is_normal = significand >> mantissa_bits
        binade = quantum.numerator.bit_length() - quantum.denominator.bit_length() + mantissa_bits
        exponent = binade - format.min_exponent + 1 if is_normal else 0
        mantissa = significand - (is_normal << mantissa_bits)
    return _joined(copysign(1.0, value) < 0, exponent, mantissa, format)


def split_pattern(pattern: int, format: Format) -> BitFields:
    """Cut a pattern into its fields. Raises UserError (bad-value) for one with too many bits."""
    exponent_bits, mantissa_bits = field_widths(format)
    if pattern.bit_length() > 1 + exponent_bits + mantissa_bits:
        room = f"a pattern of {1 + exponent_bits + mantissa_bits} bits"
        raise UserError("bad-value", f"expected {room} for {format.name} but got bits:{pattern:#x}")
    sign, rest = divmod(pattern, 1 << exponent_bits + mantissa_bits)
    return _joined(bool(sign), *divmod(rest, 1 << mantissa_bits), format)


def decode_fields(bits: BitFields, format: Format) -> float:
    """Return the number that these bits mean: it may be an infinity, or NaN."""
    mantissa_bits = format.precision - 1
    sign, exponent, mantissa = int(bits.sign), int(bits.exponent, 2), int(bits.mantissa or "0", 2)
    significand = mantissa + (1 << mantissa_bits if exponent else 0)
    binade = max(exponent, 1) - 1 + format.min_exponent
    magnitude = Fraction(significand) * Fraction(2) ** (binade - mantissa_bits)
    if sign and not magnitude and not format.negative_zero:
        return nan
    if magnitude > format.largest:
        return copysign(inf, -sign) if not mantissa and format.overflow == inf else nan
    return copysign(float(magnitude), -1.0 if sign else 1.0)


def _nan_fields(format: Format) -> BitFields | None:
    """Return what NaN is: -0.0 where that is free, a quiet one where the top exponent is free, else all ones."""
    exponent_bits, mantissa_bits = field_widths(format)
    top = 2**exponent_bits - 1
    if not format.negative_zero:
        return _joined(True, 0, 0, format)
    if format.max_exponent - format.min_exponent + 1 < top:
        return _joined(False, top, 1 << mantissa_bits - 1, format) if mantissa_bits else None
    all_ones = _joined(False, top, 2**mantissa_bits - 1, format)
    return all_ones if isnan(decode_fields(all_ones, format)) else None


def _joined(is_negative: bool, exponent: int, mantissa: int, format: Format) -> BitFields:
    exponent_bits, mantissa_bits = field_widths(format)
    return BitFields(
        str(int(is_negative)),
        f"{exponent:0{exponent_bits}b}",
        f"{mantissa:0{mantissa_bits}b}" if mantissa_bits else "",
    )


class RoundingErrors(Struct, frozen=True):
    """The number minus what was rounded: absolute, over the ULP there, and over the size of it, each in float64.

    None stands for what is not defined: where one of the two is no finite number, or what was rounded is zero. What is
    beyond float64 is infinite, or zero.
    """

    absolute: float | None = None
    ulp: float | None = None
    relative: float | None = None


class Anatomy(Struct, frozen=True):
    """A number of a format. Decimals are strings, and exact, unless they end in `...`.

    `kind` is zero, subnormal, normal, infinity, nan or integer. `power` is the exponent of the number's binade.
    What a number does not have is None: a neighbour beyond the largest, or fields of an integer.
    """

    format: str
    value: str
    kind: str
    sign: str | None
    exponent: str | None
    power: int | None
    mantissa: str | None
    pattern: str | None
    below: str | None
    above: str | None
    error: RoundingErrors


def describe_number(value: float, exact: ExactNumber, format: Format, bits: BitFields | None = None) -> Anatomy:
    """Return the anatomy of `value`, a number of `format` that `exact` was rounded to. NaN may have these `bits`."""
    bits = bits or bit_fields(value, format)
    below, above = neighbours(value, format)
    return Anatomy(
        format.name,
        exact_decimal(value),
        _kind(value, format),
        bits and bits.sign,
        bits and bits.exponent,
        _power(value, format) if value and isfinite(value) else None,
        bits and bits.mantissa,
        bits and bits.pattern,
        below,
        above,
        rounding_errors(value, exact, exact_ulp(Fraction(exact), format) if is_finite(exact) else Fraction(1)),
    )


def rounding_errors(value: ExactNumber, exact: ExactNumber, ulp: Fraction) -> RoundingErrors:
    """Return how far a number is from what was rounded to it; `ulp` is the spacing there."""
    if not (is_finite(value) and is_finite(exact)):
        return RoundingErrors()
    error = Fraction(value) - Fraction(exact)
    relative = _nearest_float(error / abs(Fraction(exact))) if exact else None
    return RoundingErrors(_nearest_float(error), _nearest_float(error / ulp), relative)


def is_finite(value: ExactNumber) -> bool:
    """Say whether this is a number, of any size."""
    return isinstance(value, Fraction) or isfinite(value)


def neighbours(value: float, format: Format) -> tuple[str | None, str | None]:
    """Return the numbers of `format` next below and next above one, as decimals; infinities are numbers here."""
    if isnan(value):
        return None, None
    above = _above(value, format)
    below = 0.0 - _above(-value, format)
    return _decimal_or_none(below, value), _decimal_or_none(above, value)


def exact_decimal(value: ExactNumber) -> str:
    """Return all digits of a number; of a fraction that decimals do not end, twenty and three dots."""
    if not isinstance(value, Fraction):
        return str(Decimal(value)).replace("E", "e").replace("Infinity", "inf").replace("NaN", "nan")
    context = Context(prec=1100, Emax=10**6, Emin=-(10**6))
    digits = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if not context.flags[Inexact]:
        return str(digits).replace("E", "e")
    return f"{Context(prec=20, Emax=10**6, Emin=-(10**6)).plus(digits)}...".replace("E", "e")


def _decimal_or_none(near: float, value: float) -> str | None:
    return None if isnan(near) or near == value else exact_decimal(near)


def _above(value: float, format: Format) -> float:
    """Return the next number of a format; NaN, or the number itself, where there is none."""
    if isinf(value):
        return -format.largest if value < 0 else nan
    if value == 0 and not format.subnormals:
        return format.smallest_normal
    step = Fraction(format.smallest_subnormal) / 2
    return exact_round(Fraction(value) + step, format, Rounding.UP) + 0.0


def _kind(value: float, format: Format) -> str:
    if not isfinite(value):
        return "nan" if isnan(value) else "infinity"
    if abs(value) >= format.smallest_normal:
        return "normal"
    return "subnormal" if value else "zero"


def _power(value: float, format: Format) -> int:
    ulp = exact_ulp(Fraction(value), format)
    return ulp.numerator.bit_length() - ulp.denominator.bit_length() + format.precision - 1


def _nearest_float(value: Fraction) -> float:
    return exact_round(value, FORMATS["float64"])
