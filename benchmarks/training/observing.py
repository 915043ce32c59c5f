"""How much CPU time does an observer of a training cost: a sampled step, and all steps if every tenth is sampled?

`python -m benchmarks.training.observing` prints a table for a perceptron, a residual network and a transformer, each
trained with AdamW in float32 and, for the perceptron, in bfloat16. Blocks of ten steps with and without an observer
alternate in one process, and the time is that of the process, because the machine may be busy. The last columns are
the median over pairs of blocks of the time that an observer adds, and its confidence interval.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
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
ALPHA = 0.05
# The least number of blocks whose extremes bound the median at 95 %.
MIN_BLOCKS = 6


class Case(NamedTuple):
    """Hold a network, and the function that computes its loss on inputs of its own."""

    model: Any
    loss: Callable[[], Any]


class Costs(NamedTuple):
    """Hold the median CPU seconds of a plain step and of a sampled one, and the share that each block added."""

    plain: float
    sampled: float
    added: list[float]

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of the median share, at 95 % or above: two order statistics, without a model."""
        ordered, count = sorted(self.added), len(self.added)
        # The rank below which a binomial count with p = 1/2 falls in at most 2.5 % of cases.
        rank, below = 0, 0.5**count
        while below <= ALPHA / 2:
            rank += 1
            below += comb(count, rank) * 0.5**count
        first = max(rank - 1, 0)
        return ordered[first], ordered[-1 - first]


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


def measure(case: Case, seconds: float, elements: int) -> Costs:
    """Time pairs of blocks of EVERY steps, one of them observed, until `seconds` have passed."""
    case.model.train().requires_grad_(True)
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        case.loss().backward()
        optimizer.step()

    def observed() -> list[float]:
        with precreg.observe(case.model, optimizer, every=EVERY, elements=elements):
            return _timed_block(step)

    step()
    plain, sampled, added = list[float](), list[float](), list[float]()
    end = perf_counter() + seconds
    while len(added) < MIN_BLOCKS or perf_counter() < end:
        # The order alternates, so that a slow drift of the machine disturbs each kind equally.
        if len(added) % 2:
            seen, usual = observed(), _timed_block(step)
        else:
            usual, seen = _timed_block(step), observed()
        plain += usual
        sampled.append(seen[0])
        added.append(sum(seen) / sum(usual) - 1)
    return Costs(median(plain), median(sampled), added)


def _timed_block(step: Callable[[], None]) -> list[float]:
    """Return the CPU seconds of EVERY steps."""
    found = []
    for _ in range(EVERY):
        # Time of this process: other programs on the machine hardly change it.
        started = process_time()
        step()
        found.append(process_time() - started)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="Time of each row.")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--elements", type=int, default=65536, help="Measured elements of a tensor.")
    parser.add_argument("--only", default="", help="Rows whose name contains it.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| network | step | sampled | added by every=10 | 95 % interval | blocks |\n|---|---|---|---|---|---|")
    for name, make in cases(given.small).items():
        if given.only in name:
            costs = measure(make(), given.seconds, given.elements)
            low, high = costs.interval
            print(
                f"| {name} | {1000 * costs.plain:.1f} ms | {costs.sampled / costs.plain:.2f} times "
                f"| {100 * median(costs.added):.1f} % | {100 * low:.1f} to {100 * high:.1f} % | {len(costs.added)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
