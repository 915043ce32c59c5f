"""A session is held against a base as `precreg run` is: in a merge request's pipeline by itself, or as it is asked."""

import pytest

from tests.baseline.integrity import demo
from tests.baseline.integrity.test_tricks import TRICKS
from tests.pytest_plugin.session import counted, pytest_, record

BASE = "CI_MERGE_REQUEST_DIFF_BASE_SHA"
LEFT = "unit/mean/float16-n=32"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    demo.make(folder)
    return folder


@pytest.fixture
def lowered(template, tmp_path):
    """A project in which a worse kernel came with the word that it is known to be bad, and a case was taken away."""
    project = demo.copy(template, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nprecreg_suites = suites\n")
    project.change("suites/unit/kernels.py", "dtype=np.float32", "dtype=x.dtype")
    TRICKS["exclude a row"].done(project)
    TRICKS["expect a failure"].done(project)
    return project


def test_what_was_lowered_judges_nothing_and_is_found_by_several_processes_too(lowered):
    done = pytest_(lowered.root, "suites", "-n", "2", CI="true", **{BASE: lowered.base})
    assert done.returncode == 1, done.stdout
    found = record(lowered.root / "reports")
    kinds = {(finding["kind"], finding["about"]) for finding in found["findings"]}
    assert {("case_removed", demo.CASE), ("expect_failure_added", LEFT)} <= kinds
    assert found["against"] == lowered.base
    reasons = {result["id"]: result["verdict"]["reason"] for result in found["results"]}
    assert reasons[LEFT] == "regressed"
    assert "FINDING  unit/mean/float16-n=16   case_removed" in done.stdout


def test_it_is_asked_for_by_an_option_whatever_is_selected(lowered):
    lowered.write("suites/unit/mean.yaml", demo.MEAN)
    TRICKS["remove the budget"].done(lowered)
    done = pytest_(lowered.root, "suites/unit/copy.yaml", "-p", "no:xdist", f"--precreg-against={lowered.base}")
    assert (counted(done), done.returncode) == ({"passed": 1}, 1), done.stdout
    assert "FINDING  unit/mean   budget_loosened" in done.stdout


def test_a_base_that_is_not_there_stops_a_session_before_it_begins(lowered):
    done = pytest_(lowered.root, "suites", "-p", "no:xdist", **{BASE: "1" * 40})
    assert done.returncode == 4
    assert "error[unknown-revision]" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
