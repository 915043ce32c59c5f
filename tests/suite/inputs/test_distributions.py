from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.formats import FORMATS
from precreg.suite.inputs.distributions import (
    draw_integers,
    draw_log_uniform,
    draw_normal,
    draw_uniform,
    ill_conditioned_rows,
    normal_quantile,
    open_fraction,
    unit_fraction,
    word_stream,
    words_per_row,
)

WORDS = word_stream("x", 0)(100_000)
EXTREMES = np.array([0, 2**11 - 1, 2**11, 2**63, 2**64 - 1], np.uint64)


def test_fractions_are_the_upper_bits():
    for word, closed, inner in zip(EXTREMES, unit_fraction(EXTREMES), open_fraction(EXTREMES), strict=True):
        assert Fraction(float(closed)) == Fraction(int(word) >> 11, 2**53)
        assert Fraction(float(inner)) == Fraction(2 * (int(word) >> 12) + 1, 2**53)


def exact_quantile(p):
    with mpmath.workprec(200):
        return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)


@given(st.floats(2.0**-53, 1 - 2.0**-53) | st.floats(2.0**-53, 1e-9))
def test_quantiles_agree_with_arbitrary_precision(p):
    exact = exact_quantile(p)
    actual = float(normal_quantile(np.array([p]))[0])
    assert actual == exact == 0 or abs(mpmath.mpf(actual) / exact - 1) < 1e-15


def test_quantiles_are_odd_and_reach_as_far_as_stated():
    p = open_fraction(np.concatenate([EXTREMES, ~EXTREMES]))
    np.testing.assert_array_equal(normal_quantile(p), -normal_quantile(1 - p))
    assert 8.2 < normal_quantile(p).max() < 8.21


def test_normal_numbers_have_the_moments_of_the_normal():
    numbers = draw_normal(WORDS, 3.0, 2.0)
    standard = (numbers - 3.0) / 2.0
    n = len(WORDS)
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(standard**power) - moment) < 4 * np.sqrt(variance / n)


def test_uniform_numbers_fill_their_range_evenly():
    counts = np.bincount(np.floor(draw_uniform(WORDS, -2.0, 6.0)).astype(int) + 2, minlength=8)
    expected = len(WORDS) / 8
    assert np.sum((counts - expected) ** 2 / expected) < 24.3  # chi-squared, 7 degrees of freedom, 0.1 %


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_uniform_numbers_stay_in_range(one, other):
    low, high = min(one, other), max(one, other)
    numbers = draw_uniform(np.concatenate([EXTREMES, WORDS[:50]]), low, high)
    assert np.all((low <= numbers) & (numbers <= high))


@given(st.floats(5e-324, 1e308), st.floats(5e-324, 1e308), st.sampled_from(["positive", "both"]))
def test_log_uniform_numbers_stay_in_range(one, other, sign):
    low, high = min(one, other), max(one, other)
    numbers = draw_log_uniform(np.concatenate([EXTREMES, WORDS[:50]]), low, high, sign)
    assert np.all((low <= np.abs(numbers)) & (np.abs(numbers) <= high))


def test_log_uniform_numbers_fill_decades_evenly_and_take_both_signs():
    numbers = draw_log_uniform(WORDS, 1e-4, 1e4, "both")
    counts = np.bincount(np.floor(np.log10(np.abs(numbers))).astype(int) + 4, minlength=8)
    expected = len(WORDS) / 8
    assert np.sum((counts - expected) ** 2 / expected) < 24.3  # chi-squared, 7 degrees of freedom, 0.1 %
    assert abs(np.mean(np.sign(numbers))) < 4 / np.sqrt(len(WORDS))
    assert np.all(draw_log_uniform(WORDS, 1e-4, 1e4, "positive") == np.abs(numbers))


@given(st.integers(-(2**63), 2**64 - 1), st.integers(1, 2**64), st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_integers_are_the_upper_half_of_the_product(low, span, words):
    drawn = draw_integers(np.array(words, np.uint64), low, low + span)
    expected = [(low + word * span // 2**64) % 2**64 for word in words]
    assert [int(number) % 2**64 for number in drawn] == expected


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
@pytest.mark.parametrize("length", [3, 4, 5, 64, 1001])
@pytest.mark.parametrize("condition", [2e3, 1e8])
def test_ill_conditioned_sums_have_the_condition(name, length, condition):
    words = word_stream("x", 0)(4 * words_per_row(length)).reshape(4, -1)
    rows = ill_conditioned_rows(words, length, condition, FORMATS[name])
    assert rows.shape == (4, length)
    for row in rows:
        exact = [Fraction(float(number)) for number in row]
        assert condition / 1.2 < sum(map(abs, exact)) / abs(sum(exact)) < condition * 1.2


def test_ill_conditioned_sums_are_hard_to_add():
    rows = ill_conditioned_rows(WORDS[: words_per_row(999)].reshape(1, -1), 999, 1e14, FORMATS["float64"])
    exact = float(sum(Fraction(float(number)) for number in rows[0]))
    assert abs(np.cumsum(rows[0])[-1] / exact - 1) > 1e-4
