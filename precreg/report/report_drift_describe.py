"""What every report of a drift monitor says, said once: labels, counts, tables, the last sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from precreg.history.drift.record import DriftRecord, MetricDrift, OutputDrift, State
from precreg.report.report_describe import cases, in_columns
from precreg.types.numbers import apart, figure

LABELS: dict[State, str] = {
    State.DRIFT: "DRIFT",
    State.UNMEASURED: "UNMEASURED",
    State.ABSENT: "absent",
    State.IMPROVED: "improved",
    State.TOO_FEW: "too few",
    State.STEADY: "steady",
}
"""Worst first; what needs a person stands in capitals."""


_RANK = {state: rank for rank, state in enumerate(LABELS)}


class Evidence(NamedTuple):
    """What a metric did not stand, as text; comparisons that say the same share a row. Empty: nothing to say."""

    metric: str
    before: str
    now: str
    ratio: str
    kind: str
    since: str
    judged: str
    against: str


def evidence(found: OutputDrift) -> list[Evidence]:
    """Describe every comparison that an output's metrics did not stand."""
    return [row for metric in found.metrics for row in _rows(metric)]


def _rows(metric: MetricDrift) -> list[Evidence]:
    rows: dict[tuple[str, ...], Evidence] = {}
    for worse in metric.worsenings:
        before, now = apart([worse.before, worse.now])
        ratio = "" if worse.ratio is None else figure(worse.ratio, 4)
        since = f"run {worse.change.first_bad}"
        told = rows.get((before, since))
        against = worse.against if told is None else f"{told.against}, {worse.against}"
        judged = f"{metric.mode}, {metric.runs} runs"
        rows[before, since] = Evidence(metric.metric, before, now, ratio, worse.kind, since, judged, against)
    return list(rows.values())


def table(rows: Sequence[Evidence], most: int = 12) -> list[str]:
    """Set rows in columns under their names; rows beyond the most are counted."""
    return in_columns(Evidence._fields, rows, most) if rows else []


def by_case(record: DriftRecord) -> dict[str, list[OutputDrift]]:
    """Return the outputs of each case, the worst first; cases are sorted."""
    ordered = sorted(record.results, key=lambda found: (found.case, _RANK[found.state], found.output))
    return {case: list(group) for case, group in groupby(ordered, key=lambda found: found.case)}


def counts(record: DriftRecord) -> str:
    """Say how many outputs are in which state, worst first."""
    tally = Counter(found.state for found in record.results)
    return ", ".join(f"{tally[state]} {state}" for state in LABELS if tally[state]) or "nothing"


def scope(record: DriftRecord) -> str:
    """Say which runs were looked at."""
    if not record.runs:
        return "no run"
    first, last = record.runs[0], record.runs[-1]
    if first is last:
        return f"run {first.number}{f', commit {first.commit[:8]}' if first.commit else ''}"
    commits = f", commits {first.commit[:8]} to {last.commit[:8]}" if first.commit and last.commit else ""
    return f"{len(record.runs)} runs, {first.number} to {last.number}{commits}"


def anchor(record: DriftRecord) -> str:
    """Name the anchor with its commit and its runs; nothing without one."""
    if record.anchor is None:
        return ""
    commit = f", commit {record.anchor.commit[:8]}" if record.anchor.commit else ""
    runs = ", ".join(map(str, record.anchor.runs))
    return f"{record.anchor.name}{commit} (run {runs})"


def exit_sentence(record: DriftRecord) -> str:
    """Say in one sentence why the exit code is what it is."""
    states = [found.state for found in record.results]
    drifting = len({found.case for found in record.results if found.state is State.DRIFT})
    if drifting:
        return f"{cases(drifting)} {'drifts' if drifting == 1 else 'drift'}"
    unmeasured = len({found.case for found in record.results if found.state is State.UNMEASURED})
    if unmeasured:
        return f"{cases(unmeasured)} could not be judged: no longer measured"
    if not {State.STEADY, State.IMPROVED} & set(states):
        return f"nothing could be judged: {counts(record)} in {scope(record)}"
    ways = ", ".join(f"{number} {mode}" for mode, number in record.modes.items())
    return f"nothing drifts; metrics judged: {ways}"
