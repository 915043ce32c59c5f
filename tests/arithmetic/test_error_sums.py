"""The errors that the compiled core adds up, against exact rationals."""

from fractions import Fraction
from math import inf, isnan

import numpy as np
import pytest

from precreg.arithmetic import _core
from precreg.arithmetic.error_sums import ArrayErrors, ErrorSums


def measured(low, exact, own=None, kept=None):
    columns = low.shape[-1] if low.ndim > 1 else low.size
    total, inherited, alone, *rest = _core.measure(low, exact, own, kept, low.itemsize, columns)
    return ArrayErrors(ErrorSums(*total), ErrorSums(*inherited), ErrorSums(*alone), *rest)


def squares(values):
    return [sum(Fraction(float(each)) ** 2 for each in row) for row in values.reshape(-1, values.shape[-1])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 3), (5, 4), (7, 13), (2, 3, 30), (1, 5000), (900, 5)])
def test_sums_are_those_of_rationals(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    low = rng.standard_normal(shape).astype(dtype)
    low[rng.random(shape) < 0.2] = 0
    exact = low + 1e-7 * rng.standard_normal(shape)
    own = low + 1e-8 * rng.standard_normal(shape)
    kept = np.empty(shape, np.float32)
    found = measured(low, exact, own, kept)
    for sums, errors in zip(found[:3], (low - exact, own - exact, low - own), strict=True):
        rows = squares(errors)
        assert sums.squares == pytest.approx(float(sum(rows)), rel=1e-13)
        assert sums.worst_row == pytest.approx(float(max(rows)), rel=1e-13)
        assert sums.largest == np.abs(errors).max()
    assert found.scale == pytest.approx(float(sum(squares(exact))), rel=1e-13)
    assert found.own_scale == pytest.approx(float(sum(squares(own))), rel=1e-13)
    sizes = np.abs(low[low != 0])
    assert (found.smallest, found.largest) == (sizes.min(initial=inf), sizes.max(initial=0)) or not sizes.size
    assert found.zeros == np.count_nonzero(low == 0)
    assert np.array_equal(kept, (low - own).astype(np.float32))
    alone = measured(low, exact, None, kept)
    assert alone.total == found.total
    assert np.array_equal(kept, (low - exact).astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 5, 6])
def test_values_that_are_not_finite_are_in_the_sums_and_in_the_range(value, place):
    low, exact = np.ones((1, 7), np.float32), np.ones((1, 7))
    low[0, place] = value
    found = measured(low, exact)
    assert not found.total.squares < 1e60
    assert isnan(found.largest) if np.isnan(value) else found.largest == inf


def test_masks_have_neither_errors_nor_sizes():
    low = np.array([[1.0, -np.inf, -3e38, np.inf, 2.0]], np.float32)
    exact = np.array([[1.5, -np.inf, -1e39, 1e31, 2.0]])
    kept = np.empty((1, 5), np.float32)
    found = measured(low, exact, exact, kept)
    assert found.total == found.own == ErrorSums(0.25, 0.25, 0.5)
    assert found.inherited == ErrorSums(0.0, 0.0, 0.0)
    assert found.scale == found.own_scale == 1.5**2 + 4
    assert kept.tolist() == [[-0.5, 0, 0, 0, 0]]
    # On different sides, both count.
    assert measured(low[:, 1:2], -exact[:, 1:2]).total.squares == inf


def test_subnormals_negative_zeros_and_zeros_alone():
    low = np.array([[-0.0, 1e-45, -1.0]], np.float32)
    found = measured(low, low.astype(float))
    assert (found.smallest, found.largest, found.zeros) == (np.float32(1e-45), 1.0, 1)
    assert measured(np.zeros((2, 3)), np.zeros((2, 3))).largest == 0


@pytest.mark.parametrize(
    ("low", "exact", "columns"),
    [((2, 3), (2, 2), 3), ((2, 3), (2, 3), 4), ((2, 3), (2, 3), 0), ((0, 3), (0, 3), 3)],
)
def test_arrays_that_do_not_fit_are_refused(low, exact, columns):
    with pytest.raises(ValueError, match="as many elements"):
        _core.measure(np.ones(low, np.float32), np.ones(exact), None, None, 4, columns)
