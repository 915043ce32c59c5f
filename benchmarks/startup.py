"""What starting costs, as ratios in one run: `precreg --version`, and a run or a push that finds nothing to do.

The project is precreg's own: all of its suites. Goals: `precreg --version` at most 60 ms over bare Python; a run or a
push that touches no case at most the time of importing numpy. To tell that no case depends on a file, suites are read
the first time, which costs more; what cases depend on is remembered then.
Usage: python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from precreg.storage import SETTLED_NS, make_scratch_folder
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
}
FIRST = ", first"
"""The commands whose name ends so find no index of what cases depend on, and write one; those after them have it."""


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
    """Time one run of a command, which must succeed, and leave an index where it came to know what cases depend on."""
    if label.endswith(FIRST):
        (folder / INDEX_FILE).unlink(missing_ok=True)
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    before = perf_counter()
    subprocess.run(COMMANDS[label], cwd=folder, check=True, capture_output=True, env=environ, input=told, text=True)
    after = perf_counter()
    if "untouched" in label and not (folder / INDEX_FILE).exists():
        raise RuntimeError(f"expected an index of dependencies after: {label}")
    return after - before


def main(rounds: int) -> None:
    """Run all commands in turn, so that a slow moment of the machine meets each of them, and print medians."""
    with tempfile.TemporaryDirectory() as name:
        folder = project(Path(name))
        told = {label: pushed(folder, label) for label in COMMANDS}
        samples: dict[str, list[float]] = {label: [] for label in COMMANDS}
        for _ in range(rounds):
            for label in COMMANDS:
                samples[label].append(seconds(label, folder, told[label]))
    medians = {label: median(times) for label, times in samples.items()}
    bare, numpy = medians["bare Python"], medians["import numpy"]
    print(f"{'':34} {'ms':>7} {'over bare':>10} {'of import numpy':>16}")
    for label, value in medians.items():
        print(f"{label:34} {value * 1e3:7.1f} {(value - bare) * 1e3:10.1f} {value / numpy:16.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
