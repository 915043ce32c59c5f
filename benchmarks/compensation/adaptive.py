"""Does adaptive precision keep a network near float32 when its inputs change, and how many bits does it take?

ResNet-50 sees frames of pictures. In the middle third of them some pixels are far too bright. Fixed formats are
compared with layers that follow their errors (precreg.quantization.adapt), on the same frames.

Usage: python -m benchmarks.compensation.adaptive [--frames 60] [--budget 0.03] [--weights FOLDER]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.compensation.__main__ import flips, stored_or_trained
from benchmarks.compensation.networks import pictures
from precreg.quantization import adapt

BATCH = 20
# Bright pixels of a picture, and their brightness in standard deviations of the pictures.
PIXELS, BRIGHTNESS = 3, 60.0


class Way(NamedTuple):
    """A way to run the network: formats that follow errors, or one fixed format (a budget without an end)."""

    name: str
    formats: tuple[str, ...] = ()
    budget: float = 1e300


def main() -> int:
    """Print flips and errors in each third of the frames, and the mean bits of operands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--budget", type=float, default=0.03)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = stored_or_trained("ResNet-50", options.weights)
    frames = list(draw_frames(options.frames))
    exact, _, plain = run(model, frames, nullcontext())
    ways = [
        Way("int8", ("int8", "bfloat16")),
        Way("adaptive", ("int8", "bfloat16", "float32"), options.budget),
        Way("bfloat16", ("bfloat16", "float32")),
    ]
    print(f"{options.frames} batches of {BATCH} pictures, a budget of {options.budget} for each layer\n")
    print("| formats | flips, before | bright | after | error, before | bright | after | mean bits | changes | time |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for way in ways:
        every = options.every if way.name == "adaptive" else len(frames) + 1
        adaptive = adapt(model, budget=way.budget, formats=way.formats, every=every, patience=3)
        found, record, seconds = run(model, frames, adaptive)
        thirds = [slice(third * len(frames) // 3, (third + 1) * len(frames) // 3) for third in range(3)]
        cells = [f"{flips(found[part], exact[part]):.2%}" for part in thirds]
        cells += [f"{float((found[part] - exact[part]).norm() / exact[part].norm()):.4f}" for part in thirds]
        ups = sum(each.reason != "calm" for each in record.changes)
        cells += [f"{record.mean_bits:.1f}", f"{ups} up, {len(record.changes) - ups} down", f"{seconds / plain:.1f}"]
        print(f"| {way.name} | {' | '.join(cells)} |", flush=True)
    return 0


def draw_frames(count: int) -> Sequence[Tensor]:
    """Draw batches of pictures, those of the middle third with bright pixels."""
    generator = torch.Generator().manual_seed(5)
    frames = []
    for number in range(count):
        x, _ = pictures(BATCH, generator)
        if count // 3 <= number < 2 * count // 3:
            rows, columns = (torch.randint(x.shape[-1], (BATCH, PIXELS), generator=generator) for _ in range(2))
            x[torch.arange(BATCH)[:, None], :, rows, columns] = BRIGHTNESS
        frames.append(x)
    return frames


@torch.no_grad()
def run(model: nn.Module, frames: Sequence[Tensor], way: AbstractContextManager[Any]) -> tuple[Tensor, Any, float]:
    """Return the logits of all frames (frames, pictures, classes), the record of the way, and the seconds."""
    started = time.perf_counter()
    with way as adaptive:
        logits = torch.stack([model(frame)["logits"] for frame in frames]).double()
    return logits, adaptive and adaptive.record, time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
