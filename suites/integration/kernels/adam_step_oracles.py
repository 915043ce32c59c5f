"""What a training step by Adam is held against: suites/networks/adam_training_oracles.py, golden and exact."""

from collections.abc import Callable

import numpy.typing as npt
from networks import adam_training_oracles as oracles
from networks.adam_training_oracles import Run


def golden(**given: npt.NDArray) -> dict[str, npt.NDArray]:
    """Do the step in float32, in the standard order."""
    return step(oracles.golden, **given)


def exact(**given: npt.NDArray) -> dict[str, npt.NDArray]:
    """Do the step in float64."""
    return step(oracles.exact, **given)


def step(
    run: Callable[..., Run],
    x: npt.NDArray,
    target: npt.NDArray,
    w1: npt.NDArray,
    m1: npt.NDArray,
    v1: npt.NDArray,
    w2: npt.NDArray,
    m2: npt.NDArray,
    v2: npt.NDArray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    done: int,
    order: str,
) -> dict[str, npt.NDArray]:
    """Train two steps on the one batch, of which the second only gives the loss; `order` means nothing here."""
    batches, targets = (array[None].repeat(2, axis=0) for array in (x, target))
    both = run(batches, targets, [w1, w2], [[m1, v1], [m2, v2]], done, lr, (beta1, beta2), eps)
    w1, w2 = both.weights[0]
    return {"loss": both.losses[0], "w1": w1, "w2": w2, "loss_after": both.losses[1]}
