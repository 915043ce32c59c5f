"""A cumulative sum in blocks with a carry, in float32."""

import numpy as np

f32 = np.float32
BLOCK = 128


def running_sum(x):
    """Return the sums up to each place of the last axis."""
    out = np.empty_like(x)
    carry = np.zeros((len(x), 1), f32)
    for start in range(0, x.shape[-1], BLOCK):
        part = np.cumsum(x[:, start : start + BLOCK], axis=-1)
        out[:, start : start + BLOCK] = part + carry
        carry = carry + part[:, -1:]
    return out


def exact(x):
    """Return the same in one call."""
    return np.cumsum(x, axis=-1)
