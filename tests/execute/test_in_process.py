from precreg.execute.in_process import run_in_process
from precreg.types import Reason

CHAIN = ("cpu",)


def test_cases_come_in_their_order_and_one_at_a_time(project, case):
    cases = [case(name="a"), case("exits", name="b"), case(name="c")]
    outcomes = run_in_process(iter(cases), project, CHAIN)
    assert next(outcomes).case == "unit/s/a"
    assert [outcome.case for outcome in outcomes] == ["unit/s/b", "unit/s/c"]


def test_what_a_subject_prints_is_kept_with_its_failure_alone(project, case, capsys):
    failed, passed = run_in_process([case("raises", name="a"), case("double", name="b")], project, CHAIN)
    assert failed.execution.failure.reason is Reason.SUBJECT_ERROR
    assert failed.execution.failure.detail.endswith("printed:\nshortly before\n")
    assert passed.execution.failure is None
    assert capsys.readouterr() == ("", "")
