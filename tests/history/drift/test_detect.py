"""The statistics of drift, each against a slow independent computation, and their false alarms against their claim."""

import itertools
import random
from math import comb, factorial, inf
from statistics import NormalDist, fmean, median, median_high

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.verdict.statistics import change_points as detect

NUMBERS = st.lists(st.integers(-50, 50).map(float), min_size=3, max_size=14)


def slow_u(values, at):
    """Count the pairs that rise from before the split to after it, ties as half."""
    return sum(
        1.0 if earlier < later else 0.5 if earlier == later else 0.0 for earlier in values[:at] for later in values[at:]
    )


@given(NUMBERS)
def test_rank_excess_is_mann_and_whitneys_u_over_its_mean(values):
    expected = [slow_u(values, at) - at * (len(values) - at) / 2 for at in range(1, len(values))]
    assert detect._rank_excess(values) == pytest.approx(expected)


@given(NUMBERS)
def test_concordance_is_half_of_kendalls_s(values):
    signs = ((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(values, 2))
    assert detect.half_kendall_s(values) == sum(signs) / 2


@pytest.mark.parametrize(("small", "large"), [(1, 1), (1, 5), (2, 3), (3, 4), (2, 6)])
def test_mann_whitney_distribution_are_those_of_all_orders(small, large):
    counts = [0] * (small * large + 1)
    for chosen in itertools.combinations(range(small + large), small):
        counts[sum(place - rank for rank, place in enumerate(chosen))] += 1
    exact = [count / comb(small + large, small) for count in counts]
    assert detect._mann_whitney_distribution(small, large) == pytest.approx(exact)


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_kendall_distribution_are_those_of_all_orders(count):
    counts = [0] * (count * (count - 1) // 2 + 1)
    for order in itertools.permutations(range(count)):
        counts[sum(earlier < later for earlier, later in itertools.combinations(order, 2))] += 1
    assert detect._kendall_distribution(count) == pytest.approx([found / factorial(count) for found in counts])


@pytest.mark.parametrize("count", [20, 41, 60])
def test_a_critical_shift_is_the_least_that_is_rare_enough(count):
    for at, least in enumerate(detect.critical_shifts(count), 1):
        small, large = sorted((at, count - at))
        if small > detect.MAX_EXACT_SIDE:
            continue
        tails = detect._mann_whitney_distribution(small, large)[::-1].cumsum()[::-1]
        if least == inf:
            assert tails[-1] > detect.DRIFT_ALPHA
        else:
            u = int(least + small * large / 2)
            assert tails[u] <= detect.DRIFT_ALPHA < tails[u - 1]


def test_the_normal_limit_asks_for_more_than_the_exact_one(monkeypatch):
    normal = detect.critical_shifts(60)[29]
    deviation = (30 * 30 * 61 / 12) ** 0.5
    assert normal == pytest.approx(NormalDist().inv_cdf(1 - detect.DRIFT_ALPHA) * deviation)
    tails = detect._mann_whitney_distribution(30, 30)[::-1].cumsum()[::-1]
    assert tails[int(normal + 450) + 1] <= detect.DRIFT_ALPHA


def test_tables_of_long_windows_are_made_without_deep_recursion():
    detect._mann_whitney_distribution.cache_clear()
    detect.critical_shifts.cache_clear()
    assert len(detect.critical_shifts(400)) == 399


@pytest.mark.parametrize("count", [*range(8), 8])
def test_so_few_runs_are_never_significant(count):
    rising = [float(at) for at in range(count)]
    assert not detect.trend_test(rising).is_significant
    assert not detect.shift_test(rising).is_significant


def test_nine_rising_runs_are_a_trend():
    assert detect.trend_test([float(at) for at in range(9)]).is_significant


def test_a_falling_row_neither_rises_nor_shifts():
    falling = [-float(at) for at in range(60)]
    assert not detect.trend_test(falling).is_significant
    assert not detect.shift_test(falling).is_significant
    assert not detect.jump_test(falling, 2).is_significant


def gauss(seed, count=60, size=1.0):
    noise = random.Random(seed)
    return [noise.gauss(0, size) for _ in range(count)]


def test_the_spread_of_noise_is_its_standard_deviation_whatever_steps_and_slopes_it_stands_on():
    estimates, with_step, with_slope = [], [], []
    for seed in range(200):
        noise = gauss(seed)
        estimates.append(detect.noise_sigma(noise))
        with_step.append(detect.noise_sigma([value + 100 * (at >= 40) for at, value in enumerate(noise)]))
        with_slope.append(detect.noise_sigma([value + 100 * at for at, value in enumerate(noise)]))
    assert fmean(estimates) == pytest.approx(1, abs=0.05)
    assert fmean(with_step) == pytest.approx(1, abs=0.08)
    assert with_slope == pytest.approx(estimates, rel=1e-6)


def test_the_spread_of_a_row_that_rarely_moves_is_not_zero():
    assert detect.noise_sigma([1.0] * 10) == 0
    assert detect.noise_sigma([1.0] * 10 + [2.0] + [1.0] * 10) > 0.1
    assert detect.noise_sigma([1.0]) == detect.noise_sigma([]) == 0


def test_inflation_is_that_of_an_autoregressive_process():
    noise, value, row = random.Random(1), 0.0, []
    for _ in range(20_000):
        value = 0.5 * value + noise.gauss(0, 1)
        row.append(value)
    assert detect.variance_inflation(row, detect.LINE_BIAS) == pytest.approx(3, rel=0.1)
    assert detect.variance_inflation(gauss(2, 20_000), detect.LINE_BIAS) == pytest.approx(1, abs=0.05)
    assert detect.variance_inflation([1.0, 1.0], detect.LINE_BIAS) == 1
    assert detect.variance_inflation([1.0, -1.0] * 10, detect.LINE_BIAS) == 1


@given(st.lists(st.integers(-9, 9).map(float), min_size=3, max_size=9))
def test_the_best_step_is_the_best_of_all(values):
    def misfit(at):
        sides = (values[:at], values[at:])
        return min(
            sum(abs(value - low) for value in sides[0]) + sum(abs(value - high) for value in sides[1])
            for low in sides[0]
            for high in sides[1]
        )

    best = detect.best_step(values)
    assert best.misfit == pytest.approx(min(misfit(at) for at in range(1, len(values))))
    assert best.misfit == pytest.approx(misfit(best.at))


def in_order(terms):
    """Add from the first term to the last: Python's sum compensates from 3.12 on."""
    total = 0.0
    for term in terms:
        total += term
    return total


def plain_steps(values, min_side):
    for at in range(min_side, len(values) - min_side + 1):
        before, after = median_high(values[:at]), median(values[at:])
        yield at, before, after, in_order(abs(v - (before if p < at else after)) for p, v in enumerate(values))


def plain_ramp(values, at):
    hinge = [max(0, place - at) for place in range(len(values))]
    mean_hinge, mean_value = fmean(hinge), fmean(values)
    above = in_order((x - mean_hinge) * (value - mean_value) for x, value in zip(hinge, values, strict=True))
    slope = above / in_order((x - mean_hinge) * (x - mean_hinge) for x in hinge)
    level = mean_value - slope * mean_hinge
    misfit = in_order(abs(value - level - slope * x) for x, value in zip(hinge, values, strict=True))
    return at, level, slope, level + slope * hinge[-1], misfit


ROWS = st.lists(st.floats(-700, 700) | st.integers(-3, 3).map(float), min_size=3, max_size=70)


@given(ROWS, st.integers(1, 4))
def test_all_steps_and_ramps_at_once_are_those_of_each_place_to_the_bit(values, min_side):
    assert [*map(tuple, detect.step_fits(values, min_side))] == [*plain_steps(values, min_side)]
    ramps = [plain_ramp(values, at) for at in range(len(values) - 2)]
    assert detect.best_ramp(values) == min(ramps, key=lambda ramp: ramp[-1])


def test_a_step_is_found_where_it_is_despite_outliers():
    values = [0.0] * 40 + [1.0] * 20
    values[10] = values[50] = 30.0
    assert detect.best_step(values)[:3] == (40, 0.0, 1.0)


def test_a_ramp_is_found_where_it_bends():
    ramp = detect.best_ramp([max(0, at - 30) * 0.5 for at in range(60)])
    assert (ramp.at, ramp.slope, ramp.before, ramp.after) == pytest.approx((30, 0.5, 0, 14.5))


def test_theil_and_sens_slope_ignores_outliers():
    values = [3.0 * at for at in range(20)]
    values[7] = 1e6
    assert detect.theil_sen_slope(values) == pytest.approx(3.0)


def test_the_running_median_takes_single_outliers_only():
    assert detect.running_median([0.0, 0.0, 9.0, 0.0, 0.0, 5.0, 5.0]) == [0, 0, 0, 0, 0, 5, 5]
    assert detect.running_median([1.0, 2.0]) == [1.0, 2.0]


def test_a_jump_needs_all_of_the_last_values():
    quiet = gauss(3, 30, 0.01)
    assert detect.jump_test([*quiet, 1.0, 1.0], 2).is_significant
    assert not detect.jump_test([*quiet, 1.0], 2).is_significant
    assert not detect.jump_test([*quiet, 1.0, 0.0], 2).is_significant


@given(st.lists(st.floats(-1e3, 1e3), min_size=9, max_size=30), st.floats(0.5, 8), st.integers(-100, 100))
def test_the_rank_tests_do_not_depend_on_unit_or_origin(values, factor, offset):
    grid = [round(value) for value in values]
    moved = [factor * value + offset for value in grid]
    excess = detect._rank_excess([float(value) for value in grid])
    assert detect._rank_excess(moved) == pytest.approx(excess)


def test_each_test_is_as_rarely_wrong_as_it_claims():
    """500 rows of noise that are judged after each of 60 runs: 0.3 % would be 1.5 rows, 6 are out of the question."""
    wrong = {"shifted": 0, "rising": 0, "jumped": 0}
    for seed in range(500):
        row = gauss(seed)
        prefixes = [row[:count] for count in range(8, 61)]
        wrong["shifted"] += any(detect.shift_test(prefix).is_significant for prefix in prefixes)
        wrong["rising"] += any(detect.trend_test(prefix).is_significant for prefix in prefixes)
        wrong["jumped"] += any(detect.jump_test(prefix, 2).is_significant for prefix in prefixes)
    assert all(count < 6 for count in wrong.values()), wrong
