"""What starting costs, as ratios in one run: `precreg --version`, and a run that finds nothing to do.

Goals: `precreg --version` at most 60 ms over bare Python; a run with nothing to do at most the time of importing numpy.
Usage: python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

PRECREG = [sys.executable, "-m", "precreg"]
COMMANDS = {
    "bare Python": [sys.executable, "-c", ""],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import pytest": [sys.executable, "-c", "import pytest"],
    "precreg --version": [*PRECREG, "--version"],
    "precreg --help": [*PRECREG, "--help"],
    "precreg run, nothing changed": [*PRECREG, "run", "--changed-since", "HEAD"],
}


def project(folder: Path) -> Path:
    """Make a committed project of one suite, in which nothing changed."""
    suites = folder / "suites" / "unit"
    suites.mkdir(parents=True)
    (suites / "absolute.yaml").write_text(
        "suite: absolute\nsubject: numpy:abs\nreference: numpy:abs\n"
        "inputs: {x: {shape: 4, dtype: float32, normal: {}}}\n"
    )
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "nothing changes after this"]):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)
    return folder


def seconds(command: list[str], folder: Path) -> float:
    """Time one run of a command, which must succeed."""
    before = perf_counter()
    subprocess.run(
        command, cwd=folder, check=True, capture_output=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    return perf_counter() - before


def main(rounds: int) -> None:
    """Run all commands in turn, so that a slow moment of the machine meets each of them, and print medians."""
    with tempfile.TemporaryDirectory() as name:
        folder = project(Path(name))
        samples: dict[str, list[float]] = {label: [] for label in COMMANDS}
        for _ in range(rounds):
            for label, command in COMMANDS.items():
                samples[label].append(seconds(command, folder))
    medians = {label: median(times) for label, times in samples.items()}
    bare, numpy = medians["bare Python"], medians["import numpy"]
    print(f"{'':30} {'ms':>7} {'over bare':>10} {'of import numpy':>16}")
    for label, value in medians.items():
        print(f"{label:30} {value * 1e3:7.1f} {(value - bare) * 1e3:10.1f} {value / numpy:16.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
