"""What starting costs, as ratios in one run: `precreg --version`, and a run or a push that finds nothing to do.

Goals: `precreg --version` at most 60 ms over bare Python; a run with nothing to do, and the check of a push that
touches nothing but documents, at most the time of importing numpy. Where other files are pushed suites must be read to
tell that no case depends on them: the last two lines.
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
    "precreg hook run, a document": [*PRECREG, "hook", "run", "--folder", ".", "origin", "url"],
    "git's hook, a document": ["sh", ".git/hooks/pre-push", "origin", "url"],
    "precreg run, untouched": [*PRECREG, "run", "--changed-since", "HEAD~2"],
    "precreg hook run, untouched": [*PRECREG, "hook", "run", "--folder", ".", "origin", "url"],
}
PUSHED = {"precreg hook run, a document": ("HEAD~1", "HEAD"), "git's hook, a document": ("HEAD~1", "HEAD")}
PUSHED["precreg hook run, untouched"] = ("HEAD~2", "HEAD")
"""What the remote has, and what is pushed, of the commands that are told so on standard input."""


def project(folder: Path) -> Path:
    """Make a committed project of one suite, in which then a module changes, and a document, that no case needs."""
    suites = folder / "suites" / "unit"
    suites.mkdir(parents=True)
    (suites / "absolute.yaml").write_text(
        "suite: absolute\nsubject: numpy:abs\nreference: numpy:abs\n"
        "inputs: {x: {shape: 4, dtype: float32, normal: {}}}\n"
    )
    git(folder, "init", "-q")
    for changed in ("suites/tolerances.yaml", "setup.py", "README.md"):
        (folder / changed).write_text("")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", changed)
    subprocess.run([*PRECREG, "hook", "install"], cwd=folder, check=True, capture_output=True)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run git under a name of its own and return what it prints."""
    command = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def pushed(folder: Path, label: str) -> str:
    """Return what git would tell a hook; empty for a command that is none."""
    if label not in PUSHED:
        return ""
    before, after = (git(folder, "rev-parse", revision) for revision in PUSHED[label])
    return f"refs/heads/main {after} refs/heads/main {before}\n"


def seconds(command: list[str], folder: Path, told: str) -> float:
    """Time one run of a command, which must succeed."""
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    before = perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environ, input=told, text=True)
    return perf_counter() - before


def main(rounds: int) -> None:
    """Run all commands in turn, so that a slow moment of the machine meets each of them, and print medians."""
    with tempfile.TemporaryDirectory() as name:
        folder = project(Path(name))
        told = {label: pushed(folder, label) for label in COMMANDS}
        samples: dict[str, list[float]] = {label: [] for label in COMMANDS}
        for _ in range(rounds):
            for label, command in COMMANDS.items():
                samples[label].append(seconds(command, folder, told[label]))
    medians = {label: median(times) for label, times in samples.items()}
    bare, numpy = medians["bare Python"], medians["import numpy"]
    print(f"{'':30} {'ms':>7} {'over bare':>10} {'of import numpy':>16}")
    for label, value in medians.items():
        print(f"{label:30} {value * 1e3:7.1f} {(value - bare) * 1e3:10.1f} {value / numpy:16.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
