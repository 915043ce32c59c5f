"""Rounding by the compiled core, for formats whose numbers float32 or float64 have."""

from __future__ import annotations

from functools import cache
from math import isfinite
from struct import pack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arith import _core
from precreg.arith.formats import FORMATS, Format
from precreg.arith.roundings import Rounding

INTERFACE = 1
"""Raised here and in core/module.cpp whenever what is passed to the core or comes back changes."""

if getattr(_core, "interface", None) != INTERFACE:
    raise ImportError("the core was built from other sources: install precreg anew (in a checkout: make)")

INSTRUCTION_SET: str = _core.instruction_set
"""What the core runs on here: generic, avx2 or avx512. All give the same bits."""

_CARRIERS = {np.dtype(name): FORMATS[name] for name in ("float32", "float64")}
_NUMBERS = {rounding: number for number, rounding in enumerate(Rounding)}


def rounds(dtype: np.dtype[Any], format: Format) -> bool:
    """Whether the core rounds arrays of a dtype to a format."""
    return dtype.isnative and _packed(dtype, format) is not None


def round_to(values: NDArray[Any], format: Format, rounding: Rounding, seed: int, start: int) -> NDArray[Any]:
    """Do what precreg.arith.rounding.round_to does, where `rounds` says so."""
    packed = _packed(values.dtype, format)
    assert packed is not None
    values = np.ascontiguousarray(values).reshape(values.shape)  # numpy makes one dimension of none
    results = np.empty_like(values)
    number = _NUMBERS[rounding]
    _core.round(values, results, values.itemsize, packed, number, seed % 2**64, start % 2**64)
    return results


@cache
def _packed(dtype: np.dtype[Any], format: Format) -> bytes | None:
    """Return a format as the core reads it; None where the carrier lacks numbers of it, or the core does not serve.

    A format of one digit has no last bit to be even or odd. Below its normal numbers the core adds and takes away
    2**(min_exponent - precision + digits of the carrier), which must be finite.
    """
    carrier = _CARRIERS.get(dtype)
    if carrier is None or not 2 <= format.precision <= carrier.precision or format.min_exponent < carrier.min_exponent:
        return None
    if format.min_exponent - format.precision + carrier.precision > carrier.max_exponent:
        return None
    if not isfinite(format.largest) or not 0 < format.largest <= carrier.largest:
        return None
    flags = format.negative_zero, format.subnormals
    return pack("<4i2d", format.precision, format.min_exponent, *flags, format.largest, format.overflow)
