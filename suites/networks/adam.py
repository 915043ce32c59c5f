"""One step of Adam, with the last multiplication and division in two orders that are equal on paper.

    m <- beta1 m + (1 - beta1) g
    v <- beta2 v + (1 - beta2) g g
    w <- w - rate m / (sqrt(v) + eps),   rate = lr sqrt(1 - beta2^t) / (1 - beta1^t)

Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, end of section 2 (algorithm 1, reordered).
Every operation is an elementwise add, subtract, multiply, divide or square root, which IEEE 754 rounds correctly.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Order = Literal["standard", "swapped"]


class Rule(NamedTuple):
    """What a step takes besides arrays."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    order: Order


class Weight(NamedTuple):
    """A weight and its moments, of one shape and dtype."""

    w: npt.NDArray
    m: npt.NDArray
    v: npt.NDArray


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


def update(weight: Weight, g: npt.NDArray, rule: Rule, step: int) -> Weight:
    """Do step number `step` in the weight's own dtype; the scalars are rounded to it first."""
    scalar = weight.w.dtype.type
    m = scalar(rule.beta1) * weight.m + scalar(1 - rule.beta1) * g
    v = scalar(rule.beta2) * weight.v + scalar(1 - rule.beta2) * g * g
    rate = scalar(bias_corrected_rate(rule.lr, rule.beta1, rule.beta2, step))
    return Weight(weight.w - UPDATES[rule.order](rate, m, np.sqrt(v) + scalar(rule.eps)), m, v)
