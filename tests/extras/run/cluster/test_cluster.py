"""A run on a cluster gives what a run on this machine gives, and reports the workers that it lost or refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

import precreg as precreg_package
from precreg.report import read_merged_run
from precreg.types import LostWorkers, OtherWorkers, Reason, RefusedWorker, Status
from tests.e2e.command import PATIENCE_S, THREADS, environ

# The exit code of a run whose cases have no baseline yet.
NEW = 2

SUITE = """
suite: s
matrix: {number: [1, 2, 3, 4, 5, 6]}
subject: {python: kernels:double}
reference: {python: kernels:double}
params: {number: $number}
inputs: {x: {shape: [100], dtype: float32, normal: {}}}
tolerance: {max_ulp: 4}
"""
KERNELS = """
import os, signal, time
import numpy as np

def double(x, number):
    return np.exp(x) * number

def slow(x, number):
    time.sleep(0.3)
    return x * number

def goes_wrong(x, number):
    print("number", number)
    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 2:
        time.sleep(60)
    if number == 3:
        raise ValueError("not like this")
    if number == 4:
        np.empty(2**60, np.uint8)
    return x

def kills_its_machine(x, number):
    if number == 2:
        # The Dask worker is the process above the keeper, the server and this process.
        workers = open(os.environ["WORKERS"]).read().split()
        pid = os.getpid()
        while str(pid) not in workers and pid > 1:
            pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        if pid > 1:
            os.kill(pid, signal.SIGKILL)
            time.sleep(60)
    return x

def exact(x, number):
    return np.exp(x) * number

def counts_neighbours(x, number):
    folder = os.environ["NEIGHBOURS"]
    own = os.path.join(folder, str(number))
    open(own, "w").close()
    time.sleep(0.3)
    with open(folder + ".log", "a") as log:
        print(len(os.listdir(folder)), file=log)
    os.remove(own)
    return x

def plain(x, number):
    return x
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "suites" / "unit").mkdir(parents=True)
    (folder / "suites" / "unit" / "s.yaml").write_text(SUITE)
    (folder / "suites" / "unit" / "kernels.py").write_text(KERNELS)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)


def command(project, *words, **variables):
    return subprocess.run(
        [sys.executable, "-m", "precreg", *map(str, words)],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environ(**THREADS, **variables),
    )


def rewrite(project, **values):
    """Write the suite with other keys."""
    lines = [line for line in SUITE.strip().splitlines() if line.partition(":")[0] not in values]
    lines += [f"{key}: {value}" for key, value in values.items()]
    (project / "suites" / "unit" / "s.yaml").write_text("\n".join(lines) + "\n")


def numbers(last):
    return f"{{number: {list(range(1, last + 1))}}}"


def record(project):
    return read_merged_run([project / "reports"])


def by_id(run):
    return {result.id: result for result in run.results}


def without_place(result):
    """Return a result without its worker and its times."""
    execution = replace(result.outcome.execution, duration_s=0.0)
    if execution.failure is not None:
        execution = replace(execution, failure=replace(execution.failure, detail=""))
    return replace(result, outcome=replace(result.outcome, worker=UNSET, execution=execution))


def same_results(one, other):
    assert {id: without_place(each) for id, each in by_id(one).items()} == {
        id: without_place(each) for id, each in by_id(other).items()
    }


def test_two_workers_give_what_this_machine_gives(project, cluster):
    assert command(project, "run", "--jobs", "1").returncode == NEW
    local = record(project)
    cluster.worker("alpha")
    cluster.worker("beta")
    # Nobody committed this edit, and the workers run in another folder.
    ran = command(project, "run", "--dask", cluster.address)
    assert ran.returncode == NEW, ran.stdout + ran.stderr
    found = record(project)
    same_results(found, local)
    assert (local.workers, {worker.name for worker in found.workers}) == (UNSET, {"alpha", "beta"})
    assert all(worker.fingerprint == found.environment.fingerprint and not worker.facts for worker in found.workers)
    assert {result.outcome.worker for result in found.results} == {0, 1}
    assert found.warnings == local.warnings


