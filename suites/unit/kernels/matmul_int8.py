"""Products of int8 matrices, in blocks of 16 along the inner axis, with accumulators that hold them and that do not.

A product is at most 2^14, so int32 holds the sum of any 131071 of them. float32 holds each whole number up to 2^24
only, which 1025 products can exceed, and int16 wraps round beyond 32767, which two can.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

BLOCK = 16


def matmul(
    a: npt.NDArray[np.int8], b: npt.NDArray[np.int8], *, accumulator: Literal["int32", "float32", "int16"]
) -> npt.NDArray[np.int32]:
    """Multiply a (m, k) by b (k, n): a block's sum is exact in int32, and added to the accumulator; (m, n) int32."""
    total = np.zeros((a.shape[0], b.shape[1]), accumulator)
    for start in range(0, len(b), BLOCK):
        block = block_product(a[:, start : start + BLOCK], b[start : start + BLOCK])
        total = total + block.astype(accumulator)
    return total.astype(np.int32)


def block_product(left: npt.NDArray[np.int8], right: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """Multiply (m, 16) by (16, n), or by fewer at the end."""
    return (left.astype(np.int32)[:, :, None] * right.astype(np.int32)).sum(axis=1, dtype=np.int32)


def exact(a: npt.NDArray[np.int8], b: npt.NDArray[np.int8], *, accumulator: str) -> npt.NDArray[np.int32]:
    """Multiply in int64, row by row of b, and give int32; `accumulator` is the subject's and means nothing here."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for column, row in zip(a.T.astype(np.int64), b.astype(np.int64), strict=True):
        total += column[:, None] * row
    return total.astype(np.int32)
