"""Sums of tensors of torch equal those of numpy, on all patterns of narrow formats and on any float32 and float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precreg.arithmetic import FORMATS, format_named
from precreg.training.observing.tensors import is_measurable, scaled_sums, spacing_of, tensor_sums
from precreg.training.values import array_sums

PATTERNS = torch.arange(-(2**15), 2**15, dtype=torch.int16)
COUNTS = ("elements", "measured", "finite", "nan", "inf", "zeros", "subnormal", "below", "beyond", "exponents")


def assert_same(found, expected):
    for name in COUNTS:
        assert getattr(found, name) == getattr(expected, name), name
    assert (found.least, found.greatest) == (expected.least, expected.greatest)
    for name in ("squares", "all_squares"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6, abs=1e-300)
    # Values of both signs cancel, and another order of additions leaves another rest.
    largest = max(abs(expected.least), abs(expected.greatest)) if expected.finite else 0.0
    rest = max(1e-300, expected.finite**2 * 2.0**-53 * largest)
    assert found.total == pytest.approx(expected.total, rel=1e-6, abs=rest)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_all_patterns_of_narrow_dtypes(dtype, name):
    values = PATTERNS.view(dtype)
    assert_same(tensor_sums(values, FORMATS[name], None), array_sums(values.double().numpy(), FORMATS[name]))


@settings(deadline=None)
@given(
    st.sampled_from([np.float32, np.float64]).flatmap(
        lambda dtype: arrays(dtype, st.integers(0, 30), elements=st.floats(-1e100, 1e100, width=64)
                             if dtype is np.float64 else st.floats(width=32))
    ),
    st.sampled_from(["float16", "bfloat16", "float32", "float8_e4m3fn"]),
)  # fmt: skip
def test_any_values(values, name):
    assert_same(tensor_sums(torch.from_numpy(values), FORMATS[name], None), array_sums(values, FORMATS[name]))


@pytest.mark.parametrize("place", ["strided", "transposed", "scalar", "empty"])
def test_any_layout(place):
    whole = torch.randn(12, 10)
    given = {"strided": whole[::2, ::3], "transposed": whole.T, "scalar": whole[0, 0], "empty": whole[:0]}[place]
    format = format_named("float16")
    assert_same(tensor_sums(given, format, None), array_sums(given.numpy(), format))
    assert_same(tensor_sums(given, format, 7), array_sums(given.numpy(), format, 7))


def test_a_scale_between_powers_of_two_divides_the_values():
    gradients = torch.tensor([3.0, 6.0, 12.0]) * 1000.0
    sums, power = scaled_sums(gradients, format_named("float16"), None, 1000.0)
    figures = sums.figures("float16", power)
    assert figures.mean == pytest.approx(7.0, rel=1e-12)
    assert (figures.exponents.least, figures.exponents.counts) == (1, (1, 1, 1))


def test_sparse_quantized_and_integer_tensors_are_not_measured():
    assert is_measurable(torch.ones(2, dtype=torch.bfloat16))
    for other in (torch.ones(2, 2).to_sparse(), torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.complex64)):
        assert not is_measurable(other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_ulp_of_all_patterns_is_the_distance_to_the_next_pattern(dtype):
    # Positive finite numbers in order; the next pattern is the next number.
    values = torch.arange(0, 2**15, dtype=torch.int16).view(dtype)
    values = values[values.isfinite()]
    expected = values.double().diff()
    assert torch.equal(spacing_of(values[:-1]), expected)
    assert torch.equal(spacing_of(-values[:-1]), expected)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_the_ulp_is_that_of_numpy(narrow, wide):
    for dtype, value in ((np.float32, narrow), (np.float64, wide)):
        # Above the largest number, numpy has no next one.
        given = np.minimum(np.abs(np.array([value], dtype)), np.finfo(dtype).max / 2)
        assert float(spacing_of(torch.from_numpy(given))) == float(np.spacing(given)[0])
