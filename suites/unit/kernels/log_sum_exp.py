"""log(sum(exp(x))) over the last axis in one pass, block by block, as fused attention does it; in float32.

Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3: the running sum is relative to
the running maximum, and is rescaled whenever that grows.
"""

import numpy as np
import numpy.typing as npt

BLOCK = 64


def log_sum_exp(x: npt.NDArray) -> npt.NDArray:
    """Return one number a row in x's dtype: -infinity for a row of nothing else, infinity where x has it."""
    values = x.astype(np.float32)
    largest = np.full(x.shape[:-1], -np.inf, np.float32)
    total = np.zeros(x.shape[:-1], np.float32)
    for start in range(0, x.shape[-1], BLOCK):
        block = values[..., start : start + BLOCK]
        before, largest = largest, np.maximum(largest, block.max(-1))
        terms = np.exp(block - finite(largest)[..., None])
        total = total * np.exp(before - finite(largest)) + terms.sum(-1)
    return (np.log(total) + finite(largest)).astype(x.dtype)


def finite(largest: npt.NDArray) -> npt.NDArray:
    """Put 0 where a row's maximum is infinite: infinity less infinity would be NaN."""
    return np.where(np.isinf(largest), largest.dtype.type(0), largest)


def exact(x: npt.NDArray) -> npt.NDArray:
    """Compute in x's dtype, float64, in two passes."""
    largest = finite(x.max(-1))
    return np.log(np.exp(x - largest[..., None]).sum(-1)) + largest
