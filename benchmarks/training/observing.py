"""How much time does an observer of a training cost: sampled steps, and the steps between them?

`python -m benchmarks.training.observing` prints a table for a perceptron, a residual network and a transformer, each
trained with AdamW in float32 and, for the perceptron, in bfloat16. Steps without an observer, sampled steps and steps
between samples alternate, so that other programs disturb all of them alike. The last column is the time that an
observer adds to all steps if it samples every tenth.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

import precreg

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "suites"))

from networks.gpt import Gpt
from networks.resnet import ResNet
from networks.seeded import initialized
from networks.transformer import Sizes

from benchmarks.shadow.faulty import Logits

EVERY = 10


class Case(NamedTuple):
    """Hold a network, and the function that computes its loss on inputs of its own."""

    model: Any
    loss: Callable[[], Any]


class Times(NamedTuple):
    """Hold the median seconds of a step without an observer, of a sampled one, and of one between samples."""

    plain: float
    sampled: float
    between: float

    @property
    def added(self) -> float:
        """The share of time that an observer adds if it samples every EVERY-th step."""
        return ((self.sampled - self.plain) + (EVERY - 1) * (self.between - self.plain)) / (EVERY * self.plain)


def perceptron(dtype: Any, width: int, batch: int) -> Case:
    """Return a perceptron of three layers."""
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    model = model.to(dtype)
    inputs = torch.randn(batch, width, dtype=dtype)
    return Case(model, lambda: model(inputs).square().mean())


def residual(size: int, batch: int) -> Case:
    """Return ResNet-50 with 10 classes on small images."""
    with torch.device("meta"):
        model = ResNet(10)
    model = initialized(model)
    images = torch.randn(batch, 3, size, size)
    return Case(model, lambda: model(images)["logits"].square().mean())


def transformer(width: int, blocks: int, batch: int) -> Case:
    """Return a decoder."""
    with torch.device("meta"):
        model = Gpt(Sizes(512, 64, width, 4, blocks))
    model = Logits(initialized(model))
    tokens = torch.randint(0, 512, (batch, 64))
    return Case(model, lambda: model(tokens).square().mean())


def cases(is_small: bool) -> dict[str, Callable[[], Case]]:
    """Return the rows of the table."""
    width, batch = (64, 8) if is_small else (512, 256)
    return {
        "perceptron, float32": lambda: perceptron(torch.float32, width, batch),
        "perceptron, bfloat16": lambda: perceptron(torch.bfloat16, width, batch),
        "ResNet-50": lambda: residual(32 if is_small else 64, 2 if is_small else 8),
        "transformer": lambda: transformer(64 if is_small else 256, 2 if is_small else 4, 2 if is_small else 8),
    }


def measure(case: Case, steps: int) -> Times:
    """Return the medians over alternating steps."""
    case.model.train().requires_grad_(True)
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        case.loss().backward()
        optimizer.step()

    found: list[list[float]] = [[], [], []]
    step()
    for _ in range(steps):
        found[0].append(_timed(step))
        # The first of two steps is sampled.
        with precreg.observe(case.model, optimizer, every=2):
            found[1].append(_timed(step))
            found[2].append(_timed(step))
    return Times(*map(median, found))


def _timed(step: Callable[[], None]) -> float:
    started = perf_counter()
    step()
    return perf_counter() - started


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="", help="Rows whose name contains it.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| network | step | sampled | between samples | added by every=10 |\n|---|---|---|---|---|")
    for name, make in cases(given.small).items():
        if given.only in name:
            times = measure(make(), given.steps)
            sampled, between = times.sampled / times.plain, times.between / times.plain
            print(
                f"| {name} | {1000 * times.plain:.0f} ms | {sampled:.2f} times | {between:.2f} times "
                f"| {100 * times.added:.1f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
