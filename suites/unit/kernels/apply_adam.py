"""One step of Adam as an operator, in two orders: see suites/networks/adam.py, which training runs take it from, too.

The outputs have the same bits on every CPU.
"""

import numpy.typing as npt
from networks.adam import Order, Rule, Weight, update


def apply_adam(
    w: npt.NDArray,
    m: npt.NDArray,
    v: npt.NDArray,
    g: npt.NDArray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    order: Order,
) -> dict[str, npt.NDArray]:
    """Do one step in the arrays' own dtype."""
    return update(Weight(w, m, v), g, Rule(lr, beta1, beta2, eps, order), step)._asdict()
