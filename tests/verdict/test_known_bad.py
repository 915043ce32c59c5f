"""A baseline that was accepted as known bad: as wrong passes, worse has regressed, fixed has improved, new fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.types.record import KnownBad
from precreg.types.verdict import Reason, RepeatDifference, Status
from precreg.verdict.judge import Policy, acceptable_as_known_bad, is_acceptable, judge_case
from precreg.verdict.known_bad import known_bad_state
from tests.verdict.made import ENVIRONMENT, baseline, bound, case, comparison, entry, outcome, tolerance

LIMIT = {"max_ulp": 4.0}
SCALAR = {"n": 1, "finite": 1}


def both(counts=None, **metrics):
    """Return the outcome of two seeds with these figures, in other bits than the baseline's."""
    return outcome(comparison(0, counts, **metrics), comparison(1, counts, **metrics))


def known(on, **metrics):
    """Return the baseline of an outcome that was accepted as known bad."""
    state = known_bad_state(on, {"out": tolerance(**LIMIT)})
    return baseline(replace(entry(**metrics), known=replace(state, reason="bug 4711")))


def judged(on, against, of=None, **changes):
    given = changes or {"out": tolerance(**LIMIT)}
    return judge_case(of or case(), on, given, against, ENVIRONMENT, Policy())


BAD = both(max_ulp=100.0)


def test_the_state_has_the_broken_bounds_and_the_mismatches_alone():
    state = known_bad_state(both({"nan_mismatched": 2}, max_ulp=100.0), {"out": tolerance(**LIMIT)})
    assert state == KnownBad(bounds={"out": {"max_ulp": [100.0, 100.0]}}, nans={"out": [2, 2]})
    assert known_bad_state(both(max_ulp=1.0), {"out": tolerance(**LIMIT)}) == KnownBad()


def test_the_state_of_alternatives_has_all_of_their_metrics():
    either = replace(tolerance(), alternatives=((bound("max_ulp", 4.0),), (bound("mean_ulp", 0.1),)))
    state = known_bad_state(BAD, {"out": either})
    assert state.bounds == {"out": {"either.max_ulp": [100.0] * 2, "either.mean_ulp": [0.5] * 2}}
    against = baseline(replace(entry(max_ulp=100.0), known=state))
    assert judged(BAD, against, out=either).reason is Reason.KNOWN_BAD
    assert judged(both(max_ulp=1e4), against, out=either).reason is Reason.REGRESSED
    assert judged(BAD, baseline(entry(max_ulp=100.0)), out=either).reason is Reason.OUT_OF_TOLERANCE


def test_other_bits_as_wrong_as_accepted_pass_and_say_so():
    verdict = judged(BAD, known(BAD))
    assert (verdict.status, verdict.reason, verdict.known_bad) == (Status.PASSED, Reason.KNOWN_BAD, "bug 4711")
    assert [finding.metric for finding in verdict.excused] == ["max_ulp", "max_ulp"]
    assert judged(BAD, baseline(entry(max_ulp=100.0))).reason is Reason.OUT_OF_TOLERANCE


def test_the_same_bits_are_identical_and_still_wrong():
    same = replace(BAD, execution=replace(BAD.execution, outputs={"out": ("a0", "a1")}))
    verdict = judged(same, known(BAD))
    assert (verdict.status, verdict.reason, bool(verdict.excused)) == (Status.PASSED, Reason.IDENTICAL, True)


@pytest.mark.parametrize(("now", "reason"), [(399.0, Reason.KNOWN_BAD), (401.0, Reason.REGRESSED)])
def test_the_metric_of_a_broken_bound_may_grow_by_the_shipped_threshold_of_maxima(now, reason):
    assert judged(both(max_ulp=now), known(BAD)).reason is reason


@pytest.mark.parametrize(("now", "reason"), [(0.76, Reason.KNOWN_BAD), (0.74, Reason.REGRESSED)])
def test_a_broken_share_may_fall_by_a_quarter(now, reason):
    half = both(match_ratio=0.99999)
    against = known(half, match_ratio=0.99999)
    assert judged(both(match_ratio=now), against).reason is reason


