"""How often is the verdict of `precreg divergence` wrong, over many seeds?

`python benchmarks/divergence_study.py [SEEDS]` compares pairs of trainings whose divergence is chaos by construction
(another order of operations, a last-bit change) and pairs that lose precision, and counts the verdicts. Each seed has
its own data and initial weights. Each seed takes about 5 s.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from precreg import __version__
from precreg.run import find_model
from precreg.training.divergence import DivergenceRequest, TrainingSource, compare_trainings

SUITES = Path(__file__).resolve().parent.parent / "suites"


class Pair(NamedTuple):
    """Two runs that differ in the settings of the second one, and the verdict that is right."""

    training: str
    common: dict[str, Any]
    other: dict[str, Any]
    expected: str
    device: str | None = None


PAIRS = {
    "swapped order of Adam": Pair("adam", {}, {"order": "swapped"}, "chaos"),
    "last-bit change at the start": Pair("adam", {}, {"nudge": 7}, "chaos"),
    "sums in the other order": Pair("adam", {}, {"reverse": True}, "chaos"),
    "the same at a large rate": Pair("adam", {"lr": 0.03}, {"reverse": True}, "chaos"),
    "the same run": Pair("adam", {}, {}, "identical"),
    "20 bits, truncated": Pair("adam", {"steps": 30}, {}, "loss", "mlu370"),
    "last bit truncated": Pair("adam", {}, {"truncate": True}, "loss"),
    "0.1 % fault at step 30": Pair("adam", {}, {"fault_at": 30}, "loss"),
    "float16 gradients, no scale": Pair("half_gradients", {}, {"narrow": "float16"}, "loss"),
    "float16 gradients, scale 2^20": Pair("half_gradients", {}, {"narrow": "float16", "scale": 2.0**20}, "loss"),
}


def source(training: str, params: dict[str, Any], device: str | None = None) -> TrainingSource:
    """Return one of the shipped trainings with its settings."""
    found = find_model(f"networks.diverging_trainings:{training}", SUITES)
    return TrainingSource(training, found.target, found.directory, found.project, params, device)


def verdict(pair: Pair, seed: int) -> tuple[str, str]:
    """Compare the two runs of a pair with one seed."""
    common = {"seed": seed, **pair.common}
    if pair.training == "half_gradients":
        common["narrow"] = "float32"
    first = source(pair.training, common)
    second = source(pair.training, {**common, **pair.other}, pair.device)
    record = compare_trainings(DivergenceRequest(first, second), __version__, lambda _name: None)
    return record.verdict, record.reason


def study(seeds: int) -> dict[str, Counter[tuple[str, str]]]:
    """Count the verdicts of every pair over seeds 0 to seeds - 1."""
    return {name: Counter(verdict(pair, seed) for seed in range(seeds)) for name, pair in PAIRS.items()}


def main(seeds: int) -> None:
    """Print a table of verdicts, and the numbers of wrong ones."""
    started = perf_counter()
    false_losses = missed = chaotic = losing = 0
    for name, counts in study(seeds).items():
        shown = ", ".join(f"{count} {'/'.join(kind)}" for kind, count in counts.most_common())
        print(f"{name:32} expected {PAIRS[name].expected:10} {shown}")
        by_verdict: Counter[str] = Counter()
        for (kind, _), count in counts.items():
            by_verdict[kind] += count
        if PAIRS[name].expected == "loss":
            losing, missed = losing + seeds, missed + by_verdict["chaos"]
        else:
            chaotic, false_losses = chaotic + seeds, false_losses + by_verdict["loss"]
    print(f"losses called chaos: {missed} of {losing}; chaos called loss: {false_losses} of {chaotic}")
    print(f"{perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
