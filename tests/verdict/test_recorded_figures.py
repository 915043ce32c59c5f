"""Recorded figures: the ratio of errors, by hand, for each way in which a figure shows one."""

import pytest

from precreg.types import (
    BaselineOutput,
    Bound,
    Comparison,
    FigureMoved,
    Location,
    MetricDescription,
    Reason,
    RecordedFigures,
    Tolerance,
)
from precreg.verdict.recorded_figures import moved_figures, unusable_figures

OWN_METRICS = (("higher.score", "", "higher"), ("higher.share", "1", "higher"), ("lower.bad", "", "lower"))
OWN = tuple(
    MetricDescription(name, unit, "column", better, "table")
    for name, unit, better in (
        ("higher.score", "", "higher"),
        ("higher.share", "1", "higher"),
        ("lower.bad", "", "lower"),
    )
)


def row(metric, value, **source):
    figures = RecordedFigures("t.csv", 7, (metric,), **source)
    return Comparison("out", 0, "float16", (9,), "float16", (9,), {metric: value}, described=OWN, figures=figures)


def tolerance(metric, growth, **directions):
    at = Location("t")
    zero = Bound("rtol", 0.0, "t", at), Bound("atol", 0.0, "t", at)
    return Tolerance(*zero, (), {} if growth is None else {metric: growth}, directions=directions)


def moved(metric, before, now, growth=0.1, *, improved=False, **directions):
    accepted = BaselineOutput("float16", (9,), ["d"], {metric: [before]})
    return [*moved_figures(row(metric, now), accepted, tolerance(metric, growth, **directions), improved=improved)]


@pytest.mark.parametrize(
    ("metric", "before", "now", "ratio"),
    [
        ("mean_ulp", 0.5, 0.75, 1.5),
        ("bias", 0.5, -0.75, 1.5),
        ("equal_share", 0.75, 0.5, 2.0),
        ("mean_log2_ulp", -1.0, 1.0, 4.0),
        ("higher.score", 8.0, 2.0, 4.0),
        ("higher.share", 0.75, 0.25, 3.0),
        ("lower.bad", 2.0, 5.0, 2.5),
    ],
)
def test_a_loss_and_the_same_as_a_gain(metric, before, now, ratio):
    (lost,) = moved(metric, before, now)
    assert (lost.reason, lost.ratio, lost.limit) == (Reason.REGRESSED, ratio, 1.1)
    assert (lost.current, lost.baseline) == (now, before)
    (gained,) = moved(metric, now, before, improved=True)
    assert (gained.reason, gained.ratio) == (Reason.IMPROVED, 1 / ratio)
    assert isinstance(gained.fact, FigureMoved)
    assert not moved(metric, now, before)
    assert not moved(metric, before, now, improved=True)


@pytest.mark.parametrize("now", [0.5, 0.53])
def test_growth_within_the_limit_is_none(now):
    assert not moved("mean_ulp", 0.5, now)


@pytest.mark.parametrize(("metric", "exact", "now"), [("max_ulp", 0.0, 1e-6), ("equal_share", 1.0, 0.9999)])
def test_any_error_of_an_exact_row_is_a_loss(metric, exact, now):
    (lost,) = moved(metric, exact, now, growth=3.0)
    assert lost.ratio is None


def test_a_score_that_falls_to_nothing_has_no_ratio():
    (lost,) = moved("higher.score", 3.0, 0.0)
    assert lost.ratio is None


def test_regression_off_judges_nothing():
    assert not moved("mean_ulp", 0.5, 50.0, growth=None)


def test_gains_have_a_threshold_of_their_own():
    assert not moved("mean_ulp", 0.5, 0.4, improved=True, **{"mean_ulp better": 0.5})
    assert moved("mean_ulp", 0.5, 0.3, improved=True, **{"mean_ulp better": 0.5})


def test_empty_and_non_finite_cells_fail():
    found = [*unusable_figures(row("max_ulp", 1.0, empty=("mean_ulp",), non_finite={"bias": "nan"}))]
    assert [(each.reason, each.fact.place) for each in found] == [
        (Reason.MISSING_OUTPUT, Location("t.csv", 7)),
        (Reason.NON_FINITE_MISMATCH, Location("t.csv", 7)),
    ]
