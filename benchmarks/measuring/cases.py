"""Which processor time does a case take in a command that runs many of them?

Whole processes run few and many cases. The difference leaves out the start of a process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

FEW, MANY = 100, 1000


class Finished(NamedTuple):
    """The processor time of a command with its children, its exit status and its output."""

    seconds: float
    status: int
    output: str


def user_environment() -> dict[str, str]:
    """Return the environment of a shell that is not CI, and keeps bytecode: to compile modules anew is all noise."""
    return {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}


def run_command(command: Sequence[str], folder: Path) -> Finished:
    """Run a command in a folder to its end."""
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=user_environment(), capture_output=True, text=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Finished(seconds, done.returncode, done.stdout)


def require_success(done: Finished, expected: str = "") -> float:
    """Return the seconds of a command that succeeded and printed the expected text, and end the benchmark otherwise."""
    if done.status != 0 or expected not in done.output:
        raise SystemExit(f"expected success and {expected!r} but got status={done.status}:\n{done.output[-2000:]}")
    return done.seconds


class Samples(NamedTuple):
    """The seconds of FEW and of MANY cases, round by round."""

    few: list[float]
    many: list[float]

    @property
    def costs(self) -> list[float]:
        """Return the seconds of a case, round by round."""
        return [(many - few) / (MANY - FEW) for few, many in zip(self.few, self.many, strict=True)]

    def columns(self, reference: Samples) -> str:
        """Return the columns of a table: seconds, milliseconds a case, and its ratio to another way of running."""
        case, ratio = median(self.costs) * 1e3, median_ratio(self.costs, reference.costs)
        return f"{median(self.few):8.3f} {median(self.many):8.3f} {case:10.3f} {ratio:10.2f}"


def heading(reference: str) -> str:
    """Return the names of the columns."""
    return f"{f'{FEW} s':>8} {f'{MANY} s':>8} {'ms a case':>10} {f'of {reference}':>10}"


def median_ratio(these: Iterable[float], those: Iterable[float]) -> float:
    """Return the median over rounds of the ratio of two times in the same round."""
    return median(mine / theirs for mine, theirs in zip(these, those, strict=True))
