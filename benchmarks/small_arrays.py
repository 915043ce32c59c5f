"""Time a comparison of small arrays through the public call, beside numpy's, in one run.

Each round times every call in turn, in processor time, so that other work on the machine disturbs them equally. Columns
are microseconds, and medians over the rounds of the ratio to the peer of the goal: np.testing.assert_allclose up to
1,000 elements, np.allclose above. `compare` leaves the figures in the core; `and metrics` reads them, which makes all
fields. `at once` is compare_arrays, which makes them before it returns. Results are checked before anything is timed.
With --before CHECKOUT, a checkout of an earlier commit with its cores built, the same calls are timed there, in
processes that take turns with this checkout's.
Usage: python benchmarks/small_arrays.py [--rounds N] [--sizes N ...] [--before CHECKOUT]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
FEW = 1000
RTOL, ATOL = 1e-5, 1e-8
PEERS = ("np.testing.assert_allclose", "np.allclose")
OURS = ("compare", "and metrics", "at once")
Times = dict[int, dict[str, float]]


def calls_on(n: int) -> dict[str, Callable[[], object]]:
    """Return the timed calls on n pairs of float32, which match; raise SystemExit if the results do not agree."""
    import numpy as np

    import precreg
    from precreg.measure import compare_arrays

    generator = np.random.default_rng(n)
    exact = generator.standard_normal(n)
    pair = (exact * (1 + generator.uniform(-1e-6, 1e-6, n))).astype(np.float32), exact.astype(np.float32)
    limits = {"rtol": RTOL, "atol": ATOL}
    found, eager = precreg.compare(*pair, **limits), compare_arrays(*pair, **limits)
    largest = float(np.abs(pair[0].astype(np.float64) - pair[1]).max())
    if found != eager or found.metrics["max_abs_error"] != largest or found.metrics["match_ratio"] != 1.0:
        raise SystemExit(f"{n} elements: the results do not agree")
    return {
        "compare": lambda: precreg.compare(*pair, **limits),
        "and metrics": lambda: precreg.compare(*pair, **limits).metrics,
        "at once": lambda: compare_arrays(*pair, **limits),
        "np.allclose": lambda: np.allclose(*pair, **limits),
        "np.testing.assert_allclose": lambda: np.testing.assert_allclose(*pair, **limits),
    }


def seconds(call: Callable[[], object], window: float) -> float:
    """Return the processor time of one call, over as many calls as fill a window of so many seconds."""
    call()  # the first one imports and fills caches
    count, begun = 0, process_time()
    while (taken := process_time() - begun) < window or not count:
        call()
        count += 1
    return taken / count


def one_round(sizes: list[int], window: float) -> Times:
    """Time each call once, at each size."""
    return {n: {name: seconds(call, window) for name, call in calls_on(n).items()} for n in sizes}


def round_in(checkout: Path) -> Times:
    """Run one round in a process of its own, on the package of a checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--child"]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: the calls failed\n{done.stderr}")
    found = json.loads(done.stdout)
    if not Path(found["package"]).is_relative_to(checkout):
        raise SystemExit(f"expected the package of {checkout} but got {found['package']}")
    return {int(n): times for n, times in found["times"].items()}


def print_table(label: str, rounds: list[Times]) -> None:
    """Print microseconds, and ratios to the peer of the goal."""
    print(f"\n{label}: microseconds of processor time, and the ratio to the peer of the goal (1.00)")
    print(f"{'elements':>10}", *(f"{name:>22}" for name in OURS), *(f"{name:>28}" for name in PEERS))
    for n in rounds[0]:
        peer = PEERS[0] if n <= FEW else PEERS[1]
        cells = []
        for name in OURS:
            ratio = median(times[n][name] / times[n][peer] for times in rounds)
            cells.append(f"{median(times[n][name] for times in rounds) * 1e6:15.1f} {ratio:6.2f}")
        peers = (f"{median(times[n][name] for times in rounds) * 1e6:28.1f}" for name in PEERS)
        print(f"{n:10,}", *cells, *peers)


def main() -> None:
    """Print a table for this checkout, and one for the earlier one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="samples of each call (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="elements (default: %(default)s)")
    parser.add_argument("--window", type=float, default=0.04, help="seconds of a sample (default: %(default)s)")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        import precreg

        print(json.dumps({"package": precreg.__file__, "times": one_round(given.sizes, given.window)}))
        return
    checkouts = {"now": Path(__file__).resolve().parents[1]}
    if given.before is not None:
        checkouts = {"before": given.before.resolve(), **checkouts}
    rounds: dict[str, list[Times]] = {label: [] for label in checkouts}
    for _ in range(given.rounds):
        for label, checkout in checkouts.items():
            rounds[label].append(round_in(checkout))
    for label, times in rounds.items():
        print_table(label, times)


if __name__ == "__main__":
    main()
