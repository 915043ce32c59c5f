"""Thresholds: percentiles as numpy's, the least squared error as a dense search, entropy as a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

import precreg
from precreg.quantization.arrays import quantize_values
from precreg.quantization.calibration import ENTROPY_BINS, entropy_threshold, find_thresholds
from precreg.quantization.codes import codes_named, make_quantizer, rows_of


def drawn(seed, size=4000, tail=1.0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(size) * rng.exponential(tail, size)).astype(np.float32)


def thresholds(values, **options):
    quantizer = make_quantizer("int8", **options)
    return find_thresholds(
        quantizer.calibration, rows_of(values, quantizer), codes_named("int8"), quantizer, values.dtype
    )


@pytest.mark.parametrize(("method", "share"), [("p99.9", 99.9), ("p99.99", 99.99)])
def test_percentiles_are_those_of_numpy(method, share):
    values = drawn(0).reshape(4, 1000)
    expected = np.percentile(np.abs(values.astype(np.float64)), share)
    assert thresholds(values, calibration=method)[0] == pytest.approx(expected, rel=1e-12)
    by_channel = thresholds(values, calibration=method, granularity="channel")
    assert by_channel == pytest.approx(np.percentile(np.abs(values.astype(np.float64)), share, axis=1), rel=1e-12)
    # 300 is no divisor of 1000: the last group has 100 elements of its own.
    by_group = thresholds(values, calibration=method, granularity="group", group=300)
    assert by_group[3] == pytest.approx(np.percentile(np.abs(values[0, 900:].astype(np.float64)), share), rel=1e-12)


@pytest.mark.parametrize("name", ["int2", "int4", "int8", "float8_e4m3fn", "float4_e2m1fn"])
@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_squared_error_is_that_of_a_dense_search(name, zero_point, seed):
    if zero_point and name.startswith("float"):
        return
    values = drawn(seed)
    quantizer = make_quantizer(name, zero_point=zero_point, calibration="mse")
    found = quantize_values(values, quantizer).figures.relative_error
    largest = float(np.abs(values).max())
    dense = min(
        quantize_values(values, quantizer, np.array([largest * part])).figures.relative_error
        for part in np.linspace(0.002, 1, 500)
    )
    assert found <= dense * 1.01
    plain_max = quantize_values(values, make_quantizer(name, zero_point=zero_point)).figures.relative_error
    assert found <= plain_max


def test_a_sampled_search_is_as_good_as_a_whole_one():
    # 2**20 elements: the search sees every fourth.
    values = drawn(3, 2**20)
    largest = float(np.abs(values).max())
    dense = [np.array([largest * part]) for part in np.linspace(0.05, 0.5, 30)]
    best = max(quantize_values(values, make_quantizer("int4"), each).figures.sqnr_db for each in dense)
    assert quantize_values(values, make_quantizer("int4", calibration="mse")).figures.sqnr_db >= best - 0.05


def smoothed(counts):
    """Return counts with 1e-4 in place of zeros, taken from the others in equal parts."""
    zeros = sum(each == 0 for each in counts)
    part = 1e-4 * zeros / (len(counts) - zeros)
    return [1e-4 if each == 0 else each - part for each in counts]


def plain_entropy(values, levels):
    """Return the threshold by the published loop: bins, the clipped tail in the last, merged bins spread out."""
    sizes = [abs(float(value)) for value in values if value != 0]
    largest = max(sizes)
    counts = [0] * ENTROPY_BINS
    for size in sizes:
        counts[min(int(size / largest * ENTROPY_BINS), ENTROPY_BINS - 1)] += 1
    best, best_kept = None, ENTROPY_BINS
    for kept in range(levels, ENTROPY_BINS + 1):
        reference = counts[:kept]
        reference[-1] += sum(counts[kept:])
        merged = [0.0] * kept
        parts = [[] for _ in range(levels)]
        for at in range(kept):
            parts[at * levels // kept].append(at)
        for inside in parts:
            filled = [at for at in inside if reference[at]]
            total = sum(counts[at] for at in inside)
            for at in filled:
                merged[at] = total / len(filled)
        if not any(merged):
            continue
        divergence = entropy(smoothed(reference), smoothed(merged))
        if best is None or divergence < best - 1e-15:
            best, best_kept = divergence, kept
    return largest if best_kept == ENTROPY_BINS else (best_kept + 0.5) * largest / ENTROPY_BINS


# Few bins between `levels` and 2,048 keep the plain loop short.
@pytest.mark.parametrize("seed", range(4))
def test_entropy_is_that_of_the_published_loop(seed):
    values = drawn(seed, 6000)
    assert entropy_threshold(values.astype(np.float64), 1900) == pytest.approx(plain_entropy(values, 1900), rel=1e-12)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([16, 128]))
def test_entropy_lies_between_its_ends(seed, levels):
    values = drawn(seed, 500).astype(np.float64)
    largest = np.abs(values).max()
    assert largest * levels / ENTROPY_BINS <= entropy_threshold(values, levels) <= largest


def test_entropy_cuts_a_planted_outlier_and_keeps_a_uniform_array():
    body = np.random.default_rng(0).standard_normal(200_000)
    assert entropy_threshold(np.append(body, 200.0), 128) < 60
    assert entropy_threshold(np.random.default_rng(0).uniform(-1, 1, 200_000), 128) > 0.9


def test_entropy_of_zeros_and_of_many_levels():
    assert entropy_threshold(np.zeros(4), 128) == 0.0
    assert entropy_threshold(np.array([1.0, 3.0]), 2**15) == 3.0


def test_all_methods_stand_side_by_side():
    found = precreg.quantize_array(drawn(5).reshape(40, 100))
    assert [each.method for each in found.calibrations] == ["max", "p99.9", "p99.99", "mse", "entropy"]
    by_method = {each.method: each for each in found.calibrations}
    assert by_method["max"].figures == found.figures
    assert by_method["max"].figures.clipped == 0
    # 4,000 elements: 0.1 % of them are 4.
    assert 1 <= by_method["p99.9"].figures.clipped <= 4
    assert by_method["mse"].figures.relative_error == min(each.figures.relative_error for each in found.calibrations)
