"""The change of an average: held against slow forms, and its error rates against errors that are drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.verdict.statistics.ratios import (
    INTERVAL_ALPHA,
    MEAN_MEASURES,
    TESTS_PER_OUTPUT,
    Sample,
    error_ratios,
    fresh_inputs_error,
    paired_log_ratio,
)
from precreg.verdict.statistics.uncertainty import MIN_SAMPLES, StandardError, largest_standard_error, t_quantile
from tests.verdict.drawn import accepted, errors, outcome


def found(now, then, seeds=3):
    entry = accepted(outcome(then, seeds)).entry
    compared = outcome(now, seeds).comparisons
    return {
        change.metric: change for change in error_ratios(compared, entry.outputs["out"], entry.groups.get("out", ()))
    }


def leaving_one_out(now, then, power, axis):
    """Return the logarithm of a ratio of sums and its standard error, group by group along an axis, in numpy."""
    groups = np.arange(now.shape[1 + axis]) * 0
    edges = np.arange(16) * now.shape[1 + axis] // 16
    groups = np.searchsorted(edges, np.arange(now.shape[1 + axis]), side="right") - 1
    current, baseline = (
        np.array([[seed.take(np.flatnonzero(groups == g), axis).sum() for g in range(16)] for seed in side]).ravel()
        for side in (now, then)
    )
    without = np.log((current.sum() - current) / (baseline.sum() - baseline))
    error = np.sqrt((current.size - 1) * np.mean((without - without.mean()) ** 2))
    return np.log(current.sum() / baseline.sum()) * power, error * power


def reach_of(change, value):
    reach = t_quantile(INTERVAL_ALPHA / TESTS_PER_OUTPUT, change.units - 1) * change.standard_error
    assert np.log(change.ratio) == pytest.approx(value, abs=2e-3)  # the baseline keeps four digits of each sum
    assert (np.log(change.lower), np.log(change.upper)) == pytest.approx((value - reach, value + reach), abs=2e-3)


@pytest.mark.parametrize(("metric", "power"), [("mean_abs_error", 1), ("rms_error", 2)])
def test_ratio_and_error_are_those_of_a_slow_jackknife(metric, power):
    def now(seed):
        return 1.3 * (0.8 * errors(seed, shared=0.3) + 0.6 * errors(seed, shared=0.3, draw=1))

    def then(seed):
        return errors(seed, shared=0.3)

    sides = [np.array([np.abs(of(seed)) ** power for seed in range(3)]) for of in (now, then)]
    slow = [leaving_one_out(*sides, 1 / power, axis) for axis in (0, 1)]
    value, error = max(slow, key=lambda each: each[1])
    change = found(now, then)[metric]
    assert change.standard_error == pytest.approx(error, rel=0.02)
    assert (change.units, change.axis) == (48, int(slow[1][1] > slow[0][1]))
    reach_of(change, value)


def test_what_the_baseline_can_draw_is_told_from_the_baseline_alone():
    """The run's errors are shared by rows, and those of the baseline are not: its own spread is the smaller one."""

    def now(seed):
        return errors(seed, scale=1.3, shared=0.9, draw=1)

    sides = [np.array([np.abs(of(seed)) for seed in range(3)]) for of in (now, errors)]
    (value, paired), _ = (leaving_one_out(*sides, 1, axis) for axis in (0, 1))
    alone = [leaving_one_out(sides[1], np.ones_like(sides[1]), 1, axis)[1] for axis in (0, 1)]
    change = found(now, errors)["mean_abs_error"]
    assert change.standard_error == pytest.approx(np.sqrt(2) * max(alone), rel=0.02)
    assert change.standard_error < paired / 3
    reach_of(change, value)
    by_few_elements = found(now, errors)["rms_error"]
    assert by_few_elements.standard_error > 2 * change.standard_error


def test_an_axis_of_few_groups_is_taken_where_errors_are_clearly_shared_along_it():
    few, many = StandardError(0.02, 6, 0), StandardError(0.018, 48, 1)
    assert largest_standard_error([few, many]) == many
    assert largest_standard_error([StandardError(0.03, 6, 0), many]) == StandardError(0.03, 6, 0)
    assert largest_standard_error([StandardError(0.02, 24, 0), many]) == StandardError(0.02, 24, 0)
    assert largest_standard_error([few]) == few


def test_seeds_are_taken_where_they_differ_plainly_more_than_every_axis_explains():
    axes = StandardError(0.3, 12, 0), StandardError(0.1, 48, 1)
    assert largest_standard_error([*axes, StandardError(0.35, 3, None)]) == axes[0]
    assert largest_standard_error([*axes, StandardError(1.0, 3, None)]) == StandardError(1.0, 3, None)
    assert largest_standard_error([StandardError(0.5, 3, None), StandardError(0.5, 3, 0)]).error == 0.5
    assert largest_standard_error([StandardError(0.0, 3, 0), StandardError(0.0, 3, None)]).error == 0.0


def test_the_logarithm_of_ulps_is_a_difference_of_means():
    change = found(lambda seed: errors(seed, scale=2), errors)["mean_log2_ulp"]
    assert change.ratio == pytest.approx(2, rel=0.02)


def test_the_growth_of_a_bias_is_told_in_units_of_the_mean_error():
    change = found(lambda seed: errors(seed) + 2e-5, errors)["bias"]
    mean = np.mean([np.abs(errors(seed)).mean() for seed in range(3)])
    before, after = (abs(np.mean([errors(seed).mean() + more for seed in range(3)])) for more in (0, 2e-5))
    assert change.ratio - 1 == pytest.approx((after - before) / mean, abs=2e-3)


