"""Which numbers do the 256 codes of HiFloat8 stand for?

After the sign, a prefix code (the dot field) says how many bits the exponent has, and the mantissa takes the rest. The
exponent is a sign and a magnitude whose first bit, 1, is not stored. Source: Luo et al., Ascend HiFloat8 Format for
Deep Learning, 2024 (arXiv 2409.16626). Rounding to the format needs no codes: formats.py has its binades.
"""

from __future__ import annotations

from math import copysign, frexp, inf, isinf, isnan, ldexp, nan
from typing import NamedTuple

ZERO, INFINITY, NAN = 0x00, 0x6F, 0x80

# The dot field by the bits of the exponent; the last one is that of denormal numbers, 2**(mantissa - 23).
_DOTS = {4: "11", 3: "10", 2: "01", 1: "001", 0: "0001"}
_DENORMAL = "0000"
_DENORMAL_BIAS = 23
_MAGNITUDE_BITS = 7


class HiFloat8Fields(NamedTuple):
    """Hold the bits of a code: the sign, the dot field, the exponent, and the mantissa."""

    sign: str
    dot: str
    exponent: str
    mantissa: str


def hifloat8_fields(code: int) -> HiFloat8Fields:
    """Return the fields of a code from 0 to 255."""
    bits = f"{code:08b}"
    for width, dot in _DOTS.items():
        if bits[1:].startswith(dot):
            begin = 1 + len(dot)
            return HiFloat8Fields(bits[0], dot, bits[begin : begin + width], bits[begin + width :])
    return HiFloat8Fields(bits[0], _DENORMAL, "", bits[5:])


def decode_hifloat8(code: int) -> float:
    """Return the number, infinity or NaN of a code from 0 to 255."""
    sign = -1.0 if code & 0x80 else 1.0
    if code == NAN:
        return nan
    if code & 0x7F == INFINITY:
        return copysign(inf, sign)
    fields = hifloat8_fields(code)
    mantissa = int(fields.mantissa, 2)
    if fields.dot == _DENORMAL:
        return sign * ldexp(1.0, mantissa - _DENORMAL_BIAS) if mantissa else 0.0
    exponent = 0
    if fields.exponent:
        magnitude = int("1" + fields.exponent[1:], 2)
        exponent = -magnitude if fields.exponent[0] == "1" else magnitude
    return sign * ldexp(1 + mantissa / 2 ** len(fields.mantissa), exponent)


def encode_hifloat8(value: float) -> int:
    """Return the code of a number of the format, of an infinity, or of NaN.

    Raises ValueError for a number that the format lacks.
    """
    if isnan(value):
        return NAN
    if value == 0.0:
        return ZERO
    sign = 0x80 if copysign(1.0, value) < 0 else 0
    if isinf(value):
        return sign | INFINITY
    significand, exponent = frexp(abs(value))
    code = sign | int(_magnitude_bits(2 * significand - 1, exponent - 1), 2)
    if decode_hifloat8(code) != value:
        raise ValueError(f"expected a number of HiFloat8 but got {value!r}")
    return code


def _magnitude_bits(fraction: float, exponent: int) -> str:
    """Return the seven bits after the sign: those of (1 + fraction) * 2**exponent, cut off where they end."""
    if -_DENORMAL_BIAS < exponent < -15:
        return _DENORMAL + f"{exponent + _DENORMAL_BIAS:03b}"
    width = abs(exponent).bit_length()
    if width > max(_DOTS):
        return "0" * _MAGNITUDE_BITS
    dot = _DOTS[width]
    magnitude = f"{abs(exponent):b}"[1:]
    field = ("1" if exponent < 0 else "0") + magnitude if width else ""
    left = _MAGNITUDE_BITS - len(dot) - len(field)
    return dot + field + f"{int(fraction * 2**left):0{left}b}"
