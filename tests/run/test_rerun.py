"""Running a case again before it is accepted: in processes of their own, and what must be the same."""

import pytest
from msgspec.structs import replace

from precreg.baseline.review import diff_proposals
from precreg.environment.machine import detect_environment
from precreg.run.rerun import Confirmation, Disagreement, confirm_entry, find_disagreement, rerun_changes
from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.suite.expand import load_cases
from precreg.types.verdict import Reason
from tests.scaled import A, Project

HERE = detect_environment()


@pytest.fixture
def project(tmp_path):
    """A project with baselines, and with proposals that are worse."""
    project = Project(tmp_path)
    project.accepted(1.0, "first")
    project.proposed(1.5)
    return project


def cases(project):
    return {case.id: case for case in load_cases(project.folder)}


def outcome(project, case):
    return next(run_in_process([case], CaseTask(project.folder, HERE.chain)))


def confirmed(project, reruns=2):
    return rerun_changes(project.folder, diff_proposals(project.folder, [A]), cases(project), HERE, reruns)


def test_what_repeats_is_confirmed(project):
    assert confirmed(project) == {A: Confirmation("2 reruns: the same bits")}


def test_what_does_not_is_not(project):
    project.scale(1.7)
    (found,) = confirmed(project, reruns=1).values()
    assert found.text == ""
    assert found.problem == Disagreement("verdict", found.problem.verdict, 1, 1)
    assert found.problem.verdict.reason is Reason.REGRESSED
    project.scale(1.5 * (1 + 1e-6))
    (found,) = confirmed(project, reruns=1).values()
    assert (found.problem.cause, found.problem.rerun) == ("bits", 1)


def test_a_lucky_run_is_as_unconfirmed_as_an_unlucky_one(project):
    case, (change,) = cases(project)[A], diff_proposals(project.folder, [A])
    project.scale(1.3)
    found = find_disagreement(case, change.proposal.entry, outcome(project, case), HERE)
    assert (found.cause, found.verdict.reason) == ("verdict", Reason.IMPROVED)


def test_a_rerun_that_fails_confirms_nothing(project):
    (project.folder / "suites/unit/scale").write_text("no number")
    (found,) = confirmed(project, reruns=1).values()
    assert (found.problem.cause, found.problem.verdict.reason) == ("verdict", Reason.SUBJECT_ERROR)


def test_a_case_that_is_defined_otherwise_since_is_not_what_was_proposed(project):
    case, (change,) = cases(project)[A], diff_proposals(project.folder, [A])
    other = replace(case, definition="1:other")
    found = find_disagreement(other, change.proposal.entry, outcome(project, other), HERE)
    assert (found.cause, found.verdict.reason) == ("changed", Reason.STALE)


def test_in_another_environment_figures_must_agree_and_not_bits(project):
    case, (change,) = cases(project)[A], diff_proposals(project.folder, [A])
    elsewhere = replace(change.proposal.entry, fingerprint="another")
    project.scale(1.5 * (1 + 1e-6))
    assert find_disagreement(case, elsewhere, outcome(project, case), HERE) is None
    assert confirm_entry(case, elsewhere, [outcome(project, case)], HERE).text == "1 rerun: the same within noise"
    project.scale(2.5)
    assert find_disagreement(case, elsewhere, outcome(project, case), HERE).verdict.reason is Reason.REGRESSED


def test_what_may_differ_from_run_to_run_must_agree_within_its_noise(tmp_path):
    project = Project(tmp_path, "unsteady")
    project.accepted(1.0, "first")
    project.proposed(1.5)
    case, (change,) = cases(project)[A], diff_proposals(project.folder, [A])
    given = outcome(project, case)
    assert find_disagreement(case, change.proposal.entry, given, HERE) is not None
    assert find_disagreement(replace(case, deterministic=False), change.proposal.entry, given, HERE) is None


def test_a_slow_rerun_confirms_figures_all_the_same(project):
    case, (change,) = cases(project)[A], diff_proposals(project.folder, [A])
    quick = replace(change.proposal.entry, duration_s=1e-12)
    budgeted = replace(case, budget=replace(case.budget, time_ratio=1.1))
    assert find_disagreement(budgeted, quick, outcome(project, budgeted), HERE) is None


def test_what_only_pytest_runs_cannot_be_confirmed_here(project):
    found = rerun_changes(project.folder, diff_proposals(project.folder, [A]), {}, HERE, 2)
    assert found == {A: Confirmation("", Disagreement("untested"))}
