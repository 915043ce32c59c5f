"""A small training run by Adam: a network of two layers learns the sizes |x| of the first numbers it is given.

The outputs have the same bits on every CPU: see suites/networks/adam_training.py.
"""

import numpy as np
import numpy.typing as npt
from networks.adam import Order, Rule
from networks.adam_training import at_rest, train

MARKS = (1, 10, 100, 500)
"""Steps after which the weights are looked at; the last is the end."""


def adam_training(
    x: npt.NDArray,
    w1: npt.NDArray,
    w2: npt.NDArray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    order: Order,
) -> dict[str, npt.NDArray]:
    """Train 500 steps from rest on the batches x (batches, batch, inputs) in turn, from w1 and w2.

    Gives all weights as one vector after 1, 10, 100 and 500 steps, and the loss before each step; all float32.
    """
    batches = in_turn(x)
    rule = Rule(lr, beta1, beta2, eps, order)
    states = list(train(at_rest(w1, w2), batches, sizes(batches, w2.shape[1]), rule, done=0))
    after = {mark: (states[mark - 1].layer1.w, states[mark - 1].layer2.w) for mark in MARKS}
    weights = {f"weights_{mark}": np.concatenate([w.ravel() for w in both]) for mark, both in after.items()}
    return weights | {"losses": np.array([state.loss for state in states])}


def in_turn(batches: npt.NDArray) -> npt.NDArray:
    """Give a batch for each step, beginning anew after the last."""
    return batches[np.arange(MARKS[-1]) % len(batches)]


def sizes(batches: npt.NDArray, outputs: int) -> npt.NDArray:
    """Give what is to be learned: the absolute values of as many inputs as there are outputs, which rounds nothing."""
    return np.abs(batches[..., :outputs])
