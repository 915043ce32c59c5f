"""Numbers as people write them, read exactly: no float64 stands between the text and its value."""

from __future__ import annotations

import re
from fractions import Fraction
from math import inf, nan

from precreg.errors import UserError

MOST_CHARACTERS = 2000

MOST_EXPONENT = 2000
"""Beyond these bounds lie no numbers of any format, and reading them exactly would take memory without end."""


Exact = Fraction | float
"""A rational number; or a float, which is an infinity, NaN or -0.0."""


_DECIMAL = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)

_RATIO = re.compile(r"([+-]?)(\d+)/(\d+)", re.ASCII)

_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([\da-fA-F]+)\.?([\da-fA-F]*)[pP]([+-]?\d+)", re.ASCII)

_SPECIAL = {"inf": inf, "infinity": inf, "nan": nan}


def exact_number(text: str) -> Exact:
    """Return the value of a decimal (1.12, -2e-3), a ratio (1/3), a hexadecimal float (0x1.8p3), inf or nan.

    Raises UserError (bad-value).
    """
    special = _SPECIAL.get(text.lower().lstrip("+-"))
    if special is not None and len(text) - len(text.lstrip("+-")) <= 1:
        return -special if text.startswith("-") else special
    for read in (_decimal, _ratio, _hexadecimal):
        magnitude = read(text) if len(text) <= MOST_CHARACTERS else None
        if magnitude is not None:
            negative = text.startswith("-")
            return -0.0 if negative and not magnitude else -magnitude if negative else magnitude
    raise UserError("bad-value", f"expected a number such as 1.12, 1/3, 0x1.8p3, inf or nan but got value={text[:80]}")


def pattern_of(text: str) -> int | None:
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
    return exponent is None or (len(exponent) < 9 and abs(int(exponent)) <= MOST_EXPONENT)
