"""The statistics of benchmarks/format_training."""

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.format_training.comparison import difference, held_loss_at, holm


def test_the_interval_is_that_of_a_paired_t_test():
    ours, theirs = [1.2, 0.9, 1.4, 1.1, 1.3, 1.0, 1.2, 1.5], [1.0, 0.8, 1.1, 1.0, 1.0, 1.0, 1.0, 1.1]
    pairs = [a - b for a, b in zip(ours, theirs, strict=True)]
    # The 97.5 % quantile of Student's t with 7 degrees of freedom, from a table.
    half_width = 2.364624 * stdev(pairs) / math.sqrt(8)
    found = difference(ours, theirs)
    assert (found.low, found.high) == pytest.approx((fmean(pairs) - half_width, fmean(pairs) + half_width), rel=1e-6)
    assert found.p_below > 0.99
    assert difference(theirs, ours).p_below == pytest.approx(1 - found.p_below, abs=1e-12)


def test_equal_figures_have_no_difference():
    assert difference([1.0, 2.0], [1.0, 2.0]) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_training_that_diverged_is_no_evidence_for_a_lower_loss(bad):
    assert difference([1.0, bad], [2.0, 2.0]).p_below == 1.0


def test_one_pair_is_too_few():
    with pytest.raises(ValueError, match="2 pairs"):
        difference([1.0], [2.0])


def test_holm_steps_down():
    # 0.05 / 4, 0.05 / 3 and 0.05 / 2 are the limits of the three smallest.
    assert holm([0.02, 0.012, 0.016, 0.9]) == [True, True, True, False]
    assert holm([0.03, 0.012, 0.016, 0.9]) == [False, True, True, False]
    assert holm([0.03, 0.013, 0.016, 0.9]) == [False, False, False, False]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_no_more_than_no_correction_and_no_less_than_bonferroni(p_values):
    rejected = holm(p_values)
    for p_value, is_rejected in zip(p_values, rejected, strict=True):
        assert not is_rejected or p_value <= 0.05
        assert is_rejected or p_value > 0.05 / len(p_values)


@pytest.mark.parametrize(
    ("loss", "expected"), [(2.5, 3.0), (2.0, 3.0), (1.5, 2.5), (1.0, 2.0), (0.9, 2.1), (0.5, 2.5), (0.1, 2.5)]
)
def test_the_held_out_loss_is_that_of_the_first_time(loss, expected):
    assert held_loss_at([(2.0, 3.0), (1.0, 2.0), (0.5, 2.5)], loss) == pytest.approx(expected)
