"""What a case costs, in one run: 1,000 tiny cases through `precreg run` against 1,000 trivial pytest tests.

Both run as whole processes. The cost per case is the difference between 1,000 cases and one case, so that start-up
does not count on either side; the ratio with start-up stands beside it. Goal: at most 0.3.
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
from statistics import median
from time import perf_counter

CASES = 1000
KERNEL = "def double(x, k):\n    return x + x\n\n\ndef exact(x, k):\n    return x + x\n"


def precreg_project(folder: Path, cases: int) -> list[str]:
    """Make a project of tiny cases with accepted baselines, and return the command that runs them."""
    suites = folder / "suites" / "unit"
    suites.mkdir(parents=True)
    (suites / "tiny_kernel.py").write_text(KERNEL)
    (suites / "tiny.yaml").write_text(
        "suite: tiny\nsubject: tiny_kernel:double\nreference: tiny_kernel:exact\n"
        f"matrix: {{k: {json.dumps(list(range(cases)))}}}\nparams: {{k: $k}}\n"
        "inputs: {x: {shape: 16, dtype: float32, normal: {}}}\n"
    )
    precreg = [sys.executable, "-m", "precreg"]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    subprocess.run([*precreg, "run"], cwd=folder, capture_output=True, check=False, env=environment)
    accept = [*precreg, "baseline", "accept", "*", "--reason", "benchmark"]
    subprocess.run(accept, cwd=folder, capture_output=True, check=True, env=environment)
    return [*precreg, "run"]


def pytest_project(folder: Path, cases: int) -> list[str]:
    """Make trivial pytest tests, and return the command that runs them."""
    folder.mkdir(parents=True)
    (folder / "test_tiny.py").write_text(
        "import pytest\n\n\n@pytest.mark.parametrize('k', range(" + str(cases) + "))\n"
        "def test_tiny(k):\n    assert k + k == 2 * k\n"
    )
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tiny.py"]


def seconds(command: list[str], folder: Path) -> float:
    """Time one run of a command, which must succeed: every case passes on both sides before anything is compared."""
    before = perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return perf_counter() - before


def main(rounds: int) -> None:
    """Run all four in turn and print medians."""
    root = Path(tempfile.mkdtemp())
    try:
        commands = {
            (label, cases): (make(root / f"{label}{cases}", cases), root / f"{label}{cases}")
            for label, make in (
                ("precreg", precreg_project),
                ("precreg --jobs 0", precreg_project),
                ("pytest", pytest_project),
            )
            for cases in (1, CASES)
        }
        for (label, _), (command, _) in commands.items():
            command.extend(["--jobs", "0"] if label.endswith("0") else [])
        samples: dict[tuple[str, int], list[float]] = {key: [] for key in commands}
        for _ in range(rounds):
            for key, (command, folder) in commands.items():
                samples[key].append(seconds(command, folder))
    finally:
        shutil.rmtree(root)
    table({key: median(times) for key, times in samples.items()})


def table(medians: dict[tuple[str, int], float]) -> None:
    """Print seconds, milliseconds a case, and ratios to pytest."""
    pytest_case = (medians["pytest", CASES] - medians["pytest", 1]) / (CASES - 1)
    print(f"{'':18} {'1 case s':>9} {f'{CASES} s':>9} {'ms a case':>10} {'of pytest':>10} {'with start-up':>14}")
    for label in ("pytest", "precreg", "precreg --jobs 0"):
        one, many = medians[label, 1], medians[label, CASES]
        case = (many - one) / (CASES - 1)
        ratios = f"{case / pytest_case:10.2f} {many / medians['pytest', CASES]:14.2f}"
        print(f"{label:18} {one:9.3f} {many:9.3f} {case * 1e3:10.3f} {ratios}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
