"""One training step of a network of two layers by Adam in the middle of training: forward, backward, update, forward.

The outputs have the same bits on every CPU: see suites/networks/adam_training.py.
"""

import numpy as np
import numpy.typing as npt
from networks.adam import Order, Rule, Weight
from networks.adam_training import State, loss_and_gradients, train


def adam_step(
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
    order: Order,
) -> dict[str, npt.NDArray]:
    """Do step number done + 1 on x (batch, inputs); gives the loss before it, the new weights, and the loss then."""
    state = State(Weight(w1, m1, v1), Weight(w2, m2, v2), np.float32(0))
    (after,) = train(state, x[None], target[None], Rule(lr, beta1, beta2, eps, order), done)
    loss_after, _, _ = loss_and_gradients(x, target, after.layer1.w, after.layer2.w)
    return {"loss": after.loss, "w1": after.layer1.w, "w2": after.layer2.w, "loss_after": loss_after}
