"""The sentences of a drift monitor."""

import pytest

from precreg.history.drift import wording
from precreg.history.drift.record import DriftChange, Worsening
from precreg.history.drift.sizes import FoundWorsening
from precreg.measure.metrics import METRICS


@pytest.mark.parametrize(
    ("against", "metric", "found", "numbers", "sentence"),
    [
        (
            "recent runs",
            "rms_error",
            FoundWorsening("step", 4, 1.0, 1.1),
            (1.0, 1.1),
            "rose by 10 % with a step at run 5: 1.1 against 1",
        ),
        (
            "recent runs",
            "rms_error",
            FoundWorsening("step", 4, 1.0, 6.0),
            (1.0, 6.0),
            "rose to 6 times with a step at run 5: 6 against 1",
        ),
        (
            "recent runs",
            "rms_error",
            FoundWorsening("step", 4, 0.0, 6.0),
            (0.0, 6.0),
            "rose from 0 with a step at run 5: 6 against 0",
        ),
        (
            "recent runs",
            "match_ratio",
            FoundWorsening("step", 4, 0.0, 0.25),
            (1.0, 0.75),
            "fell with a step at run 5: 0.75 against 1",
        ),
        (
            "recent runs",
            "rms_error",
            FoundWorsening("creep", 4, 1.0, 1.5, 0.0123),
            (1.0, 1.5),
            "creeps by 1.2 % a run since run 5 and rose by 50 % so far: 1.5 against 1",
        ),
        (
            "recent runs",
            "rms_error",
            FoundWorsening("creep", 4, 0.0, 1.5),
            (0.0, 1.5),
            "creeps since run 5 and rose from 0 so far: 1.5 against 0",
        ),
        (
            "baseline",
            "rms_error",
            FoundWorsening("level", 4, 1.0, 1.5),
            (1.0, 1.5),
            "is worse than accepted, since run 5: 1.5 against 1, 1.5 times",
        ),
        (
            "anchor",
            "rms_error",
            FoundWorsening("level", 4, 0.0, 1.5),
            (0.0, 1.5),
            "is worse than at the anchor, since run 5: 1.5 against 0",
        ),
    ],
)
def test_what_became_worse(against, metric, found, numbers, sentence):
    assert wording.describe_worsening(against, METRICS[metric], found, *numbers, 5) == f"{metric} {sentence}"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (DriftChange(4, 5, "a..b"), "between runs 4 and 5; commits a..b"),
        (
            DriftChange(4, 5, "a", ("numpy 1 -> 2", "cpu x -> y")),
            "between runs 4 and 5; commit a; environment: numpy 1 -> 2, cpu x -> y",
        ),
        (DriftChange(4, 5, ""), "between runs 4 and 5"),
        (DriftChange(None, 5, "a"), "from run 5 on, the first looked at; commit a"),
    ],
)
def test_where_it_began(change, sentence):
    assert wording.describe_drift_change(change) == sentence


def test_a_finding_leads_with_how_the_metric_changed_and_then_says_what_else_it_is_worse_than():
    change = DriftChange(4, 5, "a..b")
    baseline, anchor, recent = (
        Worsening(against, "level", 1.0, 2.0, 2.0, f"({against})", change)
        for against in ("baseline", "anchor", "recent runs")
    )
    where = "between runs 4 and 5; commits a..b"
    assert wording.describe_drift([baseline, anchor, recent]) == (
        f"(recent runs); worse than accepted and than at the anchor, too; {where}"
    )
    assert wording.describe_drift([baseline, anchor]) == f"(baseline); worse than at the anchor, too; {where}"
    assert wording.describe_drift([anchor]) == f"(anchor); {where}"


def test_runs_are_counted():
    assert [wording.count_runs(number) for number in (1, 2)] == ["1 run", "2 runs"]
