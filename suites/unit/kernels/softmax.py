"""Softmax over the last axis, exp(x - max) / sum(exp(x - max)), summed in partial sums as a vector unit does."""

import numpy as np
import numpy.typing as npt

ACCUMULATOR = np.float32
LANES = 64


def softmax(x: npt.NDArray) -> npt.NDArray:
    """Compute in float32 with the sum in ACCUMULATOR; the result has x's shape and dtype."""
    values = x.astype(np.float32)
    weights = np.exp(values - values.max(-1, keepdims=True))
    total = sum_in_lanes(weights.astype(ACCUMULATOR))
    return (weights / total.astype(np.float32)).astype(x.dtype)


def sum_in_lanes(terms: npt.NDArray) -> npt.NDArray:
    """Add the last axis in its own dtype: 64 partial sums, merged by halves; the last axis becomes 1.

    Only elementwise additions, so the order, and with it every bit, is the same on every CPU.
    """
    padding = -terms.shape[-1] % LANES
    padded = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, padding)])
    blocks = padded.reshape(*terms.shape[:-1], -1, LANES)
    lanes = blocks[..., 0, :]
    for index in range(1, blocks.shape[-2]):
        lanes = lanes + blocks[..., index, :]
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes


def exact(x: npt.NDArray) -> npt.NDArray:
    """Compute in x's dtype, float64."""
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
