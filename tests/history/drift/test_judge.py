"""Does one metric drift? Known histories, properties, and the cases in which an alarm would be wrong."""

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from precreg.history.drift.record import DriftMode, DriftState
from precreg.measure.metrics import METRICS
from precreg.report.drift.terminal import describe_metric_drift, describe_worsening
from tests.history.drift.drawn import FACTS, drifts, first_alarm, judged, run, runs

LEVEL = 0.01


def noise(seed, count, size, level=LEVEL):
    drawn = random.Random(seed)
    return [level * math.exp(drawn.gauss(0, size)) for _ in range(count)]


def worst(found, against):
    return next(worse for worse in found.worsenings if worse.against == against)


def test_a_constant_is_steady_and_judged_exactly():
    found = judged([LEVEL] * 60, LEVEL)
    assert (found.state, found.mode, found.runs) == (DriftState.STEADY, DriftMode.EXACT, 60)


def test_an_exact_step_is_told_by_the_second_run_with_its_place():
    values = [LEVEL] * 39 + [1.1 * LEVEL] * 21
    assert first_alarm(values, LEVEL) == 41
    assert first_alarm(values) == 41
    assert first_alarm(values, confirm=5) == 44
    found = judged(values, LEVEL)
    for against in ("baseline", "recent runs"):
        worse = worst(found, against)
        assert (worse.change.last_good, worse.change.first_bad) == (39, 40)
        assert worse.change.commits == "00000027..00000028"
        assert worse.ratio == pytest.approx(1.1)
    assert worst(found, "recent runs").kind == "step"


@pytest.mark.parametrize("confirm", [5, 8, 20])
@pytest.mark.parametrize("accepted", [None, LEVEL])
def test_a_noisy_step_is_not_told_before_it_is_confirmed(confirm, accepted):
    for seed in range(4):
        values = [value * (1.1 if at >= 29 else 1) for at, value in enumerate(noise(seed, 60, 0.002))]
        assert 29 + confirm <= first_alarm(values, accepted, confirm=confirm) <= 31 + confirm


def test_a_step_within_the_materiality_ratio_is_no_drift():
    values = [LEVEL] * 30 + [1.019 * LEVEL] * 30
    assert not drifts(values, LEVEL)
    assert drifts(values, LEVEL, materiality=1.01)