def test_a_loss_by_the_rule_for_regressions_is_one():
    assert judged(both(max_ulp=100.0, mean_abs_error=1.2e-6), known(BAD)).reason is Reason.REGRESSED


def test_another_bound_or_another_output_is_not_excused():
    assert judged(both(max_ulp=100.0, match_ratio=0.9), known(BAD)).reason is Reason.OUT_OF_TOLERANCE
    assert judged(both({"nan_mismatched": 1}, max_ulp=100.0), known(BAD)).reason is Reason.NON_FINITE_MISMATCH


def test_a_seed_that_was_not_accepted_is_not_excused():
    more = outcome(
        *(comparison(seed, max_ulp=100.0) for seed in range(3)), digests=("b0", "b1", "b2"), inputs=("i0", "i1", "i2")
    )
    assert judged(more, known(BAD)).reason is Reason.OUT_OF_TOLERANCE


def test_a_metric_that_is_no_longer_defined_is_not_excused():
    assert judged(both(max_ulp=None), known(BAD)).reason is Reason.OUT_OF_TOLERANCE
    undefined = both(max_ulp=None)
    assert judged(undefined, known(undefined)).reason is Reason.KNOWN_BAD
    assert judged(BAD, known(undefined)).reason is Reason.OUT_OF_TOLERANCE


def test_a_result_within_tolerance_has_improved_and_becomes_an_ordinary_baseline():
    fixed = both(max_ulp=3.0)
    verdict = judged(fixed, known(BAD))
    assert (verdict.reason, verdict.known_bad, verdict.excused) == (Reason.IMPROVED, "", ())
    assert is_acceptable(case(), fixed, {"out": tolerance(**LIMIT)}, known(BAD), ENVIRONMENT, verdict)


def test_a_result_within_tolerance_that_is_worse_has_regressed():
    assert judged(both(max_ulp=3.0, mean_abs_error=2e-6), known(BAD)).reason is Reason.REGRESSED


def test_without_the_bound_nothing_shows_that_the_case_is_fixed():
    assert judged(BAD, known(BAD), out=tolerance()).reason is Reason.WITHIN_TOLERANCE


@pytest.mark.parametrize(
    ("nans", "infinities", "reason"),
    [
        (3, 0, Reason.KNOWN_BAD),
        (4, 0, Reason.REGRESSED),
        (2, 0, Reason.IMPROVED),
        (0, 3, Reason.REGRESSED),
        (2, 1, Reason.REGRESSED),
        (0, 0, Reason.IMPROVED),
    ],
)
def test_nan_and_infinities_are_counted_each_by_itself(nans, infinities, reason):
    against = known(both({"nan_mismatched": 3}))
    assert judged(both({"nan_mismatched": nans, "inf_mismatched": infinities}), against).reason is reason


def test_more_nan_at_one_seed_are_not_made_up_for_at_another():
    against = known(both({"nan_mismatched": 3}))
    one_more = outcome(comparison(0, {"nan_mismatched": 0}), comparison(1, {"nan_mismatched": 4}))
    assert judged(one_more, against).reason is Reason.REGRESSED


def test_an_output_of_nan_alone_stays_known():
    counts = {"finite": 0, "nan_mismatched": 100}
    nothing = {name: None for name in ("match_ratio", "max_abs_error", "mean_abs_error", "rms_error", "mean_ulp")}
    dead = both(counts, **nothing)
    state = known_bad_state(dead, {"out": tolerance()})
    against = baseline(replace(entry(**nothing), known=state))
    assert judged(dead, against, out=tolerance()).reason is Reason.KNOWN_BAD
    assert judged(both(), against, out=tolerance()).reason is Reason.IMPROVED


@pytest.mark.parametrize(
    ("now", "reason"), [(1.05e-6, Reason.KNOWN_BAD), (1.2e-6, Reason.REGRESSED), (0.7e-6, Reason.IMPROVED)]
)
def test_a_scalar_that_no_statistic_judges_is_limited_by_its_error(now, reason):
    wrong = both(SCALAR, match_ratio=0.0)
    against = known(wrong, match_ratio=0.0)
    assert judged(both(SCALAR, match_ratio=0.0, mean_abs_error=now), against).reason is reason


