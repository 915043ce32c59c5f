"""Significant digits: the package significantdigits, mpmath, exact rationals and simulated errors say the same."""

from fractions import Fraction
from math import log2, log10

import ml_dtypes
import mpmath
import numpy as np
import pytest
import significantdigits
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure import compare_arrays
from precreg.measure.significant_digits import (
    add_digits,
    chi_square_quantile,
    measure_digits,
    normal_allowance,
    significant_bits,
)
from precreg.types.case import Stochastic

METHODS = {"normal": "cnh", "general": "general"}
PRECISION = 53


def drawn(seed, samples):
    """Return samples, the centre that they spread around, and a reference beside it."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, size=rng.integers(0, 4)))
    centre = rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7)
    # The package divides before it subtracts 1, so that smaller spreads drown in its own rounding.
    spread, bias = 10.0 ** rng.uniform(-5, 0.5), 10.0 ** rng.uniform(-5, 0.5)
    x = centre * (1 + spread * rng.normal(size=(samples, *shape)))
    return x, centre * (1 + bias * rng.normal(size=shape))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", ["relative", "absolute"])
@pytest.mark.parametrize("against", ["mean", "oracle"])
def test_bits_are_those_of_the_package_significantdigits(method, error, against):
    rng = np.random.default_rng([*map(ord, method + error + against)])
    for seed in range(150):
        settings = Stochastic(
            samples=int(rng.integers(3, 100)),
            method=method,
            error=error,
            probability=rng.uniform(0.5, 0.999),
            confidence=rng.uniform(0.5, 0.999),
        )
        x, reference = drawn(seed, settings.samples)
        theirs = significantdigits.significant_digits(
            x,
            x.mean(axis=0) if against == "mean" else reference,
            error=error,
            method=METHODS[method],
            probability=settings.probability,
            confidence=settings.confidence,
        )
        ours = significant_bits(x, None if against == "mean" else reference, settings, PRECISION)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("df", [2, 3, 29, 100, 9999])
@pytest.mark.parametrize("p", [0.0005, 0.025, 0.25, 0.49])
def test_a_chi_square_quantile_has_its_probability(p, df):
    with mpmath.workdps(40):
        x = chi_square_quantile(p, df)
        assert abs(mpmath.gammainc(mpmath.mpf(df) / 2, 0, mpmath.mpf(x) / 2, regularized=True) - p) < 1e-11 * p


@given(st.floats(0.01, 0.999), st.floats(0.01, 0.9999))
def test_the_general_formula_needs_so_many_samples(probability, confidence):
    n = Stochastic(probability=probability, confidence=confidence).min_general_samples
    assert n == significantdigits.minimum_number_of_trials(probability, confidence)
    assert Fraction(probability) ** n <= (1 - Fraction(confidence)) * (1 + Fraction(1, 10**12))


def test_the_published_number_of_samples():
    """Sohier et al., table 2: 59 samples for a probability and a confidence of 95 %."""
    assert Stochastic().min_general_samples == 59


def test_the_statement_holds_for_simulated_errors():
    """In at least 95 % of 2,000 sets of samples, 95 % of further results have the digits; the digits are not wasted."""
    settings = Stochastic(samples=30)
    rng = np.random.default_rng(7)
    sigma, sets = 2.0**-12, 2000
    x = 1 + sigma * rng.normal(size=(settings.samples, sets))
    bits = significant_bits(x, np.ones(sets), settings, PRECISION)
    # The bits that the known distribution has: |Z| <= 2^-s with a probability of 95 %.
    true_bits = -log2(1.959963984540054 * sigma)
    held = np.mean(bits <= true_bits)
    assert 0.955 <= held <= 0.992  # chi2 leaves 2.5 % below; three standard errors are 0.0105
    assert np.median(bits) > true_bits - 0.7


@pytest.mark.parametrize("scale", [2.0**-1060, 2.0**-500, 2.0**1000, 2.0**1020])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", ["relative", "absolute"])
def test_a_power_of_two_changes_no_digit(scale, method, error):
    # 12 bits, so that the small scale rounds no sample.
    x = np.array([[1.5, 2.0], [1.5 + 2.0**-11, 2.0], [1.5 - 2.0**-10, 2.0 - 2.0**-10], [1.5, 2.0]])
    settings = Stochastic(samples=4, method=method, error=error)
    plain = significant_bits(x, None, settings, PRECISION)
    np.testing.assert_allclose(significant_bits(x * scale, None, settings, PRECISION), plain, atol=1e-12)


@given(st.lists(st.integers(-(2**20), 2**20), min_size=3, max_size=9), st.integers(1, 2**20))
def test_general_bits_are_the_largest_k_of_exact_rationals(offsets, centre):
    x = np.array([centre + each / 1024 for each in offsets])[:, None]
    settings = Stochastic(samples=len(offsets), method="general", against="oracle", error="absolute")
    unit = Fraction(2) ** (centre.bit_length() - 1)
    errors = [abs(Fraction(each, 1024)) / unit for each in offsets]
    expected = max((k for k in range(PRECISION) if all(e <= Fraction(1, 2**k) for e in errors)), default=0)
    assert significant_bits(x, np.array([float(centre)]), settings, PRECISION).tolist() == [expected]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_equal_samples_have_the_digits_of_their_dtype(dtype):
    actual = np.ones(3, getattr(ml_dtypes, dtype, dtype))
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype]
    normal = measure_digits(actual, [actual] * 30, actual, Stochastic()).digits
    general = measure_digits(actual, [actual] * 60, actual, Stochastic(samples=60, method="general")).digits
    assert general == pytest.approx([bits * log10(2)] * 3)
    assert normal == pytest.approx([(bits - normal_allowance(30, 0.95, 0.95)) * log10(2)] * 3)


def test_a_spread_below_the_last_place_has_no_more_digits_than_none():
    actual = np.float32([1.0])
    samples = [actual] * 29 + [np.nextafter(actual, np.float32(2))]
    nearly = measure_digits(actual, samples, actual, Stochastic()).digits
    assert nearly == measure_digits(actual, [actual] * 30, actual, Stochastic()).digits


def test_a_mean_of_zero_has_no_relative_digit():
    samples = [np.array([value, 0.0]) for value in (1e-9, -1e-9, 1e-9, -1e-9)]
    found = measure_digits(samples[0], samples, samples[0], Stochastic(samples=4)).digits
    assert found[0] == 0
    assert found[1] > 10  # zero in every sample


def digits_of(*samples, actual=None, oracle=None, **settings):
    samples = [np.asarray(each) for each in samples]
    actual = samples[0] if actual is None else np.asarray(actual)
    oracle = actual if oracle is None else np.asarray(oracle)
    compared = compare_arrays(actual, oracle, rtol=0.0, atol=0.0)
    return add_digits(compared, actual, samples, oracle, Stochastic(samples=len(samples), **settings))


def test_an_element_that_is_not_finite_in_one_sample_has_no_digit():
    found = digits_of([1.0, 2.0], [1.0, np.inf], [1.0, 2.0], actual=[1.0, 2.0])
    assert found.metrics["min_significant_digits"] == 0
    assert (found.digits.non_finite, found.digits.counts[0]) == (1, 1)
    worst = found.digits.worst[0]
    assert (worst.index, worst.digits, worst.least, worst.largest) == (1, 0, 2.0, 2.0)


def test_samples_that_are_all_nan_pass_only_beside_a_nan():
    alike = digits_of([1.0, np.nan], [1.0, np.nan], [1.0, np.nan])
    assert alike.metrics["min_significant_digits"] > 10
    assert alike.digits.non_finite == 1
    assert sum(alike.digits.counts) == 1
    other = digits_of([1.0, np.nan], [1.0, np.nan], [1.0, np.nan], actual=[1.0, 2.0])
    assert other.metrics["min_significant_digits"] == 0
    opposite = digits_of([np.inf], [-np.inf], [np.inf])
    assert opposite.metrics["min_significant_digits"] == 0


def test_an_output_without_a_finite_element_has_no_metric():
    found = digits_of([np.nan], [np.nan], [np.nan])
    assert "min_significant_digits" not in found.metrics
    assert (found.digits.counts, found.digits.worst, found.digits.non_finite) == ((), (), 1)


@pytest.mark.parametrize("values", [np.arange(3), np.array([True, False]), np.array([1j]), np.empty((0, 2))])
def test_other_outputs_have_no_digits(values):
    found = digits_of(values, values, values)
    assert "min_significant_digits" not in found.metrics
    assert not found.digits


def test_a_bias_takes_digits_from_the_oracle_alone():
    samples = np.full((60, 4), 1.25)
    mean = digits_of(*samples, oracle=np.ones(4), method="general")
    oracle = digits_of(*samples, oracle=np.ones(4), method="general", against="oracle")
    assert mean.metrics["min_significant_digits"] == pytest.approx(52 * log10(2))
    assert oracle.metrics["min_significant_digits"] == pytest.approx(2 * log10(2))


def test_worst_elements_are_named_in_order():
    rng = np.random.default_rng(3)
    x = 1 + np.array([1e-3, 1e-6, 1e-2, 1e-4]) * rng.normal(size=(30, 4))
    found = digits_of(*x)
    assert [each.index for each in found.digits.worst] == [2, 0, 3, 1]
    each = [worst.digits for worst in found.digits.worst]
    assert each == sorted(each)
    assert found.metrics["min_significant_digits"] == each[0]
    assert found.metrics["median_significant_digits"] == pytest.approx((each[1] + each[2]) / 2)
    assert [sum(int(digits) == k for digits in each) for k in range(len(found.digits.counts))] == [*found.digits.counts]


def test_parts_of_a_large_output_have_the_digits_of_the_whole():
    rng = np.random.default_rng(8)
    samples = (1 + 1e-3 * rng.normal(size=(5, 200, 170))).astype(np.float32)
    settings = Stochastic(samples=5)
    whole = measure_digits(samples[0], samples, samples[0], settings).digits
    rows = [measure_digits(samples[0, row], samples[:, row], samples[0, row], settings).digits for row in range(200)]
    np.testing.assert_allclose(whole, np.concatenate(rows), atol=1e-9)
