"""Measure the cost of a case in the pytest plugin: suites and checks against bare tests with assert_allclose.

All three do the same work: at each seed they draw 4 x 16 float32, compute a softmax of them in float32 and in float64,
and compare the two with one tolerance. A case has one seed, or the five seeds that suites have by default; tests then
loop over them. The cost of a case is the difference between 1,000 and 100 cases in whole processes of pytest, so that
start-up does not count: of collecting it, running it, and of its line in every report. The figures are processor times
of all processes, with pytest-xdist the workers' too, because other work on the machine disturbs these least. Ratios are
medians over rounds. Goal for suites: at most 1.5 times bare.
Usage: python benchmarks/pytest_overhead.py [ROUNDS [SEEDS ...]]
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

FEW, MANY = 100, 1000
SEEDS = (1, 5)
WAYS = {"one process": [], "-n 2": ["-n", "2"]}
KERNELS = """\
import numpy as np


def softmax(x, k):
    terms = np.exp((x - x.max(axis=-1, keepdims=True)) * x.dtype.type(k / 1000))
    return terms / terms.sum(axis=-1, keepdims=True)
"""
BARE = """\
import numpy as np
import pytest
from suites.unit.kernels import softmax


@pytest.mark.parametrize("k", range({cases}))
def test_softmax(k):
    for seed in range({seeds}):
        x = np.random.default_rng(seed).standard_normal((4, 16)).astype(np.float32)
        np.testing.assert_allclose(softmax(x, k), softmax(x.astype(np.float64), k), rtol=1e-5)
"""
CHECKS = """\
import numpy as np
import pytest
from suites.unit.kernels import softmax


@pytest.mark.parametrize("k", range({cases}))
def test_softmax(k, precision):
    precision.check(
        lambda x: softmax(x, k),
        reference=lambda x: softmax(x.astype(np.float64), k),
        inputs=lambda generator: {{"x": generator.standard_normal((4, 16)).astype(np.float32)}},
        seeds={seeds},
        rtol=1e-5,
    )
"""
SUITE = """\
suite: softmax
subject: kernels:softmax
reference: kernels:softmax
matrix: {{k: {values}}}
params: {{k: $k}}
seeds: {seeds}
tolerance: {{rtol: 1e-5}}
inputs: {{x: {{shape: [4, 16], dtype: float32, normal: {{}}}}}}
"""
CONTENTS = {"bare": BARE, "suite": SUITE, "precision.check": CHECKS}
PLACES = {"bare": "test_bare.py", "suite": "suites/unit/softmax.yaml", "precision.check": "test_checks.py"}


class Work(NamedTuple):
    """Identify what a project has: the kind of its cases, their seeds, and their number."""

    kind: str
    seeds: int
    cases: int


def project(folder: Path, work: Work) -> Path:
    """Make a project of bare tests, a suite or checks, and accept what its cases propose."""
    unit = folder / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "kernels.py").write_text(KERNELS)
    values = json.dumps(list(range(work.cases)))
    content = CONTENTS[work.kind].format(cases=work.cases, values=values, seeds=work.seeds)
    (folder / PLACES[work.kind]).write_text(content)
    (folder / "pytest.ini").write_text("[pytest]\nprecreg_suites = suites\npythonpath = .\n")
    pytest(folder)
    accept = [sys.executable, "-m", "precreg", "baseline", "accept", "*", "--reason", "benchmark"]
    subprocess.run(accept, cwd=folder, env=environment(), capture_output=True, check=work.kind != "bare")
    return folder


def environment() -> dict[str, str]:
    """Return the environment of a shell that is not CI, and keeps bytecode: to compile modules anew is all noise."""
    return {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}


def pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def seconds(folder: Path, cases: int, *arguments: str) -> float:
    """Return the processor time of one run, in which every case must pass."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = pytest(folder, *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or f"{cases} passed" not in done.stdout:
        raise SystemExit(f"expected {cases} cases to pass:\n{done.stdout[-2000:]}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(rounds: int, seeds: tuple[int, ...]) -> None:
    """Run everything in turn and print medians."""
    root = Path(tempfile.mkdtemp())
    try:
        works = [Work(kind, number, cases) for kind in CONTENTS for number in seeds for cases in (FEW, MANY)]
        folders = {work: project(root / "-".join(map(str, work)), work) for work in works}
        runs = [(way, work) for way in WAYS for work in works]
        samples: dict[tuple[str, Work], list[float]] = {run: [] for run in runs}
        for _ in range(rounds):
            for way, work in runs:
                samples[way, work].append(seconds(folders[work], work.cases, *WAYS[way]))
    finally:
        shutil.rmtree(root)
    table(samples, seeds)


def table(samples: dict[tuple[str, Work], list[float]], seeds: tuple[int, ...]) -> None:
    """Print milliseconds a case, and ratios to bare tests run in the same way."""
    print(f"{'':12} {'':16} {'seeds':>5} {f'{FEW} s':>8} {f'{MANY} s':>8} {'ms a case':>10} {'of bare':>8}")
    for way in WAYS:
        for number in seeds:
            costs = {kind: _costs(samples, way, kind, number) for kind in CONTENTS}
            for kind, cost in costs.items():
                few, many = (median(samples[way, Work(kind, number, cases)]) for cases in (FEW, MANY))
                ratio = median(mine / bare for mine, bare in zip(cost, costs["bare"], strict=True))
                case = median(cost) * 1e3
                print(f"{way:12} {kind:16} {number:5} {few:8.3f} {many:8.3f} {case:10.3f} {ratio:8.2f}")


def _costs(samples: dict[tuple[str, Work], list[float]], way: str, kind: str, seeds: int) -> list[float]:
    """Return the seconds of a case, round by round."""
    few, many = samples[way, Work(kind, seeds, FEW)], samples[way, Work(kind, seeds, MANY)]
    return [(large - small) / (MANY - FEW) for small, large in zip(few, many, strict=True)]


if __name__ == "__main__":
    given = [*map(int, sys.argv[1:])]
    main(given[0] if given else 5, tuple(given[1:]) or SEEDS)
