"""The formats of a mixed-precision computation, and products that sum in the same order on every CPU.

Values rest in a storage format between operators. Inside an operator sums and functions run in an accumulator that is
at least float32, and its result is rounded once: Micikevicius et al., "Mixed Precision Training", 2018, section 3.3.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

Precision = Literal["float32", "float16", "bfloat16"]


class Formats(NamedTuple):
    """The dtypes of stored weights, and of the values and gradients that flow through a network."""

    weights: npt.DTypeLike
    values: npt.DTypeLike


FORMATS = {
    "float32": Formats(np.float32, np.float32),
    "float16": Formats(np.float32, np.float16),
    "bfloat16": Formats(np.float32, ml_dtypes.bfloat16),
}
EXACT = Formats(np.float64, np.float64)


def wide(values: npt.NDArray) -> npt.NDArray:
    """Widen to the accumulator's dtype: narrow formats to float32; float32 and float64 stay."""
    return values.astype(np.promote_types(values.dtype, np.float32), copy=False)


def product(a: npt.NDArray, b: npt.NDArray) -> npt.NDArray:
    """Multiply (..., m, k) by (..., k, n) and give the accumulator, which the caller rounds.

    Elementwise multiplications and additions, k after k: no library chooses the order, and no unit fuses the two.
    """
    a, b = wide(a), wide(b)
    total = a[..., :, 0, None] * b[..., 0, None, :]
    for k in range(1, a.shape[-1]):
        total += a[..., :, k, None] * b[..., k, None, :]
    return total


def transposed(matrices: npt.NDArray) -> npt.NDArray:
    """Exchange the last two axes."""
    return matrices.swapaxes(-1, -2)
