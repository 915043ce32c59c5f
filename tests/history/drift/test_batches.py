"""The screen of blocks gives the findings of the plain road, whatever the history."""

import random

import pytest
from msgspec.structs import replace

from precreg.history.drift import monitor
from precreg.history.drift.batches import ScreenedCase, screen_block
from precreg.history.drift.judge import DriftContext
from precreg.history.drift.monitor import find_anchor, judge_history, judge_series
from precreg.history.drift.record import DriftSettings, DriftState
from precreg.history.store import open_history
from precreg.measure.metrics import baseline_metrics
from precreg.types.record import Environment
from tests.history.made import SKIPPED, baseline, record, result

CASES = 40


def course(draw, runs):
    """The figure of a case at each run: constant, with steps, noisy, flickering, failing, absent or of size 0."""
    level = draw.choice([0.0, 5e-324, 1e-8, 1.0, 1e300])
    kind = draw.choice(["constant", "steps", "small steps", "noisy", "flicker", "step", "slope", "gain", "odd"])
    found = []
    for run in range(runs):
        if kind in ("steps", "small steps") and draw.random() < 0.1:
            level *= draw.uniform(0.98, 1.02) if kind == "small steps" else draw.uniform(0.7, 1.5)
        if kind == "step" and run == runs - 5:
            level *= draw.choice([1.01, 1.1, 2.0, 5.0])
        figure = {
            "noisy": level * draw.uniform(0.9, 1.1),
            "flicker": level * draw.choice([1.0, 1.0, 1.001]),
            "slope": level * 1.01**run,
            "gain": level if run < runs / 2 else level / 3,
            "odd": draw.choice([level, level, level, None, SKIPPED, level * 1.5]),
        }.get(kind, level)
        found.append(figure)
    return found


def results(draw, case, figure, state, undefined=0.02):
    """The result of a case, with every metric that a baseline keeps, some of them undefined."""
    made = result(case, figure, *state)
    if figure in (None, SKIPPED):
        return made
    metrics = {
        metric: abs(figure) * draw.choice([1.0, 1.0, -1.0]) if metric == "bias" else figure * (place + 1)
        for place, metric in enumerate(baseline_metrics())
    }
    metrics |= {"match_ratio": max(0.0, 1 - figure), "equal_share": 1.0, "mean_log2_ulp": figure % 7}
    if draw.random() < undefined:
        del metrics["max_ulp"]
    comparison = replace(made.outcome.comparisons[0], metrics=metrics)
    accepted = made.baseline
    if accepted is not None:
        output = replace(accepted.entry.outputs["out"], metrics={name: [value] for name, value in metrics.items()})
        accepted = baseline([1.0], state[1])
        accepted = replace(accepted, entry=replace(accepted.entry, outputs={"out": output}))
        accepted.entry.outputs["out"].metrics["mean_abs_error"] = [state[0]]
    return replace(made, outcome=replace(made.outcome, comparisons=(comparison,)), baseline=accepted)


def fill(history, draw, runs):
    courses = {f"unit/s{case % 3}/c{case}": course(draw, runs) for case in range(CASES)}
    accepted = {
        case: draw.choice([None, 1.0, *(v for v in values if v not in (None, SKIPPED))])
        for case, values in courses.items()
    }
    machines = draw.choice(["one", "one change", "turns"])
    definitions = dict.fromkeys(courses, "1:d")
    for run in range(runs):
        for case in courses:
            if draw.random() < 0.005:
                definitions[case] += "e"
            if draw.random() < 0.01:
                accepted[case] = next((v for v in [courses[case][run]] if v not in (None, SKIPPED)), 1.0)
        chosen = [case for case in courses if draw.random() > 0.01]
        if draw.random() < 0.1:
            chosen = chosen[:5]
        found = tuple(
            results(draw, case, courses[case][run], (accepted[case], definitions[case])) for case in sorted(chosen)
        )
        print_of = {"one change": f"m{run > runs // 2}", "turns": f"m{run % 3 == 0}"}.get(machines, "f00d")
        history.add(record(run, {}, results=found, environment=Environment("cpu", ("cpu",), print_of, {"m": print_of})))