def test_an_edit_that_nobody_committed_runs_on_the_workers(project, cluster):
    cluster.worker("alpha")
    kernels = project / "suites" / "unit" / "kernels.py"
    kernels.write_text(KERNELS.replace("np.exp(x) * number", "np.full_like(x, 42)", 1))
    rewrite(project, reference="{python: kernels:plain}", tolerance="{max_abs_error: 100}")
    command(project, "run", "--dask", cluster.address)
    local = command(project, "run", "--jobs", "1")
    remote = command(project, "run", "--dask", cluster.address)
    assert local.returncode == remote.returncode
    assert {each.outcome.comparisons[0].metrics["max_abs_error"] > 30 for each in record(project).results} == {True}


def test_a_case_that_goes_wrong_fails_as_on_this_machine(project, cluster):
    rewrite(project, subject="{python: kernels:goes_wrong}", reference="{python: kernels:plain}", timeout=2)
    command(project, "run", "--jobs", "1")
    local = record(project)
    worker = cluster.worker("alpha")
    command(project, "run", "--dask", cluster.address)
    found = record(project)
    same_results(found, local)
    reasons = [each.verdict.reason for each in found.results[:3]]
    assert reasons == [Reason.CRASHED, Reason.TIMED_OUT, Reason.SUBJECT_ERROR]
    assert "MemoryError" in found.results[3].outcome.execution.failure.message
    assert "number 3" in (found.results[2].outcome.execution.failure.detail or "") + str(found.results[2].verdict)
    assert worker.poll() is None, "the Dask worker survives its cases"
    assert not found.warnings


def test_the_items_of_a_lost_worker_run_on_another(project, cluster):
    rewrite(project, matrix=numbers(24), subject="{python: kernels:slow}")
    rewrite_reference(project)
    command(project, "run", "--jobs", "2")
    local = record(project)
    alpha = cluster.worker("alpha")
    cluster.worker("beta")
    journal = project / ".precreg" / "journal.jsonl"
    journal.unlink(missing_ok=True)
    running = subprocess.Popen(
        [sys.executable, "-m", "precreg", "run", "--dask", cluster.address],
        cwd=project,
        stdout=subprocess.DEVNULL,
        env=environ(**THREADS),
    )
    wait_for(lambda: journal.exists() and outcomes_of(journal) >= 4, running)
    os.kill(alpha.pid, signal.SIGKILL)
    assert running.wait(PATIENCE_S) == NEW
    found = record(project)
    same_results(found, local)
    (lost,) = [warning for warning in found.warnings if isinstance(warning, LostWorkers)]
    assert (len(lost.workers), lost.given_up) == (1, 0)
    assert lost.workers[0].startswith("alpha ")
    assert lost.retried >= 1
    assert {worker.name for worker in found.workers} == {"alpha", "beta"}


def outcomes_of(journal):
    """Count the lines of outcomes in a journal: the header and workers have others."""
    lines = journal.read_bytes().splitlines(keepends=True)
    return sum(line.endswith(b"\n") and line.startswith((b'{"case":', b'"')) for line in lines)


def rewrite_reference(project):
    text = (project / "suites" / "unit" / "s.yaml").read_text()
    text = text.replace("reference: {python: kernels:double}", "reference: {python: kernels:slow}")
    (project / "suites" / "unit" / "s.yaml").write_text(text)


