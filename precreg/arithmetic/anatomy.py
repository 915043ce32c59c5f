"""What there is to see of one number in a format: bits, exact decimal, neighbours, and the error of rounding to it."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact
from fractions import Fraction
from math import isfinite, isinf, isnan, nan

from msgspec import Struct

from precreg.arithmetic.arith_exact_rounding import exact_round, exact_ulp
from precreg.arithmetic.formats import FORMATS, Format
from precreg.arithmetic.layout import Fields, fields
from precreg.arithmetic.literals import Exact
from precreg.arithmetic.roundings import Rounding


class Errors(Struct, frozen=True):
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
    error: Errors


def anatomy(value: float, exact: Exact, format: Format, bits: Fields | None = None) -> Anatomy:
    """Return the anatomy of `value`, a number of `format` that `exact` was rounded to. NaN may have these `bits`."""
    bits = bits or fields(value, format)
    below, above = neighbours(value, format)
    return Anatomy(
        format.name,
        decimal(value),
        _kind(value, format),
        bits and bits.sign,
        bits and bits.exponent,
        _power(value, format) if value and isfinite(value) else None,
        bits and bits.mantissa,
        bits and bits.pattern,
        below,
        above,
        errors(value, exact, exact_ulp(Fraction(exact), format) if is_finite(exact) else Fraction(1)),
    )


def errors(value: Exact, exact: Exact, ulp: Fraction) -> Errors:
    """Return how far a number is from what was rounded to it; `ulp` is the spacing there."""
    if not (is_finite(value) and is_finite(exact)):
        return Errors()
    error = Fraction(value) - Fraction(exact)
    relative = _nearest_float(error / abs(Fraction(exact))) if exact else None
    return Errors(_nearest_float(error), _nearest_float(error / ulp), relative)


def is_finite(value: Exact) -> bool:
    """Say whether this is a number, of any size."""
    return isinstance(value, Fraction) or isfinite(value)


def neighbours(value: float, format: Format) -> tuple[str | None, str | None]:
    """Return the numbers of `format` next below and next above one, as decimals; infinities are numbers here."""
    if isnan(value):
        return None, None
    above = _above(value, format)
    below = 0.0 - _above(-value, format)
    return _decimal_or_none(below, value), _decimal_or_none(above, value)


def decimal(value: Exact) -> str:
    """Return all digits of a number; of a fraction that decimals do not end, twenty and three dots."""
    if not isinstance(value, Fraction):
        return str(Decimal(value)).replace("E", "e").replace("Infinity", "inf").replace("NaN", "nan")
    context = Context(prec=1100, Emax=10**6, Emin=-(10**6))
    digits = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if not context.flags[Inexact]:
        return str(digits).replace("E", "e")
    return f"{Context(prec=20, Emax=10**6, Emin=-(10**6)).plus(digits)}...".replace("E", "e")


def _decimal_or_none(near: float, value: float) -> str | None:
    return None if isnan(near) or near == value else decimal(near)


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
