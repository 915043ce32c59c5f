"""What the training steps are held against: float64, where no gradient needs scaling.

The scale is followed only to know which steps a device skips: those in which a scaled value of the backward rounds to
infinity, from 65520 on in float16. Nothing is shared with the kernels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

OVERFLOWS_FROM = {"float16": 65520.0}


def training_steps(
    x: npt.NDArray,
    target: npt.NDArray,
    w1: npt.NDArray,
    w2: npt.NDArray,
    *,
    optimizer: str,
    rates: dict[str, float],
    max_norm: float,
    precision: str,
    scaling: str,
) -> dict[str, npt.NDArray]:
    """Do the steps; all weights stand in one vector."""
    scale, good_steps = {"unscaled": 1.0, "static": 2.0**15, "dynamic": 2.0**30}[scaling], 0
    limit = OVERFLOWS_FROM.get(precision, np.inf)
    initial = weights = np.concatenate([w1.ravel(), w2.ravel()])
    rule = {"adam": Adam, "sgd": Momentum}[optimizer](rates[optimizer])
    losses, scales = [], []
    for batch, wanted in zip(x, target, strict=True):
        loss, gradient, largest = backward(batch, wanted, weights, w1.shape, w2.shape)
        losses.append(loss)
        if largest * scale < limit:
            weights = weights - rule.update(gradient * min(1.0, max_norm / np.linalg.norm(gradient)))
            good_steps += 1
        else:
            scale, good_steps = scale / 2, 0
        if scaling == "dynamic" and good_steps == 4:
            scale, good_steps = scale * 2, 0
        scales.append(scale)
    moved = np.split(weights - initial, [w1.size])
    return {
        "losses": np.array(losses),
        "scales": np.array(scales),
        "moved1": moved[0].reshape(w1.shape),
        "moved2": moved[1].reshape(w2.shape),
    }


def backward(
    x: npt.NDArray, target: npt.NDArray, weights: npt.NDArray, shape1: tuple[int, ...], shape2: tuple[int, ...]
) -> tuple[float, npt.NDArray, float]:
    """Give the loss, the gradient as one vector, and the largest value on the way back."""
    split = shape1[0] * shape1[1]
    w1, w2 = weights[:split].reshape(shape1), weights[split:].reshape(shape2)
    hidden = np.tanh(x @ w1)
    residual = hidden @ w2 - target
    slope = 2 * residual / residual.size
    back = slope @ w2.T
    through = back / np.cosh(x @ w1) ** 2
    gradient = np.concatenate([(x.T @ through).ravel(), (hidden.T @ slope).ravel()])
    return float(np.mean(residual**2)), gradient, max(np.abs(part).max() for part in (slope, back, gradient))


class Adam:
    """Adam as weighted means of all gradients so far, rather than as a recurrence."""

    def __init__(self, lr: float) -> None:
        self.lr, self.gradients = lr, []

    def update(self, gradient: npt.NDArray) -> npt.NDArray:
        """Give what is subtracted from the weights."""
        self.gradients.append(gradient)
        ages = np.arange(len(self.gradients))[::-1]
        mean = np.average(self.gradients, axis=0, weights=0.9**ages)
        mean_of_squares = np.average(np.square(self.gradients), axis=0, weights=0.999**ages)
        return self.lr * mean / (np.sqrt(mean_of_squares) + 1e-8)


class Momentum:
    """Momentum as a weighted sum of all gradients so far."""

    def __init__(self, lr: float) -> None:
        self.lr, self.gradients = lr, []

    def update(self, gradient: npt.NDArray) -> npt.NDArray:
        """Give what is subtracted from the weights."""
        self.gradients.append(gradient)
        ages = np.arange(len(self.gradients))[::-1]
        return self.lr * np.tensordot(0.9**ages, self.gradients, 1)
