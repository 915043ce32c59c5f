"""How much does a run cost if nothing changed, and how much the observation of the cases of a first run?

`python benchmarks/reuse.py [--project DIR] [ROUNDS]` runs the suites of a copy of a project, the shipped ones by
default: without the cache, with an empty cache, and again. The three take turns, and the table has processor seconds
of the command with its children, and medians of ratios. `--cases N` takes N tiny cases in place of a project.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from msgspec import UNSET

from precreg.report import read_merged_run

ROOT = Path(__file__).parents[1]
SUITE = """suite: tiny{number}
subject: k:f
reference: k:g
matrix: {{n: [{rows}]}}
inputs: {{x: {{shape: [$n], dtype: float32, normal: {{}}}}}}
seeds: 1
tolerance: {{rtol: 1e-3}}
"""
PER_SUITE = 1000


def processor_seconds(project: Path, *words: str) -> float:
    """Return the processor seconds of a run with all of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "precreg", "run", "--diagnose", "0", "--pair", "off", "--quiet", *words]
    # Users have byte code in files, and each process of a run would compile its modules anew without it.
    variables = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}
    subprocess.run(command, cwd=project, env=variables, check=False, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_tiny(project: Path, cases: int) -> None:
    """Write suites with so many cases of a few elements."""
    unit = project / "suites/unit"
    unit.mkdir(parents=True)
    (unit / "k.py").write_text("def f(x):\n    return x * 2\n\n\ndef g(x):\n    return x * 2\n")
    for number, start in enumerate(range(0, cases, PER_SUITE)):
        rows = ", ".join(str(row + 2) for row in range(min(PER_SUITE, cases - start)))
        (unit / f"tiny{number}.yaml").write_text(SUITE.format(number=number, rows=rows))


def reused_cases(project: Path) -> int:
    """Return how many cases of the last run reused an outcome."""
    return sum(result.outcome.reused is not UNSET for result in read_merged_run([project / "reports"]).results)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--cases", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        if given.cases:
            make_tiny(project, given.cases)
        else:
            for name in ("suites", "baselines"):
                shutil.copytree(given.project / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        processor_seconds(project, "--no-cache")  # writes the byte code
        rows = []
        for _ in range(given.rounds):
            without = processor_seconds(project, "--no-cache")
            (project / ".precreg/outcomes.sqlite").unlink(missing_ok=True)
            first = processor_seconds(project)
            again = processor_seconds(project)
            rows.append((without, first, again))
            print(f"without {without:.2f} s, first {first:.2f} s, again {again:.2f} s", flush=True)
        print(f"cases that reused an outcome: {reused_cases(project)}")
        size = (project / ".precreg/outcomes.sqlite").stat().st_size
        print(f"size of the store: {size / 1e6:.1f} MB")
        print(f"first / without: {median(first / without for without, first, _ in rows):.2f}")
        print(f"again / without: {median(again / without for without, _, again in rows):.2f}")


if __name__ == "__main__":
    main()
