"""Measure commands that need few cases of 100,000, in processor time and as ratios to importing numpy in one round.

Two projects: 100 suites of 1,000 rows, and one suite of 100,000 rows. Each has a baseline of each case. "Before" is a
command that finds neither the index of cases nor the notes of baselines, and reads all suites and the whole baseline
file; "after" is the same command with them. Goals: `precreg list`, `explain CASE` and `run CASE` below a second.
Usage: python benchmarks/large_project.py [ROUNDS]
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

from precreg.baseline import BaselineKey, read_all_entries, store_entries
from precreg.storage import SETTLED_NS, WORKING_FOLDER

PRECREG = [sys.executable, "-m", "precreg"]
NUMPY = [sys.executable, "-c", "import numpy"]
SUITE = """\
suite: s{number}
about: 4 numbers plus one
category: elementwise
subject: k:plus
reference: k:plus
seeds: 1
matrix: {{a: {a}, b: {b}, c: {c}}}
params: {{a: $a, b: $b, c: $c}}
inputs: {{x: {{shape: [4], dtype: float32, normal: {{mean: 0, std: 1}}}}}}
"""
KERNEL = "def plus(x, a, b, c):\n    return x + 1\n"
PROJECTS = {"100 suites of 1,000": (100, (10, 10, 10)), "1 suite of 100,000": (1, (100, 100, 10))}
CASE = "a=3-b=4-c=5"


def commands(suite: str) -> dict[str, list[str]]:
    """Return the commands by label."""
    return {
        "list": [*PRECREG, "list"],
        f"list '{CASE}'": [*PRECREG, "list", CASE],
        "explain CASE": [*PRECREG, "explain", f"{suite}/{CASE}"],
        "run CASE": [*PRECREG, "run", f"{suite}/{CASE}", "--pair", "off"],
    }


def make_project(folder: Path, suites: int, sizes: tuple[int, int, int]) -> None:
    """Write suites, run a case, and store its entry as the baseline of every case."""
    unit = folder / "suites/unit"
    unit.mkdir(parents=True)
    (unit / "k.py").write_text(KERNEL)
    a, b, c = (list(range(size)) for size in sizes)
    for number in range(suites):
        (unit / f"s{number}.yaml").write_text(SUITE.format(number=number, a=a, b=b, c=c))
    call(folder, [*PRECREG, "run", f"unit/s0/{CASE}"])
    accept = [*PRECREG, "baseline", "accept", "--all", "--reason", "benchmark", "--environment", "generic"]
    call(folder, accept)
    (entry,) = read_all_entries(folder).values()
    names = [f"a={x}-b={y}-c={z}" for x in a for y in b for z in c]
    ids = (f"unit/s{number}/{name}" for number in range(suites) for name in names)
    store_entries(folder, {BaselineKey("generic", id): entry for id in ids})
    sleep(SETTLED_NS / 1e9 + 0.1)


def call(folder: Path, command: list[str]) -> float:
    """Return the processor time of a command and its children. Its exit code is 2: the stored entries are stale."""
    # Without compiled modules, Python would compile precreg at each start, and the installed numpy at none.
    left_out = ("CI", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    environ["OPENBLAS_NUM_THREADS"] = "1"
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environ, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    if "Traceback" in done.stderr or done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: int) -> None:
    """Print seconds, and ratios to importing numpy, of each command before and after."""
    print(f"{'':20} {'':20} {'before, s':>10} {'after, s':>9} {'before, of numpy':>17} {'after, of numpy':>16}")
    for label, (suites, sizes) in PROJECTS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_project(folder, suites, sizes)
            for command, words in commands("unit/s0").items():
                samples = [measure(folder, words) for _ in range(rounds)]
                before, after, _ = (median(column) for column in zip(*samples, strict=True))
                ratios = [median(sample[side] / sample[2] for sample in samples) for side in (0, 1)]
                shown = f"{before:10.2f} {after:9.2f} {ratios[0]:17.1f} {ratios[1]:16.1f}"
                print(f"{label:20} {command:20} {shown}", flush=True)
                label = ""


def measure(folder: Path, words: list[str]) -> tuple[float, float, float]:
    """Return the time of a command without an index, with one, and of importing numpy."""
    for index in ("cases.index", "baselines.index", "baseline_counts.index"):
        (folder / WORKING_FOLDER / index).unlink(missing_ok=True)
    shutil.rmtree(folder / WORKING_FOLDER / "proposals", ignore_errors=True)
    return call(folder, words), call(folder, words), call(folder, NUMPY)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
