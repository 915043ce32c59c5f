"""Bits cut off, conversions, overflow and NaN, against rational arithmetic and by hand; all patterns of 16 bits."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.faults.results import truncate_bits
from tests.arithmetic.faults.planting import run, same_bits

TINY = np.finfo(np.float32).tiny
floats = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)


def truncated(value, quantum):
    """Return the multiple of a power of two next to a number, toward zero."""
    return (abs(Fraction(value)) // quantum) * quantum * (1 if value >= 0 else -1)


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_cutting_bits_off_moves_every_pattern_toward_zero(dtype):
    values = np.arange(2**16, dtype=np.uint16).view(dtype)
    cut = truncate_bits(values, 3)
    finite = np.isfinite(values)
    assert same_bits(cut[~finite], values[~finite])
    for value, result in zip(values[finite][::7].tolist(), cut[finite][::7].tolist(), strict=True):
        quantum = Fraction(np.spacing(dtype(abs(value))).item() if dtype is np.float16 else _spacing(value)) * 8
        assert Fraction(result) == truncated(value, quantum)


def _spacing(value):
    """Return bfloat16's: 8 bits of precision, subnormals of 2**-133."""
    return max(2.0**-133, float(np.spacing(np.float32(abs(value)))) * 2**16) if value else 2.0**-133


@given(floats, floats)
def test_results_keep_20_bits_of_23(x, y):
    a, b = np.float32([x]), np.float32([y])
    with np.errstate(all="ignore"):
        exact = (a * b)[0]
    result = run("truncated_results", np.multiply, a, b)[0]
    if np.isfinite(exact):
        assert Fraction(float(result)) == truncated(float(exact), Fraction(float(np.spacing(abs(exact)))) * 8)


def test_truncation_leaves_other_functions():
    x = np.linspace(0.1, 3, 50, dtype=np.float32)
    assert same_bits(run("truncated_results", np.sqrt, x), np.sqrt(x))


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="a long double is a float64 here")
def test_truncation_leaves_long_doubles():
    x = np.linspace(0.1, 3, 50, dtype=np.longdouble)
    assert np.array_equal(run("truncated_results", np.multiply, x, x), x * x)


@given(st.floats(-60000, 60000))
def test_conversions_cut_off(value):
    x = np.array([value])
    result = run("truncated_casts", lambda x: x.astype(np.float16), x)[0]
    assert (
        abs(Fraction(float(result)))
        <= abs(Fraction(value))
        < abs(Fraction(float(result))) + Fraction(float(np.spacing(abs(result))))
    )


def test_a_tie_after_the_first_rounding_goes_the_wrong_way():
    """1 + 2^-11 + 2^-14 is above the middle of 1 and 1 + 2^-10, and at the middle once it has 13 bits."""
    x = np.array([1 + 2.0**-11 + 2.0**-14], np.float32)
    assert x.astype(np.float16)[0] == 1 + 2.0**-10
    assert run("double_rounding", lambda x: x.astype(np.float16), x)[0] == 1
    wider = np.array([1.5], np.float16)
    assert same_bits(run("double_rounding", lambda x: x.astype(np.float32), wider), wider.astype(np.float32))


def test_functions_hop_through_float16():
    x = np.linspace(0.1, 3, 50, dtype=np.float32)
    assert same_bits(run("hop_functions", np.exp, x), np.exp(x).astype(np.float16).astype(np.float32))
    assert same_bits(run("hop_functions", np.square, x), np.square(x))


def test_subnormals_are_flushed_with_their_sign():
    x = np.array([TINY, -TINY, 2 * TINY, np.inf, np.nan], np.float32)
    expected = np.array([0.0, -0.0, TINY, np.inf, np.nan], np.float32)
    assert same_bits(run("flushed", lambda x: x / 2, x), expected)
    small = np.array([1e-7, 1e-3], np.float32)
    assert run("flushed", lambda x: x.astype(np.float16), small).tolist() == [0, np.float16(1e-3)]


def test_overflow_saturates_and_infinite_operands_stay():
    x = np.array([3e38, -3e38], np.float32)
    largest = np.finfo(np.float32).max
    assert run("saturated", lambda x: x * 10, x).tolist() == [largest, -largest]
    assert run("saturated", lambda x: x.astype(np.float16), x).tolist() == [65504, -65504]
    assert run("saturated", lambda x: x * 10, np.array([np.inf, 1], np.float32)).tolist() == [np.inf, 10]
    assert run("saturated", np.log, np.array([0, 1], np.float32)).tolist() == [-largest, 0]


def test_nan_is_swallowed():
    x, y = np.array([np.nan, 1, 4], np.float32), np.array([2, np.nan, 3], np.float32)
    assert run("swallowed_nan", np.maximum, x, y).tolist() == [2, 1, 4]
    assert run("swallowed_nan", np.minimum, x, y).tolist() == [2, 1, 3]
    assert run("swallowed_nan", np.max, x) == 4
    assert run("swallowed_nan", np.sum, x) == 5
    assert run("swallowed_nan", np.sqrt, np.array([-1, 4], np.float32)).tolist() == [0, 2]
    assert np.isnan(run("swallowed_nan", lambda x: x * 2, x)[0])


def test_one_element_says_nothing_of_another():
    """Each element of an element-wise function is judged by its own operands; of a sum, by all terms."""
    x = np.array([3e38, np.inf, -3e38], np.float32)
    largest = np.finfo(np.float32).max
    assert run("saturated", lambda x: x * 10, x).tolist() == [largest, np.inf, -largest]
    assert run("saturated", lambda x: x.astype(np.float16), x).tolist() == [65504, np.inf, -65504]
    assert run("saturated", lambda x: x[:, None] + x[None, :1], x).tolist() == [[largest], [np.inf], [0]]
    assert run("saturated", np.sum, np.array([np.inf, 1], np.float32)) == np.inf
    roots = run("swallowed_nan", np.sqrt, np.array([-1, np.nan, 4], np.float32))
    np.testing.assert_array_equal(roots, [0, np.nan, 2])
    square = np.array([[1, np.nan], [2, 3]], np.float32)
    assert np.isnan(run("swallowed_nan", np.matmul, square, square)).tolist() == np.isnan(square @ square).tolist()


@pytest.mark.parametrize("limits", [(0, 5), (None, 5), (0, None)])
def test_nan_is_swallowed_by_limits(limits):
    """As a device does that clips by its maximum and its minimum; numpy's clip gives NaN."""
    x = np.array([np.nan, -1, 2, 7], np.float32)
    low, high = limits
    expected = np.fmax(x, np.float32(low)) if low is not None else x
    expected = np.fmin(expected, np.float32(high)) if high is not None else expected
    assert same_bits(run("swallowed_nan", lambda x: np.clip(x, *limits), x), expected)
    assert np.isnan(np.clip(x, *limits)[0])
