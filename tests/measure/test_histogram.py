import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure.histogram import count_errors, merge
from precreg.types import Histogram

LAST_BIN = 0x7FEF_FFFF_FFFF_FFFF >> 50

error_lists = st.lists(st.floats(0, allow_infinity=False), max_size=30)


def histogram_of(errors):
    return count_errors(np.sort(np.array(errors, np.float64)))


def test_an_octave_has_four_bins():
    histogram = histogram_of([0.0, 0.0, 1.0, 1.2, 1.25, 1.5, 1.75, 2.0])
    first = 0x3FF << 2
    assert histogram == Histogram(2, [first, first + 1, first + 2, first + 3, first + 4], [2, 1, 1, 1, 1])


def test_nothing_and_only_zeros():
    assert histogram_of([]) == Histogram(0, [], [])
    assert histogram_of([0.0, 0.0]) == Histogram(2, [], [])


def test_the_smallest_and_the_largest_error_have_bins():
    smallest, largest = math.ulp(0.0), sys.float_info.max
    assert histogram_of([smallest, largest]).bins == [0, LAST_BIN]


@pytest.mark.skipif(np.finfo(np.longdouble).max <= sys.float_info.max, reason="longdouble reaches no further here")
def test_an_error_beyond_float64_is_counted_in_the_last_bin():
    assert count_errors(np.array([np.longdouble(sys.float_info.max) * 4])).bins == [LAST_BIN]


@given(error_lists, error_lists)
def test_histograms_merge_to_the_histogram_of_all(first, second):
    assert merge([histogram_of(first), histogram_of(second)]) == histogram_of(first + second)
    assert merge([histogram_of(second), histogram_of(first)]) == histogram_of(first + second)


def test_nothing_merges_to_nothing():
    assert merge([]) == Histogram(0, [], [])
