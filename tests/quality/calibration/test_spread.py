"""Percentiles and tails, held against distributions that are known and against counting."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.verdict.statistics.uncertainty import (
    CONFIDENCE,
    MIN_REPLICATES,
    estimate_tail,
    max_unseen_probability,
    summarize_noise,
)

TRIALS = 20_000


def test_percentiles_are_nearest_ranks():
    described = summarize_noise([float(k) for k in range(100, 0, -1)])
    assert (described.n, described.median, described.p95, described.p99, described.largest) == (100, 50, 95, 99, 100)
    few = summarize_noise([3.0, 1.0, 2.0])
    assert (few.median, few.p95, few.p99, few.largest) == (2, 3, 3, 3)
    assert summarize_noise([inf, 1.0]).largest == inf


def test_no_tail_is_claimed_of_too_few_or_of_what_has_no_end():
    assert estimate_tail([1.0] * (MIN_REPLICATES - 1)) is None
    assert estimate_tail([1.0] * MIN_REPLICATES + [inf]) is None
    assert estimate_tail([1.0] * MIN_REPLICATES) is not None


def exceeded(draw, n, chance):
    """Return how often the next value is above what n values before it say is exceeded with that chance."""
    rng = np.random.default_rng(7)
    before, after = draw(rng, (TRIALS, n)), draw(rng, TRIALS)
    return np.mean(
        [new > estimate_tail(list(seen)).exceedance_quantile(chance) for seen, new in zip(before, after, strict=True)]
    )


@pytest.mark.parametrize("n", [9, 17])
@pytest.mark.parametrize("scale", [1.0, 1e-7])
def test_of_exponential_excesses_the_chance_is_exact(n, scale):
    def shifted(rng, size):
        return 3 * scale + rng.exponential(scale, size)

    five_deviations = 5 * (0.01 * 0.99 / TRIALS) ** 0.5
    assert abs(exceeded(shifted, n, 0.01) - 0.01) < five_deviations


def test_of_lighter_tails_the_chance_is_an_upper_bound_and_of_maxima_it_is_near():
    assert exceeded(lambda rng, size: np.abs(rng.normal(size=size)), 17, 0.01) < 0.006
    assert exceeded(lambda rng, size: np.exp(0.02 * rng.normal(size=size)), 17, 0.01) < 0.004
    assert exceeded(lambda rng, size: rng.exponential(size=size) ** -0.2, 17, 0.01) < 0.02


@pytest.mark.parametrize("chance", [0.3, 0.01, 1e-6])
def test_what_is_reached_with_a_chance_has_that_chance(chance):
    of_ten = estimate_tail([1.0, 2, 3, 5, 8, 13, 21, 34, 55, 89])
    assert of_ten.exceedance_probability(of_ten.exceedance_quantile(chance)) == pytest.approx(chance)


@given(st.lists(st.floats(0, 1e6), min_size=MIN_REPLICATES, max_size=40), st.floats(1, 10), st.floats(1, 10))
def test_a_higher_limit_is_never_exceeded_more_often(values, factor, more):
    found = estimate_tail(values)
    limit = factor * max(values)
    assert (
        0
        <= found.exceedance_probability(more * limit)
        <= found.exceedance_probability(limit)
        <= (found.above + 1) / (found.n + 1)
    )


def test_values_that_are_all_alike_are_exceeded_by_nothing():
    alike = estimate_tail([2.0] * 9)
    assert (alike.exceedance_probability(2.0), alike.exceedance_probability(1.9), alike.exceedance_quantile(0.01)) == (
        0,
        1,
        2,
    )


def test_what_counting_leaves_open_is_the_chance_at_which_so_many_runs_would_seldom_all_pass():
    for n in (1, 17, 3000):
        assert (1 - max_unseen_probability(n)) ** n == pytest.approx(1 - CONFIDENCE)
    assert max_unseen_probability(3000) == pytest.approx(3 / 3000, rel=0.01)
