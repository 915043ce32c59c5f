from __future__ import annotations

import math
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.baseline.entry import SKETCH_BYTES, entry_from, error_sketches
from precreg.baseline.suite_file import baseline_header
from precreg.baseline.text import render_baseline
from precreg.measure.metrics import METRICS, baseline_metrics
from precreg.types.outcome import AxisGroups, Comparison, Execution, Histogram, Outcome


def comparison(output="out", seed=0, metrics=None, histogram=None):
    return Comparison(output, seed, "float16", (8, 2), "float64", (8, 2), metrics or {}, histogram=histogram)


def test_every_metric_that_is_kept_is_measured():
    assert set(baseline_metrics()) <= set(METRICS)


def test_lists_run_over_the_seeds_in_their_order():
    comparisons = (comparison(seed=1, metrics={"bias": 2.0}), comparison(seed=0, metrics={"bias": 1.0}))
    execution = Execution(("i0", "i1"), {"out": ("d0", "d1")}, 0.125)
    entry = entry_from(Outcome("unit/a/x", "1:aa", execution, comparisons), "6f2a", "0c1d")
    assert (entry.definition, entry.inputs, entry.fingerprint, entry.duration_s) == (
        "1:aa",
        ["i0", "i1"],
        "6f2a",
        0.125,
    )
    assert (entry.reason, entry.author, entry.date, entry.commit) == ("", "", "", "0c1d")
    output = entry.outputs["out"]
    assert (output.dtype, output.shape, output.digests) == ("float16", (8, 2), ["d0", "d1"])
    assert list(output.metrics) == list(baseline_metrics())
    assert output.metrics["bias"] == [1.0, 2.0]


def test_a_metric_that_is_undefined_or_not_finite_is_none():
    metrics = {"bias": math.nan, "max_ulp": math.inf}
    outcome = Outcome("unit/a/x", "1:aa", Execution(("i0",), {"out": ("d0",)}), (comparison(metrics=metrics),))
    assert set(map(tuple, entry_from(outcome, "", "").outputs["out"].metrics.values())) == {(None,)}


def test_a_sketch_adds_the_counts_of_all_seeds():
    seeds = [comparison(histogram=Histogram(1, [3, 5], [10, 20])), comparison(histogram=Histogram(2, [5, 9], [1, 2]))]
    assert error_sketches({"out": seeds}) == {"out": Histogram(3, [3, 5, 9], [10, 21, 2])}


def test_a_seed_without_a_histogram_adds_nothing():
    assert error_sketches({"out": [comparison(), comparison(histogram=Histogram(1, [3], [4]))]}) == {
        "out": Histogram(1, [3], [4])
    }


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 3000), st.integers(0, 2**45))
def test_a_long_sketch_is_coarsened_and_loses_no_count(outputs, bins, count):
    full = Histogram(5, list(range(8187 - bins, 8187)), [count] * bins)
    coarse = error_sketches({f"out{number}": [comparison(histogram=full)] for number in range(outputs)})
    assert len(msgspec.json.encode(coarse)) <= SKETCH_BYTES
    assert len(coarse) == outputs
    for histogram in coarse.values():
        assert (histogram.zeros, sum(histogram.counts)) == (5, count * bins)
        assert histogram.bins == sorted(set(histogram.bins))


def test_coarse_bins_hold_the_neighbours_of_their_number():
    full = Histogram(0, list(range(4000, 6000)), list(range(2000)))
    coarse = error_sketches({"out": [comparison(histogram=full)]})["out"]
    width = coarse.bins[1] - coarse.bins[0]
    expected = Counter[int]()
    for bin, count in zip(full.bins, full.counts, strict=True):
        expected[bin - bin % width] += count
    assert width & (width - 1) == 0
    assert dict(zip(coarse.bins, coarse.counts, strict=True)) == expected


def test_a_case_with_too_many_outputs_for_any_sketch_has_none():
    assert error_sketches({f"out{n}": [comparison(histogram=Histogram(0, [1], [1]))] for n in range(400)}) == {}


def test_what_nobody_reads_has_at_most_8_kib_a_case():
    long = [1 / number for number in range(1, 17)]
    axes = tuple(AxisGroups([9] * 16, long, long, long, long, long) for _ in range(4))
    comparisons = tuple(
        replace(
            comparison(f"out{n}", seed, histogram=Histogram(0, list(range(4000, 5000)), [2**30] * 1000)),
            shape=(16, 16, 16, 16),
            groups=axes,
        )
        for n in range(9)
        for seed in range(5)
    )
    digests = {c.output: ("d",) * 5 for c in comparisons}
    entry = entry_from(Outcome("unit/a/x", "1:aa", Execution(("i",) * 5, digests), comparisons), "", "")
    lines = render_baseline(baseline_header("generic", "unit/a"), {"x": entry}).encode().split(b"\n")
    sketch, groups = (
        next(line for line in lines if line.startswith(b'      "%b"' % key)) for key in (b"sketch", b"groups")
    )
    assert len(sketch) > 1500
    assert len(groups) > 2500
    assert len(sketch) + len(groups) <= 8192
    assert {(axis.axis, axis.joined) for axes in entry.groups.values() for axis in axes} == {(0, 4)}


def test_group_sums_are_kept_as_exactly_as_there_is_room():
    axes = tuple(AxisGroups([9] * 16, *[[1.0] * 16] * 5) for _ in range(2))
    one = replace(comparison("out"), shape=(16, 16), groups=axes)
    entry = entry_from(Outcome("unit/a/x", "1:aa", Execution(("i",), {"out": ("d",)}), (one,)), "", "")
    assert [(axis.axis, axis.joined) for axis in entry.groups["out"]] == [(0, 1), (1, 1)]
    many = tuple(replace(one, output=f"out{n}") for n in range(200))
    digests = {each.output: ("d",) for each in many}
    assert entry_from(Outcome("unit/a/x", "1:aa", Execution(("i",), digests), many), "", "").groups == {}