@given(st.integers(-20, 20))
@settings(max_examples=15, deadline=None)
def test_what_both_sides_are_scaled_by_does_not_matter(exponent):
    scaled = found(
        lambda seed: errors(seed, scale=1.2 * 2.0**exponent, draw=1), lambda seed: errors(seed, scale=2.0**exponent)
    )
    plain = found(lambda seed: errors(seed, scale=1.2, draw=1), errors)
    for metric in ("mean_abs_error", "rms_error", "bias"):
        assert scaled[metric].ratio == pytest.approx(plain[metric].ratio, rel=2e-3)
        assert scaled[metric].standard_error == pytest.approx(plain[metric].standard_error, rel=0.05)


def test_the_same_growth_everywhere_is_certain():
    change = found(lambda seed: 1.5 * errors(seed), errors)["mean_abs_error"]
    assert change.ratio == pytest.approx(1.5, rel=1e-3)
    assert change.lower > 1.49
    assert change.upper < 1.51
    assert change.p_value < 1e-30


def test_one_group_that_has_all_errors_tells_nothing():
    def only_first_row(seed):
        alone = np.zeros((32, 48))
        alone[0, 0] = 1e-4
        return alone if seed == 0 else np.zeros((32, 48))

    change = found(lambda seed: 3 * only_first_row(seed), only_first_row)["mean_abs_error"]
    assert (change.lower, change.upper, change.standard_error, change.p_value) == (0.0, np.inf, np.inf, 0.5)


@pytest.mark.parametrize(
    ("current", "baseline"), [(1e-200, np.inf), (1e200, 1e-200), (np.inf, np.inf), (1e-200, 1e200)]
)
def test_sums_whose_quotient_float64_does_not_have_give_no_ratio(current, baseline):
    assert paired_log_ratio(Sample(0, [current] * 6, [baseline] * 6, [9] * 6, [1.0] * 6), MEAN_MEASURES[0]) is None


def test_a_mean_that_float64_rounds_to_0_has_no_error():
    assert fresh_inputs_error(Sample(0, [5e-324], [5e-324], [9], [5e-324]), MEAN_MEASURES[0]) is None


@pytest.mark.parametrize(
    ("shape", "seeds", "claimed"), [((), 3, False), ((), 5, True), ((1,), 4, False), ((2,), 3, True)]
)
def test_fewer_than_five_samples_claim_nothing(shape, seeds, claimed):
    assert (
        bool(found(lambda seed: errors(seed, scale=2, shape=shape), lambda seed: errors(seed, shape=shape), seeds))
        is claimed
    )
    assert MIN_SAMPLES == 5


def test_scalars_are_sampled_by_seeds():
    def scalar(seed, **others):
        return errors(seed, shape=(), **others)

    change = found(lambda seed: scalar(seed, scale=3), scalar, seeds=8)["rms_error"]
    assert (change.units, change.axis) == (8, None)
    assert change.ratio == pytest.approx(3, rel=1e-6)


def test_sums_beyond_float64_are_not_judged():
    given = outcome(errors)
    entry = accepted(given).entry
    lost = tuple(
        replace(each, groups=tuple(replace(axis, squared=[None] * 16) for axis in each.groups))
        for each in given.comparisons
    )
    metrics = {change.metric for change in error_ratios(lost, entry.outputs["out"], entry.groups["out"])}
    assert metrics == {"mean_abs_error", "mean_ulp", "mean_log2_ulp", "rms_ulp", "bias", "outward_bias"}


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_bounds_hold_as_often_as_they_say_and_noise_is_called_by_its_chance(shared):
    """150 redraws of all errors: of no change at all few bounds, and few small chances, may be wrong."""
    wrong, small = 0, 0
    for draw in range(150):
        change = found(
            lambda seed, draw=draw: errors(seed, shared=shared, draw=draw, shape=(16, 24)),
            lambda seed, draw=draw: errors(seed, shared=shared, draw=1000 + draw, shape=(16, 24)),
        )["mean_abs_error"]
        wrong += change.lower > 1
        small += change.p_value < 0.05
    assert wrong <= 3  # each with 0.2 %: above 3 with a chance below 1e-4
    assert small <= 32  # both sides, with 5 % each: above 32 with a chance below 1e-4


def shared_by_all(seed, draw):
    """Return errors of which most is one number for all elements of a seed, as a tensor's norm in a denominator is."""
    (one,) = np.random.default_rng([seed, draw, 77]).standard_normal(1)
    return errors(seed, draw=draw) / 4 + 1e-4 * one


def test_what_a_whole_output_shares_is_seen_between_seeds():
    """Every group says the same, with hardly any spread; seeds say how little that is worth."""
    for draw in range(8):
        change = found(lambda seed, d=draw: shared_by_all(seed, d), lambda seed, d=draw: shared_by_all(seed, 50 + d))
        assert (change["mean_abs_error"].axis, change["mean_abs_error"].units) == (None, 3)
        assert change["mean_abs_error"].p_value > 1e-3


def test_seeds_that_differ_no_more_than_groups_do_not_weaken_the_statistic():
    change = found(lambda seed: errors(seed, scale=1.3, draw=1), errors)["mean_abs_error"]
    assert change.units == 48


def test_errors_whose_squares_are_beyond_float64_are_judged_by_the_other_averages():
    assert set(found(lambda seed: 1e204 * errors(seed, scale=1.3), lambda seed: 1e204 * errors(seed), seeds=6)) >= {
        "mean_abs_error",
        "mean_ulp",
    }