@pytest.mark.parametrize(("every", "told"), [(1, 9), (5, 13)])
def test_an_exact_creep_is_found_though_each_step_is_small(every, told):
    values = [LEVEL * 1.01 ** (at // every) for at in range(60)]
    assert first_alarm(values, LEVEL) == told
    assert first_alarm(values) <= 25
    worse = worst(judged(values), "recent runs")
    assert worse.kind == "slope"
    assert worse.a_run == pytest.approx(1.01 ** (1 / every) - 1, rel=0.05)
    assert worse.change.first_bad <= 6


def test_a_creep_among_noise_is_found_and_dated():
    values = noise(1, 60, 0.01)
    values = [value * 1.01 ** max(0, at - 20) for at, value in enumerate(values)]
    assert first_alarm(values) <= 32
    worse = worst(judged(values), "recent runs")
    assert worse.kind == "slope"
    assert abs(worse.change.first_bad - 22) <= 3
    assert worse.a_run == pytest.approx(0.01, rel=0.1)


def test_a_step_among_noise_is_found_and_dated():
    values = [value * (1.1 if at >= 39 else 1) for at, value in enumerate(noise(2, 60, 0.02))]
    found = judged(values)
    assert found.mode is DriftMode.STATISTICAL
    worse = worst(found, "recent runs")
    assert (worse.kind, worse.change.first_bad) == ("step", 40)


@pytest.mark.parametrize("place", [0, 1, 29, 57, 58, 59])
@pytest.mark.parametrize("size", [0.0, 0.01])
@pytest.mark.parametrize("factor", [10, 0.1])
def test_one_outlier_is_no_drift(place, size, factor):
    values = noise(3, 60, size)
    values[place] *= factor
    if place == 0 and factor < 1 and size == 0:
        # Nothing but the first run of an exact series says that it was an outlier.
        assert not drifts(values[:1], LEVEL)
        return
    assert first_alarm(values, LEVEL, among=one_commit(60)) is None


def one_commit(count):
    """Return runs of one commit: a deviating run of an exact series is an outlier until it repeats."""
    return runs(count, commit=dict.fromkeys(range(1, count + 1), "ab" * 20))


def test_two_outliers_apart_are_no_drift():
    values = [LEVEL] * 60
    values[20] = values[40] = 1.0
    assert first_alarm(values, LEVEL, among=one_commit(60)) is None


def test_a_large_step_of_an_exact_series_is_reported_at_its_first_run_if_the_code_changed():
    values = [LEVEL] * 20 + [2 * LEVEL] * 3
    assert first_alarm(values) == 21
    assert first_alarm(values, confirm=3) == 21
    assert first_alarm(values, among=one_commit(23)) == 22
    assert first_alarm([LEVEL] * 22 + [1.4 * LEVEL] * 3) == 24
    dirty = [run(number, commit="ab" * 20, dirty=number > 20) for number in range(1, 24)]
    assert first_alarm(values, among=dirty) == 21


def test_a_large_step_at_the_third_run_is_reported_once_it_repeats():
    assert first_alarm([LEVEL, LEVEL, 2 * LEVEL, 2 * LEVEL]) == 4
    assert first_alarm([LEVEL, LEVEL, LEVEL, 2 * LEVEL]) == 4


def test_every_large_step_is_reported_with_its_own_run():
    values = [1.0] * 4 + [3.0] + [9.0] * 2 + [9.1, 40.0]
    named = {worst(judged(values[:count]), "recent runs").change.first_bad for count in (5, 6, 8, 9)}
    assert named == {5, 6, 9}
    assert not drifts([*values[:5], 1.0])


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 1.1, 0.9, 1.0, 1.1, 1.1],
        [1.0, 1.0, 1.1, 1.1],
        [1.1, 1.1],
        [1.0, 1.0, 0.9, 1.1, 1.1, 1.0, 1.1, 1.1, 1.1],
        [0.9, 1.0, 1.0, 1.0, 0.9, 1.1, 1.1],
    ],
)
def test_values_that_repeat_on_a_coarse_grid_are_not_exact(values):
    assert first_alarm(values, 1.0) is None
    assert first_alarm(values) is None


def test_noise_on_a_coarse_grid_is_no_drift():
    drawn = random.Random(1)
    rows = [[1 + 0.1 * round(drawn.gauss(0, 0.8)) for _ in range(61)] for _ in range(30)]
    assert sum(first_alarm(row[1:], row[0]) is not None for row in rows) <= 2


@pytest.mark.parametrize("metric", ["max_rel_error", "mean_rel_error"])
def test_relative_errors_are_guards(metric):
    assert not drifts([1.0] * 10 + [3.9] * 5, 1.0, metric)
    assert drifts([1.0] * 10 + [4.1] * 5, 1.0, metric)


@pytest.mark.parametrize("size", [0.0, 0.005, 0.02])
def test_after_an_accepted_slope_the_monitor_is_quiet_until_it_goes_on(size):
    for seed in range(2):
        drawn = noise(seed, 100, size)
        values = [value * 1.01 ** (min(at, 30) + max(0, at - 70)) for at, value in enumerate(drawn)]
        accepted = [LEVEL] * 31 + [values[30]] * 69
        assert drifts(values[:31], accepted[:31])
        assert not any(drifts(values[:count], accepted[:count]) for count in range(32, 71, 2))
        assert drifts(values[:90], accepted[:90])


@pytest.mark.parametrize("size", [0.0, 0.005, 0.01])
@pytest.mark.parametrize(("begin", "end"), [(0, 60), (20, 60), (15, 40)])
def test_a_slope_is_called_one_and_a_step_is_not(size, begin, end):
    for seed in range(2):
        drawn = noise(seed, 60, size)
        sloped = [value * 1.02 ** (min(max(at, begin), end) - begin) for at, value in enumerate(drawn)]
        found = worst(judged(sloped), "recent runs")
        assert found.kind == "slope"
        # docs/drift-statistics.md: among noise a slope that ended in a short row may be drawn too long.
        is_drawn_long = size > 0 and end < 60
        assert found.a_run == pytest.approx(0.02, rel=0.4 if is_drawn_long else 0.25)
        assert abs(found.change.first_bad - begin) <= 5
        stepped = [value * (1.4 if at >= begin + 20 else 1) for at, value in enumerate(drawn)]
        assert worst(judged(stepped), "recent runs").kind == "step"