def wait_for(condition, running):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert running.poll() is None, "the run ended first"
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_item_that_kills_its_workers_is_crashed_and_the_others_run(project, cluster, tmp_path):
    pids = tmp_path / "pids"
    workers = [cluster.worker(name, WORKERS=str(pids)) for name in ("a", "b", "c", "d")]
    pids.write_text(" ".join(str(worker.pid) for worker in workers))
    rewrite(project, subject="{python: kernels:kills_its_machine}", reference="{python: kernels:plain}")
    ran = command(project, "run", "--dask", cluster.address)
    found = record(project)
    statuses = [each.verdict.status for each in found.results]
    assert statuses == [Status.PROPOSED, Status.ERROR, *[Status.PROPOSED] * 4], ran.stdout
    failure = found.results[1].outcome.execution.failure
    assert failure.reason is Reason.CRASHED
    assert failure.message.startswith("its worker was lost 3 times: ")
    (lost,) = [warning for warning in found.warnings if isinstance(warning, LostWorkers)]
    assert (len(lost.workers), lost.given_up) == (3, 1)
    assert sum(worker.poll() is None for worker in workers) == 1


def other_precreg(folder):
    """Return a folder with a copy of precreg that has another version."""
    shutil.copytree(Path(precreg_package.__file__).parent, folder / "precreg", ignore=shutil.ignore_patterns("*.pyc"))
    start = folder / "precreg" / "__init__.py"
    start.write_text(start.read_text().replace(f'"{precreg_package.__version__}"', '"0.0.1"'))
    return folder


def test_a_worker_with_another_precreg_is_refused_by_name(project, cluster, tmp_path):
    cluster.worker("old", PYTHONPATH=str(other_precreg(tmp_path / "other")))
    alone = command(project, "run", "--dask", cluster.address)
    assert alone.returncode == 2
    here = precreg_package.__version__
    assert f"precreg 0.0.1, and this run has {here}" in alone.stderr
    assert "old (tcp://" in alone.stderr
    cluster.worker("alpha")
    beside = command(project, "run", "--dask", cluster.address)
    assert beside.returncode == NEW, beside.stderr
    found = record(project)
    (refused,) = [warning for warning in found.warnings if isinstance(warning, RefusedWorker)]
    assert (refused.subject, refused.there, refused.here) == ("precreg", "0.0.1", here)
    assert [worker.name for worker in found.workers] == ["alpha"]
    assert f"worker {refused.worker} got no case: its precreg is 0.0.1, and this run has {here}" in beside.stdout


OTHER_NUMPY = "2.2.6"


@pytest.fixture(scope="session")
def other_numpy(tmp_path_factory):
    """A folder with another numpy, which PYTHONPATH puts before the installed one."""
    folder = tmp_path_factory.mktemp("numpy")
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, f"numpy=={OTHER_NUMPY}"]
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"numpy {OTHER_NUMPY} cannot be installed: {made.stderr[-200:]}")
    assert np.__version__ != OTHER_NUMPY
    return folder


def test_a_worker_with_another_numpy_is_another_environment(project, cluster, other_numpy):
    command(project, "run", "--jobs", "1")
    accepted = command(project, "baseline", "accept", "unit/s/*", "--reason", "first")
    assert accepted.returncode == 0, accepted.stderr
    cluster.worker("alpha")
    cluster.worker("other", PYTHONPATH=str(other_numpy))
    rewrite(project, matrix="{number: [1, 2, 3, 4, 5, 6]}")
    ran = command(project, "run", "--dask", cluster.address)
    found = record(project)
    table = {worker.name: place for place, worker in enumerate(found.workers)}
    assert set(table) == {"alpha", "other"}, ran.stdout
    there = found.workers[table["other"]]
    assert there.facts["numpy"] == OTHER_NUMPY
    assert there.fingerprint != found.environment.fingerprint
    for result in found.results:
        here = found.environment.of_case(result.outcome.execution)
        elsewhere = result.outcome.worker == table["other"]
        assert (here.fingerprint == there.fingerprint) == elsewhere
        assert (result.outcome.execution.facts.get("numpy") == OTHER_NUMPY) == elsewhere
        assert (result.baseline.difference is not None) == elsewhere, "its baseline is of another environment"
    (others,) = [warning for warning in found.warnings if isinstance(warning, OtherWorkers)]
    assert others.cases == sum(each.outcome.worker == table["other"] for each in found.results)
    assert f"numpy {OTHER_NUMPY} (here {np.__version__})" in others.facts


