"""What training by Adam is held against: the golden in the same order of operations, and the exact run in float64.

Both are written out apart from networks/adam.py and networks/adam_training.py, and always take the standard order of
Adam's last step, so that neither a change of these nor the subject's `order` can change them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Arrays = list[npt.NDArray]


class Run(NamedTuple):
    """The weights w1 and w2 after each step, and the loss before it."""

    weights: list[Arrays]
    losses: list[float]


def golden(
    batches: npt.NDArray,
    targets: npt.NDArray,
    weights: Arrays,
    moments: list[Arrays],
    done: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
) -> Run:
    """Train in the weights' dtype, every operation rounded to it; sums begin with the first term and go one by one."""
    real = weights[0].dtype.type
    run = Run([], [])
    for step, (x, target) in enumerate(zip(batches, targets, strict=True), start=done + 1):
        hidden = np.maximum(summed(x, weights[0]), real(0))
        residual = np.subtract(summed(hidden, weights[1]), target)
        slope = np.multiply(residual, real(2 / residual.size))
        back = np.where(hidden > 0, summed(slope, weights[1].T), real(0))
        squares = np.add.accumulate(np.square(residual).ravel())
        run.losses.append(np.divide(squares[-1], real(residual.size)))
        weights = [
            adam(w, state, gradient, lr * math.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step), betas, eps)
            for w, state, gradient in zip(weights, moments, [summed(x.T, back), summed(hidden.T, slope)], strict=True)
        ]
        run.weights.append(weights)
    return run


def summed(a: npt.NDArray, b: npt.NDArray) -> npt.NDArray:
    """Multiply (m, k) by (k, n): all products first, and then their running sums along k, of which the last."""
    return np.add.accumulate(np.multiply(a[:, :, None], b[None]), axis=1)[:, -1]


def adam(
    w: npt.NDArray, state: Arrays, g: npt.NDArray, rate: float, betas: tuple[float, float], eps: float
) -> npt.NDArray:
    """Update m and v in `state`, and give the new weights: divide, then multiply."""
    real = w.dtype.type
    state[0] = np.add(np.multiply(real(betas[0]), state[0]), np.multiply(real(1 - betas[0]), g))
    weighted = np.multiply(np.multiply(real(1 - betas[1]), g), g)
    state[1] = np.add(np.multiply(real(betas[1]), state[1]), weighted)
    quotient = np.divide(state[0], np.add(np.sqrt(state[1]), real(eps)))
    return np.subtract(w, np.multiply(real(rate), quotient))


def exact(
    batches: npt.NDArray,
    targets: npt.NDArray,
    weights: Arrays,
    moments: list[Arrays],
    done: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
) -> Run:
    """Train in float64 with Adam as its authors write it first: both moments divided by their bias."""
    run = Run([], [])
    for step, (x, target) in enumerate(zip(batches, targets, strict=True), start=done + 1):
        before = x @ weights[0]
        residual = np.maximum(before, 0) @ weights[1] - target
        by_output = 2 * residual / residual.size
        gradients = [x.T @ ((by_output @ weights[1].T) * (before > 0)), np.maximum(before, 0).T @ by_output]
        run.losses.append(float(np.mean(residual**2)))
        scaled_eps = eps / math.sqrt(1 - betas[1] ** step)
        for state, gradient in zip(moments, gradients, strict=True):
            state[0] = betas[0] * state[0] + (1 - betas[0]) * gradient
            state[1] = betas[1] * state[1] + (1 - betas[1]) * np.square(gradient)
        weights = [
            w - lr * m / (1 - betas[0] ** step) / (np.sqrt(v / (1 - betas[1] ** step)) + scaled_eps)
            for w, (m, v) in zip(weights, moments, strict=True)
        ]
        run.weights.append(weights)
    return run