def test_noise_that_hides_a_rise_is_called_too_noisy():
    states = set()
    for seed in range(30):
        drawn, value, values = random.Random(seed), 0.0, []
        for _ in range(40):
            value = 0.9 * value + 0.1 * drawn.gauss(0, 1)
            values.append(math.exp(value))
        found = judged(values)
        states.add(found.state)
        if found.state is DriftState.TOO_NOISY:
            assert found.noise.correlation > 0.25
            assert describe_metric_drift(found).startswith(
                "mean_abs_error is too noisy to judge: neighbouring runs correlate by 0."
            )
    assert DriftState.TOO_NOISY in states


def test_noise_is_no_drift():
    alarms = [first_alarm(noise(seed, 60, 0.05), LEVEL) for seed in range(60)]
    assert sum(alarm is not None for alarm in alarms) <= 2


def test_a_flickering_series_is_judged_by_statistics():
    drawn = random.Random(4)
    values = [LEVEL * (2 if drawn.random() < 0.15 else 1) for _ in range(60)]
    found = judged(values)
    assert found.mode is DriftMode.STATISTICAL
    assert found.state is DriftState.STEADY


def test_levels_that_move_about_with_every_change_of_code_are_no_drift_and_a_large_step_is():
    drawn = random.Random(5)
    levels = [LEVEL * math.exp(drawn.gauss(0, 0.05)) for _ in range(12)]
    values = [level for level in levels for _ in range(5)]
    assert judged(values).mode is DriftMode.EXACT
    assert not drifts(values)
    assert drifts([*values, 3 * LEVEL, 3 * LEVEL])


def test_what_was_fixed_is_no_drift():
    fixed = [LEVEL] * 20 + [2 * LEVEL] * 10 + [LEVEL] * 10
    assert not drifts(fixed, LEVEL)
    assert not drifts(fixed[:32], LEVEL)
    noisy = [a * b / LEVEL for a, b in zip(noise(6, 40, 0.02), fixed, strict=True)]
    assert drifts(noisy[:30])
    assert not drifts(noisy)


def test_what_was_gained_and_lost_again_is_drift_unless_it_was_held_for_a_short_time():
    assert drifts([LEVEL] * 10 + [LEVEL / 2] * 40 + [LEVEL] * 5)
    assert drifts([LEVEL] * 40 + [LEVEL / 2] * 10 + [LEVEL] * 5)
    assert not drifts([LEVEL] * 40 + [LEVEL / 2] * 2 + [LEVEL] * 5)
    assert not drifts([LEVEL] * 40 + [LEVEL / 1.4] * 10 + [LEVEL] * 5)


def test_an_accepted_step_is_drift_against_the_anchor_alone():
    values = [LEVEL] * 39 + [1.1 * LEVEL] * 21
    accepted = [LEVEL] * 44 + [1.1 * LEVEL] * 16
    assert drifts(values[:44], accepted[:44])
    assert not drifts(values, accepted)
    found = judged(values, accepted, anchors=(1,))
    assert [worse.against for worse in found.worsenings] == ["anchor"]
    assert worst(found, "anchor").change.first_bad == 40


def test_acceptances_of_a_percent_at_a_time_are_seen_by_the_anchor():
    values = [LEVEL * 1.01**at for at in range(12) for _ in range(5)]
    assert not drifts(values, values)
    assert drifts(values, values, anchors=(1,))


def test_accepting_what_is_better_resets_nothing():
    values = [LEVEL] * 15 + [0.9 * LEVEL] * 25 + [LEVEL] * 7
    accepted = [LEVEL] * 16 + [0.9 * LEVEL] * 31
    assert [worse.against for worse in judged(values, accepted).worsenings] == ["baseline", "recent runs"]


def test_several_runs_of_the_anchor_are_one_value():
    values = [0.7, 0.9, 0.85, *[0.85] * 10]
    assert not drifts(values, anchors=(1, 2, 3))
    assert drifts(values, anchors=(1,))


