"""Operators as a numpy user writes them, for devices to compute."""

import numpy as np
import numpy.typing as npt


def product(a: npt.NDArray, b: npt.NDArray) -> npt.NDArray:
    """Multiply (m, k) by (k, n)."""
    return a @ b


def layer_norm(x: npt.NDArray, *, eps: float) -> npt.NDArray:
    """Normalize over the last axis, (x - mean) / sqrt(var + eps), in x's dtype."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + eps)


def softmax(x: npt.NDArray) -> npt.NDArray:
    """Compute exp(x - max) / sum(exp(x - max)) over the last axis, in x's dtype."""
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
