"""Where sign, exponent and mantissa of a number stand in the bits of a format, and which patterns mean something else.

All of it follows from a format's few numbers. The exponent's field has as many bits as it takes to count the binades,
one pattern for zero and subnormals, and one for infinities and NaN where there are infinities.
"""

from __future__ import annotations

from fractions import Fraction
from math import copysign, inf, isinf, isnan, nan
from typing import NamedTuple

from precreg.arithmetic.arith_exact_rounding import exact_ulp
from precreg.arithmetic.formats import Format
from precreg.errors import UserError


class Fields(NamedTuple):
    """The bits of a number, as strings of 0 and 1."""

    sign: str
    exponent: str
    mantissa: str

    @property
    def pattern(self) -> str:
        """All bits as one hexadecimal number."""
        bits = "".join(self)
        return f"0x{int(bits, 2):0{-(-len(bits) // 4)}x}"


def widths(format: Format) -> tuple[int, int]:
    """Return the number of bits of exponent and mantissa; a sign makes one more."""
    codes = format.max_exponent - format.min_exponent + 2 + (format.overflow == inf)
    return (codes - 1).bit_length(), format.precision - 1


def fields(value: float, format: Format) -> Fields | None:
    """Return the bits of a number of `format`, of an infinity, or of the NaN that is usual; None if it has no such."""
    exponent_bits, mantissa_bits = widths(format)
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


def fields_of(pattern: int, format: Format) -> Fields:
    """Cut a pattern into its fields. Raises UserError (bad-value) for one with too many bits."""
    exponent_bits, mantissa_bits = widths(format)
    if pattern.bit_length() > 1 + exponent_bits + mantissa_bits:
        room = f"a pattern of {1 + exponent_bits + mantissa_bits} bits"
        raise UserError("bad-value", f"expected {room} for {format.name} but got bits:{pattern:#x}")
    sign, rest = divmod(pattern, 1 << exponent_bits + mantissa_bits)
    return _joined(bool(sign), *divmod(rest, 1 << mantissa_bits), format)


def value_of(bits: Fields, format: Format) -> float:
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


def _nan_fields(format: Format) -> Fields | None:
    """Return what NaN is: -0.0 where that is free, a quiet one where the top exponent is free, else all ones."""
    exponent_bits, mantissa_bits = widths(format)
    top = 2**exponent_bits - 1
    if not format.negative_zero:
        return _joined(True, 0, 0, format)
    if format.max_exponent - format.min_exponent + 1 < top:
        return _joined(False, top, 1 << mantissa_bits - 1, format) if mantissa_bits else None
    all_ones = _joined(False, top, 2**mantissa_bits - 1, format)
    return all_ones if isnan(value_of(all_ones, format)) else None


def _joined(is_negative: bool, exponent: int, mantissa: int, format: Format) -> Fields:
    exponent_bits, mantissa_bits = widths(format)
    return Fields(
        str(int(is_negative)),
        f"{exponent:0{exponent_bits}b}",
        f"{mantissa:0{mantissa_bits}b}" if mantissa_bits else "",
    )
