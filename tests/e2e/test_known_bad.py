"""From a wrong result to a baseline that is known to be bad, and back to an ordinary one, with real commands."""

import json

import pytest

from tests.e2e.command import change, git, precreg, repository, with_suite

KERNEL = """\
import numpy as np

FACTOR = 1.01
NANS = 3


def subject(x, kind):
    out = (x * x).astype(np.float32)
    if kind == "scaled":
        return out * np.float32(FACTOR)
    if kind == "nan":
        out.reshape(-1)[:NANS] = np.nan
    return out


def exact(x, kind):
    return x * x
"""
SUITE = """\
suite: bad
subject: k:subject
reference: k:exact
matrix: {kind: [scaled, nan, fine]}
params: {kind: $kind}
inputs:
  x: {shape: [32, 32], dtype: float32, normal: {mean: 0, std: 1}}
seeds: 2
tolerance: {rtol: 1.0e-5, atol: 1.0e-6}
"""
MODULE, BASELINE = "suites/unit/k.py", "baselines/generic/unit/bad.json"
WHY = "the vendor's kernel"


@pytest.fixture
def project(tmp_path):
    with_suite(tmp_path, SUITE, KERNEL, "bad")
    return repository(tmp_path)


@pytest.fixture
def known(project):
    """Return the project with its good case accepted, and its wrong ones as known bad."""
    precreg(project, "run")
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    assert precreg(project, "baseline", "accept", "unit/bad/*", "--known", WHY).returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-qm", "known")
    return project


def results(project):
    record = json.loads((project / "reports/record.json").read_text())
    return {result["name"]: result["verdict"] for result in record["results"]}


def cases(project):
    return json.loads((project / BASELINE).read_text())["cases"]


def test_a_wrong_result_is_accepted_with_known_alone(project):
    assert precreg(project, "run").returncode == 1
    shown = precreg(project, "baseline", "diff").stdout
    assert "unit/bad/nan: non_finite_mismatch, to be stored in baselines/generic/unit/bad.json as known bad" in shown
    done = precreg(project, "baseline", "accept", "--all", "--reason", "first")
    assert done.returncode == 0
    assert "not accepted, because wrong: unit/bad/nan, unit/bad/scaled" in done.stdout
    assert list(cases(project)) == ["fine"]
    refused = precreg(project, "baseline", "accept", "unit/bad/nan", "--reason", "it is so")
    assert "error[known-bad]: expected a result within its tolerance but got unit/bad/nan" in refused.stderr
    assert "which is wrong (non_finite_mismatch)" in refused.stderr
    assert "accept a wrong result with --known REASON, and a right one with --reason REASON" in refused.stderr
    blank = precreg(project, "baseline", "accept", "unit/bad/nan", "--known", " ")
    assert "error[missing-reason]: expected why the figures stay wrong but got known=' '" in blank.stderr
    hint = "what to do: give the reason: --reason 'fused multiply-add'; for a wrong result: --known 'issue 12'"
    assert hint in blank.stderr
    done = precreg(project, "baseline", "accept", "unit/bad/*", "--known", WHY)
    assert "accepted unit/bad/nan in baselines/generic/unit/bad.json (known bad)" in done.stdout
    assert cases(project)["nan"]["known"]["nans"] == {"out": [3, 3]}
    assert (cases(project)["nan"]["reason"], cases(project)["nan"]["known"]["reason"]) == (WHY, WHY)
    assert "known" not in cases(project)["fine"]
    assert f"(known bad: {WHY})" in precreg(project, "baseline", "list").stdout


def test_a_right_result_is_not_accepted_with_known(project):
    precreg(project, "run")
    refused = precreg(project, "baseline", "accept", "unit/bad/fine", "--known", WHY)
    assert "error[known-bad]: expected a wrong result but got unit/bad/fine, which is right (new)" in refused.stderr
    assert "a right one with --reason REASON" in refused.stderr


def test_it_passes_and_every_report_counts_it(known):
    done = precreg(known, "run", "--verbose")
    assert done.returncode == 0
    assert "known bad 2 cases: unit/bad/nan, unit/bad/scaled" in done.stdout
    assert "exit 0: nothing regressed against the baselines; 2 cases known bad" in done.stdout
    assert f"known bad ({WHY}): out: 3 of 1024 elements differ in NaN or infinity" in done.stdout
    assert "Known bad, and passed by their baselines: `unit/bad/nan`" in (known / "reports/summary.md").read_text()
    assert "2 known bad" in (known / "reports/report.html").read_text()
    assert f"known bad ({WHY})" in (known / "reports/junit.xml").read_text().replace("&apos;", "'")
    assert precreg(known, "baseline", "diff").stdout == "0 proposals\n"