def test_an_anchor_that_did_not_run_the_case_says_nothing():
    values = [None, *[LEVEL] * 10]
    assert not drifts(values, anchors=(1, 99))


def test_a_change_of_environment_at_the_change_is_named():
    among = runs(20)[:12] + [run(number, "f2", facts=FACTS | {"numpy": "2.4.6"}) for number in range(13, 21)]
    change = worst(judged([LEVEL] * 12 + [1.2 * LEVEL] * 8, among=among), "recent runs").change
    assert change.environment == ("numpy 2.4.5 -> 2.4.6",)
    elsewhere = worst(judged([LEVEL] * 9 + [1.2 * LEVEL] * 11, among=among), "recent runs").change
    assert elsewhere.environment == ()


def test_facts_that_came_and_went_are_named():
    among = runs(4)[:2] + [run(number, "f2", facts={"numpy": "2.4.5", "torch": "2.13"}) for number in (3, 4)]
    change = worst(judged([1.0, 1.0, 2.0, 2.0], among=among), "recent runs").change
    assert change.environment == ("python 3.11.9 -> none", "cpu Xeon -> none", "torch none -> 2.13")


def test_machines_that_take_turns_are_compared_with_themselves():
    among = runs(60, fingerprint={number: f"f{number % 3 // 2}" for number in range(1, 61)})
    values = [LEVEL * (1.2 if number % 3 == 2 else 1) for number in range(1, 61)]
    assert all(not drifts(values[:count], LEVEL, among=among[:count]) for count in range(1, 61))
    worse = [value * (1.1 if at >= 40 else 1) for at, value in enumerate(values)]
    assert all(drifts(worse[:count], LEVEL, among=among[:count]) for count in (48, 59, 60))


def test_a_machine_that_was_worse_from_its_first_run_on_hides_no_drift():
    among = runs(60, fingerprint={number: f"f{number % 2}" for number in range(1, 61)})
    offset = [LEVEL * (1.2 if number % 2 == 0 else 1) for number in range(1, 61)]
    gained = [LEVEL] * 20 + [0.8 * LEVEL] * 40
    assert not drifts(offset, LEVEL, among=among)
    assert drifts(offset, gained, among=among)


@pytest.mark.parametrize("factor", [1, 1.2])
def test_a_machine_that_came_after_a_loss_hides_it_not(factor):
    among = runs(
        30, fingerprint={number: f"f{number % 2}" for number in range(13, 31)} | dict.fromkeys(range(1, 13), "f0")
    )
    lost = [LEVEL] * 10 + [2 * LEVEL] * 20
    values = [value * (factor if one.fingerprint == "f1" else 1) for value, one in zip(lost, among, strict=True)]
    assert all(drifts(values[:count], LEVEL, among=among[:count]) for count in range(15, 31))


def test_an_outlier_beside_the_first_run_of_a_machine_makes_no_drift():
    among = runs(
        30, fingerprint={number: f"f{number % 2}" for number in range(13, 31)} | dict.fromkeys(range(1, 13), "f0")
    )
    values = [LEVEL * (1.2 if one.fingerprint == "f1" else 1) for one in among]
    values[11] *= 10
    assert all(not drifts(values[:count], LEVEL, among=among[:count]) for count in range(15, 31))


def test_the_anchor_of_a_machine_that_takes_turns_is_its_own():
    among = runs(40, fingerprint={number: f"f{number % 2}" for number in range(1, 41)})
    values = [LEVEL * (1.5 if number % 2 == 0 else 1) for number in range(1, 41)]
    assert not drifts(values, anchors=(1, 2), among=among)
    crept = [value * (1.1 if number > 30 else 1) for number, value in enumerate(values, 1)]
    assert {worse.against for worse in judged(crept, anchors=(1, 2), among=among).worsenings} >= {"anchor"}


def test_the_same_commit_on_both_sides_is_one_commit():
    among = runs(6, commit={number: "ab" * 20 for number in range(1, 7)})
    assert worst(judged([1.0] * 3 + [2.0] * 3, among=among), "recent runs").change.commits == "abababab"


