import signal
from pathlib import Path

import pytest

from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.types.verdict import Reason

CHAIN = ("cpu",)


def test_cases_come_in_their_order_and_one_at_a_time(project, case):
    cases = [case(name="a"), case("exits", name="b"), case(name="c")]
    outcomes = run_in_process(iter(cases), CaseTask(project, CHAIN))
    assert next(outcomes).case == "unit/s/a"
    assert [outcome.case for outcome in outcomes] == ["unit/s/b", "unit/s/c"]


def test_what_a_subject_prints_is_kept_with_its_failure_alone(project, case, capsys):
    failed, passed = run_in_process([case("raises", name="a"), case("double", name="b")], CaseTask(project, CHAIN))
    assert failed.execution.failure.reason is Reason.SUBJECT_ERROR
    assert failed.execution.failure.detail.endswith("printed:\nshortly before\n")
    assert passed.execution.failure is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore:harmless")
def test_what_a_subject_changes_of_its_process_reaches_nobody_else(project, case, monkeypatch):
    monkeypatch.chdir(project)
    cases = [
        case("changes_its_process", "needs_its_process_unchanged", name="a"),
        case("needs_its_process_unchanged", name="b"),
    ]
    assert [outcome.execution.failure for outcome in run_in_process(cases, CaseTask(project, CHAIN))] == [None, None]
    assert Path.cwd() == project


def test_a_forked_child_gives_no_outcomes(project, case, tmp_path):
    cases = [case("forks_and_comes_back", name=str(number)) for number in range(2)]
    with (tmp_path / "outcomes").open("a", buffering=1) as file:
        for outcome in run_in_process(cases, CaseTask(project, CHAIN)):
            file.write(outcome.case + "\n")
    assert (tmp_path / "outcomes").read_text().splitlines() == [case.id for case in cases]


@pytest.mark.parametrize("wrong", ["names_badly", "gives_too_much"])
def test_an_output_that_cannot_be_stored_is_the_error_of_its_computation(project, case, wrong):
    cases = [case(wrong, name="a"), case("double", wrong, name="b")]
    reasons = [outcome.execution.failure.reason for outcome in run_in_process(cases, CaseTask(project, CHAIN))]
    assert reasons == [Reason.SUBJECT_ERROR, Reason.REFERENCE_ERROR]


def test_a_keyboard_interrupt_without_the_keyboard_is_the_subjects(project, case):
    outcomes = run_in_process([case("interrupts_itself", name="a"), case(name="b")], CaseTask(project, CHAIN))
    failures = [outcome.execution.failure for outcome in outcomes]
    assert (failures[0].reason, failures[0].message) == (Reason.SUBJECT_ERROR, "KeyboardInterrupt")
    assert failures[1] is None


def test_an_interrupt_from_the_keyboard_ends_the_run(project, case):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(run_in_process([case("interrupts_by_signal", name="a")], CaseTask(project, CHAIN)))
    assert signal.getsignal(signal.SIGINT) is before
