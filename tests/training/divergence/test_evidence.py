"""Tests of a pair against its twins are as rarely wrong as they claim."""

import numpy as np
import pytest

from precreg.training.divergence.evidence import (
    TEST_ALPHA,
    excess_over_twins,
    farther_twin_p,
    growth_rate,
    interval_of_mean,
    interval_of_pair,
    lasting_excess,
    noise_limits,
)


def test_a_further_twin_exceeds_its_limit_as_rarely_as_claimed():
    generator = np.random.default_rng(0)
    logs = generator.normal(-15, 0.7, (40_000, 6))
    exceeded = sum(np.exp(row[5]) > noise_limits([[value] for value in np.exp(row[:5])])[0] for row in logs[:20_000])
    expected = 20_000 * TEST_ALPHA
    assert abs(exceeded - expected) < 4 * expected**0.5


def test_one_of_many_parameters_exceeds_its_limit_as_rarely_as_one():
    generator = np.random.default_rng(3)
    spreads = generator.uniform(0.05, 3.0, 20)
    exceeded = 0
    for _ in range(2000):
        logs = generator.normal(-15, 1, (9, 20)) * spreads
        ratios = [excess_over_twins([np.exp(row[8])], [[each] for each in np.exp(row[:8])], 20) for row in logs.T]
        exceeded += max(ratios) > 1
    expected = 2000 * TEST_ALPHA
    assert abs(exceeded - expected) < 4 * expected**0.5


def test_the_limit_of_a_parameter_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    quantile = stats.t.isf(TEST_ALPHA / 7, 2)
    limit = 2.0 * np.exp(quantile * np.log(2.0) * np.sqrt(4 / 3))
    assert excess_over_twins([3.0], [[1.0], [2.0], [4.0]], 7) == pytest.approx(3.0 / limit, rel=1e-9)


def test_a_parameter_is_compared_where_it_parts_alone():
    twins = [[1e-8, 1e-7], [2e-8, 2e-7]]
    assert excess_over_twins([0.0, 1e-3], twins, 1) == excess_over_twins([1e-3], [[1e-7], [2e-7]], 1)
    assert excess_over_twins([0.0, 0.0], twins, 1) is None
    assert excess_over_twins([1e-3], [[0.0], [1e-7]], 1) is None


@pytest.mark.parametrize("two_sided", [True, False])
def test_p_values_of_equal_runs_are_uniform(two_sided):
    generator = np.random.default_rng(1)
    values = generator.normal(3, 2, (4000, 9))
    found = np.array([farther_twin_p(row[8], row[:8], two_sided=two_sided) for row in values])
    for share in (0.01, 0.1, 0.5, 0.9):
        assert abs((found < share).mean() - share) < 4 * (share * (1 - share) / 4000) ** 0.5


def test_p_values_at_the_ends():
    assert farther_twin_p(1.0, [1.0]) is None
    assert farther_twin_p(1.0, [1.0, 1.0]) == 1.0
    assert farther_twin_p(2.0, [1.0, 1.0]) == 0.0
    assert farther_twin_p(0.0, [1.0, 1.0], two_sided=False) == 1.0


def test_the_rate_of_exponential_growth_is_found_in_spite_of_a_jump():
    steps = list(range(0, 200, 2))
    distances = [1e-9 * 1.05**step for step in steps]
    assert growth_rate(steps, distances) == pytest.approx(np.log(1.05))
    flipped = [value * (1e4 if step > 170 else 1) for step, value in zip(steps, distances, strict=True)]
    assert growth_rate(steps, flipped) == pytest.approx(np.log(1.05), rel=0.1)
    assert growth_rate([0, 1, 2], [0.0, None, 1e-8]) is None


def test_limits_of_few_twins():
    assert noise_limits([[0.0, 1e-8]]) == (None, 1e-8)
    assert noise_limits([[1e-8], [1e-8]])[0] == pytest.approx(1e-8)
    assert noise_limits([[None], [None]]) == (None,)


def test_intervals_hold_the_mean_and_the_pair():
    generator = np.random.default_rng(2)
    held = pairs = 0
    for row in generator.normal(0, 1, (2000, 9)):
        mean, pair = interval_of_mean(row[:8]), interval_of_pair(row[8], row[:8])
        held += mean.low <= 0 <= mean.high
        pairs += pair.low <= 0 <= pair.high
    assert abs(held / 2000 - 0.95) < 0.02
    assert abs(pairs / 2000 - 0.95) < 0.02
    assert interval_of_mean([]) is None
    assert interval_of_mean([2.0]).low is None


def test_an_excess_lasts_to_the_end_or_is_none():
    assert lasting_excess([1, 9, 1, 9, 9], [1] * 5, 4) == 3
    assert lasting_excess([9, 9, 1], [1] * 3, 4) is None
    assert lasting_excess([1, None], [1, 1], 4) == 1
    assert lasting_excess([5.0], [None], 4) is None
