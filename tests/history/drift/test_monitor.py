"""All outputs of a history: one finding each, worst first, with its evidence; the anchor; the exit code."""

from collections import Counter

import pytest

from precreg.errors import UserError
from precreg.history.drift import monitor
from precreg.history.drift.monitor import MAX_STEADY_DRAWN, find_anchor, judge_series
from precreg.history.drift.record import Anchor, DriftMode, DriftSettings, DriftState, drift_exit_code
from precreg.history.series import HistoryPoint, HistorySeries
from precreg.report.drift.terminal import describe_drift
from tests.history.drift.drawn import run, runs, series


def found(*histories, count=20, anchor=None, **settings):
    """Judge series of one history of so many runs."""
    return judge_series(histories, runs(count), anchor, DriftSettings(**settings))


def stepped(factor, metric="mean_abs_error", **where):
    return series([1.0] * 15 + [factor] * 5, 1.0, metric, **where)


def test_one_finding_for_each_output_with_its_metrics_as_evidence():
    judged = found(stepped(2.0), stepped(5.0, "max_abs_error"), stepped(1.5, "rms_error"), stepped(9.0, output="z"))
    assert [(one.output, one.state) for one in judged.results] == [("z", DriftState.DRIFT), ("out", DriftState.DRIFT)]
    evidence = judged.results[1].metrics
    assert [metric.metric for metric in evidence] == ["mean_abs_error", "rms_error", "max_abs_error"]
    assert all(metric.points for metric in evidence)
    message = describe_drift(judged.results[1])
    assert message.startswith(
        "mean_abs_error rose to 2 times with a step at run 16: 2 against 1; worse than the baseline, too"
    )
    assert "between runs 15 and 16; commits 0000000f..00000010" in message
    assert "also rms_error, max_abs_error" in message


def test_the_worst_comes_first_and_from_zero_before_all():
    judged = found(
        stepped(3.0, case="unit/s/a"),
        stepped(4.0, case="unit/s/b"),
        series([0.0] * 10 + [1e-9] * 10, 0.0, case="unit/s/c"),
        series([1.0] * 20, 1.0, case="unit/s/d"),
        series([2.0] * 20, 4.0, case="unit/s/e"),
        series([1.0] * 19 + [None], 1.0, case="unit/s/f"),
    )
    assert [one.case[-1] for one in judged.results] == ["c", "b", "a", "f", "e", "d"]


def test_metrics_that_are_not_judged_are_passed_over():
    judged = found(stepped(9.0, "ulp_scale"), stepped(9.0, "cosine_distance"))
    assert judged.results == ()


def test_a_case_that_the_newest_whole_runs_did_not_run_is_absent_and_not_judged():
    gone = series([1.0] * 10 + [9.0] * 8, 1.0, case="unit/s/gone")
    others = [series([1.0] * 20, 1.0, case=f"unit/s/{name}") for name in "abc"]
    judged = found(gone, *others)
    assert (judged.results[0].state, describe_drift(judged.results[0])) == (DriftState.ABSENT, "not run since run 18")
    later = found(gone, *(series([1.0] * 19, 1.0, case=f"unit/s/{name}") for name in "abc"), count=19)
    assert later.results[0].state is DriftState.DRIFT


def test_runs_of_a_few_cases_make_no_other_case_absent():
    drifting = series([1.0] * 10 + [9.0] * 5, 1.0, case="unit/s/a")
    others = [series([1.0] * 15, 1.0, case=f"unit/s/{name}") for name in "bcd"]
    alone = series([1.0] * 20, 1.0, case="unit/s/e")
    assert [one.state for one in found(drifting, *others, alone).results] == [
        DriftState.DRIFT,
        *[DriftState.STEADY] * 4,
    ]


def test_a_slight_bias_is_no_drift_and_a_large_one_is():
    error = series([1.0] * 20, 1.0)
    assert found(series([1e-6] * 10 + [1e-3] * 10, 1e-6, "bias"), error).results[0].state is DriftState.STEADY
    assert found(series([1e-6] * 10 + [0.5] * 10, 1e-6, "bias"), error).results[0].state is DriftState.DRIFT


def test_an_output_that_is_measured_in_part_says_which_metric_is_not():
    judged = found(series([1.0] * 20, 1.0), series([1.0] * 18 + [None] * 2, 1.0, "mean_ulp"))
    assert judged.results[0].state is DriftState.UNMEASURED
    assert describe_drift(judged.results[0]) == "mean_ulp is not measured since run 19"


def test_modes_are_counted():
    judged = found(series([1.0] * 20), series([1.0 + 0.01 * ((7 * at) % 20) for at in range(20)], metric="rms_error"))
    assert judged.modes == {str(DriftMode.EXACT): 1, str(DriftMode.STATISTICAL): 1}


