"""Figures of sums that cancel: integers of exact sums give the bits of fractions."""

from fractions import Fraction
from math import isnan, log2, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure.comparison import compare_arrays, tally_arrays
from precreg.measure.figures import _correlation, _exact_angle, _exact_variances, _in_units, _products
from precreg.measure.tally import MeasureRules, make_expansion

NUMBERS = st.floats(-1e100, 1e100, allow_nan=False) | st.sampled_from([0.0, 5e-324, -5e-324, 1.0, 1e-150, 2.0**-1022])
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20)


def tally_of(pairs):
    actual, reference = (np.array(side) for side in zip(*pairs, strict=True))
    return tally_arrays(actual, reference, MeasureRules(0.0, 0.0, 0))


def exact(parts):
    return sum(map(Fraction, parts), Fraction(0))


@given(st.lists(NUMBERS, max_size=9))
def test_units_of_sums_are_exact(terms):
    assert Fraction(_in_units(make_expansion(terms)), 2**1074) == exact(terms)


@given(PAIRS)
def test_variances_are_those_of_fractions(pairs):
    tally = tally_of(pairs)
    sums, n = tally.sums, tally.counts.finite
    d, r, dd, rr, rd = map(
        exact, (sums.absolute, sums.magnitude, sums.squared_error, sums.squared_reference, sums.weighted_error)
    )
    assert _exact_variances(tally) == ((float(n * dd - d * d), float(n * rr - r * r)), float(n * rd - d * r))


@given(PAIRS)
def test_the_angle_is_that_of_fractions(pairs):
    tally = tally_of(pairs)
    errors, references, product = map(
        exact, (tally.sums.squared_error, tally.sums.squared_reference, tally.sums.product)
    )
    if references:
        across = errors - product * product / references
        angle = float(references + product), float(across), float(references + 2 * product + errors)
        assert _exact_angle(tally) == angle


def test_errors_far_above_their_references_have_a_signal_to_noise_ratio():
    found = compare_arrays(np.array([1e144]), np.array([1e-144]), rtol=0.0, atol=0.0).metrics
    assert found["snr"] == pytest.approx(-5760, rel=1e-12)
    assert found["effective_bits"] == pytest.approx(log2(10) * -288, rel=1e-12)


@given(st.lists(NUMBERS, min_size=1, max_size=9))
def test_without_errors_nothing_correlates(values):
    tally = tally_of([(value, value) for value in values])
    assert isnan(_correlation(tally, _products(tally)))
    (variance, _), _ = _exact_variances(tally)
    assert variance == 0.0 or variance is nan
