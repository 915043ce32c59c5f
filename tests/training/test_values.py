"""Sums of values by magnitude equal those of plain Python and of rounding itself."""

from fractions import Fraction
from math import frexp, inf, isfinite, isinf, isnan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace

from precreg.arithmetic import format_named, round_to
from precreg.training.values import array_sums, sample_stride

FORMATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float32"]
ALL_FLOAT16 = np.arange(2**16, dtype=np.uint16).view(np.float16)


def plain(values, format):
    """Return the counts of `values`, one element at a time, by rounding them."""
    # The format without an end tells an overflow from a saturation.
    unbounded = replace(format, overflow=inf)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = round_to(values.astype(np.float64), unbounded)
    found = dict.fromkeys(("nan", "inf", "zeros", "subnormal", "below", "beyond"), 0)
    exponents = {}
    for value, after in zip(map(float, values), map(float, rounded), strict=True):
        found["nan"] += isnan(value)
        found["inf"] += isinf(value)
        found["zeros"] += value == 0
        if not isfinite(value) or value == 0:
            found["beyond"] += isinf(value)
            continue
        found["below"] += after == 0
        found["subnormal"] += 0 < abs(after) < format.smallest_normal
        found["beyond"] += isinf(after)
        exponent = frexp(value)[1] - 1
        exponents[exponent] = exponents.get(exponent, 0) + 1
    return found, exponents


@pytest.mark.parametrize("name", FORMATS)
def test_counts_of_all_float16_are_those_of_rounding(name):
    format = format_named(name)
    sums = array_sums(ALL_FLOAT16, format)
    counts, exponents = plain(ALL_FLOAT16, format)
    assert {key: getattr(sums, key) for key in counts} == counts
    assert sums.exponents == exponents
    assert sums.finite == np.isfinite(ALL_FLOAT16).sum()


floats = arrays(np.float32, st.integers(0, 40), elements=st.floats(width=32))


@given(floats, st.sampled_from(FORMATS))
def test_counts_of_any_float32_are_those_of_rounding(values, name):
    sums = array_sums(values, format_named(name))
    counts, exponents = plain(values, format_named(name))
    assert {key: getattr(sums, key) for key in counts} == counts
    assert sums.exponents == exponents


@given(arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32)))
def test_moments_are_those_of_exact_arithmetic(values):
    figures = array_sums(values, format_named("float16")).figures("float16", 1.0)
    exact = [Fraction(float(each)) for each in values]
    mean = sum(exact) / len(exact)
    size = max(1e-30, float(max(map(abs, exact))))
    assert figures.mean == pytest.approx(float(mean), abs=1e-12 * size)
    variance = float(sum((each - mean) ** 2 for each in exact) / len(exact))
    # The squares of the mean cancel: half of the digits of float64 are left where all values are nearly equal.
    assert figures.std == pytest.approx(sqrt(variance), abs=1e-7 * size)
    assert figures.norm == pytest.approx(sqrt(float(sum(each**2 for each in exact))), rel=1e-12)
    assert (figures.least, figures.greatest) == (float(min(exact)), float(max(exact)))


@given(floats, floats)
def test_sums_of_two_arrays_add_up(first, second):
    format = format_named("float16")
    together = array_sums(np.concatenate([first, second]), format)
    added = array_sums(first, format).plus(array_sums(second, format))
    assert added._replace(total=0, squares=0, all_squares=0) == together._replace(total=0, squares=0, all_squares=0)


def test_a_loss_scale_is_taken_out_of_the_figures_and_stays_in_the_counts():
    gradients = np.array([2.0**-26, 2.0**-20, 1.0, -3.0])
    scaled = array_sums(gradients * 2.0**4, format_named("float16")).figures("float16", 2.0**4)
    unscaled = array_sums(gradients, format_named("float16")).figures("float16", 1.0)
    assert scaled.exponents == unscaled.exponents
    assert scaled.exponents.least == -26
    assert (scaled.mean, scaled.std, scaled.greatest) == (unscaled.mean, unscaled.std, unscaled.greatest)
    assert (unscaled.below, unscaled.subnormal) == (1, 1)
    assert (scaled.below, scaled.subnormal) == (0, 2)


@given(st.integers(1, 10**7), st.integers(1, 10**5))
def test_a_stride_keeps_the_limit_and_takes_all_columns(elements, limit):
    stride = sample_stride(elements, limit)
    assert len(range(0, elements, stride)) <= limit
    assert stride == 1 or np.gcd(stride, elements) == 1


def test_a_sample_is_measured_and_an_array_with_nan_is_measured_whole():
    values = np.ones(10_000, np.float32)
    format = format_named("float16")
    sampled = array_sums(values, format, 100)
    assert (sampled.elements, sampled.measured) == (10_000, len(values[:: sample_stride(10_000, 100)]))
    assert sampled.all_squares == 10_000
    values[7], values[9] = np.nan, -np.inf
    whole = array_sums(values, format, 100)
    assert (whole.measured, whole.nan, whole.inf, whole.beyond) == (10_000, 1, 1, 1)
    assert whole.figures("float16", 1.0).norm == sqrt(9998)
