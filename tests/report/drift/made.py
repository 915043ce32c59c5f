"""Drift records for the tests of reports: made by the judge itself from drawn histories."""

from precreg.history.drift.monitor import find_anchor, judge_series
from precreg.history.drift.record import DRIFT_SCHEMA, DriftRecord, DriftSettings, drift_exit_code
from tests.history.drift.drawn import FACTS, run, runs, series

STEP = [0.01] * 30 + [0.011] * 10
WITH_ANOTHER_NUMPY = [*runs(30), *(run(number, "f2", facts=FACTS | {"numpy": "2.4.6"}) for number in range(31, 41))]


def recorded(*histories, among=WITH_ANOTHER_NUMPY, anchor=None, **changes):
    """Return the record of these series, which are of runs 1 to 40."""
    frozen = None if anchor is None else find_anchor(anchor, None, among)
    judged = judge_series(sorted(histories, key=lambda one: (one.case, one.output)), among, frozen, DriftSettings())
    fields = {
        "schema": DRIFT_SCHEMA,
        "precreg": "0.1.0",
        "project": "demo",
        "made": "2026-11-21T03:00:00+00:00",
        "environment": "cpu-x86_64",
        "settings": DriftSettings(),
        "runs": tuple(among),
        "anchor": frozen,
        "results": judged.results,
        "modes": judged.modes,
        "exit_code": drift_exit_code(found.state for found in judged.results),
        "without_points": judged.without_points,
    }
    return DriftRecord(**(fields | changes))


def stepped(name="step", **where):
    return series(STEP, 0.01, case=f"unit/mean/{name}", **where)


def steady(name="steady", tier="unit"):
    return series([0.01] * 40, 0.01, case=f"{tier}/mean/{name}")


def unmeasured(name="lost"):
    return series([0.01] * 39 + [None], 0.01, case=f"integration/mean/{name}")


def improved(name="better"):
    return series([0.01] * 30 + [0.005] * 10, 0.01, case=f"model/mean/{name}")


def absent(name="gone"):
    return series([0.01] * 20, 0.01, case=f"unit/mean/{name}")


def everything():
    """Return a record that has each state, and an anchor."""
    return recorded(
        stepped(),
        stepped("step", output="second"),
        steady(),
        unmeasured(),
        improved(),
        absent(),
        anchor="3",
        other_environments=("npu",),
    )