def test_a_missing_output_another_shape_and_undeclared_repeats_fail():
    against = known(BAD)
    gone = replace(BAD, comparisons=(), missing=("out",))
    assert judged(gone, against).reason is Reason.MISSING_OUTPUT
    other = replace(BAD, comparisons=tuple(replace(each, shape=(5, 20)) for each in BAD.comparisons))
    assert judged(other, against).reason is Reason.SHAPE_MISMATCH
    differing = replace(
        BAD,
        execution=replace(
            BAD.execution, unsteady=("out",), differences=(RepeatDifference("out", 0, 2, (0, 0), 1, 100),)
        ),
    )
    assert judged(differing, against).reason is Reason.NONDETERMINISTIC
    nan = both({"nan_mismatched": 3})
    repeats = replace(nan, execution=differing.execution)
    assert judged(repeats, known(nan)).reason is Reason.NONDETERMINISTIC


def test_the_state_does_not_apply_to_another_definition_or_other_inputs():
    assert judged(BAD, known(BAD), case(baseline_definition="1:e")).reason is Reason.OUT_OF_TOLERANCE
    drawn = replace(BAD, execution=replace(BAD.execution, inputs=("j0", "j1")))
    assert judged(drawn, known(BAD)).reason is Reason.OUT_OF_TOLERANCE


def test_expect_fail_has_its_own_rule():
    verdict = judged(BAD, known(BAD), case(expect_failure="bug"))
    assert (verdict.reason, verdict.excused) == (Reason.EXPECTED_FAILURE, ())


def proposed(on, against, of=None):
    of, limits = of or case(), {"out": tolerance(**LIMIT)}
    verdict = judged(on, against, of)
    ordinary = is_acceptable(of, on, limits, against, ENVIRONMENT, verdict)
    return ordinary, acceptable_as_known_bad(of, on, limits, against, ENVIRONMENT, verdict)


def test_only_wrong_figures_can_be_accepted_as_known_bad():
    state = known_bad_state(BAD, {"out": tolerance(**LIMIT)})
    assert proposed(BAD, None) == (False, state)
    assert proposed(BAD, baseline()) == (False, state)
    assert proposed(both(max_ulp=1.0), None) == (True, None)
    assert proposed(BAD, None, case(expect_failure="bug")) == (False, None)
    assert proposed(replace(BAD, comparisons=(), missing=("out",)), None) == (False, None)
    nan = both({"nan_mismatched": 3}, max_ulp=1.0)
    assert proposed(nan, None) == (False, KnownBad(nans={"out": [3, 3]}))
    unsteady = replace(nan, execution=replace(nan.execution, unsteady=("out",)))
    assert proposed(unsteady, None) == (False, None)


def test_the_same_bits_are_nothing_to_accept_again_until_the_tolerance_admits_them():
    same = replace(BAD, execution=replace(BAD.execution, outputs={"out": ("a0", "a1")}))
    assert proposed(same, known(BAD)) == (False, None)
    verdict = judged(same, known(BAD), out=tolerance())
    assert verdict.reason is Reason.IDENTICAL
    assert is_acceptable(case(), same, {"out": tolerance()}, known(BAD), ENVIRONMENT, verdict)


@given(
    before=st.integers(0, 5),
    now=st.integers(0, 5),
    ulp=st.sampled_from([1.0, 100.0, 500.0]),
    then=st.sampled_from([1.0, 100.0, 500.0]),
)
def test_a_known_bad_baseline_excuses_nothing_that_is_new_or_worse(before, now, ulp, then):
    accepted = both({"nan_mismatched": before}, max_ulp=then)
    current = both({"nan_mismatched": now}, max_ulp=ulp)
    status = judged(current, known(accepted)).status
    is_new = (now > 0 and before == 0) or (ulp > 4 and then <= 4)
    is_worse = now > before > 0 or ulp > 4 * then
    assert (status is Status.FAILED) == (is_new or is_worse)
