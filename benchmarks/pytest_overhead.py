"""What the pytest plugin costs a case, in one run: suites and checks against bare tests with numpy's assert_allclose.

All three do the same work on the same numbers, a scaled softmax of 4 x 16 float32 against float64, in whole processes
of pytest. The cost of a case is the difference between 1,000 and 100 cases, so that start-up does not count: of
collecting it, running it, and of its line in every report. What is timed is the processor time of all processes, and
with pytest-xdist the workers' too: other work on the machine disturbs it least. Goal for suites: at most 1.5 times
bare. Usage: python benchmarks/pytest_overhead.py [ROUNDS]
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

FEW, MANY = 100, 1000
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
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    np.testing.assert_allclose(softmax(x, k), softmax(x.astype(np.float64), k), rtol=1e-5)
"""
CHECKS = """\
import numpy as np
import pytest
from suites.unit.kernels import softmax


@pytest.mark.parametrize("k", range({cases}))
def test_softmax(k, precision):
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    precision.check(softmax(x, k), reference=softmax(x.astype(np.float64), k), inputs={{"x": x}}, rtol=1e-5)
"""
SUITE = """\
suite: softmax
subject: kernels:softmax
reference: kernels:softmax
matrix: {{k: {values}}}
params: {{k: $k}}
tolerance: {{rtol: 1e-5}}
inputs: {{x: {{shape: [4, 16], dtype: float32, normal: {{}}}}}}
"""
CONTENTS = {"bare": BARE, "suite": SUITE, "precision.check": CHECKS}
PLACES = {"bare": "test_bare.py", "suite": "suites/unit/softmax.yaml", "precision.check": "test_checks.py"}


def project(folder: Path, kind: str, cases: int) -> Path:
    """Make a project of so many cases, bare tests or a suite or checks, and accept what they propose."""
    unit = folder / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "kernels.py").write_text(KERNELS)
    content = CONTENTS[kind].format(cases=cases, values=json.dumps(list(range(cases))))
    (folder / PLACES[kind]).write_text(content)
    (folder / "pytest.ini").write_text("[pytest]\nprecreg_suites = suites\npythonpath = .\n")
    pytest(folder)
    accept = [sys.executable, "-m", "precreg", "baseline", "accept", "*", "--reason", "benchmark"]
    subprocess.run(accept, cwd=folder, env=environment(), capture_output=True, check=kind != "bare")
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


def main(rounds: int) -> None:
    """Run everything in turn and print medians."""
    root = Path(tempfile.mkdtemp())
    try:
        sizes = [(kind, cases) for kind in CONTENTS for cases in (FEW, MANY)]
        folders = {(kind, cases): project(root / f"{kind}{cases}", kind, cases) for kind, cases in sizes}
        runs = [(way, *size) for way in WAYS for size in sizes]
        samples: dict[tuple[str, str, int], list[float]] = {run: [] for run in runs}
        for _ in range(rounds):
            for way, kind, cases in runs:
                samples[way, kind, cases].append(seconds(folders[kind, cases], cases, *WAYS[way]))
    finally:
        shutil.rmtree(root)
    table({run: median(times) for run, times in samples.items()})


def table(medians: dict[tuple[str, str, int], float]) -> None:
    """Print milliseconds a case, and ratios to bare tests run in the same way."""
    print(f"{'':12} {'':16} {f'{FEW} s':>8} {f'{MANY} s':>8} {'ms a case':>10} {'of bare':>8}")
    for way in WAYS:
        costs = {kind: (medians[way, kind, MANY] - medians[way, kind, FEW]) / (MANY - FEW) for kind in CONTENTS}
        for kind, cost in costs.items():
            few, many = medians[way, kind, FEW], medians[way, kind, MANY]
            print(f"{way:12} {kind:16} {few:8.3f} {many:8.3f} {cost * 1e3:10.3f} {cost / costs['bare']:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
