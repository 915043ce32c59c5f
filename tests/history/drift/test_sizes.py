"""Sizes of metrics: 0 at best, larger when worse, and back to the metric's own unit."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.history.drift.sizes import (
    MIN_RELEVANT_MAXIMUM_RATIO,
    drift_maxima,
    drift_means,
    drift_min_ratio,
    metric_order,
    metric_size,
    size_axis,
    size_ratio,
    value_of_size,
)
from precreg.measure.metrics import METRICS, baseline_metrics
from precreg.types.metric import MetricDescription, described_metric


@pytest.mark.parametrize(
    ("metric", "of", "expected"),
    [
        ("mean_abs_error", 0.25, 0.25),
        ("match_ratio", 1.0, 0.0),
        ("match_ratio", 0.75, 0.25),
        ("equal_share", 1.5, 0.0),
        ("mean_log2_ulp", -2.0, 0.25),
        ("mean_log2_ulp", 1e9, 2.0**1000),
        ("mean_log2_ulp", -1e9, 2.0**-1000),
        ("bias", -0.5, 0.5),
    ],
)
def test_the_size_of_a_value(metric, of, expected):
    assert metric_size(METRICS[metric], of) == expected


@given(st.sampled_from([*drift_means(), *drift_maxima()]), st.floats(1e-3, 0.99))
def test_a_size_is_the_value_again(metric, of):
    assert value_of_size(METRICS[metric], metric_size(METRICS[metric], of)) == pytest.approx(of)


def test_a_history_keeps_every_metric_that_is_judged():
    assert {*drift_means(), *drift_maxima()} <= set(baseline_metrics())


OF_ANALYZERS = (
    MetricDescription("drifting.loss", "bit", "bits lost", "lower", "ours"),
    MetricDescription("drifting.share", "1", "share that is right", "higher", "ours"),
    MetricDescription("drifting.gain", "dB", "gain", "higher", "ours"),
)


def test_what_analyzers_measure_is_judged_where_its_best_value_is_known():
    loss, share, gain = map(described_metric, OF_ANALYZERS)
    assert [metric.judged for metric in (loss, share, gain)] == [True, True, False]
    assert (metric_size(loss, -3.0), metric_size(share, 0.75)) == (3.0, 0.25)
    assert drift_min_ratio(loss, 1.02) == MIN_RELEVANT_MAXIMUM_RATIO


def test_of_metrics_that_say_the_same_ours_come_first():
    names = ["drifting.share", "bias", "drifting.loss", "mean_abs_error"]
    assert sorted(names, key=metric_order) == ["mean_abs_error", "bias", "drifting.loss", "drifting.share"]


def test_ratios_from_zero():
    assert (size_ratio(0, 0), size_ratio(1e-300, 0), size_ratio(3, 2)) == (1, inf, 1.5)


def test_guards_are_wide_whatever_is_material():
    assert [drift_min_ratio(METRICS[metric], 1.02) for metric in ("mean_ulp", "max_ulp")] == [
        1.02,
        MIN_RELEVANT_MAXIMUM_RATIO,
    ]
    assert drift_min_ratio(METRICS["bias"], 9.0) == 9.0


def test_the_axis_is_logarithmic_where_every_size_allows_it():
    for sizes, is_logarithmic in (([1.0, 2.0], True), ([0.0, 2.0], False)):
        axis = size_axis(sizes)
        assert axis.is_logarithmic is is_logarithmic
        assert [axis.size(axis.place(one)) for one in sizes] == pytest.approx(sizes)
