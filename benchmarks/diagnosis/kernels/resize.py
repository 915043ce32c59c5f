"""Linear interpolation of rows to another length with centers aligned, in float32."""

import numpy as np

f32 = np.float32


def resize(x, size):
    """Return the rows with `size` samples."""
    n = x.shape[-1]
    source = (np.arange(size).astype(f32) + f32(0.5)) * f32(n / size) - f32(0.5)
    source = np.clip(source, f32(0), f32(n - 1))
    low = np.floor(source).astype(np.int64)
    high = np.minimum(low + 1, n - 1)
    weight = source - low.astype(f32)
    return x[:, low] * (f32(1) - weight) + x[:, high] * weight


def exact(x, size):
    """Return the same by numpy's interpolation."""
    n = x.shape[-1]
    points = (np.arange(size) + 0.5) * n / size - 0.5
    return np.stack([np.interp(points, np.arange(n), row) for row in x])
