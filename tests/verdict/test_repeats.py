import pytest
from msgspec.structs import replace

from precreg.types.outcome import RepeatDifference
from precreg.types.verdict import Reason, Status
from precreg.verdict.judge import Policy, describe_difference, is_acceptable, judge_case
from tests.verdict.made import ENVIRONMENT, baseline, case, comparison, outcome, tolerance


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (None, ""),
        (
            RepeatDifference("out", 0, 2, (0, 37), 12, 512, 1.1920929e-07),
            " at [0, 37]: 12 of 512 elements differ, by at most 1.19e-07, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 1, 3, (5,), 1, 9, 0.5, 0),
            " at [5]: 1 of 9 elements differs, by at most 0.5, between run 1 and 3 of seed 1",
        ),
        (
            RepeatDifference("out", 0, 2, (), 1, 1, None, 1),
            ": 1 of 1 elements differs, 1 of them NaN or infinite, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 3, 4, 2.0, 1),
            " at [0]: 3 of 4 elements differ, 1 of them NaN or infinite, by at most 2, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 1, 4, 0.0),
            " at [0]: 1 of 4 elements differs, in their bits alone, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 2, 4, None),
            " at [0]: 2 of 4 elements differ, by more than float64 holds, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2),
            ": missing in one of them, or of another shape or dtype, between run 1 and 2 of seed 0",
        ),
    ],
)
def test_says_where_and_by_how_much(difference, text):
    assert describe_difference(difference) == text


SAME = ("a0", "a1")
"""The digests of the baseline."""

DECLARED = case(deterministic=False, repeats=3)
PLACE = RepeatDifference("out", 0, 2, (0, 3), 7, 100, 1e-7)


def judged(of, on, against=None):
    return judge_case(of, on, {"out": tolerance()}, against or baseline(), ENVIRONMENT, Policy())


def unsteady(*comparisons, difference=PLACE, **fields):
    return outcome(*comparisons, unsteady=("out",), differences=(difference,), **fields)


def test_repeats_that_differ_as_declared_are_told_and_fail_nothing():
    given = judged(DECLARED, unsteady())
    assert (given.status, given.reason) == (Status.PASSED, Reason.WITHIN_TOLERANCE)
    assert given.message.startswith(
        "repeats differ as declared, starting in output 'out' at [0, 3]: 7 of 100 elements differ, "
        "by at most 1e-07, between run 1 and 2 of seed 0, and "
    )


def test_the_same_outcome_fails_where_it_is_not_declared():
    assert judged(case(repeats=3), unsteady()).reason is Reason.NONDETERMINISTIC


def test_a_loss_of_all_runs_together_fails_though_repeats_may_differ():
    worse = [comparison(seed, mean_abs_error=2e-6, rms_error=3e-6, mean_ulp=1.0) for seed in (0, 1)]
    assert judged(DECLARED, unsteady(*worse)).reason is Reason.REGRESSED
    assert judged(DECLARED, unsteady(comparison(0), comparison(1, match_ratio=0.9))).reason is Reason.OUT_OF_TOLERANCE


@pytest.mark.parametrize("deterministic", [True, False])
def test_another_shape_or_no_output_at_all_is_never_as_declared(deterministic):
    given = judged(case(deterministic=deterministic, repeats=3), unsteady(difference=RepeatDifference("out", 0, 2)))
    assert given.reason is Reason.NONDETERMINISTIC
    assert "missing in one of them, or of another shape or dtype" in given.message


def test_one_run_of_what_need_not_repeat_is_never_identical():
    given = judged(replace(DECLARED, repeats=1), outcome(digests=SAME))
    assert given.reason is Reason.WITHIN_TOLERANCE
    assert "bits may change from run to run, as declared" in given.message
    assert judged(case(), outcome(digests=SAME)).reason is Reason.IDENTICAL


def test_runs_that_all_agree_may_be_identical_and_say_that_the_declaration_may_go():
    given = judged(DECLARED, outcome(digests=SAME))
    assert given.reason is Reason.IDENTICAL
    assert "all 3 runs of each seed agree, so `deterministic: false` may not be needed" in given.message
    changed = judged(DECLARED, outcome())
    assert (changed.reason, "bits changed" in changed.message) == (Reason.WITHIN_TOLERANCE, True)
    assert "may not be needed" in changed.message
    assert "may not be needed" not in judged(case(repeats=3), outcome(digests=SAME)).message


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