def test_a_scheduler_that_does_not_answer_is_named_within_seconds(project):
    began = time.monotonic()
    ran = command(project, "run", "--dask", "tcp://127.0.0.1:9")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "error[no-cluster]: expected a Dask scheduler at tcp://127.0.0.1:9 but got none" in ran.stderr
    assert time.monotonic() - began < 90


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dask", "somewhere"), "is no address"),
        (("--dask", "tcp://127.0.0.1:9", "--jobs", "2"), "exclude each other"),
        (("--dask", "local", "--jobs", "0"), "exclude each other"),
        (("--dask", "local", "--dask-project", "relative"), "is no absolute folder"),
    ],
)
def test_options_that_cannot_be_are_refused(project, words, message):
    ran = command(project, "run", *words)
    assert ran.returncode == 2
    assert message in ran.stderr


def test_a_cluster_without_workers_ends_the_run_after_the_stated_time(project, cluster):
    ran = command(project, "run", "--dask", cluster.address, "--dask-wait", "1")
    assert ran.returncode == 2
    assert f"expected a worker at {cluster.address} within 1 s but got none" in ran.stderr


def test_a_case_goes_to_the_worker_with_its_device(project, cluster):
    rewrite(project, requires="[device:npu]")
    cluster.worker("alpha")
    ran = command(project, "run", "--dask", cluster.address, "--dask-wait", "1")
    failure = record(project).results[0].outcome.execution.failure
    assert failure.reason is Reason.UNAVAILABLE, ran.stderr
    assert failure.message.startswith("needs the device npu, and no worker came with it in 1 s (alpha (")
    cluster.worker("beta", "--resources", "NPU=1")
    ran = command(project, "run", "--dask", cluster.address)
    found = record(project)
    assert [worker.name for worker in found.workers] == ["beta"]
    assert all(each.outcome.execution.failure is None for each in found.results), ran.stdout
    assert found.environment.of_case(found.results[0].outcome.execution).chain[-2:] == ("npu", "generic")


def test_the_cases_of_a_worker_share_its_memory(project, cluster, tmp_path):
    running, log = tmp_path / "running", tmp_path / "running.log"
    running.mkdir()
    keys = {"subject": "{python: kernels:counts_neighbours}", "reference": "{python: kernels:plain}"}
    # Two of 1 GB fit into 2.5 GB, although the worker has four threads.
    cluster.worker("alpha", "--resources", "MEMORY=2.5e9", threads=4, NEIGHBOURS=str(running))
    rewrite(project, matrix=numbers(12), requires="['memory:1GB']", **keys)
    assert command(project, "run", "--dask", cluster.address).returncode == NEW
    assert {each.outcome.execution.failure for each in record(project).results} == {None}
    assert max(log.read_text().split()) == "2"
    log.unlink()
    rewrite(project, matrix=numbers(12), **keys)
    assert command(project, "run", "--dask", cluster.address).returncode == NEW
    assert max(log.read_text().split()) > "2"


def test_a_case_that_fits_into_no_worker_is_named_and_the_others_run(project, cluster):
    big = SUITE.replace("suite: s", "suite: big") + "requires: ['memory:3GB']\n"
    (project / "suites" / "unit" / "big.yaml").write_text(big)
    cluster.worker("alpha", "--resources", "memory=2e9")
    ran = command(project, "run", "--dask", cluster.address, "--dask-wait", "1")
    failures = {each.suite: each.outcome.execution.failure for each in record(project).results}
    assert failures["s"] is None, ran.stdout
    assert failures["big"].reason is Reason.UNAVAILABLE
    assert failures["big"].message.startswith("needs 3 GB of memory, and no worker came with it in 1 s (alpha (")
    assert failures["big"].message.endswith(" has no resource, 2 GB of memory)")
    assert command(project, "run", "--dask", cluster.address, "--dask-wait", "1", "--require").returncode == 2


