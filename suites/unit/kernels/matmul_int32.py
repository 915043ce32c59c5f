"""Products of matrices whose int32 codes use the whole range, added in int64 and rescaled once at the end.

A product of two codes reaches 2^62, so the third can leave int64. Codes that are shifted right leave room: ceil(log2 K)
bits for K products, one operand taking half of them and the other the rest.

    headroom   codes lose ceil(log2 K) bits in all, rounded to nearest, before they are multiplied
    none       codes as they are, as published; the sum wraps round

Sums of integers are exact in any order, so the outputs have the same bits on every CPU.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt


def matmul(
    a: npt.NDArray[np.int32],
    b: npt.NDArray[np.int32],
    scale_a: npt.NDArray[np.float64],
    scale_b: npt.NDArray[np.float64],
    *,
    headroom: Literal["headroom", "none"],
) -> npt.NDArray[np.float32]:
    """Multiply codes a (m, k) by b (k, n) that stand for a / scale_a and b / scale_b; gives (m, n)."""
    bits = (len(b) - 1).bit_length() if headroom == "headroom" else 0
    left, right = _shifted(a, bits // 2), _shifted(b, bits - bits // 2)
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for column, row in zip(left.T, right, strict=True):
        total += column[:, None] * row
    return (total * (2.0**bits / (scale_a * scale_b))).astype(np.float32)


def _shifted(codes: npt.NDArray[np.int32], bits: int) -> npt.NDArray[np.int64]:
    """Drop the last bits, rounded to nearest, halves up."""
    return (codes.astype(np.int64) + (1 << bits >> 1)) >> bits


def by_fractions(
    a: npt.NDArray[np.int32],
    b: npt.NDArray[np.int32],
    scale_a: npt.NDArray[np.float64],
    scale_b: npt.NDArray[np.float64],
    *,
    headroom: str,
) -> npt.NDArray[np.float64]:
    """Multiply and add Python's integers, which have no end, and divide once; `headroom` is the subject's."""
    scale = Fraction(float(scale_a)) * Fraction(float(scale_b))
    rows, columns = a.tolist(), b.T.tolist()
    return np.array([[float(sum(map(int.__mul__, row, column)) / scale) for column in columns] for row in rows])