def test_where_every_run_is_worse_no_good_one_is_named():
    change = worst(judged([2.0] * 5, 1.0), "baseline").change
    assert (change.last_good, change.first_bad) == (None, 1)


@pytest.mark.parametrize(
    ("metric", "good", "bad", "ratio"),
    [
        ("mean_abs_error", 0.0, 1e-9, None),
        ("match_ratio", 1.0, 0.99994, None),
        ("equal_share", 0.9, 0.8, 2.0),
        ("mean_log2_ulp", -2.0, -1.0, 2.0),
        ("bias", -0.1, -0.5, 5.0),
        ("bias", -0.1, 0.5, 5.0),
        ("max_abs_error", 1.0, 5.0, 5.0),
    ],
)
def test_every_kind_of_metric_is_judged_in_its_own_direction(metric, good, bad, ratio):
    found = judged([good] * 10 + [bad] * 3, good, metric)
    assert found.state is DriftState.DRIFT
    assert all(worse.ratio == (None if ratio is None else pytest.approx(ratio)) for worse in found.worsenings)
    assert worst(found, "recent runs").now == pytest.approx(abs(bad) if metric == "bias" else bad)
    better = judged([bad] * 10 + [good] * 3, bad, metric)
    assert better.state is DriftState.IMPROVED


@pytest.mark.parametrize("metric", ["max_abs_error", "max_ulp", "bias"])
def test_maxima_and_bias_are_guards(metric):
    assert not drifts([1.0] * 10 + [3.9] * 5, 1.0, metric)
    assert drifts([1.0] * 10 + [4.1] * 5, 1.0, metric)


def test_every_metric_that_is_judged_is_measured():
    from precreg.history.drift.sizes import drift_maxima, drift_means

    assert {*drift_means(), *drift_maxima()} <= set(METRICS)


def test_runs_without_a_value_are_passed_over_and_at_the_end_told():
    values = [LEVEL, None, LEVEL, None, LEVEL]
    assert judged(values, LEVEL).state is DriftState.STEADY
    found = judged([*values, None, None], LEVEL)
    assert (found.state, found.since) == (DriftState.UNMEASURED, 6)
    assert describe_metric_drift(found) == "mean_abs_error is not measured since run 6"
    assert judged([None, None]) is None


def test_drift_that_is_no_longer_measured_is_still_drift():
    assert drifts([LEVEL] * 5 + [2 * LEVEL] * 2 + [None], LEVEL)


def test_too_few_noisy_runs_say_so():
    found = judged([1.0, 1.1, 0.9, 1.05], 1.0)
    assert (found.state, found.mode) == (DriftState.TOO_FEW, DriftMode.FEW)
    assert judged([1.0], 1.0).state is DriftState.TOO_FEW


def test_few_noisy_runs_are_held_against_the_baseline_by_a_wide_bound():
    near = [1.3, 1.31, 1.29, 1.305, 1.3]
    assert not drifts(near, 1.0)
    assert drifts([2.0 * value for value in near], 1.0)


def test_an_improvement_is_told_and_no_drift():
    found = judged([LEVEL] * 10 + [LEVEL / 2] * 5, LEVEL)
    assert found.state is DriftState.IMPROVED
    sentence = "mean_abs_error improved against the baseline since run 11: 0.005 against 0.01"
    assert describe_metric_drift(found) == sentence
    assert (found.improved.last_good, found.improved.first_bad) == (10, 11)
    assert found.improved.commits == "0000000a..0000000b"
    assert judged([value / 2 for value in noise(7, 30, 0.01)], LEVEL).state is DriftState.IMPROVED


def test_an_improvement_that_is_accepted_with_the_change_is_no_drift():
    noisy = noise(8, 40, 0.01)
    halved = [value / 2 if at >= 30 else value for at, value in enumerate(noisy)]
    accepted = [LEVEL] * 30 + [LEVEL / 2] * 10
    assert first_alarm(halved, accepted) is None
    ever_better = [LEVEL * 0.99**at for at in range(40)]
    assert first_alarm(ever_better, ever_better) is None


def test_a_loss_that_was_just_accepted_is_not_called_better():
    values = [value * (2 if at >= 30 else 1) for at, value in enumerate(noise(9, 31, 0.01))]
    assert judged(values, [LEVEL] * 30 + [2 * LEVEL]).state is DriftState.STEADY


