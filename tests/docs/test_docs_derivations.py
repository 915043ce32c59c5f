"""docs/statistics-derivations.md: its formulas give the figures of the program, and its numbers are the constants."""

import random
from itertools import product
from math import exp, log, sqrt

import pytest

from precreg.run.pairs.pair import MAX_SEEDS
from precreg.verdict.statistics.change_points import MAX_EXACT_TREND, SIGMA_OF_MAD
from precreg.verdict.statistics.ratios import MAX_GROUP_DOUBLINGS
from precreg.verdict.statistics.sequential import MAX_EXACT_SEEDS, looks, p_by_signs, ratio_of_means
from precreg.verdict.statistics.uncertainty import NoiseTail, jackknife, mean_with_error, t_quantile
from tests.docs.test_docs import page

PAGE = " ".join(page("statistics-derivations.md").split())


def values(seed, n):
    return [random.Random(seed + at).gauss(3, 1) for at in range(n)]


def test_the_numbers_of_the_page():
    assert f"`--max-seeds {MAX_SEEDS}` these are `J = {len(looks(MAX_SEEDS))}` analyses" in PAGE
    assert f"Up to {MAX_EXACT_SEEDS} seeds the p-value" in PAGE
    assert f"clipped at {MAX_GROUP_DOUBLINGS} doublings" in PAGE
    assert f"Above {MAX_EXACT_TREND} runs precreg uses" in PAGE
    assert f"sigma = {SIGMA_OF_MAD} MAD(differences) / sqrt(2)" in PAGE


def test_the_jackknife_of_a_mean_is_its_standard_error():
    x = values(1, 12)
    _, spread = jackknife([x, [1.0] * len(x)], lambda total, n: total / n, 1.0)
    assert spread == pytest.approx(mean_with_error(x)[1], rel=1e-12)


def test_the_jackknife_of_a_log_ratio_is_the_delta_method_to_first_order():
    current, baseline = values(1, 400), values(1000, 400)
    _, spread = jackknife([current, baseline], lambda c, b: log(c / b), 1.0)
    terms = [c / sum(current) - b / sum(baseline) for c, b in zip(current, baseline, strict=True)]
    assert spread == pytest.approx(sqrt(sum(term**2 for term in terms)), rel=0.01)


def test_the_p_value_of_random_signs_is_the_count_of_the_formula():
    # 5 divides 4096 // 7, so rounding moves no score.
    d = [3.0, -1.0, 5.0, 2.0, -2.0, 5.0, 1.0]
    above = sum(each for each in d if each > 0)
    signs = product((0, 1), repeat=len(d))
    count = sum(sum(abs(each) for each, sign in zip(d, one, strict=True) if sign) >= above for one in signs)
    assert p_by_signs(d, 0.0) == count / 2 ** len(d)


def test_bounds_of_a_ratio_are_those_that_the_t_test_just_rejects():
    new, old = values(1, 30), values(50, 30)
    found = ratio_of_means(new, old, 0.05)
    for bound in (found.lower, found.upper):
        mean, error = mean_with_error([b - bound * a for b, a in zip(new, old, strict=True)])
        assert abs(mean) / error == pytest.approx(t_quantile(0.05, 29), rel=1e-6)


def test_the_tail_of_calibration_is_exact_for_exponential_excesses():
    # The integral of exp(-c s) over the gamma density of shape k, by a sum of small steps.
    k, c, step = 4, 0.5, 0.001
    points = [step * (at + 0.5) for at in range(60_000)]
    integral = sum(step * exp(-c * s) * s ** (k - 1) * exp(-s) / 6 for s in points)
    tail = NoiseTail(n=9, start=1.0, above=k, total=2.0)
    assert tail.exceedance_probability(1.0 + c * 2.0) == pytest.approx((k + 1) / 10 * integral, rel=1e-4)