@pytest.mark.parametrize("seed", range(8))
def test_blocks_and_series_give_the_same_findings(new_place, seed):
    draw = random.Random(seed)
    with open_history(new_place(), project="demo", create=True) as history:
        fill(history, draw, draw.choice([3, 9, 30, 70]))
        every = history.runs()
        first = draw.choice([0, 0, len(every) // 2])
        runs = every[first:]
        for settings in (
            DriftSettings(),
            DriftSettings(window=20, confirm=1, materiality=1.2),
            DriftSettings(confirm=4),
        ):
            for anchor in (None, find_anchor(str(runs[1].number), None, runs)):
                plain = judge_series(history.series("cpu", since=runs[0].number), runs, anchor, settings)
                assert judge_history(history, "cpu", runs, anchor, settings) == plain
                some = judge_series(history.series("cpu", since=runs[0].number, cases=["s1"]), runs, anchor, settings)
                assert judge_history(history, "cpu", runs, anchor, settings, cases=["s1"]) == some


def test_most_series_of_a_history_of_small_changes_need_no_plain_road(new_place):
    """Otherwise the comparison above would compare the plain road with itself."""
    draw = random.Random(1)
    with open_history(new_place(), project="demo", create=True) as history:
        for run in range(20):
            figures = {f"unit/s/{case}": 1.0 + 0.001 * (run > case) for case in range(30)}
            found = tuple(results(draw, case, figure, (1.0, "1:d"), 0.0) for case, figure in sorted(figures.items()))
            history.add(record(run, {}, results=found))
        context = DriftContext({run.number: run for run in history.runs()}, (), DriftSettings())
        screened = [one for block in history.blocks("cpu") for one in screen_block(block, context)]
    assert len(screened) == 30
    assert all(isinstance(one, ScreenedCase) for one in screened)
    outputs = [one.outputs["out"] for one in screened]
    left = sum(len(output.left) for output in outputs)
    assert left < 0.2 * (left + sum(len(output.found) for output in outputs))


def test_a_record_has_the_points_of_the_first_outputs_with_a_finding(new_place, monkeypatch):
    monkeypatch.setattr(monitor, "MAX_WITH_POINTS", 3)
    with open_history(new_place(), project="demo", create=True) as history:
        for run in range(10):
            history.add(record(run, {f"unit/s/{case}": 1.0 + case * (run > 5) for case in range(9)}))
        found = judge_history(history, "cpu", history.runs(), None, DriftSettings())
        assert found == judge_series(history.series("cpu"), history.runs(), None, DriftSettings())
    drifting = [one for one in found.results if one.state is DriftState.DRIFT]
    assert [one.case for one in drifting] == [f"unit/s/{case}" for case in range(8, 0, -1)]
    assert [bool(one.metrics[0].points) for one in drifting] == [True] * 3 + [False] * 5
    assert all(one.metrics[0].worsenings for one in drifting)
    assert found.without_points == {"drift": 5}


@pytest.mark.filterwarnings("error")
def test_figures_near_the_largest_float64_are_judged_without_a_warning(new_place):
    with open_history(new_place(), project="demo", create=True) as history:
        for run in range(12):
            figures = {"unit/s/a": 1.78e308 if run > 2 else 1.77e308, "unit/s/b": 1.79e308 if run > 9 else 1e-300}
            history.add(record(run, figures, accepted=1.77e308))
        found = judge_history(history, "cpu", history.runs(), None, DriftSettings())
        assert found == judge_series(history.series("cpu"), history.runs(), None, DriftSettings())
    assert [(one.case, one.state) for one in found.results] == [
        ("unit/s/b", DriftState.DRIFT),
        ("unit/s/a", DriftState.STEADY),
    ]
