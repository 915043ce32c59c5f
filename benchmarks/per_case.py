"""Measure the cost of a case in one run: 1,000 tiny cases through `precreg run` against 1,000 pytest tests.

The tests of the goal do nothing. Those beside them do the work of a case: at each seed they draw 16 float32, compute
twice, and compare. All run as whole processes. The cost of a case is the difference between 1,000 and 100 cases, so
that start-up does not count on either side; the ratio with start-up stands beside it. The figures are processor times
of all processes, because other work on the machine disturbs these least. Ratios are medians over rounds.
A run measures every case with `--no-cache`; without it, it takes the outcomes of the run before.
Goal: at most 0.3 of a test that does nothing.
Usage: python benchmarks/per_case.py [ROUNDS]
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from measuring.cases import FEW, MANY, Samples, heading, median_ratio, require_success, run_command

KERNEL = "def double(x, k):\n    return x + x\n\n\ndef exact(x, k):\n    return x + x\n"
NOTHING = """\
import pytest


@pytest.mark.parametrize("k", range({cases}))
def test_tiny(k):
    assert k + k == 2 * k
"""
SAME_WORK = """\
import numpy as np
import pytest
from tiny_kernel import double, exact


@pytest.mark.parametrize("k", range({cases}))
def test_tiny(k):
    for seed in range({seeds}):
        x = np.random.default_rng(seed).standard_normal(16).astype(np.float32)
        np.testing.assert_allclose(double(x, k), exact(x.astype(np.float64), k), rtol=1e-6)
"""
SUITE = """\
suite: tiny
subject: tiny_kernel:double
reference: tiny_kernel:exact
matrix: {{k: {values}}}
params: {{k: $k}}
seeds: {seeds}
tolerance: {{rtol: 1e-6}}
inputs: {{x: {{shape: 16, dtype: float32, normal: {{}}}}}}
"""
# The names of a command's options by the name of its row; the first row is the one that the goal compares with.
TESTS = {"pytest, nothing": NOTHING, "pytest, same work": SAME_WORK}
RUNS = {"precreg run": ["--no-cache"], "precreg run --jobs 0": ["--no-cache", "--jobs", "0"], "precreg run, reused": []}
PRECREG = [sys.executable, "-m", "precreg"]


class Row(NamedTuple):
    """Identify a row of the table: the way of running, and the seeds of a case."""

    way: str
    seeds: int


ROWS = [Row("pytest, nothing", 1), *(Row(way, seeds) for seeds in (1, 5) for way in ("pytest, same work", *RUNS))]


def project(folder: Path, seeds: int, cases: int) -> Path:
    """Make a project of tiny cases with accepted baselines, and of tests that do nothing or the same."""
    unit = folder / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "tiny_kernel.py").write_text(KERNEL)
    (unit / "tiny.yaml").write_text(SUITE.format(values=json.dumps(list(range(cases))), seeds=seeds))
    for way, content in TESTS.items():
        tests = folder / "tests" / _name(way)
        tests.mkdir(parents=True)
        (tests / "tiny_kernel.py").write_text(KERNEL)
        (tests / "test_tiny.py").write_text(content.format(cases=cases, seeds=seeds))
    run_command([*PRECREG, "run"], folder)
    require_success(run_command([*PRECREG, "baseline", "accept", "*", "--reason", "benchmark"], folder))
    return folder


def _name(way: str) -> str:
    return way.rpartition(" ")[2]


def command(way: str) -> list[str]:
    """Return the command of a row."""
    if way in RUNS:
        return [*PRECREG, "run", *RUNS[way]]
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{_name(way)}"]


def main(rounds: int) -> None:
    """Run all rows in turn and print medians."""
    root = Path(tempfile.mkdtemp())
    try:
        sizes = [(seeds, cases) for seeds in (1, 5) for cases in (FEW, MANY)]
        folders = {size: project(root / "-".join(map(str, size)), *size) for size in sizes}
        taken: dict[tuple[Row, int], list[float]] = {(row, cases): [] for row in ROWS for cases in (FEW, MANY)}
        for _ in range(rounds):
            for row, cases in taken:
                # Every case must pass before anything is compared.
                taken[row, cases].append(require_success(run_command(command(row.way), folders[row.seeds, cases])))
    finally:
        shutil.rmtree(root)
    table({row: Samples(taken[row, FEW], taken[row, MANY]) for row in ROWS})


def table(samples: dict[Row, Samples]) -> None:
    """Print seconds, milliseconds a case, and ratios to tests that do nothing and to those that do the same."""
    print(f"{'':22} {'seeds':>5} {heading('nothing')} {'of same':>8} {'whole':>6}")
    nothing = samples[ROWS[0]]
    for row, each in samples.items():
        same = median_ratio(each.costs, samples[Row("pytest, same work", row.seeds)].costs)
        whole = median_ratio(each.many, nothing.many)
        print(f"{row.way:22} {row.seeds:5} {each.columns(nothing)} {same:8.2f} {whole:6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
