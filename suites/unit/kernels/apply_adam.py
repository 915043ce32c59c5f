"""One step of Adam, with the last multiplication and division in two orders that are equal on paper.

    m <- beta1 m + (1 - beta1) g
    v <- beta2 v + (1 - beta2) g g
    w <- w - rate m / (sqrt(v) + eps),   rate = lr sqrt(1 - beta2^t) / (1 - beta1^t)

Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, end of section 2 (algorithm 1, reordered).
Every operation is an elementwise add, subtract, multiply, divide or square root, which IEEE 754 rounds correctly:
the outputs have the same bits on every CPU.
"""

import math

import numpy as np
import numpy.typing as npt


def standard(rate: np.floating, m: npt.NDArray, denominator: npt.NDArray) -> npt.NDArray:
    """Divide, then multiply."""
    return rate * (m / denominator)


def swapped(rate: np.floating, m: npt.NDArray, denominator: npt.NDArray) -> npt.NDArray:
    """Multiply, then divide."""
    return (rate * m) / denominator


UPDATES = {"standard": standard, "swapped": swapped}


def bias_corrected_rate(lr: float, beta1: float, beta2: float, step: int) -> float:
    """Give lr sqrt(1 - beta2^t) / (1 - beta1^t) in float64, for t = step >= 1."""
    return lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)


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
    order: str,
) -> dict[str, npt.NDArray]:
    """Do one step in the arrays' own dtype; the scalars are rounded to it first."""
    scalar = w.dtype.type
    m = scalar(beta1) * m + scalar(1 - beta1) * g
    v = scalar(beta2) * v + scalar(1 - beta2) * g * g
    rate = scalar(bias_corrected_rate(lr, beta1, beta2, step))
    return {"w": w - UPDATES[order](rate, m, np.sqrt(v) + scalar(eps)), "m": m, "v": v}
