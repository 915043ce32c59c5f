"""Matrix products as a matrix unit forms them: narrow inputs, a wide accumulator, blocks of 16 along the inner axis.

The 16 products of a block are added by halves in float32, and the block's sum is added to the accumulator: at most
k / 16 + 4 additions act on a term. A product of two float16 (11 bits each) or bfloat16 (8 bits) is exact in float32, so
with a float32 accumulator the error is at most gamma(k / 16 + 4) |a| |b| (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd edition, 3.5; u = 2^-24) and one rounding of the result; Blanchard, Higham, Lopez, Mary and Pranesh,
"Mixed Precision Block Fused Multiply-Add", 2020. Only elementwise operations in a fixed order, so the outputs have the
same bits on every CPU, which a BLAS does not promise.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

BLOCK = 16


def matmul(
    a: npt.NDArray, b: npt.NDArray, *, accumulator: Literal["own", "float32"], output: Literal["own", "float32"]
) -> npt.NDArray:
    """Multiply a (m, k) by b (k, n), of one dtype; the result (m, n) is rounded once, to the output's dtype.

    `own` is the dtype of a: an accumulator of it is rounded after each block.
    """
    accumulated, rounded = (a.dtype if name == "own" else np.dtype(name) for name in (accumulator, output))
    total = np.zeros((a.shape[0], b.shape[1]), accumulated)
    for left, right in zip(blocks(a.T), blocks(b), strict=True):
        total = (total + block_product(left, right)).astype(accumulated)
    return total.astype(rounded)


def blocks(rows: npt.NDArray) -> npt.NDArray:
    """Cut (k, n) into float32 blocks (k / 16 rounded up, 16, n); the last is filled with zeros."""
    padded = np.pad(rows.astype(np.float32), [(0, -len(rows) % BLOCK), (0, 0)])
    return padded.reshape(-1, BLOCK, rows.shape[1])


def block_product(left: npt.NDArray, right: npt.NDArray) -> npt.NDArray:
    """Multiply (16, m) transposed by (16, n): all products at once, then the first half is added to the second."""
    terms = left[:, :, None] * right[:, None, :]
    while len(terms) > 1:
        terms = terms[: len(terms) // 2] + terms[len(terms) // 2 :]
    return terms[0]


def exact(a: npt.NDArray, b: npt.NDArray, *, accumulator: str, output: str) -> npt.NDArray:
    """Multiply in float64, where products of float32 are exact, term by term; the names are the subject's."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for column, row in zip(a.T, b, strict=True):
        total = total + column[:, None] * row
    return total
