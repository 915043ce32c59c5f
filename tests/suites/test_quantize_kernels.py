"""Quantization on every code, at every tie and on both sides of it, against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

from tests.suites.kernel_files import load
from tests.suites.measured import comparisons

kernels = load("unit/kernels/quantize")

DTYPES = [np.int8, np.uint8]
QUANTIZERS = [kernels.quantize, kernels.quantize_by_integers]
RESTORERS = [kernels.dequantize, kernels.dequantize_exactly]


def every_code(dtype):
    bounds = np.iinfo(dtype)
    return np.arange(bounds.min, bounds.max + 1).astype(dtype)


def saturated(number, dtype):
    bounds = np.iinfo(dtype)
    return min(max(number, bounds.min), bounds.max)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero_point", [0, 1, 99, 127])
def test_ties_go_to_even_and_what_is_beside_them_to_its_own_side(quantizer, dtype, zero_point):
    scale, points = np.array([0.5], np.float32), np.array([zero_point], dtype)
    ties = np.arange(-300, 300) + 0.5
    middle = (ties * 0.5).astype(np.float32)[None]
    for x, rounded in (
        (middle, [round(tie) for tie in ties]),
        (np.nextafter(middle, np.float32(-np.inf)), np.floor(ties).astype(int)),
        (np.nextafter(middle, np.float32(np.inf)), np.ceil(ties).astype(int)),
    ):
        expected = [saturated(number + zero_point, dtype) for number in rounded]
        codes = quantizer(x, scale, points, ties="even")
        assert codes.dtype == dtype
        assert codes[0].tolist() == expected


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_are_those_of_the_rounded_quotient(quantizer, dtype):
    random = np.random.default_rng(0)
    x = random.normal(0, 3, (8, 200)).astype(np.float32)
    scale, points = random.uniform(0.01, 0.1, 8).astype(np.float32), random.integers(0, 100, 8).astype(dtype)
    codes = quantizer(x, scale, points, ties="even")
    for row, step, point, found in zip(x, scale, points, codes, strict=True):
        for value, code in zip(row, found, strict=True):
            exact = Fraction(float(value)) / Fraction(float(step))
            quotient = Fraction(float(np.float32(value / step)))
            assert abs(quotient - exact) <= Fraction(1, 2**24) * abs(exact)
            assert code == saturated(round(quotient) + int(point), dtype)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_edges(quantizer, dtype):
    bounds = np.iinfo(dtype)
    infinity, largest, tiny = np.float32(np.inf), np.finfo(np.float32).max, np.float32(1e-45)
    x = np.array([[0.0, -0.0, tiny, -tiny, largest, -largest, infinity, -infinity]], np.float32)
    scale, points = np.array([0.01], np.float32), np.array([7], dtype)
    with np.errstate(over="ignore"):
        codes = quantizer(x, scale, points, ties="even")
    assert codes[0].tolist() == [7, 7, 7, 7, bounds.max, bounds.min, bounds.max, bounds.min]


def test_a_reciprocal_misses_half_of_the_ties_of_122():
    scale = np.float32(122)
    ties = ((np.arange(-120, 120) + 0.5) * 122).astype(np.float32)
    missed = np.rint(ties / scale) != np.rint(ties * (np.float32(1) / scale))
    assert missed.mean() == pytest.approx(0.475, abs=1e-3)


def test_nan_is_refused():
    x = np.array([[1, np.nan]], np.float32)
    with pytest.raises(ValueError, match="NaN"):
        kernels.quantize(x, np.ones(1, np.float32), np.zeros(1, np.int8), ties="even")


@pytest.mark.parametrize("restorer", RESTORERS)
@pytest.mark.parametrize("target", [np.float16, np.float32])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_code_at_every_zero_point_is_restored_with_one_rounding(restorer, target, dtype):
    codes = every_code(dtype)
    scale = np.random.default_rng(1).uniform(0.01, 0.1, len(codes)).astype(target)
    numbers = restorer(np.tile(codes, (len(codes), 1)), scale, codes, difference="wide")
    assert numbers.dtype == target
    half_ulp = np.finfo(target).eps / 2
    for point, step, row in zip(codes.tolist(), scale, numbers, strict=True):
        for code, number in zip(codes.tolist()[::17], row[::17], strict=True):
            exact = (code - point) * Fraction(float(step))
            assert abs(Fraction(float(number)) - exact) <= Fraction(float(half_ulp)) * abs(exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_code_survives_a_round_trip_and_every_number_moves_by_half_a_step_at_most(dtype):
    codes, bounds = every_code(dtype)[None], np.iinfo(dtype)
    scale, points = np.array([0.037], np.float32), np.array([3], dtype)
    numbers = kernels.dequantize(codes, scale, points, difference="wide")
    assert np.array_equal(kernels.quantize(numbers, scale, points, ties="even"), codes)
    x = np.random.default_rng(2).uniform(bounds.min - 3, bounds.max - 3, (1, 1000)).astype(np.float32) * scale
    there_and_back = kernels.dequantize(
        kernels.quantize(x, scale, points, ties="even"), scale, points, difference="wide"
    )
    assert np.abs(there_and_back.astype(float) - x).max() <= float(scale[0]) * (0.5 + 1e-4)


def test_a_difference_in_int8_wraps_round():
    codes, scale = np.array([[127, -128]], np.int8), np.ones(1, np.float32)
    points = np.array([-128], np.int8)
    assert kernels.dequantize(codes, scale, points, difference="wide")[0].tolist() == [255, 0]
    assert kernels.dequantize(codes, scale, points, difference="own")[0].tolist() == [-1, 0]


def test_halves_rounded_up_move_a_fifth_of_the_codes_by_one():
    comparison = comparisons("unit/quantize")["int8-channels=32-ties-up"][0]
    assert comparison.metrics["equal_share"] == pytest.approx(0.8, abs=0.02)
    assert comparison.metrics["max_abs_error"] == 1
    assert comparison.counts["below"] == 0
