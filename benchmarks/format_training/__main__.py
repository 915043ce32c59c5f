"""Train three networks in seven formats over many seeds, and print how they differ from float32.

Usage: python -m benchmarks.format_training [--seeds 12] [--tasks perceptron ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.format_training.arithmetic import ARITHMETICS
from benchmarks.format_training.comparison import Difference, difference, held_loss_at, holm
from benchmarks.format_training.loop import Result, train
from benchmarks.format_training.tasks import TASKS

# Beside the formats: float32 with one weight moved by one ULP. It shows the differences of chaos alone.
LAST_BIT = "float32, last bit"
FIGURES = ("training_loss", "held_loss", "held_accuracy")

Results = dict[tuple[str, str], list[Result]]


def main() -> int:
    """Run all trainings, print the tables, and store every figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--tasks", nargs="*", choices=sorted(TASKS), default=list(TASKS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: Results = {}
    for task in options.tasks:
        for name in (*ARITHMETICS, LAST_BIT):
            results[task, name] = run_seeds(task, name, options.seeds)
        print_task(task, results)
    print_regularisation(options.tasks, results)
    if options.json:
        stored = {"/".join(key): [each._asdict() for each in value] for key, value in results.items()}
        options.json.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return 0


def run_seeds(task: str, name: str, seeds: int) -> list[Result]:
    """Train once for each seed, and print the time to stderr."""
    started = time.perf_counter()
    arithmetic = ARITHMETICS.get(name, ARITHMETICS["float32"])
    found = [
        train(TASKS[task], arithmetic, seed, last_bit=name == LAST_BIT, has_curve=name == "float32")
        for seed in range(seeds)
    ]
    print(f"{task} {name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return found


def print_task(task: str, results: Results) -> None:
    """Print a table: each format's figures, and their differences from float32."""
    base = results[task, "float32"]
    print(f"\n{task}: mean over {len(base)} seeds; differences from float32 with 95 % confidence intervals\n")
    print("| format | training loss | held-out loss | held-out accuracy | skipped steps |")
    print("|---|---|---|---|---|")
    for name in (*ARITHMETICS, LAST_BIT):
        ours = results[task, name]
        cells = [_cell(_column(ours, figure), _column(base, figure), name) for figure in FIGURES]
        print(f"| {name} | {' | '.join(cells)} | {sum(each.skipped for each in ours)} |")


def print_regularisation(tasks: Sequence[str], results: Results) -> None:
    """Test for each narrow format and task that the held-out loss is below float32's, and where it is, why."""
    narrow = [(task, name) for task in tasks for name in ARITHMETICS if name != "float32"]
    at_end = [_held_loss_difference(results, *pair) for pair in narrow]
    stopped = [_held_loss_difference(results, *pair, is_stopped=True) for pair in narrow]
    print(
        f"\nHeld-out loss minus float32's, {len(narrow)} formats and tasks; * is below 0 at 5 % by Holm's procedure\n"
    )
    print("| task | format | at the end | float32 stopped at the same training loss |")
    print("|---|---|---|---|")
    marks = (holm([each.p_below for each in at_end]), holm([each.p_below for each in stopped]))
    for index, (task, name) in enumerate(narrow):
        cells = [
            _interval(tests[index]) + " *" * mark[index] for tests, mark in zip((at_end, stopped), marks, strict=True)
        ]
        print(f"| {task} | {name} | {cells[0]} | {cells[1]} |")


def _held_loss_difference(results: Results, task: str, name: str, *, is_stopped: bool = False) -> Difference:
    """Compare held-out losses with float32's: at the end, or at the step where float32 had the same training loss."""
    ours, base = results[task, name], results[task, "float32"]
    theirs = _column(base, "held_loss")
    if is_stopped:
        theirs = [held_loss_at(b.curve, a.training_loss) for a, b in zip(ours, base, strict=True)]
    return difference(_column(ours, "held_loss"), theirs)


def _interval(found: Difference) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _column(results: Sequence[Result], figure: str) -> list[float]:
    return [getattr(each, figure) for each in results]


def _cell(ours: list[float], base: list[float], name: str) -> str:
    mean = sum(ours) / len(ours)
    if name == "float32":
        return f"{mean:.4f}"
    return f"{mean:.4f} ({_interval(difference(ours, base))})"


if __name__ == "__main__":
    sys.exit(main())
