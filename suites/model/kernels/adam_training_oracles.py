"""What the training run by Adam is held against: suites/networks/adam_training_oracles.py, golden and exact."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from networks import adam_training_oracles as oracles
from networks.adam_training_oracles import Run

STEPS, MARKS = 500, (1, 10, 100, 500)


def golden(**given: npt.NDArray) -> dict[str, npt.NDArray]:
    """Train in float32, in the standard order."""
    return trained(oracles.golden, **given)


def exact(**given: npt.NDArray) -> dict[str, npt.NDArray]:
    """Train in float64."""
    return trained(oracles.exact, **given)


def trained(
    run: Callable[..., Run],
    x: npt.NDArray,
    w1: npt.NDArray,
    w2: npt.NDArray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    order: str,
) -> dict[str, npt.NDArray]:
    """Train on the batches again and again; `order` is the subject's and means nothing here."""
    batches = np.tile(x, (STEPS // len(x) + 1, 1, 1))[:STEPS]
    rest = [[np.zeros_like(w), np.zeros_like(w)] for w in (w1, w2)]
    whole = run(batches, np.abs(batches[..., : w2.shape[1]]), [w1, w2], rest, 0, lr, (beta1, beta2), eps)
    weights = {f"weights_{mark}": np.hstack([w.ravel() for w in whole.weights[mark - 1]]) for mark in MARKS}
    return weights | {"losses": np.array(whole.losses)}
