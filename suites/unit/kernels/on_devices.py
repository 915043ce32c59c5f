"""Operators as a numpy user writes them, for devices to compute, and the same in float64 by other formulas."""

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


def exact_product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Add up the products of rows and columns."""
    return np.einsum("mk,kn->mn", a, b)


def exact_layer_norm(x: npt.NDArray[np.float64], *, eps: float) -> npt.NDArray[np.float64]:
    """Divide by the root of numpy's variance."""
    return (x - np.average(x, axis=-1, keepdims=True)) / (x.var(-1, keepdims=True) + eps) ** 0.5


def exact_softmax(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Take the logarithm of the sum off; these x are far from where exp overflows."""
    return np.exp(x - np.log(np.exp(x).sum(-1, keepdims=True)))
