"""Quantization to 8-bit integers and back, per tensor or per channel, and both in other arithmetic.

    quantize     saturate(round(x / scale) + zero_point)       ONNX QuantizeLinear, opset 13
    dequantize   (codes - zero_point) scale                     ONNX DequantizeLinear

with ties rounded to even before the zero point is added. x / scale is one float32 division; its quotient is infinite
where it overflows, and saturates. NaN has no code.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt


def quantize(
    x: npt.NDArray, scale: npt.NDArray, zero_point: npt.NDArray, *, ties: Literal["even", "up"]
) -> npt.NDArray:
    """Give the codes of x (channels, n), float32, in the dtype of zero_point.

    scale, positive, and zero_point are (channels,), or (1,) for the whole tensor. Raises ValueError for NaN.
    """
    if np.isnan(x).any():
        raise ValueError("expected numbers but got NaN, which no integer stands for")
    quotients = x / scale[:, None]
    rounded = np.rint(quotients) if ties == "even" else np.floor(quotients + np.float32(0.5))
    bounds = np.iinfo(zero_point.dtype)
    low, high = (np.float32(bound) for bound in (bounds.min, bounds.max))
    return np.clip(rounded + zero_point[:, None].astype(np.float32), low, high).astype(zero_point.dtype)


def quantize_by_integers(x: npt.NDArray, scale: npt.NDArray, zero_point: npt.NDArray, *, ties: str) -> npt.NDArray:
    """Round to even by comparing the remainder with a half, and saturate integers; `ties` is the subject's.

    The quotient of two float32 in float64, rounded to float32, is the float32 quotient (Figueroa, "When is Double
    Rounding Innocuous?", 1995). Beyond 2^20 every quotient saturates.
    """
    quotients = (x.astype(np.float64) / scale[:, None].astype(np.float64)).astype(np.float32)
    within = np.minimum(np.maximum(quotients.astype(np.float64), -(2.0**20)), 2.0**20)
    lower = np.floor(within).astype(np.int64)
    remainder = within - lower
    up = (remainder > 0.5) | ((remainder == 0.5) & (lower % 2 == 1))
    bounds = np.iinfo(zero_point.dtype)
    codes = lower + up + zero_point[:, None].astype(np.int64)
    return np.minimum(np.maximum(codes, bounds.min), bounds.max).astype(zero_point.dtype)


def dequantize(
    codes: npt.NDArray, scale: npt.NDArray, zero_point: npt.NDArray, *, difference: Literal["wide", "own"]
) -> npt.NDArray:
    """Give the numbers that the codes (channels, n) stand for, in the dtype of scale, rounded once.

    scale and zero_point are (channels,) or (1,); codes and zero_point have one dtype. The difference is taken in int32,
    or in the `own` dtype of the codes, where it may wrap round.
    """
    dtype = codes.dtype if difference == "own" else np.dtype(np.int32)
    return (codes.astype(dtype) - zero_point[:, None].astype(dtype)).astype(scale.dtype) * scale[:, None]


def dequantize_exactly(
    codes: npt.NDArray, scale: npt.NDArray, zero_point: npt.NDArray, *, difference: str
) -> npt.NDArray:
    """Multiply in float64, where 9 bits times 24 bits are exact, and round to scale's dtype.

    `difference` is the subject's and means nothing here.
    """
    differences = codes.astype(np.int64) - zero_point[:, None].astype(np.int64)
    return (differences.astype(np.float64) * scale[:, None].astype(np.float64)).astype(scale.dtype)
