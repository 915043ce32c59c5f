"""Print the processor time of the core alone, in milliseconds for 50 million pairs, beside that of another version.

The rows are those of the table in docs/measure-cost.md. One thread measures. Each round starts a process for each
version in turn; the medians of the rounds are printed.

Usage: python benchmarks/measure_core.py [--python BEFORE/.venv/bin/python] [--elements N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from measuring.data import Pair, draw, shaped

PAIRS = 50_000_000
Times = dict[str, float]


def pairs(n: int) -> Iterator[tuple[str, Pair]]:
    """Yield the rows: errors are up to eight ULPs of float32, or none."""
    single, mixed = draw("ordinary", n, "float32"), draw("ordinary", n, "float64")
    zeros = Pair(single.actual.copy(), single.reference.copy())
    half = np.random.default_rng(n).random(n) < 0.5
    zeros.actual[half] = zeros.reference[half] = 0
    exact = draw("identical", n, "float64").reference
    yield "float32, one dimension", single
    yield "float32, two dimensions", shaped(single, 2)
    yield "float32, half of the pairs zero", zeros
    yield "float32 and references of float64, one dimension", mixed
    yield "float32 and references of float64, two dimensions", shaped(mixed, 2)
    yield "float64 on both sides", Pair(mixed.actual.astype(np.float64), mixed.reference)
    yield "float32, bit-identical", draw("identical", n, "float32")
    yield "float64, bit-identical", Pair(exact, exact.copy())


def times(n: int) -> Times:
    """Return the processor time of one measurement of each row, after one that is not timed."""
    from precreg.measure.native import tally_native
    from precreg.measure.tally import MeasureRules

    found: Times = {}
    for name, pair in pairs(n):
        shape, rules = pair.actual.shape, MeasureRules(1e-3, 1e-5, 100)
        for _ in range(2):
            begun = process_time()
            tally_native(*pair, 0, shape, rules)
            found[name] = (process_time() - begun) * 1e3 * PAIRS / pair.actual.size
    return found


def measured(python: str, n: int) -> Times:
    """Return the times of a process of that interpreter, with the package that is installed there."""
    command = [python, str(Path(__file__)), "--child", "--elements", str(n)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


def main() -> None:
    """Print a row for each kind of pairs, and a column for each version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter of the version before")
    parser.add_argument("--elements", type=int, default=4_000_000, help="pairs to measure (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="processes for each version (default: %(default)s)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(times(asked.elements)))
        return
    versions = {"before": asked.python, "now": sys.executable} if asked.python else {"now": sys.executable}
    rounds = [
        {name: measured(python, asked.elements) for name, python in versions.items()} for _ in range(asked.rounds)
    ]
    print(f"| pairs | {' | '.join(versions)} |\n|---|{'---|' * len(versions)}")
    for row in rounds[0]["now"]:
        cells = (f"{median(one[name][row] for one in rounds):.0f}" for name in versions)
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
