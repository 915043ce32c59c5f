"""The share of a tolerance that elements use, held against rational arithmetic and against the match ratio."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure.comparison import compare_arrays, share_of_tolerance

NUMBERS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8)


@given(NUMBERS, st.floats(-1e-3, 1e-3), st.sampled_from([0.0, 1e-6, 1e-3]), st.sampled_from([1e-9, 1e-3, 10.0]))
def test_the_share_is_the_largest_quotient_and_says_whether_all_match(numbers, off, rtol, atol):
    actual = np.array(numbers, np.float32)
    reference = actual.astype(np.float64) * (1 + off) + off
    exact = max(
        abs(Fraction(float(a)) - Fraction(r)) / (Fraction(atol) + Fraction(rtol) * abs(Fraction(r)))
        for a, r in zip(actual, reference.tolist(), strict=True)
    )
    share = share_of_tolerance(actual, reference, rtol, atol)
    assert share == pytest.approx(float(exact), rel=1e-12)
    if abs(share - 1) > 1e-12:
        measured = compare_arrays(actual, reference, rtol=rtol, atol=atol)
        assert (measured.metrics["match_ratio"] == 1) is (share <= 1)


@pytest.mark.parametrize(
    ("actual", "reference", "share"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [1.0, 1.0], inf),
        ([np.inf, 1.0], [-np.inf, 1.0], inf),
        ([np.inf], [7e4], 0.0),
        ([6e4], [7e4], inf),
        ([], [], 0.0),
        ([2.0], [1.0], 10.0),
    ],
)
def test_what_is_not_finite_has_its_counterpart_or_the_share_is_infinite(actual, reference, share):
    assert share_of_tolerance(np.array(actual, np.float16), np.array(reference), 0.0, 0.1) == share


def test_without_a_tolerance_equality_is_all_that_is_let_pass():
    one = np.array([1.0, 2.0])
    assert share_of_tolerance(one, one, 0.0, 0.0) == 0
    assert share_of_tolerance(one, np.nextafter(one, 3), 0.0, 0.0) == inf


def test_integers_are_subtracted_as_such_and_shapes_must_agree():
    wide = np.array([2**62, 0], np.int64)
    assert share_of_tolerance(wide + 3, wide, 0.0, 2.0) == 1.5
    assert share_of_tolerance(np.array([0], np.uint8), np.array([1], np.uint8), 0.0, 2.0) == 0.5
    assert share_of_tolerance(wide, wide[:1], 0.0, 1.0) == inf


def test_complex_numbers_are_measured_by_their_size():
    assert share_of_tolerance(np.array([3 + 4j], np.complex64), np.array([0j]), 0.0, 10.0) == 0.5
