"""What makes an output worse: hard rules, statistics on errors that are drawn, guards; each through the verdict."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.measure.comparison import compare_arrays
from precreg.types.record import Environment
from precreg.types.verdict import (
    ChangedBits,
    ExactnessGained,
    ExactnessLost,
    NotRegressed,
    RatioMoved,
    Reason,
    Status,
    UnjudgedOutputs,
)
from precreg.verdict.judge import Policy, judge_case
from precreg.verdict.regression import MIN_BASELINES, RUN_ALPHA, case_alpha
from tests.verdict.drawn import FINGERPRINT, accepted, errors, outcome, tolerance
from tests.verdict.made import case

HERE = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), FINGERPRINT, {})
ELSEWHERE = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), "beef", {})


def verdict(now, then=errors, *, environment=HERE, limits=None, of=None, baselines=600, seeds=3):
    found = accepted(outcome(then, seeds))
    on = outcome(now, seeds, name="b")
    return judge_case(of or case(), on, {"out": limits or tolerance()}, found, environment, Policy(baselines=baselines))


def binds(given):
    return {finding.metric for finding in given.findings if finding.rule == "statistic"}


def test_a_loss_of_a_tenth_that_all_groups_share_is_a_regression_though_no_threshold_sees_it():
    given = verdict(lambda seed: 1.1 * errors(seed))
    assert (given.status, given.reason) == (Status.FAILED, Reason.REGRESSED)
    assert binds(given) == {"mean_abs_error", "rms_error", "mean_ulp", "mean_log2_ulp", "rms_ulp"}
    (found,) = (finding for finding in given.findings if finding.metric == "mean_abs_error")
    assert 1.099 < found.lower < found.ratio < found.upper < 1.101
    assert found.lower > found.limit == 1.02
    assert found.fact == RatioMoved()
    assert 1 < found.floor < found.lower


def test_the_same_loss_in_errors_that_are_drawn_anew_is_noise():
    given = verdict(lambda seed: errors(seed, scale=1.02, draw=1, shape=(16, 16)), lambda s: errors(s, shape=(16, 16)))
    assert (given.status, given.reason) == (Status.PASSED, Reason.WITHIN_TOLERANCE)
    largest = given.findings[0].fact.largest
    assert largest.lower < largest.ratio < largest.upper


def test_a_significant_loss_that_is_not_material_is_none():
    """One and a half percent everywhere is beyond all doubt, and below the ratio that matters."""
    assert verdict(lambda seed: 1.015 * errors(seed)).reason is Reason.WITHIN_TOLERANCE
    stricter = tolerance(statistic=0.01)
    assert verdict(lambda seed: 1.015 * errors(seed), limits=stricter).reason is Reason.REGRESSED


def test_statistics_can_be_switched_off():
    limits = replace(tolerance(), regression={})
    given = verdict(lambda seed: 1.3 * errors(seed), limits=limits)
    assert given.reason is Reason.WITHIN_TOLERANCE
    assert given.findings[0].fact == NotRegressed(ChangedBits(), unjudged=(UnjudgedOutputs("statistic_off", ("out",)),))
    guarded = verdict(lambda seed: 1.3 * errors(seed), limits=replace(tolerance(), regression={"max_abs_error": 3.0}))
    assert guarded.findings[0].fact.has_thresholds


def test_errors_that_a_row_shares_are_no_evidence_for_each_of_its_elements():
    """One factor a row, 4 rows: rows are what was drawn, and there are 12 of them, not 6,000 elements."""

    def one_of_rows(seed, draw):
        rows = np.random.default_rng([seed, draw]).lognormal(0, 0.5, (4, 1))
        return errors(seed, shape=(4, 512), draw=7) * rows

    moved = [
        verdict(lambda seed, d=draw: one_of_rows(seed, d), lambda seed, d=draw: one_of_rows(seed, 500 + d))
        for draw in range(40)
    ]
    assert {given.status for given in moved} == {Status.PASSED}


def test_better_is_said_with_its_interval_and_so_is_a_maximum_that_rose():
    def better(seed):
        changed = errors(seed) / 13
        changed[0, 0] = 10 * np.abs(errors(seed)).max()
        return changed

    given = verdict(better)
    assert (given.status, given.reason) == (Status.PASSED, Reason.IMPROVED)
    (found,) = given.findings
    assert found.upper < 1
    assert found.fact.maximum_now == pytest.approx(10 * found.fact.maximum_before)


def test_a_maximum_is_guarded_where_no_average_is_better():
    def outlier(seed):
        changed = errors(seed).copy()
        changed[3, 5] = 6 * np.abs(changed).max()
        return changed

    given = verdict(outlier)
    assert (given.reason, {finding.rule for finding in given.findings}) == (Reason.REGRESSED, {"guard"})
    harmless = verdict(lambda seed: errors(seed) + np.pad([[2e-4]], ((0, 31), (0, 47))))
    assert harmless.status is Status.PASSED


def exact(seed):
    return 0 * errors(seed)


def test_an_output_that_became_exact_is_improved():
    given = verdict(exact)
    assert given.reason is Reason.IMPROVED
    assert given.findings[0].fact == ExactnessGained()


def test_lost_exactness_needs_no_statistic():
    def one_off(seed):
        changed = np.zeros((32, 48))
        changed[1, 1] = 1e-6 if seed == 2 else 0.0
        return changed

    given = verdict(one_off, lambda seed: np.zeros((32, 48)))
    assert (given.reason, given.findings[0].rule) == (Reason.REGRESSED, "hard")
    assert given.findings[0].fact == ExactnessLost()


def test_a_golden_case_regresses_with_any_loss_of_match_ratio():
    def unmatched(seed):
        changed = np.zeros((32, 48))
        changed[seed, 1] = 3.0
        return changed

    given = verdict(unmatched, lambda seed: np.zeros((32, 48)), of=case(role="golden"))
    (lost,) = (finding for finding in given.findings if finding.metric == "match_ratio")
    assert (lost.rule, lost.baseline) == ("hard", 1.0)
    assert lost.current == pytest.approx(1 - 1 / (32 * 48))


def test_another_environment_explains_more():
    """Its own order of sums is truly worse there; what it cannot explain is still a regression."""
    third_more = verdict(lambda seed: 1.3 * errors(seed), environment=ELSEWHERE)
    assert third_more.status is Status.PASSED
    assert verdict(lambda seed: 1.3 * errors(seed)).reason is Reason.REGRESSED
    assert verdict(lambda seed: 1.7 * errors(seed), environment=ELSEWHERE).reason is Reason.REGRESSED


def test_an_environment_whose_former_fingerprint_the_baseline_has_explains_nothing():
    known = replace(ELSEWHERE, former=("dead", FINGERPRINT))
    assert verdict(lambda seed: 1.3 * errors(seed), environment=known).reason is Reason.REGRESSED


def test_scalars_are_left_to_bounds_and_the_verdict_says_so():
    def scalar(seed, scale=1.0):
        return errors(seed, scale=scale, shape=(1,))

    given = verdict(lambda seed: scalar(seed, 3.0), scalar)
    assert given.status is Status.PASSED
    fact = given.findings[0].fact
    assert (fact.unjudged, fact.has_thresholds) == ((UnjudgedOutputs("few_samples", ("out",)),), True)


def test_a_case_s_level_is_that_of_the_run_over_the_number_of_baselines():
    assert case_alpha(1) == case_alpha(MIN_BASELINES) == RUN_ALPHA / 32
    assert case_alpha(33) == case_alpha(64) == RUN_ALPHA / 64
    assert case_alpha(646) == RUN_ALPHA / 1024


def test_more_baselines_ask_for_more_evidence():
    def loss(seed):
        return errors(seed, scale=1.25, draw=1, shape=(16, 24))

    few, many = (verdict(loss, lambda seed: errors(seed, shape=(16, 24)), baselines=number) for number in (1, 10**13))
    assert (few.reason, many.reason) == (Reason.REGRESSED, Reason.WITHIN_TOLERANCE)


@pytest.mark.parametrize("factor", [1.1, 1.5, 3.0, 100.0])
def test_the_larger_the_loss_the_surer_it_is_found(factor):
    """Errors drawn anew, three seeds of 512 elements: what is not seen at a tenth is seen at a half."""
    seen = sum(
        verdict(
            lambda seed, d=draw: errors(seed, scale=factor, draw=d, shape=(16, 32)),
            lambda seed, d=draw: errors(seed, draw=900 + d, shape=(16, 32)),
        ).reason
        is Reason.REGRESSED
        for draw in range(10)
    )
    assert seen <= 3 if factor == 1.1 else seen >= 9


def test_what_may_have_grown_most_is_named_where_nothing_is_worse():
    """Exactly the same errors but for one output's: it is the one that more seeds would tell of."""
    given = verdict(lambda seed: errors(seed, draw=1, shape=(16, 16)), lambda seed: errors(seed, shape=(16, 16)))
    largest = given.findings[0].fact.largest
    assert (largest.output, largest.upper > largest.min_ratio == 1.02) == ("out", True)


