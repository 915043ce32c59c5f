"""`precreg drift` on histories that real runs made: what it says, where it points, and its exit codes."""

import json
import random
import re
import shutil
from math import exp
from xml.etree import ElementTree

import pytest

from precreg.history.store import open_history
from tests.e2e.command import change, git, precreg, repository, with_suite
from tests.history.made import record
from tests.report.test_junit import valid

KERNEL = """\
import os

import numpy as np

WORSE = 1.0


def mean(x):
    factor = WORSE * float(os.environ.get("FACTOR", "1"))
    return (x.mean(axis=0) * factor).astype(x.dtype)


def exact(x):
    return x.mean(axis=0)
"""
SUITE = """\
suite: mean
subject: k:mean
reference: k:exact
matrix: {dtype: [float32, float64]}
inputs:
  x: {shape: [64, 64], dtype: $dtype, normal: {mean: 1, std: 1}}
tolerance: {rtol: 1}
"""
CASE = "unit/mean/float32"


def kept(project, environment="cpu", **variables):
    """Run once, and keep the run."""
    done = precreg(project, "run", "--jobs", "0", "--environment", environment, **variables)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    added = precreg(project, "history", "add", "--create", "reports")
    assert added.returncode == 0, added.stderr


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A project with an accepted baseline and a history: two runs of a release, and one more commit."""
    project = repository(with_suite(tmp_path_factory.mktemp("base"), SUITE, KERNEL))
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "baselines")
    git(project, "tag", "v1.0")
    kept(project)
    kept(project)
    git(project, "commit", "-q", "--allow-empty", "-m", "nothing")
    kept(project)
    return project


@pytest.fixture
def project(base, tmp_path):
    """A copy of the project that keeps its name, by which its history knows it."""
    return shutil.copytree(base, tmp_path / base.name, symlinks=True)


def worsen(project, factor="1.0005"):
    change(project / "suites/unit/k.py", "WORSE = 1.0\n", f"WORSE = {factor}\n")
    git(project, "commit", "-q", "-am", "worse")


def test_without_drift_it_exits_with_0_and_says_what_it_judged(project):
    done = precreg(project, "drift", "--anchor", "v1.0")
    assert done.returncode == 0
    assert "environment cpu, 3 runs, 1 to 3" in done.stdout
    assert f"anchor v1.0, commit {git(project, 'rev-parse', 'v1.0')[:8]} (run 1, 2)" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("exit 0: nothing drifts; metrics judged: ")
    written = {path.name for path in (project / "reports" / "drift").iterdir()}
    assert {"drift.json", "junit.xml", "report.html", "summary.md"} <= written


def test_a_large_step_is_reported_at_its_first_run_with_its_commits(project):
    worsen(project)
    kept(project)
    done = precreg(project, "drift", "--anchor", "v1.0", "--junit-dialect", "strict")
    assert done.returncode == 1
    commits = [git(project, "rev-parse", revision)[:8] for revision in ("HEAD~1", "HEAD")]
    assert "..".join(commits) in done.stdout
    assert f"DRIFT      {CASE}   out" in done.stdout
    assert "with a step at run 4: " in done.stdout
    assert "worse than the baseline and than at the anchor, too" in done.stdout
    assert "exit 1: 2 cases drift" in done.stdout
    xml = (project / "reports/drift/junit.xml").read_text()
    assert valid(xml)
    assert [suite.get("name") for suite in ElementTree.fromstring(xml)] == ["precreg.drift.unit"]
    assert json.loads((project / "reports/drift/drift.json").read_text())["exit_code"] == 1


def test_a_slope_over_sixty_stored_runs_is_told_beside_noise_and_an_outlier(project):
    drawn = random.Random(1)
    figures = [
        {
            "unit/s/creep": 1.01**at,
            "unit/s/noise": exp(drawn.gauss(0, 0.05)),
            "unit/s/outlier": 10.0 if at == 30 else 1.0,
            "unit/s/constant": 1.0,
        }
        for at in range(60)
    ]
    with open_history(project / "sixty.sqlite", project=project.name, create=True) as history:
        for at, run in enumerate(figures):
            history.add(record(at, run, project=project.name))
    seen = precreg(project, "drift", "--hindsight", "--history", "sixty.sqlite")
    assert seen.returncode == 0, seen.stderr
    assert re.search(r"^  \d( to|  ).*regressed, slope +mean_abs_error", seen.stdout, re.MULTILINE), seen.stdout
    assert "changes   1 regression and 0 improvements in 4 series" in seen.stdout
    written = json.loads((project / "reports/drift/hindsight.json").read_text())
    assert written["results"][0]["changes"][0]["message"].startswith("mean_abs_error regressed on a slope from run")
    done = precreg(project, "drift", "--history", "sixty.sqlite")
    assert done.returncode == 1
    assert re.search(r"mean_abs_error rose by 7\d % on a slope of 1 % a run since run [23]: ", done.stdout), done.stdout
    assert "outputs   1 drift, 3 steady" in done.stdout


def test_hindsight_has_no_anchor_and_needs_a_case(project):
    done = precreg(project, "drift", "--hindsight", "--anchor", "v1.0")
    assert done.returncode == 2
    assert "expected --hindsight without --anchor but got anchor=v1.0" in done.stderr
    assert "error[nothing-selected]" in precreg(project, "drift", "--hindsight", "medain").stderr
    found = precreg(project, "drift", "--hindsight", CASE)
    assert found.returncode == 0
    assert "changes   0 regressions and 0 improvements in 11 series" in found.stdout


def test_confirm_and_materiality_are_heard(project):
    worsen(project)
    kept(project)
    assert precreg(project, "drift", "--confirm", "1").returncode == 1
    assert precreg(project, "drift", "--confirm", "1", "--materiality", "1e19").returncode == 0


def test_a_window_that_cannot_hold_a_change_and_what_it_is_compared_with_is_refused(project):
    done = precreg(project, "drift", "--window", "60", "--confirm", "31")
    assert done.returncode == 2
    assert "expected a window of at least twice the runs that confirm a change but got window=60" in done.stderr


@pytest.mark.parametrize("materiality", ["nan", "inf", "1"])
def test_a_materiality_that_nothing_exceeds_is_refused(project, materiality):
    done = precreg(project, "drift", "--materiality", materiality)
    assert done.returncode == 2
    assert "Invalid value for '--materiality'" in done.stderr


def test_a_history_without_runs_is_an_error(project):
    exported = f'{{"schema":"precreg-history/1","project":"{project.name}","runs":0,"cases":0}}\n'
    (project / "none.jsonl").write_text(exported)
    precreg(project, "history", "import", "--create", "none.jsonl", "--history", "none.sqlite")
    done = precreg(project, "drift", "--history", "none.sqlite")
    assert done.returncode == 2
    assert "error[empty-history]: expected a run in the history, which has none" in done.stderr
    done = precreg(project, "drift", "--environment", "npu")
    assert done.returncode == 2
    assert "expected a run of environment npu in the history; there are runs of cpu" in done.stderr


def test_patterns_choose_cases(project):
    assert "outputs   1 steady" in precreg(project, "drift", CASE).stdout
    assert "outputs   2 steady" in precreg(project, "drift", "unit/*").stdout
    done = precreg(project, "drift", "medain")
    assert done.returncode == 2
    assert "error[nothing-selected]" in done.stderr


def test_an_accepted_loss_is_drift_against_the_anchor_alone(project):
    worsen(project)
    precreg(project, "run", "--jobs", "0", "--environment", "cpu")
    precreg(project, "baseline", "accept", "--all", "--reason", "faster", "--environment", "cpu")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "accepted")
    kept(project)
    kept(project)
    assert precreg(project, "drift").returncode == 0
    done = precreg(project, "drift", "--anchor", "v1.0")
    assert done.returncode == 1
    assert "is worse than at the anchor" in done.stdout


def test_environments_are_judged_apart(project):
    for _ in range(2):
        kept(project, environment="npu", FACTOR="1.5")
    done = precreg(project, "drift", "--environment", "cpu")
    assert done.returncode == 0
    newest = precreg(project, "drift")
    assert newest.returncode == 1
    assert "environment npu, 2 runs" in newest.stdout
    assert "runs of other environments were not judged: cpu" in newest.stdout
    assert precreg(project, "drift", PRECREG_ENVIRONMENT="cpu").returncode == 0


def test_a_case_that_is_no_longer_measured_cannot_be_judged(project):
    change(project / "suites/unit/k.py", "    factor =", "    raise ValueError\n    factor =")
    precreg(project, "run", "--jobs", "0", "--environment", "cpu")
    precreg(project, "history", "add", "reports")
    done = precreg(project, "drift")
    assert done.returncode == 2
    assert "is not measured since run 4" in done.stdout
    assert done.stdout.splitlines()[-1] == "exit 2: 2 cases could not be judged: no longer measured"


def test_one_run_is_too_few(project, tmp_path):
    (project / ".precreg/history.sqlite").unlink()
    kept(project)
    done = precreg(project, "drift")
    assert done.returncode == 2
    assert "exit 2: nothing could be judged: 2 too few runs in run 1, commit" in done.stdout


def test_a_missing_history_is_an_error(project):
    done = precreg(project, "drift", "--history", "elsewhere.sqlite")
    assert done.returncode == 2
    assert "error[missing-history]" in done.stderr
    assert not (project / "elsewhere.sqlite").exists()


def test_an_anchor_without_a_run_names_the_runs_there_are(project):
    worsen(project)
    git(project, "tag", "v2.0")
    done = precreg(project, "drift", "--anchor", "v2.0")
    assert done.returncode == 2
    commit = git(project, "rev-parse", "v2.0")[:8]
    assert f"got anchor=v2.0 (commit {commit}); the runs are those of" in done.stderr
    assert "(run 3)" in done.stderr


def test_an_anchor_by_number_or_commit_needs_no_repository(project):
    commit = git(project, "rev-parse", "v1.0")
    (project / ".git").rename(project / "no.git")
    around = {"GIT_CEILING_DIRECTORIES": str(project.parent)}
    assert precreg(project, "drift", "--anchor", "2", **around).returncode == 0
    assert precreg(project, "drift", "--anchor", commit[:7], **around).returncode == 0
    done = precreg(project, "drift", "--anchor", "v1.0", **around)
    assert done.returncode == 2
    assert "error[unknown-anchor]" in done.stderr


def test_reports_that_cannot_be_written_are_an_error(project):
    (project / "blocked").write_text("in the way")
    done = precreg(project, "drift", "--output", "blocked")
    assert done.returncode == 2
    assert "error[not-writable]" in done.stderr


def test_a_monitor_reads_a_history_that_it_may_not_write(project):
    file = project / ".precreg/history.sqlite"
    before = file.read_bytes()
    file.chmod(0o444)
    assert precreg(project, "drift").returncode == 0
    assert file.read_bytes() == before
