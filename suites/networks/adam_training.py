"""Training of a network of two layers, relu(x w1) w2, by Adam: forward, backward, update, in a fixed order of sums.

Products add one term after the other, functions are maxima, and the loss is the mean squared error, so every operation
is one that IEEE 754 rounds correctly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from networks.adam import Rule, Weight, update
from networks.formats import product, transposed


class State(NamedTuple):
    """The weights with their moments, and the loss of the batch that gave the last step, before that step."""

    layer1: Weight
    layer2: Weight
    loss: np.floating


def at_rest(w1: npt.NDArray, w2: npt.NDArray) -> State:
    """Begin with moments of zero."""
    layers = (Weight(w, np.zeros_like(w), np.zeros_like(w)) for w in (w1, w2))
    return State(*layers, w1.dtype.type(0))


def train(state: State, batches: npt.NDArray, targets: npt.NDArray, rule: Rule, done: int) -> Iterator[State]:
    """Yield the state after a step on each batch of (steps, batch, inputs), when `done` steps came before them."""
    for step, (x, target) in enumerate(zip(batches, targets, strict=True), start=done + 1):
        loss, gradient1, gradient2 = loss_and_gradients(x, target, state.layer1.w, state.layer2.w)
        layer1 = update(state.layer1, gradient1, rule, step)
        state = State(layer1, update(state.layer2, gradient2, rule, step), loss)
        yield state


def loss_and_gradients(
    x: npt.NDArray, target: npt.NDArray, w1: npt.NDArray, w2: npt.NDArray
) -> tuple[np.floating, npt.NDArray, npt.NDArray]:
    """Give the mean squared error of a batch, and its gradients by both weights, in the weights' dtype."""
    hidden = np.maximum(product(x, w1), w1.dtype.type(0))
    residual = product(hidden, w2) - target
    slope = residual * w1.dtype.type(2 / residual.size)
    back = np.where(hidden > 0, product(slope, transposed(w2)), w1.dtype.type(0))
    loss = np.add.accumulate((residual * residual).ravel())[-1] / w1.dtype.type(residual.size)
    return loss, product(transposed(x), back), product(transposed(hidden), slope)
