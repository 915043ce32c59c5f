"""The real command reuses outcomes where nothing changed, says so in each report, and never in CI."""

import json
import re

import pytest

from tests.e2e.command import change, precreg, with_suite

SUITE = """suite: s
subject: k:doubled
reference: k:exact
matrix: {n: [1, 2, 3]}
inputs: {x: {shape: [8, $n], dtype: float32, normal: {}}}
tolerance: {rtol: 1e-3}
"""
OTHER = SUITE.replace("suite: s", "suite: other").replace("k:", "other:")
KERNEL = "def doubled(x):\n    return x * 2\n\n\ndef exact(x):\n    return x * 2\n"


@pytest.fixture
def project(tmp_path):
    folder = with_suite(tmp_path, SUITE, KERNEL)
    (folder / "suites/unit/other.yaml").write_text(OTHER)
    (folder / "suites/unit/other.py").write_text(KERNEL)
    return folder


def run(project, *words, **variables):
    """Run the cases in workers: a run whose cases are in its own process reuses nothing."""
    jobs = () if "--jobs" in words else ("--jobs", "2")
    return precreg(project, "run", *words, *jobs, **variables)


def record_of(project):
    return json.loads((project / "reports/record.json").read_text())


def reused(project):
    """Return the ids of the cases whose results have the mark."""
    return {each["id"] for each in record_of(project)["results"] if "reused" in each["outcome"]}


def test_a_run_without_a_change_runs_no_case(project):
    first = run(project)
    assert "reused" not in first.stdout
    before = record_of(project)
    again = run(project)
    assert again.returncode == first.returncode
    assert re.search(r"^reused    6 cases .* \(since 20\d\d-", again.stdout, re.MULTILINE), again.stdout
    assert "0 ran" in again.stdout
    assert len(reused(project)) == 6
    after = record_of(project)
    assert {each["outcome"]["reused"]["started"] for each in after["results"]} == {before["started"]}
    assert "6 cases reused" in (project / "reports/summary.md").read_text()
    assert "6 cases reused" in (project / "reports/report.html").read_text()
    # Apart from the mark each result is the same.
    for each in after["results"]:
        del each["outcome"]["reused"]
    assert after["results"] == before["results"]


def test_bytecode_of_the_project_costs_one_run(project):
    (project / "suites/unit/k.py").write_text("from helper import two\n" + KERNEL.replace("x * 2", "x * two()"))
    (project / "suites/unit/helper.py").write_text("def two():\n    return 2\n")
    with_bytecode = {"PYTHONDONTWRITEBYTECODE": ""}
    # Python makes __pycache__, so the folder of the helper changes during the run.
    precreg(project, "run", "--jobs", "2", **with_bytecode)
    assert list((project / "suites/unit/__pycache__").glob("helper.*.pyc"))
    precreg(project, "run", "--jobs", "2", **with_bytecode)
    precreg(project, "run", "--jobs", "2", **with_bytecode)
    assert len(reused(project)) == 6
    (project / "suites/unit/helper.py").write_text("def two():\n    return 2 * 1.01\n")
    precreg(project, "run", "--jobs", "2", **with_bytecode)
    assert reused(project) == {f"unit/other/n={n}" for n in (1, 2, 3)}


def test_a_change_runs_its_cases_alone(project):
    run(project)
    change(project / "suites/unit/k.py", "def doubled(x):\n    return x * 2", "def doubled(x):\n    return x * 2.01")
    done = run(project)
    assert "3 cases reused" in done.stdout
    assert "3 ran: 3 changed" in done.stdout
    assert reused(project) == {f"unit/other/n={n}" for n in (1, 2, 3)}
    assert "out_of_tolerance" in done.stdout


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--no-cache"], {}), (["--jobs", "0"], {}), (["--ci"], {}), ([], {"CI": "true"})],
    ids=["no-cache", "in-process", "ci", "variable"],
)
def test_some_runs_reuse_nothing(project, words, variables):
    run(project)
    done = run(project, *words, **variables)
    assert "reused" not in done.stdout
    assert reused(project) == set()


def test_a_run_without_the_cache_keeps_nothing(project):
    run(project, "--no-cache")
    assert not (project / ".precreg/outcomes.sqlite").exists()


def test_baselines_are_judged_anew(project):
    run(project)
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    done = run(project)
    assert done.returncode == 0, done.stdout
    assert "6 cases reused" in done.stdout
    assert "6 passed" in done.stdout
