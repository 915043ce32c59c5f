"""Where do time and memory go in a project of many tiny cases?

Makes a project of ten suites for each size. Runs, accepts and runs again, each command as a process of its own, and
prints a table: processor time of the command and of its workers, its peak memory, and the sizes of files. The stages of
a run are timed in the process of the command, each with the peak memory until its end. The first line has the floor:
the steps of a case in one process, without anything around them. A tiny case has one seed of 16 float32 elements.

Goals at 100,000 cases: a run below 0.3 ms a case beyond the calls of subject and oracle, a peak below 1,000 MB, a
record below 250 MB, accepting and comparing below 20 s.
Usage: python benchmarks/many_cases.py [CASES ...] [--seeds N] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import process_time

from precreg.run.case_run import compare_with_oracle, run_subject_once
from precreg.run.computation import draw_inputs
from precreg.run.oracle import run_oracle
from precreg.subject import Call
from precreg.suite import load_cases

SUITES = 10
KERNEL = "def double(x, k):\n    return x + x\n\n\ndef exact(x, k):\n    return x + x\n"

# One command, with its own processor time and peak memory. Stages of a run are marked by the functions it is given.
CHILD = """
import json, resource, sys
from time import process_time

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
marks = [("start", process_time(), peak())]
def mark(name): marks.append((name, process_time(), peak()))

def staged():
    import precreg.run
    whole = precreg.run.run_session
    def session(request, outputs, *, progress, summarize, **others):
        def reported(*given):
            mark("conclude")
            written = outputs.write(*given)
            mark("reports")
            return written
        def watched(results, number):
            mark("load")
            yield from progress(results, number)
            mark("run, judge")
        def summed(*shown):
            mark("propose")
            summarize(*shown)
        return whole(request, outputs._replace(write=reported), progress=watched, summarize=summed, **others)
    precreg.run.run_session = session

sys.argv = ["precreg", *sys.argv[2:]]
from precreg.__main__ import main
if sys.argv[1] == "run":
    staged()
try:
    main()
finally:
    mark("end")
    open({into!r}, "w").write(json.dumps({{"marks": marks, "peak_mb": peak()}}))
"""


def make_project(folder: Path, cases: int, seeds: int) -> None:
    """Write the suites of a project."""
    suites = folder / "suites" / "unit"
    suites.mkdir(parents=True, exist_ok=True)
    (suites / "tiny_kernel.py").write_text(KERNEL)
    for number in range(SUITES):
        rows = json.dumps(list(range(cases // SUITES)))
        (suites / f"tiny{number}.yaml").write_text(
            f"suite: tiny{number}\nsubject: tiny_kernel:double\nreference: tiny_kernel:exact\nseeds: {seeds}\n"
            f"matrix: {{k: {rows}}}\nparams: {{k: $k}}\ninputs: {{x: {{shape: 16, dtype: float32, normal: {{}}}}}}\n"
        )


def measure(folder: Path, *words: str) -> dict[str, object]:
    """Run one command and return its processor times in seconds, its peak memory in MB, and the marks of its stages."""
    into = folder / "marks.json"
    # Users have byte code in files.
    left_out = ("CI", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    code = CHILD.format(into=str(into))
    process = subprocess.Popen(
        [sys.executable, "-c", code, "precreg", *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found: dict[str, object] = json.loads(into.read_text())
    return {**found, "all_s": used.ru_utime + used.ru_stime, "code": process.returncode}


Mark = tuple[str, float, float]


def stages(marks: list[Mark]) -> Iterator[str]:
    """Yield the processor time of each stage in the process of the command, and the peak memory until its end."""
    for (_, before, _), (name, after, peak) in pairwise(marks):
        yield f"{name} {after - before:.2f} s {peak:.0f} MB"


def megabytes(*paths: Path) -> float:
    """Return the size of files and folders in MB."""
    files = (file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    return sum(file.stat().st_size for file in files) / 1e6


# Every project has this case.
ONE = "unit/tiny0/k=7"
COMMANDS: dict[str, tuple[str, ...]] = {
    "list": ("list",),
    "run, all new": ("run",),
    "diff": ("baseline", "diff"),
    "accept": ("baseline", "accept", "*", "--reason", "benchmark"),
    "run, all known": ("run",),
    "list again": ("list",),
    "report": ("report", "reports"),
    "explain one": ("explain", ONE),
}


# Cases that the floor is measured with.
FLOOR_CASES = 1000


def floor(project: Path) -> Iterator[str]:
    """Yield the processor time of each step of a case in this process, in microseconds."""
    cases = load_cases(project)[:FLOOR_CASES]
    folders = [project / case.directory for case in cases]
    began = process_time()
    inputs = [draw_inputs(case, 0, folder, project) for case, folder in zip(cases, folders, strict=True)]
    drawn = process_time()
    calls = [
        Call(given, case.params, folder, project) for given, case, folder in zip(inputs, cases, folders, strict=True)
    ]
    actual = [run_subject_once(case, call).arrays for case, call in zip(cases, calls, strict=True)]
    ran = process_time()
    oracles = [
        run_oracle(case, [0], [call.inputs], call.directory, project).outputs[0]
        for case, call in zip(cases, calls, strict=True)
    ]
    referred = process_time()
    for case, outputs, oracle in zip(cases, actual, oracles, strict=True):
        compare_with_oracle(case, 0, outputs, oracle, ("generic",))
    times = (began, drawn, ran, referred, process_time())
    for name, (before, after) in zip(("draw", "subject", "oracle", "compare"), pairwise(times), strict=True):
        yield f"{name} {(after - before) / len(cases) * 1e6:.0f}"


def show(cases: int, seeds: int, root: Path) -> None:
    """Measure all commands on one size of project, and print a row for each."""
    folder = root / f"cases{cases}"
    make_project(folder, cases, seeds)
    print(f"\n{cases} cases of {seeds} seeds: processor time in s, ms a case, peak MB of the command itself")
    print(f"floor in us a case: {', '.join(floor(folder))}")
    for name, words in COMMANDS.items():
        found = measure(folder, *words)
        marks: list[Mark] = found["marks"]  # type: ignore[assignment]
        own = marks[-1][1]
        row = f"{name:15} all {found['all_s']:7.1f} s {found['all_s'] / cases * 1e3:6.2f} ms  own {own:6.1f} s"  # type: ignore[operator]
        print(f"{row}  peak {found['peak_mb']:6.0f} MB  exit {found['code']}  {', '.join(stages(marks))}", flush=True)
        if name == "run, all new":
            # The second run reuses all outcomes, so its journal is empty.
            print(f"MB: journal {megabytes(*(folder / '.precreg').glob('journal*')):.1f}", flush=True)
    records, working = folder / "reports", folder / ".precreg"
    sizes = {
        "record": [*records.glob("record.json*")],
        "other reports": [path for path in records.iterdir() if not path.name.startswith("record")],
        "kept outcomes": [*working.glob("outcomes*")],
        "baselines": [folder / "baselines"],
    }
    print("MB: " + ", ".join(f"{name} {megabytes(*paths):.1f}" for name, paths in sizes.items()), flush=True)


def main() -> None:
    """Measure each size in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int, nargs="*", default=[1000, 10000])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        for cases in options.cases:
            show(cases, options.seeds, options.folder or Path(made))


if __name__ == "__main__":
    main()
