"""What a history holds, as values: its runs, and for each case, output and metric the figures of those runs.

What is kept of one case at one run: the means over the seeds of the metrics that a baseline keeps, too.

Reading the tables: the runs in order, and the series of each case made from its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, select

from precreg.errors import UserError
from precreg.history.rows import (
    CASES_TABLE,
    CHANGES_TABLE,
    RUNS_TABLE,
    SCOPES_TABLE,
    DamagedError,
    Scope,
    StateRows,
    decode_states,
)
from precreg.measure import mean_over_seeds
from precreg.measure import metrics_to_keep as kept_metrics
from precreg.types import (
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Comparison,
    MetricDescription,
    Reason,
    RunRecord,
    Status,
)


class HistoryRun(Struct, frozen=True):
    """One run that was kept. `number` is its name: 1, 2, ... in the order in which runs were added, never used again.

    Runs stand in the order in which they started, which is another one where a run was added late. `started` is ISO
    8601 in UTC, `commit` is empty where there was no repository. `facts` are those of the environment, whose digest
    is the `fingerprint`.
    """

    number: int
    started: str
    commit: str
    branch: str
    dirty: bool
    environment: str
    fingerprint: str
    facts: dict[str, str]
    precreg: str
    exit_code: int


def changed_facts(before: HistoryRun, after: HistoryRun) -> list[tuple[str, str, str]]:
    """List the facts of the environment that differ between two runs: name, before, after; `none` for one without."""
    names = dict.fromkeys([*before.facts, *after.facts])
    facts = [(name, before.facts.get(name, "none"), after.facts.get(name, "none")) for name in names]
    return [fact for fact in facts if fact[1] != fact[2]]


class HistoryPoint(Struct, frozen=True):
    """A metric at one run, as mean over the seeds; None where the case gave none: it failed, or it is undefined.

    `accepted` is the mean of the baseline that the run was judged by, over the same seeds; None without a baseline,
    and where the baseline is of another definition or of other inputs.
    """

    run: int
    value: float | None
    accepted: float | None


class HistorySeries(Struct, frozen=True):
    """One metric of one output of one case in one environment, at every run that ran the case, oldest first.

    Runs that defined the case otherwise than its latest run did are left out: their figures are of something else.
    """

    case: str
    output: str
    metric: str
    points: tuple[HistoryPoint, ...]
    described: tuple[MetricDescription, ...] = ()


KeptFigures = dict[str, tuple[float | None, float | None]]
"""By metric: the mean over the seeds now, and that of the accepted baseline over the same seeds."""


class KeptCase(Struct, frozen=True, omit_defaults=True):
    """One case at one run. A case that failed has no outputs, and its reason says why.

    `described` are the metrics that analyzers measured.
    """

    definition: str
    reason: str
    outputs: dict[str, KeptFigures]
    described: tuple[MetricDescription, ...] = ()


class CaseState(NamedTuple):
    """A Kept as JSON, and its digest, by which changes are found."""

    digest: bytes
    text: str

    @classmethod
    def of(cls, kept: KeptCase) -> CaseState:
        """Encode; floats are the shortest text that reads back as the same float64."""
        text = msgspec.json.encode(kept).decode()
        return cls(state_digest(text), text)


def state_digest(text: str) -> bytes:
    """Return the digest of a state that was encoded."""
    return blake2b(text.encode(), digest_size=16).digest()


def decode_state(text: str) -> KeptCase:
    """Read a state back. Raises DamagedError."""
    try:
        return msgspec.json.decode(text, type=KeptCase)
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a case's figures cannot be read: {problem}") from None


def case_states(record: RunRecord) -> dict[str, CaseState]:
    """Return what is kept of each case that was run; one that was skipped was not."""
    ran = (result for result in record.results if result.verdict.status is not Status.SKIPPED)
    return {result.id: CaseState.of(keep_case(result)) for result in ran}


def keep_case(result: CaseResult) -> KeptCase:
    """Return what a history keeps of a result."""
    entry = _comparable_entry(result)
    by_output: dict[str, list[Comparison]] = {}
    for comparison in result.outcome.comparisons:
        by_output.setdefault(comparison.output, []).append(comparison)
    figures = {
        output: _figures(comparisons, None if entry is None else entry.outputs.get(output))
        for output, comparisons in sorted(by_output.items())
    }
    return KeptCase(result.definition, result.verdict.reason, figures, result.outcome.described)


def _comparable_entry(result: CaseResult) -> BaselineEntry | None:
    """Return the accepted baseline, unless it is of another definition or of other inputs."""
    if result.stored is None:
        return None
    entry, drawn = result.stored.entry, list(result.outcome.execution.inputs)
    seeds = min(len(drawn), len(entry.inputs))
    borrowed = result.baseline_id not in ("", result.id)
    stale = any(finding.reason is Reason.STALE for finding in result.verdict.findings)
    other_definition = stale or (not borrowed and entry.definition != result.definition)
    return None if other_definition or drawn[:seeds] != entry.inputs[:seeds] else entry


def _figures(comparisons: Sequence[Comparison], accepted: BaselineOutput | None) -> KeptFigures:
    seeds = len(comparisons) if accepted is None else min(len(comparisons), len(accepted.digests))
    then = {} if accepted is None else accepted.metrics
    found = {}
    for metric in kept_metrics(comparisons[0].described):
        value = mean_over_seeds([comparison.metrics.get(metric) for comparison in comparisons[:seeds]])
        mean = mean_over_seeds(then.get(metric, [])[:seeds])
        if value is not None or mean is not None:
            found[metric] = (value, mean)
    return found


QUERY_CHUNK = 500
"""Cases that are read at once: what is in memory at one time, and the parameters of one query."""


def stored_runs(connection: Connection, environment: str | None = None) -> list[HistoryRun]:
    """Return the runs in the order in which they started; those of one second in the order they were added."""
    asked = select(RUNS_TABLE)
    if environment is not None:
        asked = asked.where(RUNS_TABLE.c.environment == environment)
    found = [
        HistoryRun(
            number=row.number,
            started=row.started,
            commit=row.commit_id,
            branch=row.branch,
            dirty=row.dirty,
            environment=row.environment,
            fingerprint=row.fingerprint,
            facts=_facts(row.facts),
            precreg=row.precreg,
            exit_code=row.exit_code,
        )
        for row in connection.execute(asked)
    ]
    return sorted(found, key=lambda run: (run.started, run.number))


def _facts(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a run's facts cannot be read: {problem}") from None


def scopes_of(connection: Connection, environment: str) -> dict[int, Scope]:
    """Return which cases each run of an environment ran, by the run's number; equal scopes are one object."""
    used = {
        row.number: row.scope
        for row in connection.execute(select(RUNS_TABLE).where(RUNS_TABLE.c.environment == environment))
    }
    unpacked = {row.digest: Scope.unpacked(row.bitmap) for row in connection.execute(select(SCOPES_TABLE))}
    if not unpacked.keys() >= set(used.values()):
        raise DamagedError("of a run it is not stored which cases it ran")
    return {number: unpacked[digest] for number, digest in used.items()}


