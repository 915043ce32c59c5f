"""A finite impulse response filter over the last axis, in float32."""

import numpy as np

f32 = np.float32


def fir(x, taps):
    """Return the filtered rows where the whole window lies inside."""
    length = x.shape[-1] - len(taps) + 1
    out = np.zeros((len(x), length), f32)
    for k in range(len(taps)):
        product = taps[k] * x[:, k : k + length]
        out = out + product
    return out


def exact(x, taps):
    """Return the same by numpy's correlation."""
    return np.stack([np.correlate(row, taps, "valid") for row in x])
