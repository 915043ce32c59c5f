"""Logistic regression by gradient descent whose updates are w - (lr gradient + e), e of one sign or of both.

As it was published of MLU370 training, with e in [1e-7, 1e-5]. Noise of one sign is a gradient of mean(e) / lr that no
data asks for; noise of both signs has no mean, and averages out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from networks.epochs import BATCH, by_epoch, steps_until


def regress(
    x: npt.NDArray[np.float32],
    held_out: npt.NDArray[np.float32],
    teacher: npt.NDArray[np.float32],
    doubt: npt.NDArray[np.float32],
    noise: npt.NDArray[np.float32],
    negative: npt.NDArray[np.int8],
    *,
    rates: dict[str, float],
    epochs: dict[str, int],
    rate: str,
) -> dict[str, npt.NDArray]:
    """Learn the class of x (n, d), the sign of x teacher + doubt, from weights of 0; judge on held_out (m, d).

    noise (steps, d) is taken off where `negative` is 1. Gives losses (epochs,), accuracy (), and steps (): until the
    loss of an epoch is that of three quarters of the way without noise, which is trained first.
    """
    signed = x * np.where(x @ teacher + doubt > 0, np.float32(1), np.float32(-1))[:, None]
    calm, _ = descend(signed, np.zeros_like(noise), rates[rate], epochs[rate])
    added = np.where(negative == 1, -noise, noise)
    losses, weights = descend(signed, added, rates[rate], epochs[rate])
    right = (held_out @ weights) * (held_out @ teacher) > 0
    target = calm[-len(calm) // 4]
    return {
        "losses": losses.astype(np.float32),
        "accuracy": np.float64(right.mean()),
        "steps": np.float64(steps_until(losses, target, len(x) // BATCH)),
    }


def descend(
    signed: npt.NDArray[np.float32], noise: npt.NDArray[np.float32], lr: float, epochs: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    """Give the mean loss of each epoch, and the weights in the end; `signed` is each point times its class."""
    weights, losses = np.zeros(signed.shape[1], np.float32), []
    for step in range(epochs * len(signed) // BATCH):
        batch = signed[step * BATCH % len(signed) :][:BATCH]
        margin = batch @ weights
        losses.append(np.log1p(np.exp(-margin)).mean())
        gradient = -(np.float32(1) / (1 + np.exp(margin))) @ batch / np.float32(BATCH)
        weights = weights - (np.float32(lr) * gradient + noise[step])
    return by_epoch(losses, epochs), weights
