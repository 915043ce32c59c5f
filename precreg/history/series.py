"""Which runs does a history have, and which values did each metric have at those runs?

At each run a history stores, for each case, the means over the seeds of the metrics that a baseline stores too. The
functions read the runs in order, and make the series of each case from its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    LATEST_TABLE,
    RUNS_TABLE,
    SCOPES_TABLE,
    DamagedError,
    Scope,
    StateRows,
    decode_states,
)
from precreg.measure import mean_over_seeds
from precreg.measure import metrics_to_keep as kept_metrics
from precreg.suite import match_names
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
    """Describe one run of a history.

    `number` is 1, 2, ... in the order of adding, and is never used again. Lists of runs are in the order of `started`
    (ISO 8601 in UTC); the two orders differ after a late addition. `commit` is empty without a repository. `facts`
    describe the environment, and `fingerprint` is their digest.
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
    """Return the facts of the environment that differ between two runs as (name, before, after).

    `none` stands for a missing fact.
    """
    names = dict.fromkeys([*before.facts, *after.facts])
    facts = [(name, before.facts.get(name, "none"), after.facts.get(name, "none")) for name in names]
    return [fact for fact in facts if fact[1] != fact[2]]


class HistoryPoint(Struct, frozen=True):
    """Hold the mean of a metric over the seeds at one run.

    `value` is None if the case failed or the metric is undefined. `accepted` is the mean of the run's baseline over the
    same seeds. It is None without a baseline, and for a baseline of another definition or other inputs.
    """

    run: int
    value: float | None
    accepted: float | None


class HistorySeries(Struct, frozen=True):
    """Hold one metric of one output of one case in one environment, at every run of the case, oldest first.

    Runs with another definition of the case than the latest run are left out, because they measured something else.
    """

    case: str
    output: str
    metric: str
    points: tuple[HistoryPoint, ...]
    described: tuple[MetricDescription, ...] = ()


# By metric: the mean over the seeds at this run, and the mean of the accepted baseline over the same seeds.
KeptFigures = dict[str, tuple[float | None, float | None]]

# Cases in one read. It bounds the memory of a read and the parameters of a query (SQLite before 3.32 allows 999).
QUERY_CHUNK = 500


class KeptCase(Struct, frozen=True, omit_defaults=True):
    """Hold the stored figures of one case at one run.

    A failed case has no outputs and a reason. `described` are the metrics of analyzers.
    """

    definition: str
    reason: str
    outputs: dict[str, KeptFigures]
    described: tuple[MetricDescription, ...] = ()


class CaseState(NamedTuple):
    """Hold a KeptCase as JSON with its digest. Different digests mean a change of state."""

    # `latest` stores digests and not texts: 16 bytes a case, which every run reads.
    digest: bytes
    text: str

    @classmethod
    def of(cls, kept: KeptCase) -> CaseState:
        """Encode a case. A float becomes the shortest text that reads back as the same float64."""
        text = msgspec.json.encode(kept).decode()
        return cls(state_digest(text), text)


def state_digest(text: str) -> bytes:
    """Return the digest of an encoded state: 16 bytes of BLAKE2b."""
    return blake2b(text.encode(), digest_size=16).digest()


def decode_state(text: str) -> KeptCase:
    """Decode a state, and register the metrics of its analyzers. Raises DamagedError."""
    try:
        return msgspec.json.decode(text, type=KeptCase)
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a case's figures cannot be read: {problem}") from None


def case_states(record: RunRecord) -> dict[str, CaseState]:
    """Return the state of each case that a run ran, by id. Skipped cases did not run."""
    ran = (result for result in record.results if result.verdict.status is not Status.SKIPPED)
    return {result.id: CaseState.of(keep_case(result)) for result in ran}


def keep_case(result: CaseResult) -> KeptCase:
    """Return the figures of a result that a history stores."""
    entry = _comparable_entry(result)
    by_output: dict[str, list[Comparison]] = {}
    for comparison in result.outcome.comparisons:
        by_output.setdefault(comparison.output, []).append(comparison)
    figures = {
        output: _compute_means(comparisons, None if entry is None else entry.outputs.get(output))
        for output, comparisons in sorted(by_output.items())
    }
    return KeptCase(result.definition, result.verdict.reason, figures, result.outcome.described)


