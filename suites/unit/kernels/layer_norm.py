"""LayerNorm over the last axis, (x - mean) / sqrt(var + eps), as a device computes it and plainly.

Ba, Kiros and Hinton, "Layer Normalization", 2016, without gain and bias.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

BLOCK = 64


def layer_norm(x: npt.NDArray, *, eps: float, style: Literal["device", "plain"]) -> npt.NDArray:
    """Normalize x in the given style; the result has x's shape and dtype."""
    return {"device": device_style, "plain": plain}[style](x, eps)


def device_style(x: npt.NDArray, eps: float, *, stored: npt.DTypeLike = np.float16, width: int = BLOCK) -> npt.NDArray:
    """Pass x through float16 and walk the last axis in blocks of `width`, arithmetic in float32.

    The running mean and the running mean of squares rest in `stored` from one block to the next, and
    var = E[x^2] - E[x]^2: the three places where this style loses precision.
    """
    values = x.astype(np.float16).astype(np.float32)
    count = np.float32(x.shape[-1])
    mean = mean_of_squares = np.zeros((*x.shape[:-1], 1), np.float32)
    for start in range(0, x.shape[-1], width):
        block = values[..., start : start + width]
        mean = rested(mean, stored) + block.sum(-1, keepdims=True) / count
        mean_of_squares = rested(mean_of_squares, stored) + (block * block).sum(-1, keepdims=True) / count
    variance = mean_of_squares - mean * mean
    return ((values - mean) / np.sqrt(variance + np.float32(eps))).astype(x.dtype)


def rested(x: npt.NDArray, stored: npt.DTypeLike) -> npt.NDArray:
    """Write float32 values to a buffer of another dtype and read them back."""
    return x.astype(stored).astype(np.float32)


def plain(x: npt.NDArray, eps: float) -> npt.NDArray:
    """Compute in float32 with the variance of the centered values."""
    values = x.astype(np.float32)
    centered = values - values.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    return (centered / np.sqrt(variance + np.float32(eps))).astype(x.dtype)


def exact(x: npt.NDArray, *, eps: float, style: str) -> npt.NDArray:
    """Compute in x's dtype, float64; `style` is the subject's and means nothing here."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + eps)
