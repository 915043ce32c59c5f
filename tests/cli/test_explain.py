import pytest

from tests.e2e.command import ROOT, copy_of, precreg, with_suite

SUITE = """suite: s
category: normalization
subject: k:same
reference: k:same
matrix: {dtype: [float32]}
inputs: {x: {shape: 4, dtype: $dtype, normal: {}}}
params: {}
tolerance:
  rtol: 1e-4
  float32: {rtol: 1e-9, mean_ulp: 2}
  environments: {npu: {rtol: 5}}
cases:
  - {match: float32, tolerance: {atol: 3e-7}, tags: [one]}
"""
TOLERANCES = """default: {rtol: 1e-3}
tiers: {unit: {rtol: 2e-3}}
categories: {normalization: {rtol: 3e-3}}
"""


@pytest.fixture
def project(tmp_path):
    with_suite(tmp_path, SUITE)
    (tmp_path / "suites" / "tolerances.yaml").write_text(TOLERANCES)
    return tmp_path


def chain(shown, metric):
    """Return (holds, value, where) of each layer of a metric."""
    rows = (line.split() for line in shown.splitlines() if line[:2] in ("* ", "  "))
    return [(row[0] == "*", float(row[1 + (row[0] == "*")]), row[-1]) for row in rows if row[row[0] == "*"] == metric]


def test_the_chain_of_a_bound_with_file_and_line(project):
    shown = precreg(project, "explain", "unit/s/float32").stdout
    assert chain(shown, "rtol") == [
        (False, 1.3e-6, "torch-2.13"),
        (False, 1e-3, "suites/tolerances.yaml:1"),
        (False, 2e-3, "suites/tolerances.yaml:2"),
        (False, 3e-3, "suites/tolerances.yaml:3"),
        (False, 1e-4, "suites/unit/s.yaml:9"),
        (True, 1e-9, "suites/unit/s.yaml:10"),
    ]
    assert chain(shown, "atol") == [(False, 1e-5, "torch-2.13"), (True, 3e-7, "suites/unit/s.yaml:13")]
    assert chain(shown, "mean_ulp") == [(True, 2.0, "suites/unit/s.yaml:10")]


def test_an_environment_comes_last_and_only_there(project):
    shown = precreg(project, "explain", "unit/s/float32", "--environment", "npu-910b").stdout
    assert chain(shown, "rtol")[-1] == (True, 5.0, "suites/unit/s.yaml:11")


def test_a_bound_below_an_ulp_and_one_that_admits_everything_are_warned_of(project):
    assert "rtol=1e-09" in precreg(project, "explain", "unit/s/float32").stdout.split("warning: ")[1]
    vacuous = precreg(project, "explain", "unit/s/float32", "--environment", "npu").stdout
    assert "wrong by 100 %" not in vacuous, "mean_ulp still stops it"


def test_outputs_come_from_the_baseline():
    shown = precreg(ROOT, "explain", "unit/apply_adam/float32-768x768-standard").stdout
    assert [line.split()[3] for line in shown.splitlines() if line.startswith("tolerance of")] == ["'m'", "'v'", "'w'"]
    assert "baseline    baselines/generic/unit/apply_adam.json, accepted" in shown
    assert "golden      kernels.apply_adam_oracles:golden" in shown


def test_before_a_baseline_outputs_come_from_the_proposal(tmp_path):
    project = copy_of(ROOT, tmp_path, "suites/unit/apply_adam.yaml", "suites/unit/kernels", "suites/networks")
    case = "unit/apply_adam/float32-3x5x63-standard"
    assert "output 'out' in float32 (guessed: no run yet)" in precreg(project, "explain", case).stdout
    precreg(project, "run", case)
    shown = precreg(project, "explain", case).stdout
    assert "baseline    none in " in shown
    assert "output 'w'" in shown
    assert "guessed" not in shown


def test_a_known_bad_case_and_a_borrowed_baseline_are_told():
    shown = precreg(ROOT, "explain", "unit/apply_adam/float32-768x768-swapped").stdout
    assert "(of unit/apply_adam/float32-768x768-standard)" in shown
    assert "expected to fail: known bad" in shown


def test_a_declaration_that_bits_may_differ_is_shown(project):
    assert "nondeterministic" not in precreg(project, "explain", "unit/s/float32").stdout
    with_suite(project, SUITE + "deterministic: false\n")
    shown = precreg(project, "explain", "unit/s/float32").stdout
    assert "determinism declared nondeterministic: bits may differ, the statistics of all runs apply" in shown
