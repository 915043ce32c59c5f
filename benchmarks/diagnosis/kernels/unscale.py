"""Gradients of a scaled loss: float16 storage, unscaled in float32 and clipped by their norm."""

import math

import numpy as np

f32 = np.float32


def unscale(gradient, scale, limit):
    """Return the clipped gradients and their norm."""
    wide = gradient.astype(f32) / f32(scale)
    squares = wide * wide
    norm = np.sqrt(squares.sum())
    factor = np.minimum(f32(1), f32(limit) / (norm + f32(1e-6)))
    return {"gradient": wide * factor, "norm": norm}


def exact(gradient, scale, limit):
    """Return the same with an exact sum."""
    norm = math.sqrt(math.fsum(number**2 for number in gradient)) / scale
    return {"gradient": gradient / scale * min(1, limit / (norm + 1e-6)), "norm": np.float64(norm)}
