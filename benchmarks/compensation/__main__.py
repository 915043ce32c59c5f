"""Classify streams of pictures in 8, 16 and 20 bits, with carried errors and without, and count flipped classes.

A stream shows a picture ten times with a little noise. Classes are those of single frames, and of scores that are
averaged over the stream; they are compared with float32's on the same frames. Published for ResNet-152 in 8 bits: an
accuracy loss of 0.3 % without compensation and 0.05 % with it, for 1.9 % more time.

Usage: python -m benchmarks.compensation [NETWORK ...] [--pictures 2000] [--threads 1]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.compensation.arithmetic import SHARES, Arithmetic, FewBits, begin_stream, with_few_bits
from benchmarks.compensation.networks import NETWORKS, batches, trained

FRAMES, NOISE = 10, 0.02
BATCH = 50
ARITHMETICS = [
    Arithmetic(kind, is_compensated) for kind in ("int8", "int16", "20 bits") for is_compensated in (False, True)
]
# u = x - c, q(u) - u, two multiplications by shares, their sum.
OPERATIONS_OF_CARRYING = 5


class Scores(NamedTuple):
    """The logits of all frames (pictures, frames, classes), and the seconds of each batch."""

    logits: Tensor
    seconds: list[float]


def main() -> int:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=list(NETWORKS), help=", ".join(NETWORKS))
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--weights", type=Path, help="a folder that keeps trained weights for the next time")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.networks:
        model = stored_or_trained(name, options.weights)
        print_table(name, model, *classify(model, options.pictures))
    return 0


def stored_or_trained(name: str, folder: Path | None) -> nn.Module:
    """Read a network from the folder, or train it and store it there."""
    path = None if folder is None else folder / f"{name}.pt"
    if path is not None and path.exists():
        return torch.load(path, weights_only=False)
    started = time.perf_counter()
    model = trained(name)
    print(f"{name}: trained in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if path is not None:
        torch.save(model, path)
    return model


@torch.no_grad()
def classify(model: nn.Module, count: int) -> tuple[Tensor, Scores, dict[Arithmetic, Scores]]:
    """Return the true classes, float32's scores, and those of each arithmetic, all on the same frames.

    Arithmetics take turns batch by batch, and times are compared within a batch: a busy machine slows all of them.
    """
    variants = {arithmetic: with_few_bits(model, arithmetic) for arithmetic in ARITHMETICS}
    logits, seconds = defaultdict(list), defaultdict(list)
    classes, noise = [], torch.Generator().manual_seed(3)
    for x, truth in batches(count, BATCH):
        classes.append(truth)
        frames = [x + NOISE * torch.randn(x.shape, generator=noise) for _ in range(FRAMES)]
        for key, variant in [(None, model), *variants.items()]:
            begin_stream(variant)
            started = time.perf_counter()
            logits[key].append(torch.stack([variant(frame)["logits"] for frame in frames], 1))
            seconds[key].append(time.perf_counter() - started)
    print(f"{sum(map(len, classes))} pictures of {FRAMES} frames", file=sys.stderr)
    scores = {key: Scores(torch.cat(parts).double(), seconds[key]) for key, parts in logits.items()}
    return torch.cat(classes), scores.pop(None), scores


def print_table(name: str, model: nn.Module, classes: Tensor, exact: Scores, found: dict[Arithmetic, Scores]) -> None:
    """Print accuracies, flips and errors of frames and of streams, and the cost of carrying."""
    right = accuracy(exact.logits, classes), accuracy(exact.logits.mean(1), classes)
    print(
        f"\n{name}: {len(classes)} pictures; float32 is right for {right[0]:.2%} of frames, {right[1]:.2%} of streams"
    )
    print(f"carrying adds {extra_operations(model):.2%} of operations\n")
    print("| numbers | carried | flips, frames | streams | accuracy lost, frames | streams | error, streams | time |")
    print("|---|---|---|---|---|---|---|---|")
    for arithmetic, scores in found.items():
        plain = found[arithmetic._replace(is_compensated=False)]
        streams = scores.logits.mean(1)
        cells = [
            arithmetic.kind,
            "yes" if arithmetic.is_compensated else "no",
            f"{flips(scores.logits, exact.logits):.3%}",
            f"{flips(streams, exact.logits.mean(1)):.3%}",
            f"{right[0] - accuracy(scores.logits, classes):+.3%}",
            f"{right[1] - accuracy(streams, classes):+.3%}",
            f"{float((streams - exact.logits.mean(1)).abs().mean() / exact.logits.std()):.2e}",
            f"{median(a / b for a, b in zip(scores.seconds, plain.seconds, strict=True)):.3f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def accuracy(logits: Tensor, classes: Tensor) -> float:
    """Return the share of right classes, of logits (pictures, classes) or (pictures, frames, classes)."""
    truth = classes.view(-1, *[1] * (logits.ndim - 2))
    return float((logits.argmax(-1) == truth).double().mean())


def flips(logits: Tensor, exact: Tensor) -> float:
    """Return the share of best classes that differ."""
    return float((logits.argmax(-1) != exact.argmax(-1)).double().mean())


@torch.no_grad()
def extra_operations(model: nn.Module) -> float:
    """Return the operations that carrying adds as a share of those of products and of rounding inputs.

    A product takes 2 K an output, and an input is divided, rounded, and clipped twice.
    """
    counts = {"products": 0, "inputs": 0}

    def count(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        counts["products"] += 2 * output.numel() * layer.weight[0].numel()
        counts["inputs"] += inputs[0].numel()

    layers = [part for part in model.modules() if type(part) in SHARES and not isinstance(part, FewBits)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    model(next(batches(1, 1))[0])
    for handle in handles:
        handle.remove()
    return OPERATIONS_OF_CARRYING * counts["inputs"] / (counts["products"] + 4 * counts["inputs"])


if __name__ == "__main__":
    sys.exit(main())
