"""The published study of LayerNorm in mixed precision: its device style, and two other ways to keep its statistics."""

from typing import Literal

import numpy as np
import numpy.typing as npt

EPS = 1e-5

Statistics = Literal["float16_by_64", "float32", "float16_by_1"]
BLOCKS = {"float16_by_64": 64, "float32": 64, "float16_by_1": 1}


def device_style(x: npt.NDArray[np.float32], *, statistics: Statistics) -> npt.NDArray[np.float32]:
    """Pass x through float16, and walk the last axis in blocks, arithmetic in float32, var = E[x^2] - E[x]^2.

    Before each block, of 64 elements or of one, the running mean and mean of squares are stored in float16 or float32.
    """
    values = x.astype(np.float16).astype(np.float32)
    stored, width = np.float32 if statistics == "float32" else np.float16, np.float32(x.shape[-1])
    mean = square = np.zeros((*x.shape[:-1], 1), np.float32)
    for start in range(0, x.shape[-1], BLOCKS[statistics]):
        block = values[..., start : start + BLOCKS[statistics]]
        mean = mean.astype(stored).astype(np.float32) + block.sum(-1, keepdims=True) / width
        square = square.astype(stored).astype(np.float32) + (block * block).sum(-1, keepdims=True) / width
    return (values - mean) / np.sqrt(square - mean * mean + np.float32(EPS))


def exact(x: npt.NDArray[np.float64], *, statistics: Statistics) -> npt.NDArray[np.float64]:
    """Compute (x - mean) / sqrt(var + eps) in float64; `statistics` is the subject's and means nothing here."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + EPS)