@pytest.mark.parametrize(
    ("dtype", "ulps", "reason"), [("float32", 0.4, Reason.WITHIN_TOLERANCE), ("float32", 1.2, Reason.REGRESSED)]
)
def test_another_library_of_functions_is_worse_by_less_than_half_an_ulp(dtype, ulps, reason):
    """Nearly rounded results there, and here some tenths of an ULP more: three times the error, and no other code."""

    def rounded(seed, more=0.0):
        reference = np.random.default_rng([seed, 3]).uniform(1, 2, (32, 48))
        noise = np.random.default_rng([seed, 4]).uniform(-1, 1, (32, 48)) * more * 2
        return reference, (reference + noise * 2.0**-23).astype(dtype)

    def measured(more, name):
        made = [
            compare_arrays(actual, reference, seed=seed, rtol=1, atol=1)
            for seed in range(3)
            for reference, actual in [rounded(seed, more)]
        ]
        return replace(outcome(errors, name=name), comparisons=tuple(made))

    found = accepted(measured(0.0, "a"))
    here = judge_case(case(), measured(ulps, "b"), {"out": tolerance()}, found, ELSEWHERE, Policy(baselines=600))
    assert here.reason is reason, here.findings
    same = judge_case(case(), measured(ulps, "b"), {"out": tolerance()}, found, HERE, Policy(baselines=600))
    assert same.reason is Reason.REGRESSED
