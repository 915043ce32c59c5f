"""Training in epochs: the loss of each, and how many steps it takes to reach a loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BATCH = 64


def by_epoch(losses: list[npt.NDArray], epochs: int) -> npt.NDArray[np.float64]:
    """Average the losses of each epoch's batches, in float64."""
    return np.array(losses, np.float64).reshape(epochs, -1).mean(1)


def steps_until(losses: npt.NDArray, target: float, steps_an_epoch: int) -> float:
    """Give the steps until the loss meets the target, in between by a straight line from epoch to epoch."""
    below = np.flatnonzero(losses <= target)
    if not len(below) or not below[0]:
        return 0.0
    last = below[0]
    part = (losses[last - 1] - target) / (losses[last - 1] - losses[last])
    return float((last + part) * steps_an_epoch)