def test_a_checkout_of_another_commit_is_refused(project, cluster, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", project, checkout], check=True)
    cluster.worker("alpha")
    ran = command(project, "run", "--dask", cluster.address, "--dask-project", checkout)
    assert ran.returncode == NEW, ran.stderr
    (project / "suites" / "unit" / "kernels.py").write_text(KERNELS + "\n# another state\n")
    git(project, "commit", "-qam", "second")
    ran = command(project, "run", "--dask", cluster.address, "--dask-project", checkout)
    assert ran.returncode == 2
    commits = [subprocess.check_output(["git", "-C", at, "rev-parse", "HEAD"], text=True) for at in (checkout, project)]
    assert f"project commit {commits[0][:12]}, and this run has commit {commits[1][:12]}" in ran.stderr


def test_an_interrupted_run_goes_on_without_the_cluster(project, cluster):
    rewrite(project, matrix=numbers(12), subject="{python: kernels:slow}")
    rewrite_reference(project)
    cluster.worker("alpha")
    journal = project / ".precreg" / "journal.jsonl"
    running = subprocess.Popen(
        [sys.executable, "-m", "precreg", "run", "--dask", cluster.address],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ(**THREADS),
    )
    wait_for(lambda: journal.exists() and outcomes_of(journal) >= 3, running)
    running.kill()
    running.wait()
    done = outcomes_of(journal)
    ran = command(project, "run", "--resume", "--jobs", "1")
    assert ran.returncode == NEW, ran.stderr
    found = record(project)
    assert [worker.name for worker in found.workers] == ["alpha"]
    assert done <= sum(each.outcome.worker == 0 for each in found.results) + 1 <= 12


def test_pairs_run_on_the_cluster(project, cluster):
    kernels = project / "suites" / "unit" / "kernels.py"
    # A second rounding costs too little for the own seeds to prove a loss, so fresh ones are drawn.
    kernels.write_text(KERNELS.replace("np.exp(x) * number", "np.exp(x) * (number - 1) + np.exp(x)", 1))
    rewrite(project, matrix="{number: [7, 11]}", reference="{python: kernels:exact}")
    cluster.worker("alpha")
    words = ("run", "--pair", "HEAD", "--max-seeds", "20", "--pair-seconds", "5")
    here, there = [], []
    for words_of, found in ((("--jobs", "1"), here), (("--dask", cluster.address), there)):
        ran = command(project, *words, *words_of)
        found += [(each.verdict.reason, each.paired.seeds, each.paired.figures) for each in record(project).results]
        assert ran.returncode in (0, 1), ran.stderr
    assert here == there
    assert all(seeds >= 20 for _, seeds, _ in there)


@pytest.mark.parametrize("words", [("selftest", "--seeds", "1"), ("calibrate", "--replicates", "3")])
def test_selftests_and_calibrations_are_the_same_on_the_cluster(project, cluster, words):
    command(project, "run", "--jobs", "1")
    command(project, "baseline", "accept", "unit/s/*", "--reason", "first")
    cluster.worker("alpha")
    local = command(project, *words, "*1*", "--jobs", "1", "--json")
    remote = command(project, *words, "*1*", "--dask", cluster.address, "--json")
    assert remote.returncode == local.returncode, remote.stderr
    assert json.loads(remote.stdout) == json.loads(local.stdout)


def test_folders_are_compared_on_the_cluster(project, cluster, tmp_path):
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for number in range(10):
            np.save(tmp_path / side / f"{number}.npy", np.arange(10.0) + (side == "a" and number == 3))
    cluster.worker("alpha")
    words = ("compare", "../a", "../b", "--json", "-")
    local, remote = (command(project, *words, *at) for at in (("--jobs", "1"), ("--dask", cluster.address)))
    assert (local.returncode, remote.returncode) == (1, 1), remote.stderr
    assert json.loads(remote.stdout)["pairs"] == json.loads(local.stdout)["pairs"]
