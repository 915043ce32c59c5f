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
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

FEW, MANY = 100, 1000
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
    subprocess.run([*PRECREG, "run"], cwd=folder, capture_output=True, check=False, env=environment())
    accept = [*PRECREG, "baseline", "accept", "*", "--reason", "benchmark"]
    subprocess.run(accept, cwd=folder, capture_output=True, check=True, env=environment())
    return folder


def _name(way: str) -> str:
    return way.rpartition(" ")[2]


def environment() -> dict[str, str]:
    """Return the environment of a shell that is not CI, and keeps bytecode: to compile modules anew is all noise."""
    return {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}


def command(way: str) -> list[str]:
    """Return the command of a row."""
    if way in RUNS:
        return [*PRECREG, "run", *RUNS[way]]
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{_name(way)}"]


def seconds(row: Row, folder: Path) -> float:
    """Return the processor time of one run, which must succeed: every case passes before anything is compared."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command(row.way), cwd=folder, check=True, capture_output=True, env=environment())
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(rounds: int) -> None:
    """Run all rows in turn and print medians."""
    root = Path(tempfile.mkdtemp())
    try:
        sizes = [(seeds, cases) for seeds in (1, 5) for cases in (FEW, MANY)]
        folders = {size: project(root / "-".join(map(str, size)), *size) for size in sizes}
        samples: dict[tuple[Row, int], list[float]] = {(row, cases): [] for row in ROWS for cases in (FEW, MANY)}
        for _ in range(rounds):
            for row, cases in samples:
                samples[row, cases].append(seconds(row, folders[row.seeds, cases]))
    finally:
        shutil.rmtree(root)
    table(samples)


def table(samples: dict[tuple[Row, int], list[float]]) -> None:
    """Print seconds, milliseconds a case, and ratios to tests that do nothing."""
    print(f"{'':22} {'seeds':>5} {f'{FEW} s':>8} {f'{MANY} s':>8} {'ms a case':>10} {'of nothing':>10} {'whole':>6}")
    for row in ROWS:
        case, whole = (median(each) for each in (_costs(samples, row), samples[row, MANY]))
        ratio, of_whole = (
            _ratio(_costs(samples, row), _costs(samples, ROWS[0])),
            _ratio(samples[row, MANY], samples[ROWS[0], MANY]),
        )
        few = median(samples[row, FEW])
        print(f"{row.way:22} {row.seeds:5} {few:8.3f} {whole:8.3f} {case * 1e3:10.3f} {ratio:10.2f} {of_whole:6.2f}")


def _costs(samples: dict[tuple[Row, int], list[float]], row: Row) -> list[float]:
    """Return the seconds of a case, round by round."""
    pairs = zip(samples[row, FEW], samples[row, MANY], strict=True)
    return [(many - few) / (MANY - FEW) for few, many in pairs]


def _ratio(these: list[float], those: list[float]) -> float:
    return median(mine / theirs for mine, theirs in zip(these, those, strict=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
