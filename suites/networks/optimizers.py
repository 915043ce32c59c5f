"""Training steps: Adam and SGD on float32 master weights, with the loss scaled so that narrow gradients survive.

Micikevicius et al., "Mixed Precision Training", 2018. The order is: unscale in the weights' dtype, look for
overflow, clip, update. A scale is a power of two, so scaling and unscaling round nothing that stays in range.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Optimizer = Literal["adam", "sgd"]
Arrays = list[npt.NDArray]


class LossScale(NamedTuple):
    """The factor on the loss, and how many steps went well since it changed; grows after `interval`, 0 is never."""

    value: float
    interval: int = 0
    good_steps: int = 0

    def after(self, *, overflowed: bool) -> LossScale:
        """Halve after an overflow; double after `interval` good steps; a scale without interval is static."""
        if not self.interval:
            return self
        if overflowed:
            return self._replace(value=self.value / 2, good_steps=0)
        if self.good_steps + 1 == self.interval:
            return self._replace(value=self.value * 2, good_steps=0)
        return self._replace(good_steps=self.good_steps + 1)


class State(NamedTuple):
    """Training between two steps: weights, moments of each (m, v for Adam, velocity for SGD), updates done so far."""

    weights: Arrays
    moments: list[Arrays]
    updates: int
    scale: LossScale


class Rule(NamedTuple):
    """An optimizer with its learning rate, and the norm to which gradients are clipped together."""

    optimizer: Optimizer
    lr: float
    max_norm: float


def start(weights: Arrays, scale: LossScale, optimizer: Optimizer) -> State:
    """Begin with moments of zero, in the weights' dtype."""
    count = {"adam": 2, "sgd": 1}[optimizer]
    return State(weights, [[np.zeros_like(weight) for _ in range(count)] for weight in weights], 0, scale)


def step(state: State, scaled_gradients: Arrays, rule: Rule) -> State:
    """Update the weights with gradients of the scaled loss.

    Where one of them is not finite the step is skipped, and the scale lowered.
    """
    gradients = unscaled(scaled_gradients, state)
    if not all(np.isfinite(gradient).all() for gradient in gradients):
        return state._replace(scale=state.scale.after(overflowed=True))
    gradients = clipped(gradients, rule.max_norm)
    update, updates = {"adam": adam, "sgd": sgd}[rule.optimizer], state.updates + 1
    results = [
        update(weight, gradient, moments, updates, rule.lr)
        for weight, gradient, moments in zip(state.weights, gradients, state.moments, strict=True)
    ]
    weights, moments = map(list, zip(*results, strict=True))
    return State(weights, moments, updates, state.scale.after(overflowed=False))


def unscaled(scaled_gradients: Arrays, state: State) -> Arrays:
    """Divide by the scale in the weights' dtype, where small gradients fit: float32 goes down to 2^-149."""
    return [
        gradient.astype(weight.dtype) / weight.dtype.type(state.scale.value)
        for gradient, weight in zip(scaled_gradients, state.weights, strict=True)
    ]


def clipped(gradients: Arrays, max_norm: float) -> Arrays:
    """Scale all gradients down together to a 2-norm of at most max_norm: Pascanu et al., 2013."""
    nothing = gradients[0].dtype.type(0)  # not Python's 0, which numpy 1 would make a float64 of
    norm = np.sqrt(sum((np.square(gradient).sum() for gradient in gradients), start=nothing))
    if norm <= max_norm:
        return gradients
    return [gradient * (gradient.dtype.type(max_norm) / norm) for gradient in gradients]


def adam(
    weight: npt.NDArray, gradient: npt.NDArray, moments: Arrays, updates: int, lr: float
) -> tuple[npt.NDArray, Arrays]:
    """Do update number `updates` of Adam, Kingma and Ba, 2015, algorithm 1, with its defaults.

    m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps).
    """
    real = weight.dtype.type
    beta1, beta2, eps = 0.9, 0.999, 1e-8
    m = real(beta1) * moments[0] + real(1 - beta1) * gradient
    v = real(beta2) * moments[1] + real(1 - beta2) * gradient * gradient
    deviation = np.sqrt(v / real(1 - beta2**updates)) + real(eps)
    return weight - real(lr) * (m / real(1 - beta1**updates) / deviation), [m, v]


def sgd(
    weight: npt.NDArray, gradient: npt.NDArray, moments: Arrays, updates: int, lr: float
) -> tuple[npt.NDArray, Arrays]:
    """Do an update with a momentum of 0.9: velocity = 0.9 velocity + g; w - lr velocity: Sutskever et al., 2013."""
    velocity = weight.dtype.type(0.9) * moments[0] + gradient
    return weight - weight.dtype.type(lr) * velocity, [velocity]
