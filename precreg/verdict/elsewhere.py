"""What another environment explains: how much worse the same code may truly be on another processor or numpy.

It has its own order of sums and its own elementary functions. Measured, on one CPU with and without vector
instructions: whole operators in float32 are up to 1.35 times worse, and an elementary function alone is as good as its
library, up to 2.1 times worse and never by half an ULP. Rounding to a narrow output hides most of that.
"""

from __future__ import annotations

from precreg.arithmetic.formats import FORMATS
from precreg.verdict.growth import FLOOR_ULP

NARROW = 11
"""The most significant bits of a format that hides most of what differs between environments."""


MATERIAL = {"narrow": 0.1, "wide": 0.5}
"""Growth of an average that is not yet material, in narrow formats and in others."""


ROUNDED = {"narrow": FLOOR_ULP, "wide": 0.5}
"""Growth of an average, in ULP of the output dtype, that is none."""


DOUBLY = ("rms_error", "mean_log2_ulp")
"""The averages of which the double is none in wide formats: few large errors, and many small ones, make them."""


GUARD = {"narrow": 1.0, "wide": 2.0}
"""How many times the ratio that a maximum is allowed in one environment it is allowed here."""


def material(dtype: str) -> float:
    """Return the growth of an average that is not yet material."""
    return MATERIAL[_width(dtype)]


def rounded(metric: str, dtype: str) -> float:
    """Return the growth of an average, in ULP of the output dtype, that is none."""
    width = _width(dtype)
    return ROUNDED[width] * (2 if metric in DOUBLY and width == "wide" else 1)


def guard(dtype: str) -> float:
    """Return by how many times the allowed ratio of a maximum is larger."""
    return GUARD[_width(dtype)]


def _width(dtype: str) -> str:
    number_format = FORMATS.get(dtype)
    return "narrow" if number_format is not None and number_format.precision <= NARROW else "wide"
