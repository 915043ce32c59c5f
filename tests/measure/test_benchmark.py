"""Ratios to a benchmark, by hand."""

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.measure.comparison import add_benchmark, benchmark_ratios, compare_arrays, require_benchmark
from precreg.measure.metrics import METRICS
from precreg.types.outcome import Comparison


def measured(dtype="float32", shape=(2000,), **metrics):
    n = 1
    for length in shape:
        n *= length
    counts = {"n": n}
    return Comparison("out", 0, dtype, shape, "float64", shape, metrics, counts)


ERRORS = ("max_abs_error", "mean_abs_error", "rms_error", "mare", "mere")
DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "float8_e4m3fn", "int8", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("error", ERRORS)
def test_a_plain_ratio_has_no_floor_in_any_dtype(dtype, error):
    """As small as the least float64, and far below each floor of msprobe."""
    for size in (5e-324, 1e-300, 1e-12, 2.0**-30, 1.0, 1e300):
        found = benchmark_ratios(measured(dtype, **{error: 2 * size}), measured(dtype, **{error: size}))
        assert found[f"{error}_ratio"] == 2.0


@pytest.mark.parametrize("error", ERRORS)
def test_an_exact_benchmark(error):
    """Two exact results are equally good; any error is infinitely worse than none, and no metric is infinite."""
    assert benchmark_ratios(measured(**{error: 0.0}), measured(**{error: 0.0}))[f"{error}_ratio"] == 1.0
    assert f"{error}_ratio" not in benchmark_ratios(measured(**{error: 1e-9}), measured(**{error: 0.0}))
    assert benchmark_ratios(measured(**{error: 0.0}), measured(**{error: 1e-9}))[f"{error}_ratio"] == 0.0


@pytest.mark.parametrize(("dtype", "floor"), [("float16", 2**-11), ("bfloat16", 2**-8), ("float32", 2**-14)])
@pytest.mark.parametrize("error", ["mare", "mere", "rms_error"])
def test_an_error_of_the_benchmark_counts_as_at_least_the_floor(dtype, floor, error):
    def ratio(size):
        found = benchmark_ratios(measured(dtype, **{error: 1.0}), measured(dtype, **{error: size}))
        return found[f"floored_{error}_ratio"]

    assert ratio(0.0) == ratio(floor / 8) == ratio(floor) == 1 / floor
    assert ratio(floor * 8) == 1 / (floor * 8)


@pytest.mark.parametrize("dtype", ["float64", "int8", "complex64"])
def test_msprobe_has_no_floor_for_other_dtypes(dtype):
    found = benchmark_ratios(measured(dtype, mare=1.0), measured(dtype, mare=1.0))
    assert found == {"mare_ratio": 1.0}


def test_maximum_mean_and_rmse():
    device, other = measured(mare=6.0, mere=3.0, rms_error=5.0), measured(mare=2.0, mere=1.5, rms_error=2.0)
    assert benchmark_ratios(device, other) == {
        "mare_ratio": 3.0,
        "floored_mare_ratio": 3.0,
        "mere_ratio": 2.0,
        "floored_mere_ratio": 2.0,
        "rms_error_ratio": 2.5,
        "floored_rms_error_ratio": 2.5,
        "rms_excess": 1.0,
        "rms_excess_3": -1.0,
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_result_1_58_times_worse(dtype):
    """Arrays: the plain ratios show the loss. With msprobe's floor the loss is a gain, or nothing at all."""
    reference = np.linspace(1, 2, 4000, dtype=np.longdouble)
    noise = np.random.default_rng(0).normal(size=4000) * float(np.finfo(dtype).eps)
    before, after = ((reference * (1 + size * noise)).astype(dtype) for size in (20, 31.6))
    compared = [compare_arrays(each, reference, rtol=0, atol=0) for each in (after, before)]
    found = add_benchmark(*compared)
    for error in ERRORS:
        assert found.metrics[f"{error}_ratio"] == pytest.approx(1.58, abs=0.03), error
        assert found.benchmark[error] == compared[1].metrics[error]
    floored = [value for name, value in found.metrics.items() if name.startswith("floored_")]
    assert (max(floored) < 0.5) if dtype == "float32" else floored == []


def test_a_benchmark_that_cannot_be_measured_is_refused():
    reference = np.linspace(1, 2, 12)
    for other, words in (
        (reference[:6], r"\(12,\) but got shape=\(6,\)"),
        (np.where(reference > 1.5, np.nan, reference), "6 of 12 elements differ"),
        (np.where(reference > 1.5, np.inf, reference), "6 of 12 elements differ"),
    ):
        with pytest.raises(UserError, match=f"b.npy: expected .*{words}") as caught:
            require_benchmark(compare_arrays(other, reference, rtol=0, atol=0), "b.npy")
        assert caught.value.slug == "bad-outputs"


@pytest.mark.parametrize(
    ("device", "other", "ratio"), [(6, 3, 2.0), (7, 3, 7 / 3), (2, 0, 2.0), (0, 0, 0.0), (1, 1, 1.0)]
)
@pytest.mark.parametrize("region", ["small_value", "cancellation"])
def test_errors_of_a_region_are_counted_against_the_benchmarks_and_at_least_one(region, device, other, ratio):
    share, n = f"{region}_error_share", 2000
    found = benchmark_ratios(measured(**{share: device / n}), measured(**{share: other / n}))
    assert found == {f"{region}_error_ratio": ratio}


@pytest.mark.parametrize(
    ("dtype", "shape", "multiple"),
    [
        ("float32", (1000,), 2),
        ("float32", (999,), 3),
        ("float16", (1000,), 3),
        ("bfloat16", (1000,), 3),
        ("float64", (1000,), 2),
        ("float32", (20, 50, 1, 1), 3),
        ("float32", (20, 50, 1), 2),
        ("float32", (1, 1, 1000, 1), 2),
    ],
)
def test_what_rmse_exceeds_dynamos_multiple_by(dtype, shape, multiple):
    found = benchmark_ratios(measured(dtype, shape, rms_error=10.0), measured(dtype, shape, rms_error=1.0))
    assert (found["rms_excess"], found["rms_excess_3"]) == (10.0 - multiple, 7.0)


def test_what_was_not_defined_for_either_is_left_out():
    assert benchmark_ratios(measured(mare=1.0), measured(mere=1.0)) == {}
    assert benchmark_ratios(measured(), measured(mare=1.0)) == {}
    found = benchmark_ratios(measured(rms_error=1e300), measured(rms_error=1e-300))
    assert found["floored_rms_error_ratio"] == pytest.approx(1e300 * 2**14)
    assert "rms_error_ratio" not in found
    assert "mare_ratio" not in benchmark_ratios(measured(mare=1.7e308), measured(mare=0.5))


def test_all_of_them_are_metrics():
    device = measured(**dict.fromkeys(ERRORS, 1.0), small_value_error_share=0.0, cancellation_error_share=0.0)
    needed = {name for name, metric in METRICS.items() if metric.needs_benchmark}
    assert set(benchmark_ratios(device, device)) == needed
