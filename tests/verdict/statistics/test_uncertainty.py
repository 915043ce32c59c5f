"""Held against mpmath, which sums the same incomplete beta function by other means and to more digits."""

from math import inf
from statistics import NormalDist

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.verdict.statistics.uncertainty import t_quantile, t_sf


def exactly(t, freedom):
    with mpmath.workdps(40):
        x = mpmath.mpf(freedom) / (freedom + mpmath.mpf(t) ** 2)
        return mpmath.betainc(mpmath.mpf(freedom) / 2, mpmath.mpf(1) / 2, 0, x, regularized=True) / 2


@pytest.mark.parametrize("freedom", [1, 2, 3.5, 4, 7, 11, 47, 143, 1000])
@pytest.mark.parametrize("t", [0.0, 1e-3, 0.5, 1.0, 2.0, 4.7, 12.0, 300.0])
def test_the_tail_is_that_of_the_incomplete_beta_function(t, freedom):
    assert t_sf(t, freedom) == pytest.approx(float(exactly(t, freedom)), abs=1e-300, rel=1e-9)


@pytest.mark.parametrize(
    ("chance", "freedom", "published"),
    [(0.05, 1, 6.314), (0.025, 4, 2.776), (0.01, 11, 2.718), (0.005, 30, 2.750), (0.0005, 120, 3.373)],
)
def test_quantiles_are_those_of_printed_tables(chance, freedom, published):
    """Abramowitz and Stegun, table 26.10."""
    assert t_quantile(chance, freedom) == pytest.approx(published, abs=5e-4)


@given(st.floats(1e-9, 0.49), st.floats(1, 500))
def test_a_quantile_is_exceeded_with_its_chance(chance, freedom):
    assert t_sf(t_quantile(chance, freedom), freedom) == pytest.approx(chance, rel=1e-8)


def test_without_end_it_is_the_normal_distribution():
    assert t_quantile(0.001, inf) == pytest.approx(-NormalDist().inv_cdf(0.001))
    assert t_quantile(0.001, 1e7) == pytest.approx(t_quantile(0.001, inf), rel=1e-5)
    assert t_sf(inf, 5) == 0.0