def _comparable_entry(result: CaseResult) -> BaselineEntry | None:
    """Return the accepted baseline; None if its definition or inputs differ from the result's."""
    if result.stored is None:
        return None
    entry, drawn = result.stored.entry, list(result.outcome.execution.inputs)
    seeds = min(len(drawn), len(entry.inputs))
    # A borrowed baseline has the definition of another case by intent, so only the STALE finding counts for it.
    borrowed = result.baseline_id not in ("", result.id)
    stale = any(finding.reason is Reason.STALE for finding in result.verdict.findings)
    other_definition = stale or (not borrowed and entry.definition != result.definition)
    return None if other_definition or drawn[:seeds] != entry.inputs[:seeds] else entry


def _compute_means(comparisons: Sequence[Comparison], accepted: BaselineOutput | None) -> KeptFigures:
    # Two means are comparable only over the same seeds, and a case may have more seeds now than at acceptance.
    seeds = len(comparisons) if accepted is None else min(len(comparisons), len(accepted.digests))
    then = {} if accepted is None else accepted.metrics
    found = {}
    for metric in kept_metrics(comparisons[0].described):
        value = mean_over_seeds([comparison.metrics.get(metric) for comparison in comparisons[:seeds]])
        mean = mean_over_seeds(then.get(metric, [])[:seeds])
        if value is not None or mean is not None:
            found[metric] = (value, mean)
    return found


def stored_runs(connection: Connection, environment: str | None = None) -> list[HistoryRun]:
    """Return the runs in the order of their start. Runs with an equal start are in the order of adding."""
    query = select(RUNS_TABLE)
    if environment is not None:
        query = query.where(RUNS_TABLE.c.environment == environment)
    found = [
        HistoryRun(
            number=row.number,
            started=row.started,
            commit=row.commit_id,
            branch=row.branch,
            dirty=row.dirty,
            environment=row.environment,
            fingerprint=row.fingerprint,
            facts=_decode_facts(row.facts),
            precreg=row.precreg,
            exit_code=row.exit_code,
        )
        for row in connection.execute(query)
    ]
    return sorted(found, key=lambda run: (run.started, run.number))


