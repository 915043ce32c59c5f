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
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from measuring.cases import FEW, MANY, Finished, Samples, heading, require_success, run_command

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
    accepted = run_command(
        [sys.executable, "-m", "precreg", "baseline", "accept", "*", "--reason", "benchmark"], folder
    )
    if work.kind != "bare":
        require_success(accepted)
    return folder


def pytest(folder: Path, *arguments: str) -> Finished:
    """Run pytest in a project."""
    return run_command([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], folder)


def main(rounds: int, seeds: tuple[int, ...]) -> None:
    """Run everything in turn and print medians."""
    root = Path(tempfile.mkdtemp())
    try:
        works = [Work(kind, number, cases) for kind in CONTENTS for number in seeds for cases in (FEW, MANY)]
        folders = {work: project(root / "-".join(map(str, work)), work) for work in works}
        runs = [(way, work) for way in WAYS for work in works]
        taken: dict[tuple[str, Work], list[float]] = {run: [] for run in runs}
        for _ in range(rounds):
            for way, work in runs:
                # Every case must pass before anything is compared.
                seconds = require_success(pytest(folders[work], *WAYS[way]), f"{work.cases} passed")
                taken[way, work].append(seconds)
    finally:
        shutil.rmtree(root)
    table(taken, seeds)


def table(taken: dict[tuple[str, Work], list[float]], seeds: tuple[int, ...]) -> None:
    """Print milliseconds a case, and ratios to bare tests run in the same way."""
    print(f"{'':12} {'':16} {'seeds':>5} {heading('bare')}")
    for way in WAYS:
        for number in seeds:
            samples = {
                kind: Samples(taken[way, Work(kind, number, FEW)], taken[way, Work(kind, number, MANY)])
                for kind in CONTENTS
            }
            for kind, each in samples.items():
                print(f"{way:12} {kind:16} {number:5} {each.columns(samples['bare'])}")


if __name__ == "__main__":
    given = [*map(int, sys.argv[1:])]
    main(given[0] if given else 5, tuple(given[1:]) or SEEDS)
