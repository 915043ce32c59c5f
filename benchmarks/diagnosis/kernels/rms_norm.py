"""RMSNorm over the last axis: bfloat16 storage, float32 arithmetic."""

import numpy as np
from ml_dtypes import bfloat16

f32 = np.float32


def rms_norm(x, weight, eps):
    """Return the rows divided by their root mean square."""
    wide = x.astype(f32)
    squares = np.square(wide)
    mean_square = squares.sum(axis=-1, keepdims=True) / f32(x.shape[-1])
    scale = f32(1) / np.sqrt(mean_square + f32(eps))
    normal = wide * scale
    return (normal * weight.astype(f32)).astype(bfloat16)


def exact(x, weight, eps):
    """Return the same by the textbook."""
    root = np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    return x / root * weight
