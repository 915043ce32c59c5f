"""Causes and references are searched on the workers of a cluster, with the findings of a search on this machine."""

import json
import shutil

import pytest

from tests.e2e.command import accept_on_main, change, git, repository, started
from tests.e2e.diagnosed_kernels import KERNELS

# The processes that import these kernels: workers have a name.
LOGGED = """

import os

with open({log!r}, "a") as log:
    print(os.environ.get("WORKER", "none"), file=log)
"""
SUITES = {
    "adam": "golden: kernels:golden_adam\ninputs:\n  w: {shape: [64, 50], dtype: float32, normal: {}}\n"
    "  m: {shape: [64, 50], dtype: float32, normal: {}}\n"
    "  v: {shape: [64, 50], dtype: float32, uniform: {low: 0, high: 1}}\n",
    "scaled": "reference: kernels:exact_scaled\ninputs: {x: {shape: [32, 70], dtype: float32, normal: {}}}\n",
}
FILE = "suites/unit/kernels.py"


@pytest.fixture
def project(tmp_path):
    """A repository with accepted baselines."""
    folder = tmp_path / "project"
    (folder / "suites/unit").mkdir(parents=True)
    (folder / FILE).write_text(KERNELS + LOGGED.format(log=str(tmp_path / "log")))
    for name, text in SUITES.items():
        (folder / f"suites/unit/{name}.yaml").write_text(f"suite: {name}\nsubject: kernels:{name}\n{text}")
    return accept_on_main(repository(folder))


def run(project, *words):
    """Run the cases, and return the record, the output, and the names of the workers that imported the kernels."""
    log = project.parent / "log"
    log.write_text("")
    done = started(project, "run", "--pair", "off", "--no-cache", *words)
    assert "Traceback" not in done.stderr, done.stderr
    record = json.loads((project / "reports/record.json").read_text())
    return record, done.stdout + done.stderr, set(log.read_text().split())


def causes(record):
    """Return the diagnoses of a record by case, without their times."""
    found = {each["id"]: dict(each["diagnosis"]) for each in record["results"] if each["diagnosis"] is not None}
    for diagnosis in found.values():
        diagnosis.pop("seconds")
    return found


def break_kernels(project):
    """Change the order of adam, and cast the result of the other kernel."""
    change(project / FILE, "np.float32(0.001) * (m / denominator)", "(np.float32(0.001) * m) / denominator")
    cast = "np.exp(x * np.float32(0.5)).astype(np.float16).astype(x.dtype)"
    change(project / FILE, "np.exp(x * np.float32(0.5))", cast)


def test_causes_are_searched_on_the_workers(project, cluster):
    break_kernels(project)
    local, _, _ = run(project, "--jobs", "2", "--diagnose", "300")
    assert {case: each["status"] for case, each in causes(local).items()} == {
        "unit/adam/default": "found",
        "unit/scaled/default": "found",
    }
    cluster.worker("alpha", WORKER="alpha")
    cluster.worker("beta", WORKER="beta")
    remote, _, names = run(project, "--dask", cluster.address, "--diagnose", "300")
    assert causes(remote) == causes(local)
    assert names <= {"alpha", "beta"}, "no kernel ran on this machine"
    assert (remote["diagnosed"]["diagnosed"], remote["diagnosed"]["problem"]) == (2, "")
    assert remote["diagnosed"].get("without_accepted", 0) == 0


def test_a_worker_whose_repository_lacks_the_accepted_version_is_counted(project, cluster, tmp_path):
    break_kernels(project)
    git(project, "commit", "-qam", "changed")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", "checkout")
    cluster.worker("alpha", WORKER="alpha")
    words = ("--dask", cluster.address, "--dask-project", tmp_path / "checkout", "--diagnose", "300")
    record, shown, names = run(project, *words)
    assert record["diagnosed"]["without_accepted"] == 2
    assert "2 without the accepted version, which the worker's repository lacks" in shown
    assert {each["commit"] for each in causes(record).values()} == {git(project, "rev-parse", "HEAD")}
    assert names == {"alpha"}
    shutil.rmtree(tmp_path / "checkout/.git")
    record, _, _ = run(project, *words)
    assert record["diagnosed"]["without_accepted"] == 2


def test_a_search_does_not_wait_for_workers_beyond_its_time(project, cluster):
    """The journal has all outcomes, and a worker of their environment is gone."""
    break_kernels(project)
    run(project, "--jobs", "1")
    cluster.worker("alpha", OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2", PRECREG_ENVIRONMENT="other")
    words = ("--dask", cluster.address, "--dask-wait", "3600", "--diagnose", "5", "--resume")
    record, shown, _ = run(project, *words)
    assert record["diagnosed"]["not_reached"] == 2, shown


def test_references_are_compared_on_the_workers(project, cluster):
    change(
        project / FILE, "return np.exp(x * 0.5).sum(axis=-1)", "half = 0.5\n    return np.exp(x * half).sum(axis=-1)"
    )
    golden = "np.float32(0.001) * (m / (np.sqrt(v) + np.float32(1e-8)))"
    change(project / FILE, golden, golden.replace("1e-8", "1e-3"))
    found = []
    cluster.worker("alpha", WORKER="alpha")
    for place in (("--jobs", "1"), ("--dask", cluster.address)):
        record, _, names = run(project, "--against", "HEAD", *place)
        found.append((record["findings"], [each for each in record["warnings"] if each["kind"] == "same_oracles"]))
    assert found[0] == found[1]
    assert [each["about"] for each in found[0][0]] == ["unit/adam"]
    assert found[0][1] == [{"kind": "same_oracles", "cases": 1, "fresh": 3}]
    assert names == {"alpha"}
