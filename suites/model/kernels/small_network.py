"""A network of two layers, trained on points whose class is the sign of x0 x1, in four precisions.

The precisions: "single" is float32 throughout; "mixed" runs forward and backward in float16 on a copy of float32
master weights, and "mixed_bfloat16" in bfloat16; "half" stores the weights in float16 as well. Full batches, plain
gradient descent, logistic loss.
"""

from typing import Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
from networks.formats import Formats, wide

Precision = Literal["single", "mixed", "mixed_bfloat16", "half"]

FORMATS = {
    "single": Formats(np.float32, np.float32),
    "mixed": Formats(np.float32, np.float16),
    "mixed_bfloat16": Formats(np.float32, ml_dtypes.bfloat16),
    "half": Formats(np.float16, np.float16),
}


def train(
    x: npt.NDArray,
    held_out: npt.NDArray,
    w1: npt.NDArray,
    b1: npt.NDArray,
    w2: npt.NDArray,
    *,
    lr: float,
    steps: int,
    precision: Precision,
) -> dict[str, npt.NDArray]:
    """Train on x (n, 2) from w1 (2, hidden), b1 (hidden,), w2 (hidden, 1), and judge on held_out (m, 2).

    Gives losses (steps,), the mean loss before each step, and accuracy (), the share of held-out points that are
    classified right; both float32. Losses and gradients are summed over the batch in at least float32.
    """
    formats = FORMATS[precision]
    weights = [array.astype(formats.weights) for array in (w1, b1, w2)]
    points, signs = x.astype(formats.values), labels(x)
    losses = []
    for _ in range(steps):
        loss, gradients = loss_and_gradients(points, signs, [array.astype(formats.values) for array in weights])
        losses.append(loss)
        updates = [gradient * gradient.dtype.type(lr) for gradient in gradients]
        weights = [array - update.astype(array.dtype) for array, update in zip(weights, updates, strict=True)]
    _, score = forward(held_out.astype(formats.values), [array.astype(formats.values) for array in weights])
    accuracy = np.mean(np.sign(score) == labels(held_out))
    return {"losses": np.array(losses, np.float32), "accuracy": accuracy.astype(np.float32)}


def labels(points: npt.NDArray) -> npt.NDArray:
    """Give the class of each point (n, 2): the sign of x0 x1, as (n, 1)."""
    return np.sign(points[:, :1]) * np.sign(points[:, 1:])


def forward(points: npt.NDArray, weights: list[npt.NDArray]) -> tuple[npt.NDArray, npt.NDArray]:
    """Give the hidden values (n, hidden) and the scores (n, 1), in the dtype of the points."""
    w1, b1, w2 = weights
    hidden = np.maximum(points[:, :1] * w1[0] + points[:, 1:] * w1[1] + b1, points.dtype.type(0))
    score = (wide(hidden) * wide(w2[:, 0])).sum(-1, keepdims=True)
    return hidden, score.astype(points.dtype)


def loss_and_gradients(
    points: npt.NDArray, signs: npt.NDArray, weights: list[npt.NDArray]
) -> tuple[np.floating, list[npt.NDArray]]:
    """Give the mean of log(1 + exp(-s y)) over the batch, and its gradients by w1, b1 and w2 in at least float32."""
    hidden, score = forward(points, weights)
    margin = wide(score) * wide(signs)
    slope = (-wide(signs) / (1 + np.exp(margin)) / len(points)).astype(points.dtype)
    back = wide(np.where(hidden > 0, slope * weights[2][:, 0], points.dtype.type(0)))
    gradients = [
        np.stack([(wide(points[:, axis : axis + 1]) * back).sum(0) for axis in (0, 1)]),
        back.sum(0),
        (wide(hidden) * wide(slope)).sum(0)[:, None],
    ]
    return np.mean(np.log1p(np.exp(-margin))), gradients
