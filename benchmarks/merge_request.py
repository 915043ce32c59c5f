"""The time of a merge request's run in which one kernel of the shipped suites changed, with pairs and without.

The kernel is the softmax of two suites. One change is as good as before. The other rounds twice more: its mean error in
float32 is 1.07 to 1.11 times as large (geometric mean over 60 seeds of the shapes of unit/softmax). Both run on this
machine and on another one than that of the baselines: there numpy and OpenBLAS use fewer instructions, so bits change
in further cases, and all of these are paired, too. `--pair off` is the run that the gate had before. CPU seconds are
those of all processes of a run, and a busy machine changes them less than the seconds that pass.
Usage: python benchmarks/merge_request.py [ROUNDS] [PATTERN...]
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KERNEL = "suites/unit/kernels/softmax.py"
# What stands in that file, and what replaces it: neighbours are added first, or the quotient has a factor 3.
CHANGES = {
    "equal": ("lanes[..., :half] + lanes[..., half:]", "lanes[..., ::2] + lanes[..., 1::2]"),
    "loss": (
        "weights / total.astype(np.float32)",
        "weights / np.float32(3) * (np.float32(3) / total.astype(np.float32))",
    ),
}
PAIRS = ("off", "auto")


class Timed(NamedTuple):
    """One run: its seconds, its exit code, and of its paired cases the seeds and the number that were not clear."""

    seconds: float
    cpu_seconds: float
    code: int
    seeds: list[int]
    not_clear: int


def other_machine() -> dict[str, str]:
    """Return the variables with which numpy and OpenBLAS use the instructions of every processor alone."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    features = " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))
    return {"NPY_DISABLE_CPU_FEATURES": features, "OPENBLAS_CORETYPE": "Prescott"}


def project(folder: Path) -> tuple[Path, str]:
    """Clone this repository, and return the clone and the commit that a merge request starts from.

    The clone is a user's project, which has no precreg of its own: workers would import that, without compiled cores.
    """
    git(ROOT, "clone", "--quiet", ".", str(folder))
    git(folder, "rm", "-r", "--quiet", "precreg")
    git(folder, "commit", "--quiet", "-m", "a project")
    return folder, git(folder, "rev-parse", "HEAD")


def git(folder: Path, *arguments: str) -> str:
    """Run git under a name of its own and return its output."""
    command = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def change_kernel(folder: Path, base: str, change: str) -> None:
    """Commit one change on top of the base."""
    git(folder, "checkout", "--quiet", "--detach", base)
    file, (before, after) = folder / KERNEL, CHANGES[change]
    text = file.read_text()
    if text.count(before) != 1:
        raise RuntimeError(f"expected {before!r} once in {KERNEL}")
    file.write_text(text.replace(before, after))
    git(folder, "commit", "--quiet", "--all", "-m", change)


def run(folder: Path, base: str, pair: str, variables: dict[str, str], patterns: list[str]) -> Timed:
    """Time one run of a merge request's job that no earlier run helps."""
    shutil.rmtree(folder / ".precreg", ignore_errors=True)
    environ = {**os.environ, "CI": "true", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base, **variables}
    command = [sys.executable, "-m", "precreg", "run", "--pair", pair, *patterns]
    before, cpu_before = perf_counter(), cpu_seconds()
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=environ)
    seconds = perf_counter() - before
    wait_for_orphans()
    cpu = cpu_seconds() - cpu_before
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    results = json.loads((folder / "reports" / "record.json").read_text())["results"]
    paired = [result["paired"] for result in results if result["paired"] is not None]
    ends = [each["end"] for each in paired]
    return Timed(seconds, cpu, done.returncode, [each["seeds"] for each in paired], ends.count("not_clear"))


def adopt_orphans() -> None:
    """Become the parent of processes that outlive theirs: the server of workers ends after the command."""
    set_child_subreaper = 36  # of <linux/prctl.h>
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)


def wait_for_orphans() -> None:
    """Wait for all processes that a run left, so that their CPU seconds count."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def cpu_seconds() -> float:
    """Return the CPU seconds of all children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(rounds: int, patterns: list[str]) -> None:
    """Run with and without pairs in turn, so that a slow moment of the machine meets each, and print medians."""
    machines = {"this machine": {}, "another machine": other_machine()}
    adopt_orphans()
    print(f"{'':24} {'seconds':^24} {'CPU seconds':^24} {'':7} {'median':>6}")
    times = f"{'off':>8} {'auto':>8} {'ratio':>6}"
    print(f"{'':24} {times} {times} {'paired':>7} {'seeds':>6} {'not clear':>10} {'exit':>5}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder, base = project(Path(name, "project"))
        for change in CHANGES:
            change_kernel(folder, base, change)
            for machine, variables in machines.items():
                runs: dict[str, list[Timed]] = {pair: [] for pair in PAIRS}
                for _ in range(rounds):
                    for pair in PAIRS:
                        runs[pair].append(run(folder, base, pair, variables, patterns))
                print(row(f"{change}, {machine}", runs), flush=True)


def row(label: str, runs: dict[str, list[Timed]]) -> str:
    """Return a line of the table: medians of both kinds of seconds, and the median seeds of a paired case."""
    off, auto = (median(each.seconds for each in runs[pair]) for pair in PAIRS)
    cpu_off, cpu_auto = (median(each.cpu_seconds for each in runs[pair]) for pair in PAIRS)
    last = runs["auto"][-1]
    seeds = median(last.seeds) if last.seeds else 0
    counts = f"{len(last.seeds):7} {seeds:6.0f} {last.not_clear:10} {last.code:5}"
    times = f"{off:8.1f} {auto:8.1f} {auto / off:6.2f} {cpu_off:8.1f} {cpu_auto:8.1f} {cpu_auto / cpu_off:6.2f}"
    return f"{label:24} {times} {counts}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:])
