"""Which baselines of a project creep: all that a run looks up, whatever it selects, unless it is allowed."""

import shutil

import pytest

from precreg.baseline.cumulative import find_cumulative_losses
from precreg.suite.expand import load_cases
from tests.baseline.plain import document_of, write_document
from tests.e2e.command import change
from tests.scaled import A, B, Project

CHAIN = ("cpu-x86_64", "cpu", "generic")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A project in which both cases have crept to 1.4 times, by steps that are confirmed and accepted."""
    project = Project(tmp_path_factory.mktemp("crept"))
    for step, scale in enumerate((1.0, 1.2, 1.4)):
        project.accepted(scale, f"step {step}")
    return project.folder


def found(folder, chain=CHAIN):
    return {finding.about: finding for finding in find_cumulative_losses(folder, load_cases(folder), chain)}


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def test_every_case_is_found_with_its_file(folder):
    crept = found(folder)
    assert list(crept) == [A, B]
    assert crept[A].factor == pytest.approx(1.4, rel=0.01)
    assert crept[A].source.file == "baselines/generic/unit/s.json"
    assert (crept[A].fact.reason, crept[A].fact.steps) == ("step 0", 2)


def test_a_run_fails_for_it_whatever_it_selects(copy):
    project = Project(copy)
    project.scale(1.4)
    for selection in ((), ("64",), ("--shard", "1/2"), ("--shard", "2/2")):
        done = project.run("run", "--jobs", "0", "--output", copy / "reports", *selection)
        assert done.exit_code == 1, done.output
        assert "exit 1: 2 findings on the run: 2 creep" in done.output


def test_the_pyramid_says_how_much_is_allowed(copy):
    suite = copy / "suites/unit/s.yaml"
    change(suite, "atol: 1e-2}", "atol: 1e-2, regression: {creep: 0.5}}")
    assert found(copy) == {}
    change(suite, "creep: 0.5", "creep: off")
    assert found(copy) == {}
    change(suite, "creep: off", "creep: 0.3")
    assert found(copy)[A].fact.allowed == 1.3


def test_an_allowance_names_the_reason(copy):
    (copy / "baselines/allow.yaml").write_text(f"allow:\n  - {{case: {A}, change: creep, reason: cheaper by half}}\n")
    crept = found(copy)
    assert {id: finding.allowed for id, finding in crept.items()} == {A: "cheaper by half", B: None}
    assert not crept[A].binding


def test_the_baseline_that_a_run_looks_up_is_the_one_that_counts(copy):
    generic = copy / "baselines/generic/unit/s.json"
    own = document_of(generic) | {"environment": "cpu"}
    for entry in own["cases"].values():
        del entry["accepted"], entry["reach"]
    write_document(copy / "baselines/cpu/unit/s.json", own)
    assert found(copy) == {}
    assert list(found(copy, ("generic",))) == [A, B]


def test_files_in_which_nothing_has_a_past_are_not_read(copy):
    (copy / "baselines/generic/unit/other.json").write_text("no JSON at all")
    assert list(found(copy)) == [A, B]


def test_a_case_that_is_gone_may_creep_as_much_as_where_nothing_is_said(copy):
    assert [finding.about for finding in find_cumulative_losses(copy, (), CHAIN)] == [A, B]
