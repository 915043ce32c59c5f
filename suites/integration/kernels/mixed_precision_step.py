"""Training steps in mixed precision, with float32 master weights and without, and the same steps exactly.

Micikevicius et al., "Mixed Precision Training", 2018: weights to float16, forward and backward in float16, gradients to
float32, multiplied by the learning rate in float32, added to float32 master weights. The products follow a matrix unit:
float16 inputs, float32 accumulator, one rounding of the result. Sums are elementwise additions in a fixed order, so
the outputs have the same bits on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

Weights = Literal["master", "half"]
WEIGHT_DTYPES = {"master": np.float32, "half": np.float16}


def repeated_update(weight: npt.NDArray, gradient: npt.NDArray, *, additions: int, weights: Weights) -> npt.NDArray:
    """Add a float16 gradient to the weight again and again, the weight stored as float32 or as float16."""
    stored = weight.astype(WEIGHT_DTYPES[weights])
    for _ in range(additions):
        stored = stored + gradient.astype(stored.dtype)
    return stored.astype(np.float32)


def repeated_update_exact(
    weight: npt.NDArray, gradient: npt.NDArray, *, additions: int, weights: Weights
) -> npt.NDArray:
    """Give weight + additions gradient in float64; `weights` is the subject's and means nothing here."""
    return weight + additions * gradient


def training_step(
    x: npt.NDArray, target: npt.NDArray, w1: npt.NDArray, w2: npt.NDArray, *, lr: float, weights: Weights
) -> dict[str, npt.NDArray]:
    """Do one step of gradient descent on a layer pair, relu(x w1) w2, under the mean squared error.

    x is (batch, inputs), target (batch, outputs), w1 (inputs, hidden), w2 (hidden, outputs), all float32. Gradients
    come out in float16, new weights in float32; with weights "half" they are stored in float16 and lose their updates.
    """
    dtype = WEIGHT_DTYPES[weights]
    x16, w1_16, w2_16 = (array.astype(np.float16) for array in (x, w1, w2))
    hidden = np.maximum(matrix_product(x16, w1_16), np.float16(0))
    residual = matrix_product(hidden, w2_16) - target.astype(np.float16)
    slope = residual * np.float16(2 / residual.size)
    gradient2 = matrix_product(hidden.T, slope)
    passed = np.where(hidden > 0, matrix_product(slope, w2_16.T), np.float16(0))
    gradient1 = matrix_product(x16.T, passed)
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
    """Multiply (m, k) by (k, n) float16 matrices with a float32 accumulator, k by k, and round once to float16."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for column, row in zip(a.T.astype(np.float32), b.astype(np.float32), strict=True):
        total = total + column[:, None] * row
    return total.astype(np.float16)


def training_step_exact(
    x: npt.NDArray, target: npt.NDArray, w1: npt.NDArray, w2: npt.NDArray, *, lr: float, weights: Weights
) -> dict[str, npt.NDArray]:
    """Do the same step in float64; `weights` is the subject's and means nothing here."""
    hidden = np.maximum(x @ w1, 0)
    slope = 2 * (hidden @ w2 - target) / target.size
    gradient2 = hidden.T @ slope
    gradient1 = x.T @ np.where(hidden > 0, slope @ w2.T, 0)
    return {"gradient1": gradient1, "gradient2": gradient2, "w1": w1 - lr * gradient1, "w2": w2 - lr * gradient2}
