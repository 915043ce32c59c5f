"""Number formats by the names people give them: dtypes, their short forms, and formats that no dtype has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ldexp

from precreg.arithmetic.defined import flushing, saturating
from precreg.arithmetic.formats import FORMATS, Format
from precreg.errors import UserError, nearest

SIMULATED: dict[str, Format] = {
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


NAMED: dict[str, Format] = FORMATS | SIMULATED


FORMS: dict[str, Callable[[Format], Format]] = {"_sat": saturating, "_flush": flushing}
"""What may follow a name, once or both: fp16_sat is float16 that saturates, fp32_flush float32 without subnormals."""


WITHOUT_ZERO = frozenset({"float8_e8m0fnu", "fp8_e8m0fnu", "e8m0fnu"})
"""Formats that exist and cannot be rounded to, because 0 is no number of theirs: they hold scales."""


def format_named(name: str, others: Iterable[str] = ()) -> Format:
    """Return the format of a name or of its short form, with any of FORMS behind it.

    `others` are names that would have been taken, too, where the name was found: an error tells the nearest of all.
    Raises UserError (unknown-format, or bad-format for a format without a zero).
    """
    for suffix, form in FORMS.items():
        stem = name.removesuffix(suffix)
        if stem != name:
            return form(format_named(stem, others))
    name = SHORT.get(name, name)
    if name in WITHOUT_ZERO:
        raise UserError("bad-format", f"expected a format with a zero but got format={name}")
    if name not in NAMED:
        known = (*NAMED, *SHORT, *others)
        raise UserError("unknown-format", f"expected the name of a format but got format={name}{nearest(name, known)}")
    return NAMED[name]