def test_what_is_absent_is_not_counted_as_judged():
    gone = series([1.0] * 15, 1.0, case="unit/s/gone")
    judged = found(gone, *(series([1.0] * 20, 1.0, case=f"unit/s/{name}") for name in "ab"))
    assert [one.state for one in judged.results] == [DriftState.ABSENT, DriftState.STEADY, DriftState.STEADY]
    assert judged.modes == {str(DriftMode.EXACT): 2}


def test_few_steady_outputs_keep_what_is_drawn():
    many = [series([1.0] * 20, 1.0, case=f"unit/s/{number:03}") for number in range(MAX_STEADY_DRAWN + 10)]
    judged = found(*many)
    drawn = [one for one in judged.results if one.metrics]
    assert len(drawn) == MAX_STEADY_DRAWN
    assert drawn[0].metrics[0].points
    assert judged.without_points == {"steady": 10}


def test_outputs_without_points_are_counted_by_state(monkeypatch):
    monkeypatch.setattr(monitor, "MAX_WITH_POINTS", 3)
    monkeypatch.setattr(monitor, "MAX_STEADY_DRAWN", 1)
    worse = [series([1.0] * 30 + [2.0] * 10, 1.0, case=f"unit/s/worse{number}") for number in range(5)]
    better = [series([1.0] * 30 + [0.5] * 10, 1.0, case=f"unit/s/better{number}") for number in range(2)]
    steady = [series([1.0] * 40, 1.0, case=f"unit/s/steady{number}") for number in range(4)]
    # An absent output was not measured: it has no points to lose.
    gone = series([1.0] * 30, 1.0, case="unit/s/gone")
    judged = found(*better, gone, *steady, *worse, count=40)
    assert judged.without_points == {"drift": 2, "improved": 2, "steady": 3}
    without = Counter(str(one.state) for one in judged.results if not any(metric.points for metric in one.metrics))
    assert without == {"drift": 2, "improved": 2, "steady": 3, "absent": 1}
    assert found(*worse[:3], steady[0], count=40).without_points == {}


def test_runs_that_were_added_late_stand_where_they_started():
    """Numbers are names: the order is that of the runs, so the newest run here is number 1."""
    order = [run(number) for number in (3, 4, 5, 2, 1)]
    points = tuple(
        HistoryPoint(one.number, value, 1.0) for one, value in zip(order, [1.0, 1.0, 1.0, 2.0, 2.0], strict=True)
    )
    judged = judge_series([HistorySeries("unit/s/a", "out", "mean_abs_error", points)], order, None, DriftSettings())
    change = judged.results[0].metrics[0].worsenings[0].change
    assert (change.last_good, change.first_bad) == (5, 2)


def test_the_anchor_is_the_runs_of_a_commit():
    among = [run(1, commit="a" * 40), run(2, commit="b" * 40), run(3, commit="b" * 40, dirty=True), run(4)]
    assert find_anchor("v1", "b" * 40, among) == Anchor("v1", "b" * 40, (2,))
    assert find_anchor("aaaa", None, among).runs == (1,)
    assert find_anchor("2", None, among).runs == (2,)
    assert find_anchor("v1", "b" * 40, among[2:]).runs == (3,)


@pytest.mark.parametrize("name", ["v1", "aaa", "5", "c" * 40, ""])
def test_an_unknown_anchor_names_the_runs_there_are(name):
    with pytest.raises(UserError, match=r"the runs are those of bbbbbbbb \(run 2\), aaaaaaaa \(run 1\)") as raised:
        find_anchor(name, None, [run(1, commit="a" * 40), run(2, commit="b" * 40)])
    assert raised.value.slug == "unknown-anchor"


def test_a_beginning_that_two_commits_share_names_none():
    with pytest.raises(UserError, match="expected one commit"):
        find_anchor("aaaa", None, [run(1, commit="aaaa1" + "0" * 35), run(2, commit="aaaa2" + "0" * 35)])


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([DriftState.DRIFT, DriftState.UNMEASURED], 1),
        ([DriftState.STEADY, DriftState.UNMEASURED], 2),
        ([DriftState.STEADY, DriftState.IMPROVED, DriftState.ABSENT, DriftState.TOO_FEW], 0),
        ([DriftState.TOO_FEW, DriftState.ABSENT], 2),
        ([], 2),
    ],
)
def test_exit_codes(states, code):
    assert drift_exit_code(states) == code


def test_a_case_is_judged_alike_alone_and_among_others():
    many = [stepped(1.0 + number / 100, case=f"unit/s/{number:02}") for number in range(20)]
    together = {one.case: one.state for one in found(*many).results}
    assert together == {one.case: found(one).results[0].state for one in many}
    assert set(together.values()) == {DriftState.STEADY, DriftState.DRIFT}
