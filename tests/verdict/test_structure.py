"""What makes measurements meaningless: each finding says that it is a hard rule, which no measure makes up for."""

from msgspec.structs import replace

from precreg.types.outcome import Execution, Outcome
from precreg.types.verdict import Reason
from precreg.verdict.judge import Policy, judge_case, unmeasured_verdict
from precreg.verdict.limits import structural_findings
from tests.verdict.made import ENVIRONMENT, case, comparison, entry, outcome, tolerance


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


def test_a_golden_may_want_outputs_without_a_finite_element():
    """The tests of ONNX's backend want some: an empty output, and infinities in the same places."""
    like = {"reference_dtype": "float32"}
    empty = replace(
        comparison(counts={"n": 0, "finite": 0}, match_ratio=None), shape=(0,), reference_shape=(0,), **like
    )
    infinite = replace(comparison(counts={"finite": 0}), **like)
    for made in (empty, infinite):
        wanted, other = case(role="golden", empty_passes=True), case(role="golden")
        judged = [judged_alone(each, outcome(made)) for each in (wanted, other)]
        assert judged == [Reason.NEW, Reason.EMPTY]
    reshaped, mismatched = (
        replace(empty, shape=(0, 3)),
        replace(infinite, counts={**infinite.counts, "inf_mismatched": 1}),
    )
    assert judged_alone(wanted, outcome(reshaped)) == Reason.SHAPE_MISMATCH
    assert judged_alone(wanted, outcome(mismatched)) == Reason.NON_FINITE_MISMATCH


def judged_alone(one, on):
    return judge_case(one, on, {"out": tolerance()}, None, ENVIRONMENT, Policy()).reason
