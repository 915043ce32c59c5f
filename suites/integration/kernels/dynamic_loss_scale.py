"""A stream of gradients through dynamic loss scaling: overflow skips the step and halves, good steps double."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from networks import optimizers
from networks.optimizers import LossScale, Rule


def scaled_updates(gradients: npt.NDArray, *, initial: float, interval: int, lr: float) -> dict[str, npt.NDArray]:
    """Scale each gradient of (steps, n) float32, pass it through float16 as a backward does, and step with SGD.

    Gives the scale after each step, and how far weights of 0 moved (n,), as float32.
    """
    weights = [np.zeros(gradients.shape[1:], np.float32)]
    state = optimizers.start(weights, LossScale(initial, interval), "sgd")
    scales = []
    for gradient in gradients:
        scaled = (gradient * np.float32(state.scale.value)).astype(np.float16)
        state = optimizers.step(state, [scaled], Rule("sgd", lr, max_norm=np.inf))
        scales.append(state.scale.value)
    return {"scales": np.array(scales, np.float32), "moved": state.weights[0]}


def scaled_updates_exact(gradients: npt.NDArray, *, initial: float, interval: int, lr: float) -> dict[str, npt.NDArray]:
    """Do the same in float64, unscaled: a step is skipped when a scaled value is NaN or float16 has none so large."""
    scale, good_steps, velocity, moved, scales = initial, 0, 0.0, np.zeros(gradients.shape[1:]), []
    for gradient in gradients:
        if np.all(np.abs(gradient) * scale < 65520):
            velocity = 0.9 * velocity + gradient
            moved -= lr * velocity
            good_steps += 1
        else:
            scale, good_steps = scale / 2, 0
        if good_steps == interval:
            scale, good_steps = scale * 2, 0
        scales.append(scale)
    return {"scales": np.array(scales), "moved": moved}