def _decode_facts(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a run's facts cannot be read: {problem}") from None


def case_names(connection: Connection, environment: str) -> list[str]:
    """Return the cases that runs of an environment ran, sorted."""
    of_environment = select(LATEST_TABLE.c.case_id).where(LATEST_TABLE.c.environment == environment)
    query = select(CASES_TABLE.c.name).where(CASES_TABLE.c.id.in_(of_environment))
    return sorted(connection.execute(query).scalars())


def scopes_of(connection: Connection, environment: str) -> dict[int, Scope]:
    """Return the scope of each run of an environment by the run's number. Equal scopes are one object."""
    used = {
        row.number: row.scope
        for row in connection.execute(select(RUNS_TABLE).where(RUNS_TABLE.c.environment == environment))
    }
    unpacked = {row.digest: Scope.unpacked(row.bitmap) for row in connection.execute(select(SCOPES_TABLE))}
    # Runs with equal scopes share one Scope, because thousands of runs usually have a few different scopes.
    if not unpacked.keys() >= set(used.values()):
        raise DamagedError("a run has no stored scope")
    return {number: unpacked[digest] for number, digest in used.items()}


def query_chunks(ids: Iterable[int]) -> Iterator[list[int]]:
    """Yield the ids in lists of at most QUERY_CHUNK."""
    remaining = iter(ids)
    while part := list(islice(remaining, QUERY_CHUNK)):
        yield part


def case_rows(
    connection: Connection, environment: str, cases: Collection[int], positions: Mapping[int, int]
) -> dict[int, StateRows[str]]:
    """Return the rows of the cases by case id and by position of the run. Raises DamagedError."""
    query = select(CHANGES_TABLE.c.case_id, CHANGES_TABLE.c.run, CHANGES_TABLE.c.state).where(
        CHANGES_TABLE.c.environment == environment, CHANGES_TABLE.c.case_id.in_(cases)
    )
    found: dict[int, StateRows[str]] = {}
    for case, run, state in connection.execute(query):
        if run not in positions:
            raise DamagedError(f"a state belongs to run {run}, which does not exist")
        found.setdefault(case, {})[positions[run]] = state
    return found


class CaseCourse(NamedTuple):
    """Hold the reason of the verdict of a case at each of its runs, oldest first, and the series of its metrics."""

    case: str
    reasons: dict[int, str]
    series: tuple[HistorySeries, ...]


def every_series(
    connection: Connection, environment: str, since: int | None, patterns: Sequence[str]
) -> Iterator[HistorySeries]:
    """Yield the series of the cases that match as in `match_names`, sorted by case, output and metric.

    Raises UserError (bad-value) if the environment has no run with the number `since`.
    """
    for case, states in _states_of_cases(connection, environment, since, patterns):
        yield from _make_series(case, states)


def every_course(
    connection: Connection,
    environment: str,
    since: int | None,
    patterns: Sequence[str],
    wanted: Callable[[str, Sequence[MetricDescription]], bool],
) -> Iterator[CaseCourse]:
    """Yield the course of each case that `every_series` reads, with the series of the metrics that are `wanted`.

    `wanted` gets the name of a metric, and the metrics of the case's analyzers. Raises UserError (bad-value), too.
    """
    for case, states in _states_of_cases(connection, environment, since, patterns):
        yield CaseCourse(
            case, {run: state.reason for run, state in states.items()}, tuple(_make_series(case, states, wanted))
        )


def _states_of_cases(
    connection: Connection, environment: str, since: int | None, patterns: Sequence[str]
) -> Iterator[tuple[str, dict[int, KeptCase]]]:
    """Yield each matching case with its state at each run that ran it, by the number of the run, oldest first."""
    order = [run.number for run in stored_runs(connection, environment)]
    # States are decoded from the first run on, because the row of a state may be older than the run `since`.
    start = _position_of(order, since, environment)
    positions = {number: position for position, number in enumerate(order)}
    scopes = scopes_of(connection, environment)
    names = {id: name for name, id in sorted((name, id) for id, name in connection.execute(select(CASES_TABLE)))}
    matching = match_names({*names.values()}, patterns)
    for part in query_chunks(id for id, name in names.items() if name in matching):
        rows = case_rows(connection, environment, part, positions)
        for case in part:
            ran = [position for position in range(start, len(order)) if case in scopes[order[position]]]
            kept = {position: decode_state(state) for position, state in rows.get(case, {}).items()}
            states = decode_states(kept, ran)
            yield names[case], {order[position]: states[position] for position in ran}


def _position_of(order: Sequence[int], since: int | None, environment: str) -> int:
    if since is None:
        return 0
    if since not in order:
        raise UserError(
            "bad-value",
            f"expected the number of a run in {environment} but got run={since}",
            hint=f"write a number that precreg history list shows, such as {order[-1] if order else 1}",
        )
    return order.index(since)


def _make_series(
    case: str,
    states: Mapping[int, KeptCase],
    wanted: Callable[[str, Sequence[MetricDescription]], bool] = lambda _metric, _described: True,
) -> Iterator[HistorySeries]:
    latest = [*states.values()][-1].definition if states else ""
    alike = {run: state for run, state in states.items() if state.definition == latest}
    # Runs without a change share one state, which needs one look.
    different = {id(state): state for state in alike.values()}.values()
    described = {each.name: each for state in different for each in state.described}  # the latest applies
    pairs = {(output, metric) for state in different for output, found in state.outputs.items() for metric in found}
    of_analyzers = tuple(described.values())
    for output, metric in sorted(pair for pair in pairs if wanted(pair[1], of_analyzers)):
        points = (
            HistoryPoint(run, *state.outputs.get(output, {}).get(metric, (None, None))) for run, state in alike.items()
        )
        of_analyzer = (described[metric],) if metric in described else ()
        yield HistorySeries(case, output, metric, tuple(points), of_analyzer)
