"""Time two threads beside one, in wall time and in processor time, around the size from which precreg takes two.

Each round times both numbers of threads in turn, at each size. Columns are milliseconds, and the median over the rounds
of the ratio of two threads to one: below 1, two threads are faster. Run it on a quiet machine of two cores or more. It
takes half a minute. MIN_ELEMENTS_FOR_THREADS in precreg/measure/comparison.py should be the least size with a ratio of
wall time clearly below 1.
Usage: python benchmarks/threads.py [--rounds N] [--sizes N ...]
"""

from __future__ import annotations

import argparse
import os
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import precreg

SIZES = (1_100_000, 1_300_000, 1_500_000, 1_700_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000)
CALLS = 10
Pair = tuple[NDArray[Any], NDArray[Any]]
Times = tuple[float, float]


def pair_of(n: int) -> Pair:
    """Draw near pairs of float32; raise SystemExit if two threads give other metrics than one."""
    generator = np.random.default_rng(n)
    exact = generator.standard_normal(n)
    pair = (exact * (1 + generator.uniform(-1e-6, 1e-6, n))).astype(np.float32), exact.astype(np.float32)
    one, two = (precreg.compare(*pair, threads=threads) for threads in (1, 2))
    if one.metrics != two.metrics:
        raise SystemExit(f"{n} elements: two threads give other metrics than one")
    return pair


def seconds(pair: Pair, threads: int) -> Times:
    """Return the wall time and the processor time of one call."""
    wall, processor = perf_counter(), process_time()
    for _ in range(CALLS):
        precreg.compare(*pair, threads=threads)
    return (perf_counter() - wall) / CALLS, (process_time() - processor) / CALLS


def print_size(n: int, rounds: int) -> None:
    """Time both numbers of threads in turn, and print a line."""
    pair = pair_of(n)
    times = [(seconds(pair, 1), seconds(pair, 2)) for _ in range(rounds)]
    cells = []
    for clock in (0, 1):
        one, two = (median(turn[threads][clock] for turn in times) * 1e3 for threads in (0, 1))
        ratio = median(turn[1][clock] / turn[0][clock] for turn in times)
        cells.append(f"{one:12.2f} {two:12.2f} {ratio:6.2f}")
    print(f"{n:10,}", *cells, flush=True)


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="samples of each number (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="elements (default: %(default)s)")
    given = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; cores of the process: {len(os.sched_getaffinity(0))}")
    print("  elements   wall: one          two  ratio    cpu: one          two  ratio")
    for n in given.sizes:
        print_size(n, given.rounds)


if __name__ == "__main__":
    main()
