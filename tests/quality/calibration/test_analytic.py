"""Bounds of theory, held against sums whose errors are computed exactly."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.quality.calibration import gamma, sum_error_bound
from precreg.types.case import LongSum


def test_gamma_is_that_of_the_book_and_ends_at_one():
    assert gamma(10, 2.0**-24) == float(Fraction(10, 2**24) / (1 - Fraction(10, 2**24)))
    assert gamma(2047, 2.0**-11) == 2047
    assert gamma(2048, 2.0**-11) is None


@given(st.lists(st.floats(2**-7, 100, width=32), min_size=2, max_size=200), st.booleans())
def test_no_sum_of_one_sign_is_off_by_more(terms, products):
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + np.float32(term * term)) if products else np.float32(total + np.float32(term))
    exact = sum(Fraction(term) ** (2 if products else 1) for term in terms)
    bounds = sum_error_bound(LongSum(len(terms), 24, products), "float32", None)
    assert abs(Fraction(float(total)) - exact) / exact <= Fraction(bounds.bound)


def test_the_worst_case_is_nearly_reached_where_each_addition_loses_half_a_unit():
    n = 1001
    total = np.float16(1)
    for _ in range(n - 1):
        total = np.float16(total + np.float16(2.0**-11))
    exact = 1 + Fraction(n - 1, 2**11)
    error = float((exact - Fraction(float(total))) / exact)
    bounds = sum_error_bound(LongSum(n, 11, products=False), "float16", error)
    assert 0.3 < bounds.ratio < 1
    assert error > 10 * bounds.probable


def test_a_narrower_output_adds_its_rounding():
    in_single = sum_error_bound(LongSum(2, 24, products=False), "float32", None)
    in_half = sum_error_bound(LongSum(2, 24, products=False), "float16", None)
    assert in_single.bound == pytest.approx(gamma(1, 2.0**-24))
    assert in_half.bound == pytest.approx((1 + gamma(1, 2.0**-24)) * (1 + 2.0**-11) - 1)
    assert sum_error_bound(LongSum(4096, 11, products=False), "float16", 0.5).bound is None
    assert sum_error_bound(LongSum(2, 24, products=True), "int32", inf).ratio == inf
