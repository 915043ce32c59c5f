"""Training steps of a network of two layers, tanh(x w1) w2, whose output layer starts near zero.

So gradients are small, as they are late in training: those of the hidden layer begin near 3e-7, where float16 has
steps of 6e-8. Loss scaling carries them through; without it they come out coarse, or as zero.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from networks import optimizers
from networks.formats import FORMATS, Precision, wide
from networks.layers import dense, dense_back
from networks.optimizers import LossScale, Optimizer, Rule

Scaling = Literal["unscaled", "static", "dynamic"]
SCALES = {
    "unscaled": LossScale(1.0),
    "static": LossScale(2.0**15),
    "dynamic": LossScale(2.0**30, interval=4),
}
"""Dynamic begins far too high on purpose, so the first steps overflow and are skipped; and it grows soon."""


def training_steps(
    x: npt.NDArray,
    target: npt.NDArray,
    w1: npt.NDArray,
    w2: npt.NDArray,
    *,
    optimizer: Optimizer,
    rates: dict[str, float],
    max_norm: float,
    precision: Precision,
    scaling: Scaling,
) -> dict[str, npt.NDArray]:
    """Do a step for each batch of x (steps, batch, inputs) and target (steps, batch, outputs).

    Gives the loss (mean squared error) before each step, the loss scale after it, and how far w1 and w2 moved in all,
    as float32.
    """
    formats = FORMATS[precision]
    initial = [w1.astype(formats.weights), w2.astype(formats.weights)]
    rule = Rule(optimizer, rates[optimizer], max_norm)
    state = optimizers.start(initial, SCALES[scaling], optimizer)
    losses, scales = [], []
    for batch, wanted in zip(x.astype(formats.values), target, strict=True):
        stored = [weight.astype(formats.values) for weight in state.weights]
        loss, gradients = loss_and_scaled_gradients(batch, wanted, stored, state.scale.value)
        state = optimizers.step(state, gradients, rule)
        losses.append(loss)
        scales.append(state.scale.value)
    moved = [after - before for after, before in zip(state.weights, initial, strict=True)]
    return {
        "losses": np.array(losses, np.float32),
        "scales": np.array(scales, np.float32),
        "moved1": moved[0].astype(np.float32),
        "moved2": moved[1].astype(np.float32),
    }


def loss_and_scaled_gradients(
    x: npt.NDArray, target: npt.NDArray, weights: list[npt.NDArray], scale: float
) -> tuple[np.floating, list[npt.NDArray]]:
    """Give the loss in the accumulator, and `scale` times its gradients by the weights in x's dtype."""
    w1, w2 = weights
    hidden = np.tanh(wide(dense(x, w1))).astype(x.dtype)
    residual = wide(dense(hidden, w2)) - target
    slope = (residual * residual.dtype.type(2 / residual.size) * residual.dtype.type(scale)).astype(x.dtype)
    back, gradient2 = dense_back(slope[None], hidden[None], w2)
    through = (wide(back) * (1 - wide(hidden) * wide(hidden))).astype(x.dtype)
    _, gradient1 = dense_back(through, x[None], w1)
    return np.mean(residual * residual), [gradient1, gradient2]
