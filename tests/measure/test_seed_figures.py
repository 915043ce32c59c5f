"""The figures of one seed, against the exact metrics of a comparison and against plain Python."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import DTYPE_NAMES, numpy_dtype
from precreg.measure import compare_arrays, measure_pair, measure_seed

SHARED = ("mean_abs_error", "rms_error", "max_abs_error", "mean_ulp", "max_ulp", "bias")


def pairs(dtype, size, rng):
    """Return an array of a dtype and a wider reference that differs by a few ULP."""
    reference = rng.normal(0, 40, size)
    if dtype.startswith("complex"):
        reference = reference + 1j * rng.normal(0, 40, size)
    actual = (reference * (1 + rng.normal(0, 1e-2, size))).astype(numpy_dtype(dtype))
    return actual, reference if dtype != "longdouble" else reference.astype(np.longdouble)


@pytest.mark.parametrize("dtype", [name for name in DTYPE_NAMES if name not in ("bool",) and "uint" not in name])
def test_figures_are_those_of_a_comparison_in_every_dtype(dtype):
    actual, reference = pairs(dtype, 300, np.random.default_rng(4))
    found, exact = measure_seed(actual, reference), compare_arrays(actual, reference, rtol=0, atol=0)
    assert found.size == 300
    assert found.mismatched == exact.counts["nan_mismatched"] + exact.counts["inf_mismatched"]
    for name in SHARED:
        # Sums of a comparison are exact, those of numpy have rounding errors.
        assert found.metrics[name] == pytest.approx(exact.metrics[name], rel=1e-9, abs=1e-12), name
    assert found.correctly_rounded == round(exact.metrics["equal_share"] * 300)


def test_the_largest_errors_and_outward_biases_are_those_of_plain_python():
    rng = np.random.default_rng(7)
    reference = rng.normal(0, 1, 640)
    actual = (reference + rng.normal(0, 1e-3, 640)).astype(np.float32)
    errors = [float(a) - float(r) for a, r in zip(actual, reference, strict=True)]
    ulps = [
        abs(e) / float(np.spacing(np.abs(np.float32(2.0 ** np.floor(np.log2(abs(r)))))))
        for e, r in zip(errors, reference, strict=True)
    ]
    metrics = measure_seed(actual, reference).metrics
    assert metrics["top_abs_error"] == pytest.approx(sum(sorted(map(abs, errors))[-10:]) / 10, rel=1e-12)
    assert metrics["top_ulp"] == pytest.approx(sum(sorted(ulps)[-10:]) / 10, rel=1e-12)
    assert metrics["rms_ulp"] == pytest.approx((sum(u * u for u in ulps) / 640) ** 0.5, rel=1e-12)
    outward = sum(e if r > 0 else -e for e, r in zip(errors, reference, strict=True)) / 640
    assert metrics["outward_bias"] == pytest.approx(outward, rel=1e-9)


def test_truncation_shows_in_the_outward_bias_alone():
    reference = np.random.default_rng(2).normal(0, 1, 100_000)
    actual = (reference.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
    metrics = measure_seed(actual, reference).metrics
    assert metrics["outward_bias"] == pytest.approx(-metrics["mean_abs_error"], rel=1e-3)
    assert abs(metrics["bias"]) < 0.02 * metrics["mean_abs_error"]


def test_non_finite_pairs_are_counted_and_left_out():
    reference = np.array([1.0, np.nan, np.inf, 7e4, 2.0, -np.inf])
    actual = np.array([1.0, np.nan, np.inf, np.inf, np.nan, np.inf], np.float16)
    found = measure_seed(actual, reference)
    # 7e4 rounds to infinity in float16, so that one matches.
    assert (found.mismatched, found.size) == (2, 6)
    assert found.metrics["max_abs_error"] == 0
    assert found.correctly_rounded == 4


def test_without_a_finite_pair_there_are_no_metrics():
    found = measure_seed(np.array([np.nan], np.float32), np.array([1.0]))
    assert (found.metrics, found.mismatched) == ({}, 1)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_squares_beyond_float64_have_a_root(scale):
    errors = np.array([3.0, 4.0]) * scale
    assert measure_seed(errors, np.zeros(2)).metrics["rms_error"] == pytest.approx(scale * 12.5**0.5)


def test_large_arrays_are_measured_in_chunks_with_the_figures_of_the_whole(monkeypatch):
    # The name of the module is that of its function, so only importlib finds the module.
    from importlib import import_module

    rng = np.random.default_rng(3)
    reference = rng.normal(0, 1, 5000)
    actual = reference.astype(ml_dtypes.bfloat16)
    whole = measure_seed(actual, reference)
    monkeypatch.setattr(import_module("precreg.measure.seed_figures"), "_CHUNK", 64)
    assert measure_seed(actual, reference) == whole


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=80), st.integers(0, 2**32 - 1))
def test_averages_lie_between_zero_and_the_maximum(values, seed):
    reference = np.array(values)
    actual = (reference + np.random.default_rng(seed).normal(0, 1, len(values))).astype(np.float32)
    metrics = measure_seed(actual, reference).metrics
    slack = 1 + 1e-12
    for kind in ("abs_error", "ulp"):
        mean, top, most = (metrics[f"{name}_{kind}"] for name in ("mean", "top", "max"))
        assert 0 <= mean <= top * slack <= most * slack**2
    assert abs(metrics["bias"]) <= metrics["mean_abs_error"] * slack
    assert abs(metrics["outward_bias"]) <= metrics["mean_abs_error"] * slack


def test_two_versions_are_compared_by_the_elements_that_are_finite_in_both():
    """A version that gives a number where the other gives NaN must not pay for its error there."""
    reference = np.linspace(1, 2, 8)
    accepted, present = reference + 1e-3, reference + 1e-3
    accepted[2], present[2] = np.nan, reference[2] + 1
    found = measure_pair(accepted, present, reference)
    assert (found[0].mismatched, found[1].mismatched) == (1, 0)
    assert found[0].metrics == found[1].metrics == measure_seed(accepted, reference).metrics
    alone = measure_pair(np.array(np.nan), np.array(1.1), np.array(1.0))
    assert [(each.metrics, each.mismatched) for each in alone] == [({}, 1), ({}, 0)]
