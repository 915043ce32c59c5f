"""In which dtype does a reference get its inputs?

`reference_dtype: float64` keeps float64 inputs as they are, for a reference that computes in float64 alone.
`longdouble` and `mpmath` ask for more digits than the default gives.
"""

from __future__ import annotations

from typing import Any

from precreg.errors import name_hint, nearest
from precreg.storage import format_value
from precreg.subject import kind_named
from precreg.suite.load import Suite
from precreg.types import Computation, ReferenceDtype

_NAMES = ("float64", "longdouble", "mpmath")
# 169 bits, more than the 113 of the widest format of IEEE 754 that libraries have.
DEFAULT_DIGITS = 50
# The digits of longdouble, below which mpmath gives nothing, and a number of digits that no reference needs.
MIN_DIGITS, MAX_DIGITS = 20, 10_000


def read_reference_dtype(suite: Suite, oracle: Computation) -> ReferenceDtype | None:
    """Return the dtype that `reference_dtype:` of a suite names; None without that key.

    Raises UserError: bad-value.
    """
    given = suite.file.reference_dtype
    if given is None:
        return None
    if suite.file.golden is not None:
        message = (
            f"expected reference_dtype beside a reference but got golden and reference_dtype={format_value(given)}"
        )
        raise suite.source.error(
            "bad-value",
            f"{message}; a golden gets the inputs as they are",
            "reference_dtype",
            hint="remove reference_dtype:, or write reference: in place of golden:",
        )
    dtype = _read(suite, given)
    if dtype.name != "float64" and kind_named(oracle.kind).widest == "float64":
        message = f"expected reference_dtype: float64, the widest of {oracle.kind}, but got {format_value(given)}"
        raise suite.source.error("bad-value", message, "reference_dtype", hint="write reference_dtype: float64")
    return dtype


def _read(suite: Suite, given: Any) -> ReferenceDtype:
    if isinstance(given, dict) and list(given) == ["mpmath"]:
        digits = given["mpmath"]
        if isinstance(digits, bool) or not isinstance(digits, int) or not MIN_DIGITS <= digits <= MAX_DIGITS:
            message = f"expected {MIN_DIGITS} to {MAX_DIGITS} decimal digits but got mpmath={format_value(digits)}"
            raise suite.source.error(
                "bad-value",
                message,
                "reference_dtype",
                "mpmath",
                hint=f"write a number of digits: reference_dtype: {{mpmath: {DEFAULT_DIGITS}}}",
            )
        return ReferenceDtype("mpmath", digits)
    if given not in _NAMES:
        expected = f"one of {', '.join(_NAMES)}, or {{mpmath: {DEFAULT_DIGITS}}}"
        message = f"expected {expected} but got reference_dtype={format_value(given)}{nearest(str(given), _NAMES)}"
        raise suite.source.error(
            "bad-value",
            message,
            "reference_dtype",
            hint=name_hint(str(given), _NAMES, "reference_dtype: ") or "write one of them: reference_dtype: longdouble",
        )
    return ReferenceDtype(given, DEFAULT_DIGITS if given == "mpmath" else 0)
