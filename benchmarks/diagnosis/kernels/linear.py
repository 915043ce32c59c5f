"""A linear layer with ReLU, in float32."""

import numpy as np

f32 = np.float32


def linear(x, weight, bias):
    """Return relu(x weight^T + bias)."""
    product = x @ weight.T
    shifted = product + bias
    return np.maximum(shifted, f32(0))


def exact(x, weight, bias):
    """Return the same, one output at a time."""
    columns = [(x * row).sum(axis=1) + offset for row, offset in zip(weight, bias, strict=True)]
    return np.clip(np.stack(columns, axis=1), 0, None)
