"""Running sums over the last axis, one by one and in blocks, and the same exactly.

With u the unit roundoff of the accumulator, the error of the k-th sum is at most gamma(k - 1) sum |x| one by one
(Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 4.2), and gamma(k / B + B) sum |x| in blocks of B,
whose longest chain of additions is that short. Scans on devices are blocked, since blocks can run side by side.
Every step is a running sum or an elementwise addition, so the outputs have the same bits on every CPU.
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

BLOCK = 64


def cumsum(
    x: npt.NDArray, *, method: Literal["sequential", "blocked"], accumulator: Literal["own", "float32"]
) -> npt.NDArray:
    """Give the sums of the first 1, 2, ... n elements of the last axis of x (..., n), in x's shape and dtype."""
    terms = x if accumulator == "own" else x.astype(accumulator)
    return METHODS[method](terms).astype(x.dtype)


def sequential(terms: npt.NDArray) -> npt.NDArray:
    """Add each term to the sum before it; numpy.add.accumulate is defined so."""
    return np.add.accumulate(terms, axis=-1)


def blocked(terms: npt.NDArray) -> npt.NDArray:
    """Sum within each block of 64, sum the blocks' totals, and add to each block what all before it hold."""
    length = terms.shape[-1]
    missing = BLOCK * math.ceil(length / BLOCK) - length
    padded = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, missing)])
    inside = sequential(padded.reshape(*terms.shape[:-1], -1, BLOCK))
    inside[..., 1:, :] += sequential(inside[..., :-1, -1])[..., None]
    return inside.reshape(padded.shape)[..., :length]


METHODS = {"sequential": sequential, "blocked": blocked}


def exact(x: npt.NDArray, *, method: str, accumulator: str) -> npt.NDArray:
    """Sum in x's dtype, float64; `method` and `accumulator` are the subject's and mean nothing here."""
    return np.add.accumulate(x, axis=-1)
