"""Distances of weights equal those of exact rationals, and survive the ends of the formats."""

from fractions import Fraction
from math import isqrt

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.training.divergence.distance import measure_arrays, measure_step

FLOATS = st.lists(
    st.tuples(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(-4, 4, width=32)),
    min_size=1,
    max_size=20,
)


def exact_relative(a, b):
    """Return the relative distance of two sequences from exact sums of squares, to 30 digits or more."""
    squares = sum((Fraction(float(y)) - Fraction(float(x))) ** 2 for x, y in zip(a, b, strict=True))
    norm = sum(Fraction(float(x)) ** 2 for x in a)
    ratio = squares / norm
    scale = 10**120
    return Fraction(isqrt(int(ratio * scale * scale)), scale) if ratio else Fraction(0)


@given(FLOATS)
def test_the_relative_distance_is_that_of_exact_sums(pairs):
    a = np.array([x for x, _ in pairs], np.float32)
    with np.errstate(over="ignore"):
        b = np.array([x * (1 + y) if abs(x) < 1e30 else x for x, y in pairs], np.float32)
    found = measure_arrays(a, b)
    if not a.any():
        assert found.relative in (0.0, None)
        return
    exact = exact_relative(a, b)
    assert abs(Fraction(found.relative) - exact) <= exact * Fraction(1, 10**9)


def test_every_bit_counts_and_not_the_value_alone():
    zero, negative = np.array([0.0], np.float32), np.array([-0.0], np.float32)
    assert not measure_arrays(zero, negative).has_same_bits
    assert measure_arrays(zero, negative).squares == 0.0
    nan = np.array([np.nan], np.float32)
    assert measure_arrays(nan, nan.copy()).has_same_bits
    assert not measure_arrays(nan, nan).is_reference_finite


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_one_ulp_everywhere_is_a_distance_of_one_ulp(dtype):
    a = np.array([1.0, 1.5, -1.25, 1.75], dtype)
    bits = a.view(f"u{a.dtype.itemsize}")
    assert measure_arrays(a, (bits + 1).astype(bits.dtype).view(dtype)).ulps == pytest.approx(1.0)


def test_squares_beyond_float64_do_not_become_a_distance_of_zero():
    a = np.array([1e300, 1e300])
    found = measure_arrays(a, a * 2)
    assert found.squares == np.inf
    assert found.relative is None


def test_signs_of_changes_are_parts_of_the_whole_change():
    a = {"w": np.array([1.0, -1.0, 2.0])}
    shrunk = measure_step(3, a, {"w": a["w"] * 0.5})
    assert shrunk.share("shrunk") == -1.0
    assert shrunk.share("shifted") == pytest.approx(-0.5)
    assert measure_step(3, a, a).share("shrunk") == 0.0
    assert measure_step(3, a, {"w": np.array([np.nan, 1, 2])}).share("shrunk") == 0.0


def test_a_parameter_of_zeros_that_moves_has_no_relative_distance():
    step = measure_step(0, {"bias": np.zeros(2)}, {"bias": np.ones(2)})
    assert step.relative is None
    assert not step.has_same_bits
