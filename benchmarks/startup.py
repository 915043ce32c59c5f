"""Measure what starting a command costs, in processor time and as ratios to importing numpy in the same round.

The project is precreg's own: all of its suites, and beside it one of the first 45. Goals: `precreg --version` at most
30 ms over bare Python; a run or a push that touches no case at most half the time of importing numpy; the first reading
of 45 suites at most twice that time. The first run after a change of a suite reads the suites, and stores the names of
cases and their dependencies.
Python keeps compiled modules here, as for users: a first round that does not count writes them.
Usage: python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import sleep

from precreg.storage import SETTLED_NS, make_scratch_folder
from precreg.suite import CASES_INDEX, suite_files
from precreg.vcs import INDEX_FILE

ROOT = Path(__file__).parents[1]
PRECREG = [sys.executable, "-m", "precreg"]
RUN = [*PRECREG, "run", "--changed-since"]
HOOK = [*PRECREG, "hook", "run", "--folder", ".", "origin", "url"]
SCRIPT = ["sh", ".git/hooks/pre-push", "origin", "url"]
COMMANDS = {
    "bare Python": [sys.executable, "-c", ""],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import pytest": [sys.executable, "-c", "import pytest"],
    "precreg --version": [*PRECREG, "--version"],
    "precreg --help": [*PRECREG, "--help"],
    "precreg run, nothing changed": [*RUN, "HEAD"],
    "precreg hook run, a document": HOOK,
    "git's hook, a document": SCRIPT,
    "precreg run, untouched, first": [*RUN, "HEAD~2"],
    "precreg run, untouched, again": [*RUN, "HEAD~2"],
    "precreg hook run, untouched, first": HOOK,
    "precreg hook run, untouched, again": HOOK,
    "git's hook, untouched, again": SCRIPT,
    "precreg list, first": [*PRECREG, "list"],
    "precreg list, again": [*PRECREG, "list"],
    "precreg list, 45 suites, first": [*PRECREG, "list"],
    "precreg explain CASE, again": [*PRECREG, "explain", "unit/log_softmax/float16-64x129-ordinary"],
}
# Commands whose name ends so find no index, and write one; those after them have it.
FIRST = ", first"
# Commands whose name has this run in the project of so many suites.
FEW, FEW_SUITES = "45 suites", 45


def project(folder: Path) -> Path:
    """Commit all suites of precreg, then a module and a document that no case needs, and let the files age."""
    shutil.copytree(ROOT / "suites", folder / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "-q")
    for changed in ("suites/empty", "setup.py", "README.md"):
        (folder / changed).write_text("")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", changed)
    subprocess.run([*PRECREG, "hook", "install"], cwd=folder, check=True, capture_output=True)
    make_scratch_folder((folder / INDEX_FILE).parent)
    sleep(SETTLED_NS / 1e9 + 0.1)
    return folder


def smaller_project(folder: Path, whole: Path) -> Path:
    """Copy a project with its first suites alone, in the order of their paths, and let the files age."""
    shutil.copytree(whole, folder)
    for suite in suite_files(folder)[FEW_SUITES:]:
        suite.unlink()
    sleep(SETTLED_NS / 1e9 + 0.1)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run git under a name of its own and return what it prints."""
    command = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def pushed(folder: Path, label: str) -> str:
    """Return what git would tell a hook."""
    before, after = (
        git(folder, "rev-parse", name) for name in ("HEAD~2" if "untouched" in label else "HEAD~1", "HEAD")
    )
    return f"refs/heads/main {after} refs/heads/main {before}\n"


def seconds(label: str, folder: Path, told: str) -> float:
    """Return the processor time of a command and its children; it must succeed, and leave the index that it wrote."""
    if label.endswith(FIRST):
        (folder / INDEX_FILE).unlink(missing_ok=True)
        (folder / CASES_INDEX).unlink(missing_ok=True)
    # With PYTHONDONTWRITEBYTECODE, Python would compile precreg at each start, and the installed numpy at none.
    left_out = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    environ["OPENBLAS_NUM_THREADS"] = "1"
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(COMMANDS[label], cwd=folder, check=True, capture_output=True, env=environ, input=told, text=True)
    after = getrusage(RUSAGE_CHILDREN)
    if "untouched" in label and not (folder / INDEX_FILE).exists():
        raise RuntimeError(f"expected an index of dependencies after: {label}")
    if "list" in label and not (folder / CASES_INDEX).exists():
        raise RuntimeError(f"expected an index of cases after: {label}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: int) -> None:
    """Run all commands in turn, so that a slow moment of the machine meets each of them, and print medians."""
    with tempfile.TemporaryDirectory() as name:
        whole = project(Path(name) / "whole")
        few = smaller_project(Path(name) / "few", whole)
        folders = {label: few if FEW in label else whole for label in COMMANDS}
        told = {label: pushed(folders[label], label) for label in COMMANDS}
        samples: dict[str, list[float]] = {label: [] for label in COMMANDS}
        for number in range(rounds + 1):
            for label in COMMANDS:
                spent = seconds(label, folders[label], told[label])
                if number:
                    samples[label].append(spent)
    bare, numpy = samples["bare Python"], samples["import numpy"]
    print(f"{'':34} {'ms':>7} {'over bare':>10} {'of import numpy':>16}")
    for label, times in samples.items():
        over = median(time - base for time, base in zip(times, bare, strict=True))
        ratio = median(time / base for time, base in zip(times, numpy, strict=True))
        print(f"{label:34} {median(times) * 1e3:7.1f} {over * 1e3:10.1f} {ratio:16.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
