from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from precreg.shadow.sizes import MASK_LIMIT, counted_errors, error_size, largest_magnitude, value_range

floats = st.floats(-(2.0**60), 2.0**60, width=32)


def root(value):
    """Return the square root of a rational number, with a relative error of 1e-30."""
    scale = 10**60
    scaled = value * scale**2
    return Fraction(int_root(scaled.numerator // scaled.denominator), scale)


def int_root(value):
    from math import isqrt

    return isqrt(value)


@given(
    st.integers(0, 2**32 - 1),
    array_shapes(max_dims=3, max_side=5),
    st.sampled_from([1e-40, 1e-12, 1.0, 1e12]),
)
def test_sizes_are_those_of_exact_rationals(seed, shape, scale):
    random = np.random.default_rng(seed)
    exact = random.standard_normal(shape) * scale
    actual = (exact * (1 + 1e-3 * random.standard_normal(shape))).astype(np.float32)
    errors = [Fraction(float(a)) - Fraction(float(e)) for a, e in zip(actual.flat, exact.flat, strict=True)]
    squares, size = sum(e * e for e in errors), sum(Fraction(float(e)) ** 2 for e in exact.flat)
    found = error_size(actual, exact)
    assert found.relative == pytest.approx(float(root(squares / size)), rel=1e-9, abs=1e-300)
    assert found.max_abs == pytest.approx(float(max(map(abs, errors))), rel=1e-12, abs=0)
    if len(shape) > 1:
        width = shape[-1]
        rows = [sum(e * e for e in errors[at : at + width]) for at in range(0, len(errors), width)]
        assert found.worst_row == pytest.approx(float(root(max(rows) * len(rows) / size)), rel=1e-9, abs=1e-300)


@given(arrays(np.float32, (3, 4), elements=floats))
def test_the_quick_way_equals_the_careful_one(actual):
    exact = actual.astype(np.float64) * (1 + 1e-9) + 1e-3
    quick = error_size(actual, exact, elements=True)
    # A mask that agrees makes the careful way necessary, and has neither an error nor a size.
    masked = error_size(
        np.append(actual, np.full((1, 4), 2e30, np.float32), 0), np.append(exact, np.full((1, 4), 2e30), 0)
    )
    assert masked.relative == pytest.approx(quick.relative, rel=1e-9)
    assert masked.max_abs == quick.max_abs


def test_values_that_are_not_ordinary():
    inf, nan = np.inf, np.nan
    assert error_size(np.array([1, inf, nan], np.float32), np.array([1.0, inf, nan])).relative == 0.0
    assert error_size(np.array([1, inf], np.float32), np.array([1.0, 2.0])).relative == inf
    assert error_size(np.array([1, nan], np.float32), np.array([1.0, 2.0])).relative == inf
    assert error_size(np.array([1, 2], np.float32), np.array([1.0, nan])).max_abs == inf
    assert error_size(np.array([], np.float32), np.array([])).relative == 0.0
    assert error_size(np.float32(1), np.float64(1)).relative == 0.0
    assert error_size(np.array(1.5, np.float32), np.array(1.0)).relative == 0.5
    assert error_size(np.array([0.0], np.float32), np.array([0.0])).relative == 0.0
    assert error_size(np.array([1.0], np.float32), np.array([0.0])).relative == inf
    assert error_size(np.array([-MASK_LIMIT * 2, 1]), np.array([-MASK_LIMIT * 3, 1.0])).relative == 0.0
    assert error_size(np.array([3 + 4j], np.complex64), np.array([0 + 4j])).relative == 0.75


def test_errors_in_ulp():
    exact = np.array([1.0, 2.0, -3.0])
    actual = np.array([1 + 2**-23, 2, -3], np.float32)
    found = error_size(actual, exact, elements=True)
    assert (found.max_ulp, found.mean_ulp) == (1.0, 1 / 3)
    assert error_size(actual, exact).max_ulp is None


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
def test_ranges_count_each_kind_of_value(dtype):
    info = ml_dtypes.finfo(dtype)
    largest, normal = float(info.max), float(info.smallest_normal)
    has_infinity = np.dtype(dtype).name != "float8_e4m3fn"
    values = [0.0, -0.0, -normal, float(info.smallest_subnormal), largest, np.nan, -1.0] + [np.inf] * has_infinity
    found = value_range(np.array(values).astype(dtype), np.array([2 * largest if v == largest else v for v in values]))
    assert found.zeros == 2
    assert found.subnormal == 1
    assert found.saturated == 1
    assert found.nan == 1
    assert found.inf == has_infinity
    assert found.smallest == float(info.smallest_subnormal)
    assert found.largest == largest
    # Strides do not matter.
    plain = np.array([[2.0, -4.0], [1.0, 0.5]]).astype(dtype)
    assert value_range(plain.T) == value_range(plain)
    assert value_range(plain[:, ::-1]).largest == 4.0


def test_ranges_of_other_arrays():
    assert value_range(np.array([], np.float32)).zeros == 0
    assert value_range(np.array([3 + 4j, 0], np.complex64)).largest == 5.0
    assert value_range(np.array(-2.0, np.float32)).smallest == 2.0
    assert value_range(np.array([-7, 0, 3])).largest == 7.0
    assert largest_magnitude(np.array([1.0, -8.0], np.float16)) == 8.0
    assert largest_magnitude(np.array([1.0, np.inf], np.float32)) == np.inf
    assert largest_magnitude(np.array([1.0, -np.inf, -8.0], np.float32)) == np.inf
    assert np.isnan(largest_magnitude(np.array([1.0, np.nan, -8.0], np.float32)))
    assert str(largest_magnitude(np.array([0.0, -0.0], np.float32))) == "0.0"
    assert largest_magnitude(np.array([-1.0, -8.0], np.float64)) == 8.0


def test_an_infinity_beyond_the_limit_of_masks():
    """It has no error beside values that its dtype rounds to infinity, and an infinite one beside others."""
    infinite, mask = np.array([np.inf, 1], np.float32), np.array([1e32, 1], np.float32)
    for dtype in (np.float32, ml_dtypes.bfloat16):
        for actual, exact, error in ((infinite, 1e40, 0.0), (infinite, 1e35, np.inf), (mask, np.inf, np.inf)):
            assert error_size(actual.astype(dtype), np.array([exact, 1.0])).relative == error
            assert error_size(-actual.astype(dtype), np.array([-exact, -1.0])).relative == error
    assert not np.isfinite(counted_errors(infinite, np.array([1e35, 1.0]))[0])
    assert counted_errors(infinite, np.array([1e40, 1.0]))[0] == 0.0
