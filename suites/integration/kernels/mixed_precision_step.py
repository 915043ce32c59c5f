"""Training steps in mixed precision, with float32 master weights and without, and the same steps exactly.

Micikevicius et al., "Mixed Precision Training", 2018: weights to float16, forward and backward in float16, gradients to
float32, multiplied by the learning rate in float32, added to float32 master weights; or the same with bfloat16. The
products follow a matrix unit: narrow inputs, float32 accumulator, one rounding of the result. Sums are elementwise
additions in a fixed order, so the outputs have the same bits on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt
from networks.formats import FORMATS

Weights = Literal["master", "narrow"]
STORED = {"master": np.float32}
"""What weights are stored in; all others are as narrow as values and gradients."""


def repeated_update(weight: npt.NDArray, gradient: npt.NDArray, *, additions: int, weights: Weights) -> npt.NDArray:
    """Add a narrow gradient to the weight again and again, the weight stored as float32 or as narrow as it came."""
    stored = weight.astype(STORED.get(weights, weight.dtype))
    for _ in range(additions):
        stored = stored + gradient.astype(stored.dtype)
    return stored.astype(np.float32)


def repeated_update_exact(
    weight: npt.NDArray, gradient: npt.NDArray, *, additions: int, weights: Weights
) -> npt.NDArray:
    """Give weight + additions gradient in float64; `weights` is the subject's and means nothing here."""
    return weight + additions * gradient


def training_step(
    x: npt.NDArray,
    target: npt.NDArray,
    w1: npt.NDArray,
    w2: npt.NDArray,
    *,
    precision: Literal["float16", "bfloat16"],
    lr: float,
    weights: Weights,
) -> dict[str, npt.NDArray]:
    """Do one step of gradient descent on a layer pair, relu(x w1) w2, under the mean squared error.

    x is (batch, inputs), target (batch, outputs), w1 (inputs, hidden), w2 (hidden, outputs), all float32. Gradients
    come out narrow, new weights in float32; with weights "narrow" they are stored narrow and lose their updates.
    """
    narrow = np.dtype(FORMATS[precision].values)
    dtype = STORED.get(weights, narrow)
    x_narrow, w1_narrow, w2_narrow = (array.astype(narrow) for array in (x, w1, w2))
    hidden = np.maximum(matrix_product(x_narrow, w1_narrow), narrow.type(0))
    residual = matrix_product(hidden, w2_narrow) - target.astype(narrow)
    slope = residual * narrow.type(2 / residual.size)
    gradient2 = matrix_product(hidden.T, slope)
    passed = np.where(hidden > 0, matrix_product(slope, w2_narrow.T), narrow.type(0))
    gradient1 = matrix_product(x_narrow.T, passed)
    return {
        "gradient1": gradient1,
        "gradient2": gradient2,
        "w1": updated(w1.astype(dtype), gradient1, lr),
        "w2": updated(w2.astype(dtype), gradient2, lr),
    }


def updated(stored: npt.NDArray, gradient: npt.NDArray, lr: float) -> npt.NDArray:
    """Multiply by the learning rate in float32 and subtract in the dtype that the weights are stored in."""
    update = np.float32(lr) * gradient.astype(np.float32)
    return (stored - update.astype(stored.dtype)).astype(np.float32)


def matrix_product(a: npt.NDArray, b: npt.NDArray) -> npt.NDArray:
    """Multiply narrow (m, k) by (k, n) matrices with a float32 accumulator, k by k, and round once to a's dtype."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for column, row in zip(a.T.astype(np.float32), b.astype(np.float32), strict=True):
        total = total + column[:, None] * row
    return total.astype(a.dtype)


def training_step_exact(
    x: npt.NDArray,
    target: npt.NDArray,
    w1: npt.NDArray,
    w2: npt.NDArray,
    *,
    precision: str,
    lr: float,
    weights: Weights,
) -> dict[str, npt.NDArray]:
    """Do the same step in float64; `precision` and `weights` are the subject's and mean nothing here."""
    hidden = np.maximum(x @ w1, 0)
    slope = 2 * (hidden @ w2 - target) / target.size
    gradient2 = hidden.T @ slope
    gradient1 = x.T @ np.where(hidden > 0, slope @ w2.T, 0)
    return {"gradient1": gradient1, "gradient2": gradient2, "w1": w1 - lr * gradient1, "w2": w2 - lr * gradient2}
