"""One operator in its plain form and after each optimisation that is usual on accelerators: what a study compares.

The operator is a weighted sum of the columns of x (rows, terms), each product divided by a scale: with the terms in
order, total = total + x[:, k] * weights[k] / scale. Every step is an elementwise operation that IEEE 754 rounds, so
each form has the same bits on every CPU; how long it takes is for the machine to say.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray
BLOCK = 16
"""Columns that are read together: 64 bytes of float32, what memory gives at once."""

LANES = 8


def weighted_sum(x: Array, weights: Array, *, scale: float, optimisation: str) -> Array:
    """Return the weighted sum (rows,) of x (rows, terms) with weights (terms,), in the dtype of x.

    The terms are a multiple of 8.
    """
    return FORMS[optimisation](x, weights, x.dtype.type(scale))


def plain(x: Array, weights: Array, scale: np.floating) -> Array:
    """Take column after column, as the formula is written; each is a stride apart in memory."""
    total = np.zeros(x.shape[0], x.dtype)
    for k, weight in enumerate(weights):
        total = total + x[:, k] * weight / scale
    return total


def in_fp16(x: Array, weights: Array, scale: np.floating) -> Array:
    """Compute the plain form in float16; only the result is given in the dtype of x."""
    half = np.float16
    return plain(x.astype(half), weights.astype(half), half(scale)).astype(x.dtype)


def merged_access(x: Array, weights: Array, scale: np.floating) -> Array:
    """Read whole blocks of columns, one transfer a row, and then do what the plain form does in its order."""
    total = np.zeros(x.shape[0], x.dtype)
    for first in range(0, x.shape[1], BLOCK):
        block = x[:, first : first + BLOCK].copy()
        for column, weight in zip(block.T, weights[first : first + BLOCK], strict=True):
            total = total + column * weight / scale
    return total


def reordered(x: Array, weights: Array, scale: np.floating) -> Array:
    """Divide once, at the end, instead of in every step."""
    total = np.zeros(x.shape[0], x.dtype)
    for k, weight in enumerate(weights):
        total = total + x[:, k] * weight
    return total / scale


def unrolled(x: Array, weights: Array, scale: np.floating) -> Array:
    """Keep eight partial sums, of every eighth term each, and merge them by halves at the end."""
    sums = np.zeros((x.shape[0], LANES), x.dtype)
    for first in range(0, x.shape[1], LANES):
        here = slice(first, first + LANES)
        sums = sums + x[:, here] * weights[here] / scale
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


FORMS: dict[str, Callable[[Array, Array, np.floating], Array]] = {
    "none": plain,
    "fp16": in_fp16,
    "merged_access": merged_access,
    "reordered": reordered,
    "unrolled": unrolled,
}


def exact_weighted_sum(
    x: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], *, scale: float, optimisation: str
) -> npt.NDArray[np.float64]:
    """Divide the whole sum of products once, in float64; `optimisation` is the subject's and means nothing here."""
    return (x * weights).sum(-1) / scale
