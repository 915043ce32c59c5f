"""Run records for the tests of histories: a run is a start in minutes and one figure per case."""

from datetime import UTC, datetime, timedelta

from precreg.types.case import Location
from precreg.types.outcome import Comparison, Execution, Failure, Outcome
from precreg.types.record import (
    RECORD_SCHEMA,
    Baseline,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Environment,
    GitState,
    RunRecord,
)
from precreg.types.verdict import Reason, Status, Verdict

FIRST = datetime(2026, 11, 1, 3, tzinfo=UTC)
SKIPPED = "skipped"


def started(minutes):
    return (FIRST + timedelta(minutes=minutes)).isoformat()


def record(minutes, figures, label="cpu", project="demo", accepted=1.0, definition="1:d", **fields):
    """A run that started so many minutes after the first; a figure of None is a crash, SKIPPED a skip."""
    results = tuple(result(case, figure, accepted, definition, minutes) for case, figure in sorted(figures.items()))
    values = {
        "schema": RECORD_SCHEMA,
        "precreg": "0.1.0",
        "project": project,
        "started": started(minutes),
        "duration_s": 1.5,
        "environment": Environment(label, (label, "generic"), "f00d", {"numpy": "2.4.0"}),
        "git": GitState(f"{minutes:040x}", "main", False, "Ada <ada@example.org>"),
        "selection": {},
        "ci": True,
        "results": results,
    }
    return RunRecord(**(values | fields))


def result(case, figure, accepted=1.0, definition="1:d", minutes=0):
    tier, suite, name = case.split("/")
    if figure is None:
        execution = Execution(failure=Failure(Reason.CRASHED, "signal 11"))
        outcome, verdict = Outcome(case, definition, execution), Verdict(Status.ERROR, Reason.CRASHED, "signal 11")
    elif figure == SKIPPED:
        execution = Execution(failure=Failure(Reason.UNAVAILABLE, "no npu"))
        outcome, verdict = Outcome(case, definition, execution), Verdict(Status.SKIPPED, Reason.UNAVAILABLE, "no npu")
    else:
        outcome, verdict = outcome_of(case, [figure], definition, minutes), Verdict(Status.PASSED, Reason.IDENTICAL, "")
    return CaseResult(
        id=case,
        tier=tier,
        suite=suite,
        name=name,
        source=Location(f"suites/{tier}/{suite}.yaml", 1),
        role="reference",
        definition=definition,
        parameters={},
        tags=(),
        outcome=outcome,
        verdict=verdict,
        baseline=None if accepted is None else baseline([accepted], definition),
        baseline_id=case,
    )


def outcome_of(case, figures, definition="1:d", minutes=0):
    comparisons = tuple(
        Comparison("out", seed, "float32", (8,), "float64", (8,), {"mean_abs_error": figure}, {"n": 8})
        for seed, figure in enumerate(figures)
    )
    inputs = tuple(f"i{seed}" for seed in range(len(figures)))
    return Outcome(case, definition, Execution(inputs, {"out": inputs}, 0.001 + minutes * 1e-9), comparisons)


def baseline(figures, definition="1:d"):
    seeds = [f"i{seed}" for seed in range(len(figures))]
    output = BaselineOutput("float32", (8,), seeds, {"mean_abs_error": list(figures)})
    entry = BaselineEntry(definition, seeds, "why", "Ada", "2026-11-01", "c0", "f00d", 1.0, {"out": output})
    return Baseline(entry, "generic", "baselines/generic/unit/s.json")


def points(series):
    """The series as {case: [(run, value, accepted)]}, of one output and one metric."""
    return {one.case: [(point.run, point.value, point.accepted) for point in one.points] for one in series}
