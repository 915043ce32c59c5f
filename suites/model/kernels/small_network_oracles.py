"""What the small network's training is held against: float64, and nothing shared with the kernel.

The score of a point p is sum over hidden h of relu(p . w1_h + b1_h) w2_h, which is linear in p where no relu switches:
so its gradients are those of the weights' products, taken for the hidden values that are on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def train(
    x: npt.NDArray,
    held_out: npt.NDArray,
    w1: npt.NDArray,
    b1: npt.NDArray,
    w2: npt.NDArray,
    *,
    lr: float,
    steps: int,
    precision: str,
) -> dict[str, npt.NDArray]:
    """Train in float64; `precision` is the subject's and means nothing here."""
    weights = np.vstack([w1, b1, w2.T])  # two rows of inputs, one of biases, one of outputs; a column a hidden value
    signs, points = classes(x), with_one(x)
    losses = []
    for _ in range(steps):
        on = points @ weights[:3] > 0
        scores = np.einsum("nk,kh,nh,h->n", points, weights[:3], on, weights[3])
        losses.append(np.logaddexp(0, -signs * scores).mean())
        by_score = -signs * (1 - np.tanh(signs * scores / 2)) / 2 / len(x)
        inner = np.einsum("n,nk,nh->kh", by_score, points, on)
        gradient = np.vstack([inner * weights[3], (inner * weights[:3]).sum(0)])
        weights = weights - lr * gradient
    scores = np.maximum(with_one(held_out) @ weights[:3], 0) @ weights[3]
    return {"losses": np.array(losses), "accuracy": np.mean(np.sign(scores) == classes(held_out))}


def classes(points: npt.NDArray) -> npt.NDArray:
    """Give 1 to points of the first and third quadrant and -1 to the others, as (n,)."""
    return np.where((points[:, 0] > 0) == (points[:, 1] > 0), 1.0, -1.0)


def with_one(points: npt.NDArray) -> npt.NDArray:
    """Append a column of ones, which the biases meet."""
    return np.column_stack([points, np.ones(len(points))])
