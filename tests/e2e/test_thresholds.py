"""PRECISION_THRESHOLDS on the command line: a stricter one fails, a looser one is said once and changes nothing."""

import json

import pytest

from tests.e2e.command import precreg, with_suite

SUITE = """\
suite: s
subject: k:rounded
reference: k:exact
matrix: {dtype: [float16, float32], shape: [[32], [8, 16]]}
inputs: {x: {shape: $shape, dtype: $dtype, uniform: {low: 1, high: 2}}}
tolerance: {rtol: 1e-2, max_ulp: 8}
"""
KERNEL = """\
def rounded(x):
    return x / x.dtype.type(3)


def exact(x):
    return x / 3
"""


@pytest.fixture
def project(tmp_path):
    return with_suite(tmp_path, SUITE, KERNEL)


def record(project):
    return json.loads((project / "reports" / "record.json").read_text())


def test_a_stricter_threshold_fails_and_the_report_says_where_it_came_from(project):
    done = precreg(project, "run", "--jobs", "0", PRECISION_THRESHOLDS='{"unit": {"float16": {"max_ulp": 0.01}}}')
    assert done.returncode == 1
    assert "must be at most 0.01 (thresholds, unit, float16, PRECISION_THRESHOLDS)" in done.stdout
    reasons = {result["name"]: result["verdict"]["reason"] for result in record(project)["results"]}
    assert {name for name, reason in reasons.items() if reason == "out_of_tolerance"} == {"float16-32", "float16-8x16"}


def test_a_looser_threshold_changes_nothing_and_is_said_once(project):
    plain = precreg(project, "run", "--jobs", "0")
    before = record(project)
    looser = precreg(project, "run", "--jobs", "0", PRECISION_THRESHOLDS='{"max_ulp": 64}')
    after = record(project)
    assert looser.returncode == plain.returncode == 2
    assert [result["tolerances"] for result in after["results"]] == [
        result["tolerances"] for result in before["results"]
    ]
    said = "PRECISION_THRESHOLDS: max_ulp=64 (thresholds) is looser than some bounds, and does not hold there"
    fact = {"kind": "unmet_threshold", "metric": "max_ulp", "limit": 64.0, "layer": "thresholds", "cause": "looser"}
    assert (before["warnings"], after["warnings"]) == ([], [fact])
    assert said in looser.stdout


def test_the_project_may_let_them_loosen(project):
    (project / "suites" / "tolerances.yaml").write_text("allow_looser_thresholds: true\n")
    precreg(project, "run", "--jobs", "0", PRECISION_THRESHOLDS='{"max_ulp": 64}')
    bounds = [bound for result in record(project)["results"] for bound in result["tolerances"]["out"]["bounds"]]
    assert {bound["limit"] for bound in bounds if bound["metric"] == "max_ulp"} == {64}
    assert record(project)["warnings"] == []


def test_explain_shows_the_layer_and_whether_it_holds(project):
    thresholds = '{"max_ulp": 64, "rtol": 1e-3}'
    shown = precreg(project, "explain", "unit/s/float32-32", PRECISION_THRESHOLDS=thresholds).stdout
    rows = [line.split() for line in shown.splitlines() if line.endswith("PRECISION_THRESHOLDS")]
    assert rows == [
        ["*", "rtol", "0.001", "thresholds", "PRECISION_THRESHOLDS"],
        ["max_ulp", "64", "thresholds", "PRECISION_THRESHOLDS"],
    ]


def test_a_mistake_in_the_variable_stops_a_run_before_any_case(project):
    done = precreg(project, "run", PRECISION_THRESHOLDS='{"max_ulp": }')
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("PRECISION_THRESHOLDS:1: error[bad-thresholds]: expected JSON")
    assert not (project / "reports").exists()


def test_a_file_has_the_thresholds_of_the_variable(project):
    (project / "strict.yaml").write_text("unit:\n  float16:\n    max_ulp: 0.01\n")
    done = precreg(project, "run", "--config", "strict.yaml")
    assert done.returncode == 1
    assert "must be at most 0.01 (thresholds, unit, float16, strict.yaml:3)" in done.stdout
    by_file = [result["verdict"]["reason"] for result in record(project)["results"]]
    precreg(project, "run", PRECISION_THRESHOLDS='{"unit": {"float16": {"max_ulp": 0.01}}}')
    assert by_file == [result["verdict"]["reason"] for result in record(project)["results"]]
    (project / "strict.json").write_text('{"unit": {"float16": {"max_ulp": 0.01}}}')
    assert precreg(project, "run", "--config", project / "strict.json").returncode == 1
    shown = precreg(project, "explain", "float16-32", "--config", "strict.yaml").stdout
    assert "strict.yaml:3" in shown


def test_a_looser_file_is_named_in_the_warning(project):
    (project / "loose.yaml").write_text("max_ulp: 64\n")
    said = "loose.yaml: max_ulp=64 (thresholds) is looser than some bounds, and does not hold there"
    assert said in precreg(project, "run", "--config", "loose.yaml").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unit:\n  max_upl: 4\n", "strict.yaml:2: error[bad-thresholds]: expected a metric, rtol, atol, a dtype or"),
        ("max_ulp: high\n", "strict.yaml:1: error[bad-thresholds]: "),
        ("max_ulp: 1\nmax_ulp: 2\n", "strict.yaml:2: error[duplicate-key]: "),
        ("- max_ulp\n", "strict.yaml:1: error[bad-thresholds]: expected a mapping"),
        ("", "strict.yaml:1: error[bad-thresholds]: expected a mapping"),
        ("max_ulp: [\n", "strict.yaml:2: error[yaml-syntax]: "),
        ("signs.flip: 1\n", "strict.yaml:1: error[unknown-analyzer]: "),
    ],
)
def test_a_mistake_in_the_file_has_its_line(project, text, said):
    (project / "strict.yaml").write_text(text)
    done = precreg(project, "run", "--config", "strict.yaml")
    assert (done.returncode, done.stderr.startswith(said)) == (2, True), done.stderr


def test_a_file_beside_the_variable_is_an_error(project):
    (project / "strict.yaml").write_text("max_ulp: 1\n")
    done = precreg(project, "list", "--config", "strict.yaml", PRECISION_THRESHOLDS='{"max_ulp": 4}')
    assert done.returncode == 2
    assert "expected --config or the variable PRECISION_THRESHOLDS but got both" in done.stderr


def test_a_file_that_is_absent_is_an_error(project):
    done = precreg(project, "run", "--config", "none.yaml")
    assert (done.returncode, "none.yaml" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
