"""A baseline judges strictly wherever its bits were accepted or seen again, whatever variables are set there."""

import json
import shutil

import pytest

from tests.baseline.plain import document_of, write_document
from tests.e2e.command import change, git, precreg, repository, with_suite

KERNEL = """\
import numpy as np

SCALE = 1.0


def square(x):
    noise = np.random.default_rng(1).standard_normal(x.shape)
    return (x * (1 + 1e-4 * SCALE * noise)).astype(np.float32)


def exact(x):
    return x
"""
SUITE = """\
suite: s
subject: k:square
reference: k:exact
matrix: {n: [64, 96]}
inputs: {x: {shape: [16, $n], dtype: float32, uniform: {low: 1, high: 2}}}
seeds: 2
tolerance: {rtol: 1e-2}
"""
BASELINE = "baselines/generic/unit/s.json"
ENVIRONMENTS = "baselines/environments.json"
# A fact that changes no bit here: numpy has no MKL.
ELSEWHERE = {"MKL_CBWR": "COMPATIBLE"}
SEEN = "seen      2 cases gave the bits accepted in another environment: precreg baseline accept --seen"
COUNT = "gave the bits of 2 baselines: precreg baseline accept --seen"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A project whose two cases were accepted here."""
    made = repository(with_suite(tmp_path_factory.mktemp("accepted"), SUITE, KERNEL))
    precreg(made, "run")
    assert precreg(made, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    return made


@pytest.fixture
def project(accepted, tmp_path):
    """A copy of the repository."""
    return shutil.copytree(accepted, tmp_path / "project", symlinks=True)


def worse(project, factor):
    change(project / "suites/unit/k.py", "SCALE = 1.0", f"SCALE = {factor}")


def entries(project):
    return json.loads((project / BASELINE).read_text())["cases"]


def test_a_variable_without_an_effect_hides_no_regression(project):
    worse(project, 1.2)
    for variables in ({}, {"OMP_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "1"}):
        done = precreg(project, "run", **variables)
        assert done.returncode == 1, done.stdout
        assert "2 cases regressed" in done.stdout
        assert "another environment" not in done.stdout


def test_bits_that_were_seen_again_make_a_baseline_strict_there(project):
    before = (project / BASELINE).read_text()
    done = precreg(project, "run", **ELSEWHERE)
    assert (done.returncode, SEEN in done.stdout) == (0, True), done.stdout
    assert (project / BASELINE).read_text() == before
    shown = precreg(project, "baseline", "diff").stdout.splitlines()
    assert shown[0].startswith("environment ")
    assert shown[0].endswith(COUNT)
    assert shown[1].startswith("  differs: kernels ")
    assert shown[2:] == ["0 proposals"]

    worse(project, 1.2)
    assert precreg(project, "run", **ELSEWHERE).returncode == 0, "another environment may explain it"
    done = precreg(project, "baseline", "accept", "--seen")
    assert done.stdout == f"{BASELINE}: 2 baselines know another environment\n", done.stderr
    ((seen,),) = {tuple(entry["seen"]) for entry in entries(project).values()}
    assert set(json.loads((project / ENVIRONMENTS).read_text())["environments"]) == {
        seen,
        *(entry["fingerprint"] for entry in entries(project).values()),
    }
    done = precreg(project, "run", **ELSEWHERE)
    assert (done.returncode, "2 cases regressed" in done.stdout) == (1, True), done.stdout

    worse_again = (project / "suites/unit/k.py").read_text().replace("SCALE = 1.2", "SCALE = 1.0")
    (project / "suites/unit/k.py").write_text(worse_again)
    done = precreg(project, "run", **ELSEWHERE)
    assert (done.returncode, "seen " in done.stdout) == (0, False), done.stdout


def test_a_new_value_forgets_where_the_former_bits_were_seen(project):
    precreg(project, "run", **ELSEWHERE)
    precreg(project, "baseline", "accept", "--seen", "*64")
    assert [*map(len, (entry.get("seen", []) for entry in entries(project).values()))] == [1, 0]
    worse(project, 0.5)
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", "--reason", "half the noise", "--confirm", "0")
    assert all("seen" not in entry for entry in entries(project).values())
    assert len(json.loads((project / ENVIRONMENTS).read_text())["environments"]) == 2
    # The run before saw the bits of the other case, which is no longer the baseline.
    done = precreg(project, "baseline", "accept", "--seen")
    assert (done.returncode, "error[no-proposal]" in done.stderr) == (2, True), done.stdout
    precreg(project, "baseline", "prune")
    assert len(json.loads((project / ENVIRONMENTS).read_text())["environments"]) == 1


def test_a_baseline_that_was_replaced_since_the_run_stays(project):
    precreg(project, "run", **ELSEWHERE)
    waiting = (project / ".precreg/seen.json").read_text()
    worse(project, 0.5)
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", "--reason", "half the noise", "--confirm", "0")
    (project / ".precreg/seen.json").write_text(waiting)
    before = (project / BASELINE).read_text()
    done = precreg(project, "baseline", "accept", "--seen")
    assert done.stdout == ("2 baselines were replaced since the run, and not changed: unit/s/n=64, unit/s/n=96\n"), (
        done.stderr
    )
    assert (project / BASELINE).read_text() == before


def test_ci_proposes_and_writes_no_baseline(project):
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    done = precreg(project, "run", CI="true", **ELSEWHERE)
    assert (done.returncode, "seen " in done.stdout) == (0, False), done.stdout
    assert git(project, "status", "--porcelain", "baselines") == ""
    refused = precreg(project, "baseline", "accept", "--seen", CI="true")
    assert (refused.returncode, "error[accept-in-ci]" in refused.stderr) == (2, True)
    # Whoever takes .precreg from the job accepts what it saw.
    assert precreg(project, "baseline", "accept", "--seen").returncode == 0
    assert "seen" in (project / BASELINE).read_text()


def test_what_a_merge_request_says_of_environments(project):
    precreg(project, "run", **ELSEWHERE)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    precreg(project, "baseline", "accept", "--seen")
    done = precreg(project, "run", "--against", "HEAD")
    assert (done.returncode, "FINDING" in done.stdout) == (0, False), done.stdout
    git(project, "commit", "-qam", "seen")
    document = document_of(project / BASELINE)
    for case in document["cases"].values():
        case.pop("seen", None)
    write_document(project / BASELINE, document)
    done = precreg(project, "run", "--against", "HEAD")
    assert (done.returncode, "fewer environments in which its bits were seen" in done.stdout) == (1, True), done.stdout


def test_environments_can_be_rejected_and_listed(project):
    precreg(project, "run", **ELSEWHERE)
    shown = precreg(project, "baseline", "diff", "--verbose").stdout
    assert "\n  unit/s/n=64\n  unit/s/n=96\n" in shown
    (seen,) = json.loads(precreg(project, "baseline", "review", "--json").stdout)["seen"]
    assert seen["cases"] == ["unit/s/n=64", "unit/s/n=96"]
    done = precreg(project, "baseline", "reject", "--seen", "*64")
    assert done.stdout == "rejected the environments of 1 baselines\n"
    assert "bits of 1 baseline:" in precreg(project, "baseline", "diff").stdout
    precreg(project, "baseline", "reject", "--seen")
    assert precreg(project, "baseline", "diff").stdout == "0 proposals\n"
    refused = precreg(project, "baseline", "reject", "--seen")
    assert (refused.returncode, "error[no-proposal]" in refused.stderr) == (2, True)


@pytest.mark.parametrize("option", [["--all"], ["--improved"], ["--reason", "why"], ["--environment", "cpu"]])
def test_seen_takes_patterns_alone(project, option):
    refused = precreg(project, "baseline", "accept", "--seen", *option)
    assert refused.returncode == 2
    assert f"error[bad-value]: expected --seen with patterns alone but got {option[0]}" in refused.stderr


def test_a_damaged_list_is_a_clear_error_for_accept(project):
    precreg(project, "run", **ELSEWHERE)
    (project / ".precreg/seen.json").write_text("{")
    refused = precreg(project, "baseline", "accept", "--seen")
    assert (refused.returncode, "error[unreadable-proposals]" in refused.stderr) == (2, True)
