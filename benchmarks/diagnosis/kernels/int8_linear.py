"""A linear layer on int8 numbers with an int32 accumulator and a zero point."""

import numpy as np

f32 = np.float32


def int8_linear(x, weight, weight_scale, bias, x_scale, zero_point):
    """Return the result in float32."""
    total = x.astype(np.int32) @ weight.astype(np.int32)
    offset = np.int32(zero_point) * weight.astype(np.int32).sum(axis=0)
    total = total - offset
    scale = f32(x_scale) * weight_scale
    scaled = total.astype(f32) * scale
    return scaled + bias


def exact(x, weight, weight_scale, bias, x_scale, zero_point):
    """Return the same on real numbers."""
    numbers = (x.astype(np.float64) - zero_point) * x_scale
    return numbers @ (weight * weight_scale) + bias
