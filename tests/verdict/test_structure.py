"""What makes measurements meaningless: each finding says that it is a hard rule, which no measure makes up for."""

from msgspec.structs import replace

from precreg.types.outcome import Execution, Outcome
from precreg.types.verdict import Reason
from precreg.verdict.judge import unmeasured_verdict
from precreg.verdict.limits import structural_findings
from tests.verdict.made import comparison, entry, outcome


def found(on, role="reference", against=None):
    findings = [*structural_findings(on, role, against)]
    assert all(finding.rule == "hard" for finding in findings)
    return [finding.reason for finding in findings]


def test_every_kind_is_a_hard_rule():
    reshaped = outcome(replace(comparison(), shape=(3,)))
    nothing = Outcome("unit/s/a", "1:d", Execution())
    assert found(outcome()) == []
    assert found(nothing) == [Reason.MISSING_OUTPUT]
    assert found(replace(outcome(), missing=("w",))) == [Reason.MISSING_OUTPUT]
    assert found(reshaped) == [Reason.SHAPE_MISMATCH]
    assert found(outcome(), role="golden") == [Reason.DTYPE_MISMATCH] * 2
    assert found(outcome(comparison(counts={"nan_mismatched": 3}))) == [Reason.NON_FINITE_MISMATCH]
    assert found(outcome(comparison(counts={"n": 0, "finite": 0}))) == [Reason.EMPTY]
    assert found(outcome(comparison(counts={"finite": 0}))) == [Reason.EMPTY]


def test_what_a_baseline_has_and_the_run_has_not_is_one_too():
    accepted = entry().outputs["out"]
    for changed, reason in (
        ({"gone": accepted}, Reason.MISSING_OUTPUT),
        ({"out": replace(accepted, dtype="float16")}, Reason.DTYPE_MISMATCH),
        ({"out": replace(accepted, shape=(3,))}, Reason.SHAPE_MISMATCH),
    ):
        assert found(outcome(), against=replace(entry(), outputs=changed)) == [reason]


def test_how_many_differ_in_nan_or_infinity_is_a_number_of_the_finding():
    (finding,) = structural_findings(outcome(comparison(counts={"nan_mismatched": 3})), "reference", None)
    assert (finding.current, finding.limit) == (3, 0)


def test_an_array_that_is_not_there_breaks_a_hard_rule_and_one_that_cannot_be_read_none():
    rules = [
        unmeasured_verdict(reason, "why").findings[0].rule for reason in (Reason.MISSING_OUTPUT, Reason.SUBJECT_ERROR)
    ]
    assert rules == ["hard", ""]
