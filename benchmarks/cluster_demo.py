"""Run a project on a cluster that loses a worker, and compare its record with a run on this machine.

Four Dask workers on the loopback interface: `alpha` and `beta` are alike, `numpy` has another numpy, `old` has another
version of precreg and is refused. SIGKILL ends `alpha` after six outcomes. The script prints the workers and counts of
the record, and then compares each case of a worker with this machine's environment: verdict, digests and figures.
It exits with 1 if any of these differs. pip installs the other numpy into a temporary folder.
Usage: python benchmarks/cluster_demo.py [NUMPY]
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import precreg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loopback_cluster import LoopbackCluster, started_cluster
from precreg.report import read_merged_run
from precreg.types import CaseResult, LostWorkers, RefusedWorker, RunRecord

OTHER_NUMPY = "2.2.6"
CASES, KILLED_AFTER, PATIENCE_S = 40, 6, 120
SUITE = f"""\
suite: s
matrix: {{number: {list(range(1, CASES + 1))}}}
subject: kernels:scaled_exp
reference: kernels:plain
seeds: 1
params: {{number: $number}}
inputs: {{x: {{shape: [1000], dtype: float32, normal: {{}}}}}}
tolerance: {{max_ulp: 4}}
"""
KERNELS = """\
import time
import numpy as np

def scaled_exp(x, number):
    time.sleep(0.2)
    return np.exp(x) * number

def plain(x, number):
    return np.exp(x) * number
"""
# Threads of BLAS are a part of an environment: all processes have one.
VARIABLES = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")}
RUN = [sys.executable, "-m", "precreg", "run", "--no-cache"]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until the condition holds; exit if the process ends first or PATIENCE_S pass."""
    end = monotonic() + PATIENCE_S
    while not condition():
        if process.poll() is not None or monotonic() > end:
            sys.exit(f"{process.args!r} ended with {process.poll()} or took {PATIENCE_S} s")
        sleep(0.02)


def make_project(folder: Path) -> None:
    """Write the project, and commit it."""
    unit = folder / "suites/unit"
    unit.mkdir(parents=True)
    (unit / "s.yaml").write_text(SUITE)
    (unit / "kernels.py").write_text(KERNELS)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True)


def call(project: Path, command: list[str]) -> str:
    """Run a command to its end, and return its output."""
    done = subprocess.run(command, cwd=project, env=VARIABLES, capture_output=True, text=True)
    return done.stdout + done.stderr


def other_precreg(folder: Path) -> Path:
    """Return a folder with a copy of precreg that has another version."""
    ignored = shutil.ignore_patterns("*.pyc")
    shutil.copytree(Path(precreg.__file__).parent, folder / "precreg", ignore=ignored)
    start = folder / "precreg/__init__.py"
    start.write_text(start.read_text().replace(f'"{precreg.__version__}"', '"0.0.1"'))
    return folder


def other_numpy(folder: Path, version: str) -> Path:
    """Return a folder with another numpy."""
    words = ["install", "-q", "--no-deps", "--target", str(folder), f"numpy=={version}"]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return folder


def cluster_run(project: Path, cluster: LoopbackCluster, alpha: subprocess.Popen[bytes]) -> RunRecord:
    """Run the project on the cluster, end alpha in the middle, and return the record."""
    journal = project / ".precreg/journal.jsonl"
    journal.unlink(missing_ok=True)
    command = [*RUN, "--dask", cluster.address]
    with (cluster.folder / "run.log").open("wb") as log:
        run = subprocess.Popen(command, cwd=project, env=VARIABLES, stdout=log, stderr=log)
    wait_for(lambda: journal.exists() and outcomes(journal) >= KILLED_AFTER, run)
    alpha.send_signal(signal.SIGKILL)
    run.wait(PATIENCE_S)
    return read_merged_run([project / "reports"])


def outcomes(journal: Path) -> int:
    """Count the outcomes in a journal: the lines of the header and of workers begin otherwise."""
    return sum(line.startswith((b'{"case":', b'"')) for line in journal.read_bytes().splitlines())


def print_workers(found: RunRecord) -> None:
    """Print the workers of a record, its retries and its verdicts."""
    cases = Counter(result.outcome.worker for result in found.results)
    lost = [warning for warning in found.warnings if isinstance(warning, LostWorkers)]
    print(f"{'worker':8}{'cases':>6}  environment")
    for place, worker in enumerate(found.workers or ()):
        state = ", lost" if any(name.startswith(f"{worker.name} ") for each in lost for name in each.workers) else ""
        print(f"{worker.name:8}{cases[place]:6}  {worker.fingerprint[:12]} {summary(worker.facts)}{state}")
    for warning in found.warnings:
        if isinstance(warning, RefusedWorker):
            name = warning.worker.split()[0]
            print(f"{name:8}{0:6}  refused: {warning.subject} {warning.there}, here {warning.here}")
    print("ran again:", sum(each.retried for each in lost), "  given up:", sum(each.given_up for each in lost))
    print("verdicts:", dict(Counter(str(result.verdict.status) for result in found.results)))


def summary(facts: dict[str, str]) -> str:
    """Return the numpy of a worker, and the number of other facts in which it differs."""
    if not facts:
        return "as here"
    return f"numpy {facts.get('numpy', 'as here')}, {len(facts.keys() - {'numpy'})} other facts differ"


def checked(result: CaseResult) -> tuple[object, ...]:
    """Return the verdict, the digests and the figures of a case."""
    execution = result.outcome.execution
    return (result.verdict, execution.inputs, execution.outputs, result.outcome.comparisons)


def print_equality(found: RunRecord, local: RunRecord) -> bool:
    """Print the number of cases that equal the local run's, for like workers and for others; true if like ones do."""
    workers, expected = found.workers or (), {result.id: result for result in local.results}
    equal: dict[bool, list[bool]] = {True: [], False: []}
    for result in found.results:
        here = expected[result.id]
        alike = workers[result.outcome.worker or 0].fingerprint == found.environment.fingerprint
        same = checked(result) == checked(here)
        equal[alike].append(same)
    for alike, label in ((True, "like workers"), (False, "another environment")):
        print(f"{label}: {sum(equal[alike])} of {len(equal[alike])} cases equal the local run's")
    others = sum(result.baseline is not None and result.baseline.difference is not None for result in found.results)
    print(f"judged with a baseline of another environment: {others} cases")
    return bool(equal[True]) and all(equal[True])


def main() -> None:
    """Run both, print the record, and compare."""
    version = sys.argv[1] if len(sys.argv) > 1 else OTHER_NUMPY
    with tempfile.TemporaryDirectory() as name, started_cluster(Path(name) / "cluster", VARIABLES) as cluster:
        project = Path(name) / "project"
        make_project(project)
        call(project, RUN)
        call(project, [sys.executable, "-m", "precreg", "baseline", "accept", "unit/s/*", "--reason", "first"])
        call(project, RUN)
        local = read_merged_run([project / "reports"])
        alpha = cluster.worker("alpha")
        cluster.worker("beta")
        cluster.worker("numpy", PYTHONPATH=str(other_numpy(Path(name) / "numpy", version)))
        cluster.worker("old", PYTHONPATH=str(other_precreg(Path(name) / "old")))
        found = cluster_run(project, cluster, alpha)
        print_workers(found)
        if not print_equality(found, local):
            sys.exit(1)


if __name__ == "__main__":
    main()
