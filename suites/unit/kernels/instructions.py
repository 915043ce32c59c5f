"""Instructions of a device with fixed-point units, and the same with a part missing.

    compensate   d = n + m alpha           float32; multiply and add run in separate pipelines, and each rounds
    scale        d = (n s) >> 32           int32; the product is whole, and the shift goes toward minus infinity
    accumulate   d = d + a b, k by k       int64 and int32; each product is whole

Everything is elementwise, in a fixed order, so the outputs have the same bits on every CPU.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from rationals import each, rounded

HALF_WORD = 32


def compensate(
    n: npt.NDArray[np.float32], m: npt.NDArray[np.float32], *, alpha: float, pipelines: Literal["separate", "fused"]
) -> npt.NDArray[np.float32]:
    """Add m alpha to n, with two roundings; fused, the product stays whole (in float64) until the sum is rounded."""
    factor = np.float32(alpha)
    if pipelines == "separate":
        return n + m * factor
    return (n.astype(np.float64) + m.astype(np.float64) * np.float64(factor)).astype(np.float32)


def compensate_by_fractions(
    n: npt.NDArray[np.float32], m: npt.NDArray[np.float32], *, alpha: float, pipelines: str
) -> npt.NDArray[np.float32]:
    """Round the product and then the sum, as rational numbers; `pipelines` is the subject's."""
    factor = Fraction(float(np.float32(alpha)))
    return each(lambda n, m: rounded(n + rounded(m * factor)), n, m).astype(np.float32)


def scale(
    n: npt.NDArray[np.int32], s: npt.NDArray[np.int32], *, shift: Literal["floor", "toward_zero"]
) -> npt.NDArray[np.int32]:
    """Multiply by s / 2^32; a product of two int32 is at most 2^62, so no result is too large for an int32."""
    product = n.astype(np.int64) * s
    if shift == "floor":
        return (product >> HALF_WORD).astype(np.int32)
    return (np.sign(product) * (np.abs(product) >> HALF_WORD)).astype(np.int32)


def scale_by_integers(n: npt.NDArray[np.int32], s: npt.NDArray[np.int32], *, shift: str) -> npt.NDArray[np.int32]:
    """Divide Python's integers by 2^32 with // ; `shift` is the subject's."""
    return np.array([a * b // 2**32 for a, b in zip(n.tolist(), s.tolist(), strict=True)], np.int32)


def accumulate(
    d: npt.NDArray[np.int64],
    a: npt.NDArray[np.int32],
    b: npt.NDArray[np.int32],
    *,
    product: Literal["int64", "int32"],
) -> npt.NDArray[np.int64]:
    """Add the products of a and b, both (k, n), to d (n,); products in int32 wrap round before they are added."""
    total = d.copy()
    for left, right in zip(a.astype(product), b.astype(product), strict=True):
        total += left * right
    return total


def accumulate_by_integers(
    d: npt.NDArray[np.int64], a: npt.NDArray[np.int32], b: npt.NDArray[np.int32], *, product: str
) -> npt.NDArray[np.int64]:
    """Add Python's integers, which have no end; numpy refuses a sum that is no int64. `product` is the subject's."""
    columns = zip(d.tolist(), a.T.tolist(), b.T.tolist(), strict=True)
    return np.array([start + sum(map(int.__mul__, left, right)) for start, left, right in columns], np.int64)
