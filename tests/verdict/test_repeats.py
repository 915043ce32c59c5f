import pytest
from msgspec.structs import replace

from precreg.types.outcome import RepeatDifference
from precreg.types.verdict import ChangedBits, Reason, SameBits, Status, UndeclaredDifference
from precreg.verdict.judge import Policy, is_acceptable, judge_case
from tests.verdict.made import ENVIRONMENT, baseline, case, comparison, outcome, tolerance

SAME = ("a0", "a1")
"""The digests of the baseline."""

DECLARED = case(deterministic=False, repeats=3)
PLACE = RepeatDifference("out", 0, 2, (0, 3), 7, 100, 1e-7)


def judged(of, on, against=None):
    return judge_case(of, on, {"out": tolerance()}, against or baseline(), ENVIRONMENT, Policy())


def bits(given):
    return given.findings[0].fact.bits


def unsteady(*comparisons, difference=PLACE, **fields):
    return outcome(*comparisons, unsteady=("out",), differences=(difference,), **fields)


def test_repeats_that_differ_as_declared_are_told_and_fail_nothing():
    given = judged(DECLARED, unsteady())
    assert (given.status, given.reason) == (Status.PASSED, Reason.WITHIN_TOLERANCE)
    assert bits(given) == ChangedBits("repeats", "out", PLACE)


def test_the_same_outcome_fails_where_it_is_not_declared():
    assert judged(case(repeats=3), unsteady()).reason is Reason.NONDETERMINISTIC


def test_a_loss_of_all_runs_together_fails_though_repeats_may_differ():
    worse = [comparison(seed, mean_abs_error=2e-6, rms_error=3e-6, mean_ulp=1.0) for seed in (0, 1)]
    assert judged(DECLARED, unsteady(*worse)).reason is Reason.REGRESSED
    assert judged(DECLARED, unsteady(comparison(0), comparison(1, match_ratio=0.9))).reason is Reason.OUT_OF_TOLERANCE


@pytest.mark.parametrize("deterministic", [True, False])
def test_another_shape_or_no_output_at_all_is_never_as_declared(deterministic):
    absent = RepeatDifference("out", 0, 2)
    given = judged(case(deterministic=deterministic, repeats=3), unsteady(difference=absent))
    assert given.reason is Reason.NONDETERMINISTIC
    assert given.findings[0].fact == UndeclaredDifference(first=True, difference=absent)


def test_one_run_of_what_need_not_repeat_is_never_identical():
    given = judged(replace(DECLARED, repeats=1), outcome(digests=SAME))
    assert given.reason is Reason.WITHIN_TOLERANCE
    assert bits(given) == ChangedBits("undecided")
    assert judged(case(), outcome(digests=SAME)).reason is Reason.IDENTICAL


def test_runs_that_all_agree_may_be_identical_and_say_that_the_declaration_may_go():
    given = judged(DECLARED, outcome(digests=SAME))
    assert given.reason is Reason.IDENTICAL
    assert given.findings[0].fact == SameBits(runs=3)
    changed = judged(DECLARED, outcome())
    assert (changed.reason, bits(changed)) == (Reason.WITHIN_TOLERANCE, ChangedBits("change"))
    assert changed.findings[0].fact.runs == 3
    assert judged(case(repeats=3), outcome(digests=SAME)).findings[0].fact == SameBits()


def test_a_record_that_does_not_know_where_repeats_differ_is_judged_alike():
    assert judged(DECLARED, outcome(unsteady=("out",))).reason is Reason.WITHIN_TOLERANCE


def test_bits_that_may_differ_propose_no_baseline_and_a_new_seed_or_no_baseline_does():
    def proposed(of, on, against):
        verdict = judge_case(of, on, {"out": tolerance()}, against, ENVIRONMENT, Policy())
        return is_acceptable(of, on, {"out": tolerance()}, against, ENVIRONMENT, verdict)

    assert not proposed(DECLARED, unsteady(), baseline())
    assert proposed(DECLARED, unsteady(), None)
    assert proposed(case(), outcome(), baseline())
    more = unsteady(*map(comparison, range(3)), digests=("b0", "b1", "b2"), inputs=("i0", "i1", "i2"))
    assert proposed(DECLARED, more, baseline())