@pytest.mark.parametrize(
    ("before", "after", "name", "reason", "code"),
    [
        ("1.01", "1.02", "scaled", "regressed", 1),
        ("1.01", "1.0100001", "scaled", "known_bad", 0),
        ("1.01", "1.005", "scaled", "improved", 0),
        ("1.01", "1", "scaled", "improved", 0),
        ("NANS = 3", "NANS = 4", "nan", "regressed", 1),
        ("NANS = 3", "NANS = 1", "nan", "improved", 0),
        ("np.nan", "np.inf", "nan", "regressed", 1),
        ("reshape(-1)[:NANS] = np.nan", "reshape(-1)[:] *= 2", "nan", "regressed", 1),
        (
            "    return out\n\n",
            "    return out * np.float32(1.01 if kind == 'fine' else 1)\n\n",
            "fine",
            "out_of_tolerance",
            1,
        ),
    ],
)
def test_a_change_is_seen_against_the_wrong_state(known, before, after, name, reason, code):
    change(known / MODULE, before, after)
    done = precreg(known, "run")
    assert (results(known)[name]["reason"], done.returncode) == (reason, code), done.stdout
    assert "though within tolerance" not in done.stdout


def test_a_fixed_case_becomes_an_ordinary_baseline(known):
    change(known / MODULE, "1.01", "1")
    precreg(known, "run")
    done = precreg(known, "baseline", "accept", "unit/bad/scaled", "--reason", "fixed")
    assert done.returncode == 0, done.stderr
    assert "known" not in cases(known)["scaled"]
    change(known / MODULE, "FACTOR = 1", "FACTOR = 1.01")
    assert precreg(known, "run").returncode == 1
    assert results(known)["scaled"]["reason"] == "out_of_tolerance"


def test_a_worse_state_is_accepted_as_known_bad_again_after_reruns(known):
    change(known / MODULE, "1.01", "1.02")
    precreg(known, "run")
    assert "error[known-bad]" in precreg(known, "baseline", "accept", "unit/bad/scaled", "--reason", "so").stderr
    done = precreg(known, "baseline", "accept", "unit/bad/scaled", "--known", "worse still")
    assert "(known bad; 2 reruns: the same bits)" in done.stdout, done.stderr
    assert precreg(known, "run").returncode == 0


def test_a_pair_is_judged_by_the_stored_baseline(known):
    change(known / MODULE, "1.01", "1.02")
    done = precreg(known, "run", "--pair", "HEAD")
    assert results(known)["scaled"]["reason"] == "regressed"
    assert "judged by the stored baseline: unit/bad/nan, unit/bad/scaled: declared to be known-bad" in done.stdout


def test_a_merge_request_that_accepts_a_wrong_result_has_a_finding(known):
    first = git(known, "rev-list", "--max-parents=0", "HEAD")
    done = precreg(known, "run", "--against", first)
    assert done.returncode == 1
    assert "unit/bad/nan   known_bad_accepted" in done.stdout
    (known / "baselines/allow.yaml").write_text(
        "allow:\n  - {case: 'unit/bad/*', change: known_bad_accepted, reason: decided}\n"
    )
    assert precreg(known, "run", "--against", first).returncode == 0


def test_recorded_files_without_a_tolerance_are_judged_by_the_baseline_alone(known):
    change(known / "suites/unit/bad.yaml", "tolerance: {rtol: 1.0e-5, atol: 1.0e-6}", "tolerance: none")
    change(known / MODULE, "NANS = 3", "NANS = 0")
    done = precreg(known, "run")
    assert (done.returncode, results(known)["scaled"]["reason"]) == (0, "identical")
    assert "warning" not in done.stdout
    assert "no bounds (tolerance: none)" in precreg(known, "explain", "unit/bad/scaled").stdout
    change(known / MODULE, "1.01", "1.02")
    assert precreg(known, "run").returncode == 1
    assert results(known)["scaled"]["reason"] == "regressed"