def test_noisy_runs_far_beyond_the_accepted_value_are_told_by_the_second():
    crept = [LEVEL * 1.01**at for at in range(12)]
    values = [*crept, *crept[-1:] * 5, *[5 * LEVEL] * 3]
    accepted = [LEVEL] * 12 + crept[-1:] * 8
    assert judged(values[:18], accepted[:18]).state is DriftState.STEADY
    found = judged(values[:19], accepted[:19])
    assert (found.mode, found.state) == (DriftMode.STATISTICAL, DriftState.DRIFT)
    worse = worst(found, "baseline")
    assert (worse.now, worse.change.last_good, worse.change.first_bad) == (pytest.approx(5 * LEVEL), 17, 18)


def test_only_the_window_is_recent():
    values = [LEVEL] * 20 + [2 * LEVEL] * 60
    assert not drifts(values)
    assert drifts(values, window=70)
    assert drifts(values, LEVEL)


def test_two_runs_since_a_loss_was_accepted_are_judged_if_one_confirms():
    found = judged([LEVEL] * 3 + [2 * LEVEL], [LEVEL / 2] * 2 + [LEVEL] * 2, confirm=1)
    assert [worse.kind for worse in found.worsenings] == ["level", "step"]
    assert judged([LEVEL, 2 * LEVEL], confirm=1).state is DriftState.TOO_FEW


@pytest.mark.parametrize(
    "values",
    [
        [1e300, 1e300, 1.7e308, 0.0, 0.0, 0.0, 1.7e308, 1.7e308, 1.7e308],
        [1e300, 0.0, 1.1, 1.7e308, 0.5, 3.0, 0.0, 1e200, 1.6e308, 1.7e308],
        [5e-324] * 3 + [1.7e308] * 3,
        [5e-324 if at < 6 else 1.7e308 * (1 - at / 100) for at in range(12)],
    ],
)
def test_errors_as_large_as_floats_are_judged(values):
    for confirm in (1, 2):
        assert judged(values, confirm=confirm).state in DriftState


HISTORIES = st.one_of(
    st.lists(st.sampled_from([0.5, 0.75, 1.0, 1.25, 2.0]), min_size=1, max_size=40),
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40),
    st.lists(st.tuples(st.floats(0.5, 2), st.integers(1, 9)), min_size=1, max_size=6).map(
        lambda parts: [value for value, times in parts for _ in range(times)]
    ),
)


@given(HISTORIES, st.integers(-40, 40))
@example([0.5, 0.5, 0.75, 0.75], 4)  # exp(log(8)) is below 8, and 12 is no more than 1.5 times 8
def test_the_unit_does_not_matter(values, exponent):
    factor = 2.0**exponent
    found, scaled = judged(values, 1.0), judged([factor * value for value in values], factor)
    assert (found.state, found.mode) == (scaled.state, scaled.mode)
    assert [w.change for w in found.worsenings] == [w.change for w in scaled.worsenings]


@given(HISTORIES)
def test_no_run_worse_than_another_is_no_drift_against_recent_runs(values):
    assert not drifts(sorted(values, reverse=True))


@given(HISTORIES)
def test_every_finding_is_material_and_lies_in_the_history(values):
    found = judged(values, 1.0)
    for worse in found.worsenings:
        assert worse.ratio > 1.02
        assert 1 <= worse.change.first_bad <= len(values)
        assert describe_worsening("mean_abs_error", worse).startswith("mean_abs_error ")


def test_a_step_that_lasts_stays_told_while_the_level_before_it_is_recent():
    assert [drifts([1.0] * 10 + [1.6] * more) for more in range(1, 61)] == [*[True] * 59, False]
    assert [drifts([1.0] * 10 + [1.1] * more) for more in range(1, 6)] == [False, False, *[True] * 3]


@pytest.mark.parametrize("value", [0.0, 5e-324, 0.01, 1e300])
def test_a_constant_is_steady_however_short_and_whatever_its_value(value):
    assert [judged([value] * count, value).state for count in (2, 3, 15, 70)] == [DriftState.STEADY] * 4
