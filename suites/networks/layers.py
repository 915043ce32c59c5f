"""Layers of a transformer, forward and backward, in the formats of the values that they are given.

Each forward gives its output and what its backward needs; each backward takes the gradient of the loss by the output.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from networks.formats import product, transposed, wide

Norm = Literal["layer_norm", "rms_norm"]
EPS = 1e-5


class Normalized(NamedTuple):
    """What the backward of a norm needs, in the accumulator's dtype: x_hat = (x - mean) / deviation, and deviation."""

    x_hat: npt.NDArray
    deviation: npt.NDArray
    norm: Norm


def normalize(x: npt.NDArray, gain: npt.NDArray, norm: Norm) -> tuple[npt.NDArray, Normalized]:
    """Give gain * x_hat over the last axis, in x's dtype.

    layer_norm: x_hat = (x - mean) / sqrt(var + eps), Ba, Kiros and Hinton, 2016, without bias. rms_norm: x_hat =
    x / sqrt(mean(x^2) + eps), Zhang and Sennrich, 2019.
    """
    values = wide(x)
    if norm == "layer_norm":
        values = values - values.mean(-1, keepdims=True)
    deviation = np.sqrt((values * values).mean(-1, keepdims=True) + values.dtype.type(EPS))
    x_hat = values / deviation
    return (x_hat * wide(gain)).astype(x.dtype), Normalized(x_hat, deviation, norm)


def normalize_back(dy: npt.NDArray, gain: npt.NDArray, saved: Normalized) -> tuple[npt.NDArray, npt.NDArray]:
    """Give the gradients by x, in dy's dtype, and by gain.

    With g = dy gain: dx = (g - mean(g) - x_hat mean(g x_hat)) / deviation; without mean(g) for rms_norm.
    """
    slope = wide(dy) * wide(gain)
    through = saved.x_hat * (slope * saved.x_hat).mean(-1, keepdims=True)
    if saved.norm == "layer_norm":
        through = through + slope.mean(-1, keepdims=True)
    dgain = (wide(dy) * saved.x_hat).sum(tuple(range(dy.ndim - 1)))
    return ((slope - through) / saved.deviation).astype(dy.dtype), dgain.astype(dy.dtype)


def dense(x: npt.NDArray, weight: npt.NDArray) -> npt.NDArray:
    """Multiply x (..., inputs) by weight (inputs, outputs); rounded once, to x's dtype."""
    return product(x, weight).astype(x.dtype)


def dense_back(dy: npt.NDArray, x: npt.NDArray, weight: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """Give the gradients by x (batch, sequence, inputs) and by weight, which is summed over batch and sequence."""
    dweight = product(transposed(x), dy).sum(0)
    return dense(dy, weight.T), dweight.astype(dy.dtype)


def gelu(x: npt.NDArray) -> npt.NDArray:
    """Give x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel, 2016, section 2."""
    values = wide(x)
    return (values / 2 * (1 + _tanh_of_gelu(values))).astype(x.dtype)


def gelu_back(dy: npt.NDArray, x: npt.NDArray) -> npt.NDArray:
    """Give dy ((1 + tanh(u)) / 2 + x (1 - tanh(u)^2) u' / 2) with u' = sqrt(2 / pi) (1 + 3 * 0.044715 x^2)."""
    values = wide(x)
    tanh = _tanh_of_gelu(values)
    inner = values.dtype.type(np.sqrt(2 / np.pi)) * (1 + values.dtype.type(3 * 0.044715) * values * values)
    return (wide(dy) * ((1 + tanh) / 2 + values / 2 * (1 - tanh * tanh) * inner)).astype(dy.dtype)


def _tanh_of_gelu(x: npt.NDArray) -> npt.NDArray:
    return np.tanh(x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x * x * x))
