"""The changes of whole stored series: kinds, directions, places, and changes of several metrics."""

import math
import random

import pytest

from precreg.history.drift import look_back
from precreg.report.drift.hindsight import describe_hindsight_change
from tests.history.drift.drawn import FACTS, run, runs, series


def changes(*histories, count=None, among=None):
    """Return the changes of each output."""
    among = runs(count or len(histories[0].points)) if among is None else among
    return {one.output: one.changes for one in look_back(histories, among, 1.02)[0]}


def test_a_step_has_its_run_commits_date_sizes_and_direction():
    (change,) = changes(series([0.01] * 20 + [0.03] * 20))["out"]
    assert (change.kind, change.worse, change.ratio) == ("step", True, pytest.approx(3))
    assert (change.change.last_good, change.change.first_bad) == (20, 21)
    assert change.change.commits == "00000014..00000015"
    assert change.started.startswith("2026-11-22")
    assert (change.before, change.after) == pytest.approx((0.01, 0.03))
    assert describe_hindsight_change(change) == (
        "mean_abs_error regressed with a step at run 21: 0.01 -> 0.03, 3 times"
    )


def test_repaired_and_accepted_losses_are_found_long_after():
    values = [1.0] * 30 + [2.0] * 10 + [1.0] * 60 + [1.5] * 30
    (found,) = changes(series(values, values)).values()
    assert [(one.change.first_bad, one.worse) for one in found] == [(31, True), (41, False), (101, True)]


def test_a_slope_is_one_change_with_its_last_run():
    drawn = random.Random(1)
    values = [math.exp(drawn.gauss(0, 0.01) + 0.01 * min(max(0, at - 39), 50)) for at in range(140)]
    (change,) = changes(series(values))["out"]
    assert (change.kind, change.worse) == ("slope", True)
    assert abs(change.change.first_bad - 41) <= 5
    assert abs(change.until - 90) <= 5
    assert change.ratio == pytest.approx(math.exp(0.5), rel=0.05)
    assert "on a slope from run" in describe_hindsight_change(change)


def test_a_match_ratio_that_falls_regressed():
    (change,) = changes(series([0.99] * 20 + [0.9] * 20, metric="match_ratio"))["out"]
    assert change.worse
    assert (change.before, change.after) == pytest.approx((0.99, 0.9))


@pytest.mark.parametrize(("before", "after"), [(0.0, 1e-9), (1e-9, 0.0)])
def test_changes_from_and_to_zero_have_no_ratio(before, after):
    (change,) = changes(series([before] * 20 + [after] * 20))["out"]
    assert (change.ratio, change.worse) == (None, after > before)


def test_metrics_that_change_together_are_one_change():
    found = changes(
        series([1.0] * 20 + [2.0] * 20),
        series([1.0] * 21 + [5.0] * 19, metric="rms_error"),
        series([1.0] * 10 + [0.1] * 30, metric="max_abs_error"),
    )["out"]
    assert [(one.metric, one.also) for one in found] == [("max_abs_error", ()), ("mean_abs_error", ("rms_error",))]


def test_missing_values_machines_and_constants_are_no_changes():
    assert changes(series([1.0] * 60), series([None] * 60, output="b")) == {}
    among = runs(60, fingerprint={number: f"f{number % 2}" for number in range(1, 61)})
    assert changes(series([1.0 + number % 2 for number in range(1, 61)]), among=among) == {}
    gaps = [None if at % 5 == 0 else 1.0 + (at > 30) for at in range(60)]
    assert [one.change.first_bad for one in changes(series(gaps))["out"]] == [32]


def test_the_environment_that_changed_with_it_is_named():
    among = runs(20)[:12] + [run(number, "f2", facts=FACTS | {"numpy": "2.4.6"}) for number in range(13, 21)]
    (change,) = changes(series([1.0] * 12 + [1.2] * 8), among=among)["out"]
    assert change.change.environment == ("numpy 2.4.5 -> 2.4.6",)


def test_series_are_counted():
    assert look_back([series([1.0] * 9), series([None] * 9, output="b")], runs(9), 1.02) == ((), 1)
