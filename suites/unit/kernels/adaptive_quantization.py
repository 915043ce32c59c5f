"""Quantization of float32 to int32 by a scale that fits the largest magnitude, as published and corrected.

    published   scale = 2^31 / (max |x| + 1e-7), code = round(x scale), all in float32: the largest rounds to 2^31
    less_one    the same with 2^31 - 1, which in float32 is 2^31 again
    clipped     as published, and then clipped at 2147483520, the largest float32 below 2^31
    double      precreg's own: scale = (2^31 - 1) / max |x| in float64, products rounded once, saturation

A float32 code beyond int32 wraps round, as the integers of a device do. Data without a scale is refused.
Everything is elementwise, so the outputs have the same bits on every CPU.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from precreg.arithmetic import fixed_point

Form = Literal["published", "less_one", "clipped", "double"]
LARGEST_CODE = 2**31 - 1
LARGEST_FLOAT32_CODE = 2147483520


def quantize(x: npt.NDArray[np.float32], *, form: Form) -> dict[str, npt.NDArray]:
    """Give the codes, int32, and what they stand for as shares of the largest magnitude, float64.

    Raises UserError (bad-scale) for NaN, infinities, and zeros alone.
    """
    fixed, largest = fixed_point.symmetric(x, 32), np.abs(x).max()
    if form == "double":
        codes, scale = fixed_point.quantize(x, fixed), fixed.scale
    else:
        codes, scale = _codes_in_float32(x, largest, form)
    return {"codes": codes, "shares": codes / np.float64(scale) / np.float64(largest)}


def _codes_in_float32(
    x: npt.NDArray[np.float32], largest: np.float32, form: Form
) -> tuple[npt.NDArray[np.int32], np.float32]:
    numerator = np.float32(LARGEST_CODE if form == "less_one" else 2**31)
    scale = numerator / (largest + np.float32(1e-7))
    scaled = np.rint(x * scale)
    if form == "clipped":
        scaled = np.clip(scaled, np.float32(-LARGEST_FLOAT32_CODE), np.float32(LARGEST_FLOAT32_CODE))
    return scaled.astype(np.int64).astype(np.int32), scale


def quantize_by_fractions(x: npt.NDArray[np.float64], *, form: str) -> dict[str, npt.NDArray]:
    """Give the real codes x (2^31 - 1) / max |x|, and x / max |x|, of rational numbers; `form` is the subject's."""
    numbers = [Fraction(number) for number in x.tolist()]
    largest = max(map(abs, numbers))
    shares = [number / largest for number in numbers]
    return {"codes": np.array([float(share * LARGEST_CODE) for share in shares]), "shares": np.array(shares, float)}
