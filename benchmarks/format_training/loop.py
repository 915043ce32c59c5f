"""Which figures does one training end with? Adam's loop in an arithmetic, and losses of the trained weights.

The final weights are judged in float32, whatever they were trained in: the study measures training, not inference.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.format_training.arithmetic import Arithmetic
from benchmarks.format_training.tasks import Data, Task

# An epsilon of 1e-8 would be as large as the small gradients of one task, and the study would measure it.
BETAS, EPS = (0.9, 0.999), 1e-12
# Of torch's GradScaler it is 2000; these trainings have 400 to 640 steps.
GROWTH_INTERVAL = 100
EXACT = Arithmetic("float32")
# Steps between checkpoints of the losses.
CHECKPOINT = 20


class Result(NamedTuple):
    """The losses and the share of right answers of trained weights; steps that an overflow cost."""

    training_loss: float
    held_loss: float
    held_accuracy: float
    skipped: int
    # (training loss, held-out loss) at every CHECKPOINT steps, if they were wanted.
    curve: tuple[tuple[float, float], ...] = ()


def train(task: Task, arithmetic: Arithmetic, seed: int, *, last_bit: bool = False, has_curve: bool = False) -> Result:
    """Train from a seed. Data, first weights and the order of examples are those of the seed in every arithmetic.

    `last_bit` moves one weight by one ULP: the difference that chaos alone makes.
    """
    generator = torch.Generator().manual_seed(seed)
    data = task.data(generator)
    torch.manual_seed(seed)
    network = task.network()
    parameters = list(network.parameters())
    if last_bit:
        with torch.no_grad():
            first = parameters[0].view(-1)
            first[0] = torch.nextafter(first[0], torch.tensor(math.inf))
    optimizer = Adam(parameters, arithmetic, task.rate)
    curve = []
    for step in range(task.steps):
        if has_curve and step % CHECKPOINT == 0:
            curve.append(_losses(network, data))
        picked = torch.randint(len(data.inputs), (task.batch,), generator=generator)
        logits = arithmetic.keep(network(data.inputs[picked], arithmetic))
        loss = functional.cross_entropy(logits, data.targets[picked].flatten())
        (loss * (task.share * optimizer.scale)).backward()
        optimizer.step()
    losses = _losses(network, data)
    accuracy = _figures(network, data.held_inputs, data.held_targets)[1]
    return Result(*losses, accuracy, optimizer.skipped, (*curve, losses) if has_curve else ())


def _losses(network: nn.Module, data: Data) -> tuple[float, float]:
    """Return the training loss and the held-out loss of the present weights."""
    held = _figures(network, data.held_inputs, data.held_targets)[0]
    return _figures(network, data.inputs, data.targets)[0], held


@torch.no_grad()
def _figures(network: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
    logits = network(inputs, EXACT)
    targets = targets.flatten()
    right = (logits.argmax(-1) == targets).double().mean()
    return float(functional.cross_entropy(logits, targets)), float(right)


class Adam:
    """Adam (Kingma and Ba, 2015) whose weights and state rest in a format, with a dynamic loss scale."""

    def __init__(self, parameters: list[nn.Parameter], arithmetic: Arithmetic, rate: float) -> None:
        self.parameters, self.rate = parameters, rate
        self.rest = arithmetic.weights.round
        self.is_dynamic = arithmetic.loss_scale is not None
        self.scale = arithmetic.loss_scale or 1.0
        self.steps = self.good = self.skipped = 0
        with torch.no_grad():
            for parameter in parameters:
                parameter.copy_(self.rest(parameter))
        self.moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights, or skip the step if a scaled gradient overflowed and the scale is dynamic."""
        gradients = [each.grad / self.scale for each in self.parameters if each.grad is not None]
        for parameter in self.parameters:
            parameter.grad = None
        if self.is_dynamic and not all(bool(torch.isfinite(each).all()) for each in gradients):
            self.scale, self.good, self.skipped = self.scale / 2, 0, self.skipped + 1
            return
        self.good += 1
        if self.is_dynamic and self.good % GROWTH_INTERVAL == 0:
            self.scale *= 2
        self.steps += 1
        rate = self.rate * math.sqrt(1 - BETAS[1] ** self.steps) / (1 - BETAS[0] ** self.steps)
        for parameter, moments, gradient in zip(self.parameters, self.moments, gradients, strict=True):
            self._update(parameter, moments, gradient, rate)

    def _update(self, parameter: Tensor, moments: tuple[Tensor, Tensor], gradient: Tensor, rate: float) -> None:
        m, v = moments
        m.copy_(self.rest(BETAS[0] * m + (1 - BETAS[0]) * gradient))
        v.copy_(self.rest(BETAS[1] * v + (1 - BETAS[1]) * gradient * gradient))
        parameter.copy_(self.rest(parameter - rate * (m / (v.sqrt() + EPS))))