def query_chunks(ids: Iterable[int]) -> Iterator[list[int]]:
    """Yield the ids in lists that one query takes."""
    remaining = iter(ids)
    while part := list(islice(remaining, QUERY_CHUNK)):
        yield part


def case_rows(
    connection: Connection, environment: str, cases: Collection[int], positions: Mapping[int, int]
) -> dict[int, StateRows[str]]:
    """Return the rows of some cases, each by the position of its run."""
    asked = select(CHANGES_TABLE.c.case_id, CHANGES_TABLE.c.run, CHANGES_TABLE.c.state).where(
        CHANGES_TABLE.c.environment == environment, CHANGES_TABLE.c.case_id.in_(cases)
    )
    found: dict[int, StateRows[str]] = {}
    for case, run, state in connection.execute(asked):
        if run not in positions:
            raise DamagedError(f"figures are stored of run {run}, which is not there")
        found.setdefault(case, {})[positions[run]] = state
    return found


def every_series(
    connection: Connection, environment: str, since: int | None, patterns: Sequence[str]
) -> Iterator[HistorySeries]:
    """Yield the series of the cases that match, sorted by case, output and metric."""
    order = [run.number for run in stored_runs(connection, environment)]
    start = _position(order, since, environment)
    positions = {number: position for position, number in enumerate(order)}
    scopes = scopes_of(connection, environment)
    names = {id: name for name, id in sorted((name, id) for id, name in connection.execute(select(CASES_TABLE)))}
    for part in query_chunks(id for id, name in names.items() if matches_patterns(name, patterns)):
        rows = case_rows(connection, environment, part, positions)
        for case in part:
            ran = [position for position in range(start, len(order)) if case in scopes[order[position]]]
            kept = {position: decode_state(state) for position, state in rows.get(case, {}).items()}
            yield from _series(names[case], decode_states(kept, ran), order)


def _position(order: Sequence[int], since: int | None, environment: str) -> int:
    if since is None:
        return 0
    if since not in order:
        raise UserError("bad-value", f"expected the number of a run in {environment} but got run={since}")
    return order.index(since)


def matches_patterns(name: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern names a case: its id, a part of it, or with the wildcards * ? []. No pattern names all."""
    return not patterns or any(pattern in name or fnmatchcase(name, pattern) for pattern in patterns)


def _series(case: str, states: Mapping[int, KeptCase], order: Sequence[int]) -> Iterator[HistorySeries]:
    alike = {place: state for place, state in states.items() if state.definition == states[max(states)].definition}
    pairs = {
        (output, metric) for state in alike.values() for output, found in state.outputs.items() for metric in found
    }
    described = {each.name: each for state in alike.values() for each in state.described}  # the latest applies
    for output, metric in sorted(pairs):
        points = (
            HistoryPoint(order[place], *state.outputs.get(output, {}).get(metric, (None, None)))
            for place, state in alike.items()
        )
        of_analyzer = (described[metric],) if metric in described else ()
        yield HistorySeries(case, output, metric, tuple(points), of_analyzer)
