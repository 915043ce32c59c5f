"""Ratios to a benchmark, by hand."""

import pytest

from precreg.measure.comparison import benchmark_ratios
from precreg.measure.metrics import METRICS
from precreg.types.outcome import Comparison


def measured(dtype="float32", shape=(2000,), **metrics):
    n = 1
    for length in shape:
        n *= length
    counts = {"n": n}
    return Comparison("out", 0, dtype, shape, "float64", shape, metrics, counts)


@pytest.mark.parametrize(
    ("dtype", "floor"), [("float16", 2**-11), ("bfloat16", 2**-8), ("float32", 2**-14), ("int8", 2**-14)]
)
def test_an_error_of_the_benchmark_counts_as_at_least_the_floor(dtype, floor):
    found = benchmark_ratios(measured(dtype, mare=1.0), measured(dtype, mare=floor / 8))
    assert found["mare_ratio"] == 1 / floor
    assert benchmark_ratios(measured(dtype, mare=1.0), measured(dtype, mare=floor * 8))["mare_ratio"] == 1 / (floor * 8)


def test_maximum_mean_and_rmse():
    device, other = measured(mare=6.0, mere=3.0, rms_error=5.0), measured(mare=2.0, mere=1.5, rms_error=2.0)
    assert benchmark_ratios(device, other) == {
        "mare_ratio": 3.0,
        "mere_ratio": 2.0,
        "rms_error_ratio": 2.5,
        "rms_excess": 1.0,
        "rms_excess_3": -1.0,
    }


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
    assert benchmark_ratios(measured(rms_error=1e300), measured(rms_error=1e-300))["rms_error_ratio"] == pytest.approx(
        1e300 * 2**14
    )
    assert "mare_ratio" not in benchmark_ratios(measured(mare=1.7e308), measured(mare=0.0))


def test_all_of_them_are_metrics():
    device = measured(mare=1.0, mere=1.0, rms_error=1.0, small_value_error_share=0.0, cancellation_error_share=0.0)
    needed = {name for name, metric in METRICS.items() if metric.needs_benchmark}
    assert set(benchmark_ratios(device, device)) == needed
