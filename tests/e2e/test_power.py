"""`precreg power` as a user calls it: from baselines alone, whatever the kernels would do now."""

import json

import pytest

from tests.e2e.command import change, precreg, repository, with_suite

SUITE = """\
suite: s
subject: k:square
reference: k:square
matrix:
  shape: [[64, 32], [1]]
inputs:
  x: {shape: $shape, dtype: float16, normal: {mean: 0, std: 1}}
seeds: 3
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = with_suite(tmp_path_factory.mktemp("power"), SUITE, "def square(x):\n    return x * x\n")
    repository(folder)
    precreg(folder, "run", "--jobs", "0")
    assert precreg(folder, "baseline", "accept", "*", "--reason", "first").returncode == 0
    return folder


def of(project, *arguments, **variables):
    """Return what is told of each case by the last part of its id."""
    done = precreg(project, "power", "--json", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return {case["case"].rpartition("/")[2]: case for case in json.loads(done.stdout)["cases"]}


def test_a_loss_is_told_where_there_are_samples_and_why_not_where_there_are_none(project):
    found = of(project)
    assert list(found) == ["1", "64x32"]
    assert found["1"]["losses"][0]["why"].startswith("fewer than 5 samples")
    loss = found["64x32"]["losses"][0]
    assert 1.02 < loss["ratio"] == found["64x32"]["worst"] < 1.5
    assert (loss["rule"], loss["units"]) == ("statistic", 48)


def test_it_is_told_alone_as_among_others(project):
    assert of(project, "64x32") == {"64x32": of(project)["64x32"]}


def test_nothing_is_run_and_nothing_is_written(project):
    kernel = project / "suites" / "unit" / "k.py"
    before = of(project)
    text = kernel.read_text()
    kernel.write_text("raise SystemExit('run')\n\n\ndef square(x):\n    return x\n")
    files = {path for path in project.rglob("*") if "__pycache__" not in path.parts}
    try:
        assert of(project) == before
    finally:
        kernel.write_text(text)
    assert {path for path in project.rglob("*") if "__pycache__" not in path.parts} == files


def test_a_case_without_a_baseline_or_of_another_definition_is_said_to_be(project, tmp_path):
    assert of(project, PRECREG_ENVIRONMENT="npu")["1"]["losses"]  # npu falls back to generic
    suite = project / "suites" / "unit" / "s.yaml"
    change(suite, "[1]]", "[1], [5, 4]]")
    change(suite, "std: 1", "std: 2")
    try:
        found = of(project)
    finally:
        suite.write_text(SUITE)
    assert found["5x4"]["why"].startswith("no baseline in ")
    assert found["64x32"]["why"] == "its definition changed since it was accepted in baselines/generic/unit/s.json"


def test_an_allowed_growth_that_is_larger_is_what_a_loss_must_exceed(project):
    suite = project / "suites" / "unit" / "s.yaml"
    suite.write_text(SUITE + "tolerance:\n  regression: {statistic: 0.5}\n")
    try:
        wide = of(project)["64x32"]["worst"]
    finally:
        suite.write_text(SUITE)
    assert wide > 1.5 > of(project)["64x32"]["worst"]


def test_a_selection_of_nothing_is_told(project):
    done = precreg(project, "power", "nonsense")
    assert done.returncode == 2
    assert "error[nothing-selected]" in done.stderr


def test_the_table_is_plain_text_with_a_summary(project):
    lines = precreg(project, "power").stdout.splitlines()
    assert lines[0].split("  ")[0] == "case"
    assert "significance level of a case: 0.00313, from 2 baselines" in lines
