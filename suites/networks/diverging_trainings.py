"""Trainings that part from each other, for `precreg divergence`: by another order, by lost precision, by a fault.

Each function yields its weights with the loss and the batch that gave them, first those before any update, and goes on
with the weights that come back. So precreg can change their last bits, cast them, or give them to a simulated device.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt
from networks.adam import Order, Rule, Weight, update
from networks.adam_training import loss_and_gradients

Weights = dict[str, npt.NDArray[Any]]
Training = Generator[tuple[Weights, Any, Any] | Weights, Weights, None]


def adam(
    *,
    seed: int = 0,
    steps: int = 60,
    order: Order = "standard",
    lr: float = 5e-3,
    shuffle: int = 0,
    nudge: int = 0,
    reverse: bool = False,
    truncate: bool = False,
    fault_at: int = 0,
) -> Training:
    """Train the two layers of networks/adam_training.py on 8 batches in turn.

    `shuffle` is the seed of another order of the batches, `nudge` that of last-bit changes to the initial weights; 0
    leaves both alone. `reverse` adds the products of the first layer in the other order. `truncate` takes the last bit
    off half of the weights after each step. From step `fault_at` on the second layer's gradient is 0.1 % too large; 0
    is never.
    """
    x, layers = inputs(seed)
    rule = Rule(lr, 0.9, 0.999, 1e-8, order)
    batches = np.arange(len(x)) if not shuffle else np.random.default_rng(shuffle).permutation(len(x))
    start = {name: layer.w for name, layer in layers.items()}
    weights = yield start if not nudge else {name: nudged(w, nudge) for name, w in start.items()}
    # In the dtype of the weights that came back.
    x = x.astype(weights["layer1"].dtype)
    layers = {name: Weight(w, np.zeros_like(w), np.zeros_like(w)) for name, w in weights.items()}
    for step in range(1, steps + 1):
        batch = x[batches[(step - 1) % len(x)]]
        loss, *gradients = gradients_of(batch, weights, reverse=reverse)
        if fault_at and step >= fault_at:
            gradients[1] = gradients[1] * gradients[1].dtype.type(1.001)
        for name, gradient in zip(layers, gradients, strict=True):
            weight = layers[name]._replace(w=weights[name])
            layers[name] = update(weight, gradient.astype(weight.w.dtype), rule, step)
        after = {name: layer.w for name, layer in layers.items()}
        weights = yield {name: truncated(w, step) for name, w in after.items()} if truncate else after, loss, batch


def gradients_of(batch: npt.NDArray, weights: Weights, *, reverse: bool) -> tuple[Any, npt.NDArray, npt.NDArray]:
    """Give the loss and both gradients; `reverse` exchanges the order of the inputs, and so that of the sums."""
    target = np.abs(batch[:, :8])
    if not reverse:
        return loss_and_gradients(batch, target, weights["layer1"], weights["layer2"])
    loss, first, second = loss_and_gradients(batch[:, ::-1], target, weights["layer1"][::-1], weights["layer2"])
    return loss, first[::-1], second


def nudged(w: npt.NDArray, seed: int) -> npt.NDArray:
    """Move one in a hundred weights to its next number."""
    chosen = np.random.default_rng(seed).random(w.shape) < 0.01
    return np.where(chosen, np.nextafter(w, w.dtype.type(np.inf)), w)


def truncated(w: npt.NDArray, step: int) -> npt.NDArray:
    """Move half of the weights by one ULP toward zero, as rounding toward zero does."""
    return np.where(np.random.default_rng(step).random(w.shape) < 0.5, np.nextafter(w, w.dtype.type(0)), w)


def half_gradients(
    *,
    seed: int = 0,
    steps: int = 60,
    lr: float = 0.05,
    scale: float = 1.0,
    narrow: str = "float16",
    shrink: float = 1e-6,
) -> Training:
    """Train by gradient descent on float32 weights with gradients that pass through float16, times a loss scale.

    The loss is `shrink` times the mean squared error, and the rate larger by as much: so small gradients underflow
    without a scale. narrow=float32 keeps the gradients.
    """
    x, layers = inputs(seed)
    weights = yield {name: layer.w for name, layer in layers.items()}
    for step in range(1, steps + 1):
        batch = x[(step - 1) % len(x)]
        loss, *gradients = loss_and_gradients(batch, np.abs(batch[:, :8]), weights["layer1"], weights["layer2"])
        stepped = {}
        for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
            real = weight.dtype.type
            stored = (gradient * real(shrink) * real(scale)).astype(narrow).astype(weight.dtype) / real(scale)
            stepped[name] = weight - real(lr / shrink) * stored
        weights = yield stepped, loss * loss.dtype.type(shrink), batch


def inputs(seed: int) -> tuple[npt.NDArray[np.float32], dict[str, Weight]]:
    """Draw 8 batches of 16 inputs, and two layers of 32 x 96 and 96 x 8 weights without moments."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((8, 16, 32)).astype(np.float32)
    shapes = {"layer1": ((32, 96), 0.25), "layer2": ((96, 8), 0.15)}
    layers = {}
    for name, (shape, deviation) in shapes.items():
        w = (generator.standard_normal(shape) * deviation).astype(np.float32)
        layers[name] = Weight(w, np.zeros_like(w), np.zeros_like(w))
    return x, layers
