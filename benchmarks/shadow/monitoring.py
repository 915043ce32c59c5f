"""How much time does a monitor cost: sampled steps, and the steps between them?

`python -m benchmarks.shadow.monitoring` prints a table for ResNet-50 and a transformer of 12 blocks, in inference and
in training. Steps without a monitor, steps of a monitor that does not sample, and sampled steps alternate, so that
other programs disturb all of them alike. `--memory STEPS` counts live tensors and the peak of memory instead, over
sampled steps of small networks: both stay the same.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

import precreg

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "suites"))

from networks.gpt import Gpt
from networks.resnet import ResNet
from networks.seeded import initialized
from networks.transformer import Sizes

from benchmarks.shadow import networks
from benchmarks.shadow.faulty import Logits

LAYERS = {"resnet50": ["layer4.*"], "transformer": ["model.blocks.*"]}
NEVER = 10**9


def make(network: str, is_small: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return a network, and its call on inputs of its own."""
    with torch.device("meta"):
        width = 64 if is_small else 256
        model = ResNet(100) if network == "resnet50" else Gpt(Sizes(512, 64, width, 4, 12))
    model = initialized(model)
    if network == "resnet50":
        images = torch.randn(2, 3, *[32 if is_small else 128] * 2)
        return model, lambda model: model(images)["logits"]
    tokens = torch.randint(0, 512, (4, 64))
    return Logits(model), lambda model: model(tokens)


def step_of(model: Any, call: Callable[[Any], Any], is_training: bool) -> Callable[[], None]:
    """Return one step of inference, or of training with AdamW."""
    if not is_training:

        def infer() -> None:
            with torch.no_grad():
                call(model)

        return infer
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def train() -> None:
        optimizer.zero_grad()
        call(model).square().mean().backward()
        optimizer.step()

    return train


def measure(network: str, is_training: bool, steps: int, is_small: bool) -> tuple[float, float, float]:
    """Return the median seconds of a step without a monitor, of one that is not sampled, and of a sampled one."""
    model, call = make(network, is_small)
    model.train(is_training).requires_grad_(is_training)
    step = step_of(model, call, is_training)
    plain: list[float] = []
    others: list[float] = []
    sampled: list[float] = []
    step()
    for _ in range(steps):
        plain.append(_timed(step))
        with precreg.monitor(model, LAYERS[network], every=NEVER):
            sampled.append(_timed(step))
            others.append(_timed(step))
    return median(plain), median(others), median(sampled)


def watch_memory(network: str, is_training: bool, steps: int) -> list[tuple[int, int, float]]:
    """Return the steps, the live tensors, and the growth of the peak of memory in MB, four times on the way."""
    model, call = make(network, is_small=True)
    model.train(is_training).requires_grad_(is_training)
    step = step_of(model, call, is_training)
    found = []
    with precreg.monitor(model, LAYERS[network], every=1):
        step()
        before = networks.resident_mb()
        for done in range(1, steps + 1):
            step()
            if done % (steps // 4) == 0:
                gc.collect()
                live = sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())
                found.append((done, live, networks.peak_mb() - before))
    return found


def _timed(step: Callable[[], None]) -> float:
    started = perf_counter()
    step()
    return perf_counter() - started


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--memory", type=int, metavar="STEPS")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.memory:
        print("| network | | after steps: live tensors, MB over the first step |\n|---|---|---|")
        for network in LAYERS:
            for is_training in (False, True):
                rows = watch_memory(network, is_training, given.memory)
                shown = "; ".join(f"{done}: {live}, {peak:.0f} MB" for done, live, peak in rows)
                print(f"| {network} | {'training' if is_training else 'inference'} | {shown} |", flush=True)
        return
    print("| network | | layers | plain ms | not sampled | sampled |\n|---|---|---|---|---|---|")
    for network, layers in LAYERS.items():
        for is_training in (False, True):
            plain, others, sampled = measure(network, is_training, given.steps, given.small)
            name = "training" if is_training else "inference"
            cells = (network, name, ", ".join(layers), f"{1e3 * plain:.0f}")
            print(f"| {' | '.join(cells)} | {others / plain:.3f} x | {sampled / plain:.1f} x |", flush=True)


if __name__ == "__main__":
    main()
