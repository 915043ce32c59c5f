"""Several runs of one output together: what one array with all of their elements gives."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.measure.comparison import AVERAGES, add_worst_metrics, compare_arrays, compare_runs
from precreg.measure.groups import GROUP_SUMS
from precreg.types.metric import MetricDescription
from precreg.types.outcome import Comparison

SHAPE = (5, 7)
OPTIONS = {"output": "out", "seed": 0, "rtol": 1e-6, "atol": 0.0}


def drawn(count, seed=0):
    """Return a reference, and runs that are off by some ULP, each in its own way."""
    generator = np.random.default_rng(seed)
    reference = generator.normal(size=SHAPE).astype(np.float32)
    noise = generator.normal(size=(count, *SHAPE)) * 3e-7
    return reference, [(reference * (1 + each)).astype(np.float32) for each in noise]


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(0, 99))
def test_metrics_counts_and_histogram_are_those_of_all_elements(count, seed):
    reference, runs = drawn(count, seed)
    pooled = compare_runs(runs, reference, **OPTIONS)
    whole = compare_arrays(np.stack(runs), np.stack([reference] * count), **OPTIONS)
    assert pooled.metrics == pytest.approx(whole.metrics, rel=1e-12)
    assert (pooled.counts, pooled.histogram) == (whole.counts, whole.histogram)
    assert (pooled.shape, pooled.reference_shape) == (SHAPE, SHAPE)


def test_means_are_means_over_runs_and_maxima_the_largest():
    reference, runs = drawn(4)
    pooled, alone = (
        compare_runs(runs, reference, **OPTIONS),
        [compare_arrays(run, reference, **OPTIONS) for run in runs],
    )
    for metric in ("mean_abs_error", "mean_ulp", "mean_log2_ulp", "bias", "match_ratio", "mse"):
        assert pooled.metrics[metric] == pytest.approx(np.mean([one.metrics[metric] for one in alone]), rel=1e-9)
    worst = max(alone, key=lambda one: one.metrics["max_abs_error"])
    assert pooled.metrics["max_abs_error"] == worst.metrics["max_abs_error"]
    assert pooled.places["max_abs_error"] == worst.places["max_abs_error"]
    assert pooled.metrics["max_ulp"] == max(one.metrics["max_ulp"] for one in alone)


def test_averages_are_kept_of_each_run():
    reference, runs = drawn(3)
    pooled, alone = (
        compare_runs(runs, reference, **OPTIONS),
        [compare_arrays(run, reference, **OPTIONS) for run in runs],
    )
    assert pooled.runs == tuple({name: one.metrics[name] for name in AVERAGES} for one in alone)
    assert msgspec.json.decode(msgspec.json.encode(pooled), type=Comparison) == pooled


def test_sums_of_groups_are_means_over_runs():
    """So that a baseline of one run and a measurement of four have sums of one scale."""
    reference, runs = drawn(4)
    pooled, alone = (
        compare_runs(runs, reference, **OPTIONS),
        [compare_arrays(run, reference, **OPTIONS) for run in runs],
    )
    for axis, groups in enumerate(pooled.groups):
        assert groups.n == alone[0].groups[axis].n
        for name in GROUP_SUMS:
            means = np.mean([getattr(one.groups[axis], name) for one in alone], axis=0)
            assert getattr(groups, name) == pytest.approx(means, rel=1e-9, abs=1e-15)


def test_the_same_run_again_changes_no_metric():
    reference, (run, *_) = drawn(1)
    once, thrice = (compare_runs([run] * times, reference, **OPTIONS) for times in (1, 3))
    assert replace(once, runs=()) == compare_arrays(run, reference, **OPTIONS)
    assert thrice.metrics == pytest.approx(once.metrics, rel=1e-12)
    assert thrice.counts["n"] == 3 * once.counts["n"]


def test_what_one_run_alone_does_wrong_is_seen():
    reference, runs = drawn(3)
    runs[1][2, 3] = np.nan
    pooled = compare_runs(runs, reference, **OPTIONS)
    assert pooled.counts["nan_mismatched"] == 1
    assert pooled.non_finite.index == [2 * 7 + 3]
    odd = compare_runs([runs[0], runs[2][:4]], reference, **OPTIONS)
    assert (odd.shape, odd.metrics) == ((4, 7), {})
    narrow = compare_runs([runs[0], runs[2].astype(np.float16)], reference, **OPTIONS)
    assert narrow.dtype == "float16"


def test_of_an_analyzers_metrics_the_worst_run_counts():
    reference, runs = drawn(3)
    lower, higher = MetricDescription("a.low", "1", "", "lower", ""), MetricDescription("a.high", "1", "", "higher", "")
    described = (lower, higher, MetricDescription("a.some", "1", "", "lower", ""))
    figures = ({"a.low": 1.0, "a.high": 5.0}, {"a.low": 3.0, "a.high": 4.0, "a.some": 1.0})
    each = [
        replace(compare_arrays(run, reference, **OPTIONS), metrics=given, described=described)
        for run, given in zip(runs, figures, strict=False)
    ]
    metrics = add_worst_metrics(compare_runs(runs, reference, **OPTIONS), each).metrics
    assert (metrics["a.low"], metrics["a.high"], "a.some" in metrics) == (3.0, 4.0, False)
    assert "mean_abs_error" in metrics
