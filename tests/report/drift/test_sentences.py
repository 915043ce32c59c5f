"""The sentences of a drift monitor."""

import pytest
from msgspec.structs import replace

from precreg.history.drift.record import DriftChange, DriftMode, DriftState, MetricDrift, OutputDrift, Worsening
from precreg.report.drift.terminal import describe_drift, describe_metric_drift, describe_worsening

CHANGE = DriftChange(4, 5, "a..b")


@pytest.mark.parametrize(
    ("metric", "worse", "sentence"),
    [
        (
            "rms_error",
            Worsening("recent runs", "step", 1.0, 1.1, 1.1, CHANGE),
            "rose by 10 % with a step at run 5: 1.1 against 1",
        ),
        (
            "rms_error",
            Worsening("recent runs", "step", 1.0, 6.0, 6.0, CHANGE),
            "rose to 6 times with a step at run 5: 6 against 1",
        ),
        (
            "rms_error",
            Worsening("recent runs", "step", 0.0, 6.0, None, CHANGE),
            "rose from 0 with a step at run 5: 6 against 0",
        ),
        (
            "match_ratio",
            Worsening("recent runs", "step", 1.0, 0.75, None, CHANGE),
            "fell with a step at run 5: 0.75 against 1",
        ),
        (
            "rms_error",
            Worsening("recent runs", "slope", 1.0, 1.5, 1.5, CHANGE, 0.0123),
            "rose by 50 % on a slope of 1.2 % a run since run 5: 1.5 against 1",
        ),
        (
            "rms_error",
            Worsening("recent runs", "creep", 0.0, 1.5, None, CHANGE),
            "rose from 0 on a slope since run 5: 1.5 against 0",
        ),
        (
            "rms_error",
            Worsening("baseline", "level", 1.0, 1.5, 1.5, CHANGE),
            "is worse than the baseline, since run 5: 1.5 against 1, 1.5 times",
        ),
        (
            "rms_error",
            Worsening("anchor", "level", 0.0, 1.5, None, CHANGE),
            "is worse than at the anchor, since run 5: 1.5 against 0",
        ),
    ],
)
def test_what_became_worse(metric, worse, sentence):
    assert describe_worsening(metric, worse) == f"{metric} {sentence}"


def drift(*worsenings, others=()):
    """Return an output with these worsenings of its first metric, and other metrics that drift."""
    first = MetricDrift("rms_error", DriftState.DRIFT, DriftMode.EXACT, 9, worsenings)
    metrics = (first, *(replace(first, metric=name) for name in others))
    return OutputDrift("unit/s/a", "out", DriftState.DRIFT, metrics)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (DriftChange(4, 5, "a..b"), "between runs 4 and 5; commits a..b"),
        (
            DriftChange(4, 5, "a", ("numpy 1 -> 2", "cpu x -> y")),
            "between runs 4 and 5; commit a; environment: numpy 1 -> 2, cpu x -> y",
        ),
        (DriftChange(4, 5, ""), "between runs 4 and 5"),
        (DriftChange(None, 5, "a"), "from run 5 on, the first of the window; commit a"),
    ],
)
def test_where_it_began(change, sentence):
    found = drift(Worsening("recent runs", "level", 1.0, 2.0, 2.0, change))
    assert describe_drift(found) == f"rms_error is worse than before, since run 5: 2 against 1, 2 times; {sentence}"


def test_a_finding_leads_with_how_the_metric_changed_and_then_says_what_else_it_is_worse_than():
    baseline, anchor, recent = (
        Worsening(against, "level", 1.0, 2.0, 2.0, CHANGE) for against in ("baseline", "anchor", "recent runs")
    )
    where = "between runs 4 and 5; commits a..b"
    numbers = "since run 5: 2 against 1, 2 times"
    assert describe_drift(drift(baseline, anchor, recent)) == (
        f"rms_error is worse than before, {numbers}; worse than the baseline and than at the anchor, too; {where}"
    )
    assert describe_drift(drift(baseline, anchor)) == (
        f"rms_error is worse than the baseline, {numbers}; worse than at the anchor, too; {where}"
    )
    assert describe_drift(drift(anchor)) == f"rms_error is worse than at the anchor, {numbers}; {where}"
    assert describe_drift(drift(anchor, others=("bias", "max_ulp"))).endswith(f"{where}; also bias, max_ulp")


def test_runs_are_counted():
    few = [MetricDrift("bias", DriftState.TOO_FEW, DriftMode.FEW, number) for number in (1, 2)]
    assert [*map(describe_metric_drift, few)] == [
        "1 run is too few to judge bias",
        "2 runs are too few to judge bias",
    ]
