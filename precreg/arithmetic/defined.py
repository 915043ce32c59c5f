"""Formats beyond the named ones: those that flush or saturate, and those a user defines."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, ldexp, nan
from typing import Any

from msgspec.structs import replace

from precreg.arithmetic.formats import Format
from precreg.errors import UserError, nearest

WIDEST = {"precision": 53, "min_exponent": -1022, "max_exponent": 1023}
"""The bounds of float64, in which every number of a format must be found."""


REQUIRED = ("precision", "min_exponent", "max_exponent")

SWITCHES = {"subnormals": True, "negative_zero": True, "zero": True}

OVERFLOWS = ("infinity", "nan", "saturate")

KEYS = (*REQUIRED, "overflow", *SWITCHES)
"""Everything a definition may say: three integers, one of OVERFLOWS (infinity), and three switches (all true)."""


def saturating(format: Format) -> Format:
    """Return the same format, in which what is beyond the largest number, infinities too, becomes the largest."""
    return replace(format, name=f"{format.name}_sat", overflow=format.largest)


def flushing(format: Format) -> Format:
    """Return the same format without subnormals."""
    return replace(format, name=f"{format.name}_flush", subnormals=False)


def defined_format(name: str, definition: Mapping[str, Any]) -> Format:
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
