"""A network of two layers, tanh(x w1 + b1) w2, trained by gradient descent on the class sign(x0 x1), on any device.

Written for plain numpy, so that a device computes every operation of it. Logistic loss, batches in the same order in
every epoch. With noise each update is w - (lr gradient + e), as it was published of MLU370 training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from networks.epochs import BATCH, by_epoch, steps_until


class Gradients(NamedTuple):
    """The gradients of the loss by w1 (2, hidden), b1 (hidden,) and w2 (hidden, 1)."""

    w1: npt.NDArray
    b1: npt.NDArray
    w2: npt.NDArray


def train(
    x: npt.NDArray,
    held_out: npt.NDArray,
    w1: npt.NDArray,
    b1: npt.NDArray,
    w2: npt.NDArray,
    noise: npt.NDArray,
    *,
    lr: float,
    epochs: int,
    target: float,
) -> dict[str, npt.NDArray]:
    """Train on x (n, 2), judge on held_out (m, 2); noise (steps, weights) is what is added to each update.

    Gives losses (epochs,), the mean over the batches of an epoch; accuracy (), on held_out; and steps (), how many it
    took until the loss of an epoch was the target, or 0 if it never was.
    """
    weights, losses = [w1, b1, w2], []
    sizes = np.cumsum([w1.size, b1.size])
    for step in range(epochs * len(x) // BATCH):
        points = x[step * BATCH % len(x) :][:BATCH]
        loss, gradients = loss_and_gradients(points, labels(points), weights)
        losses.append(loss)
        added = np.split(noise[step], sizes)
        weights = [
            weight - (gradient * weight.dtype.type(lr) + e.reshape(weight.shape))
            for weight, gradient, e in zip(weights, gradients, added, strict=True)
        ]
    means = by_epoch(losses, epochs)
    right = np.sign(score(held_out, weights)[1]) == labels(held_out)
    return {
        "losses": means.astype(np.float32),
        "accuracy": np.float64(right.mean()),
        "steps": np.float64(steps_until(means, target, len(x) // BATCH)),
    }


def labels(points: npt.NDArray) -> npt.NDArray:
    """Give the class of each point (n, 2): the sign of x0 x1, as (n, 1)."""
    return np.sign(points[:, :1]) * np.sign(points[:, 1:])


def score(points: npt.NDArray, weights: list[npt.NDArray]) -> tuple[npt.NDArray, npt.NDArray]:
    """Give the hidden values (n, hidden) and the scores (n, 1)."""
    w1, b1, w2 = weights
    hidden = np.tanh(points @ w1 + b1)
    return hidden, hidden @ w2


def loss_and_gradients(
    points: npt.NDArray, signs: npt.NDArray, weights: list[npt.NDArray]
) -> tuple[npt.NDArray, Gradients]:
    """Give the mean of log(1 + exp(-s y)), and its gradients."""
    real = points.dtype.type
    hidden, scores = score(points, weights)
    margin = signs * scores
    slope = -signs / (real(1) + np.exp(margin)) / real(len(points))
    back = slope * weights[2][:, 0] * (real(1) - hidden * hidden)
    return np.log1p(np.exp(-margin)).mean(), Gradients(points.T @ back, back.sum(0), hidden.T @ slope)
