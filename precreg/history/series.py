"""Which values did each metric have at the runs of a history?

The functions read blocks of cases, and make the series of each case from its rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import Connection

from precreg.history.packing import QUERY_CHUNK, KeptCase, PackedState, Texts, batched, query_chunks
from precreg.history.rows import StateRows, stretches_of
from precreg.history.runs import EnvironmentRuns, all_cases, case_rows, named_cases
from precreg.suite import match_names
from precreg.types import MetricDescription


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


# Each state of a case with the numbers of the successive runs that had it, oldest first.
CaseStates = list[tuple[KeptCase, list[int]]]


class StoredCase(NamedTuple):
    """Hold one case with a run: the positions of the runs that ran it, and its rows by the position of the run."""

    name: str
    ran: list[int]
    rows: StateRows[PackedState]


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
        yield from make_series(case, states)


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
        reasons = {run: state.reason for state, runs in states for run in runs}
        yield CaseCourse(case, reasons, tuple(make_series(case, states, wanted)))


def every_block(
    connection: Connection, runs: EnvironmentRuns, patterns: Sequence[str], size: int = QUERY_CHUNK
) -> Iterator[list[StoredCase]]:
    """Yield the cases that match as in `match_names`, sorted, in blocks of at most `size`. Raises DamagedError."""
    for part in batched(_matching_cases(connection, patterns), size):
        ids = [id for _, id in part]
        rows = {id: of_case for few in query_chunks(ids) for id, of_case in _rows(connection, runs, few)}
        found = zip(part, runs.ran(ids), strict=True)
        # Cases of other environments have no run here.
        yield [StoredCase(name, ran, rows.get(id, {})) for (name, id), ran in found if ran]


def _rows(
    connection: Connection, runs: EnvironmentRuns, ids: Collection[int]
) -> Iterable[tuple[int, StateRows[PackedState]]]:
    return case_rows(connection, runs.id, ids, runs.positions).items()


def _matching_cases(connection: Connection, patterns: Sequence[str]) -> list[tuple[str, int]]:
    """Return the names and ids of the cases that match, sorted by name."""
    # A pattern that is a name matches this name alone, so whole names need no look at 100,000 others.
    if patterns and len(patterns) <= QUERY_CHUNK:
        named = named_cases(connection, patterns)
        if named.keys() == {*patterns}:
            return sorted(named.items())
    names = all_cases(connection)
    matching = match_names(names, patterns)
    return sorted((name, id) for name, id in names.items() if name in matching)


def _states_of_cases(
    connection: Connection, environment: str, since: int | None, patterns: Sequence[str]
) -> Iterator[tuple[str, CaseStates]]:
    """Yield each matching case with its states at the runs that ran it."""
    runs, texts = EnvironmentRuns(connection, environment), Texts(connection)
    # States are decoded from the first run on, because the row of a state may be older than the run `since`.
    start = runs.position_of(since)
    for block in every_block(connection, runs, patterns):
        texts.load({number for one in block for state in one.rows.values() for number in state[:2]})
        for case, ran, rows in block:
            yield case, read_states(runs.order, ran[bisect_left(ran, start) :], rows, texts)


def read_states(order: Sequence[int], ran: Sequence[int], rows: StateRows[PackedState], texts: Texts) -> CaseStates:
    """Return each state of a case with the numbers of the runs that had it, oldest first. Raises DamagedError.

    `ran` are positions in `order`, and so are the keys of `rows`.
    """
    stretches = [(state, [order[place] for place in places]) for state, places in stretches_of(rows, ran)]
    kept = texts.unpack(state for state, _ in stretches)
    return [(state, numbers) for state, (_, numbers) in zip(kept, stretches, strict=True)]


def make_series(
    case: str,
    states: CaseStates,
    wanted: Callable[[str, Sequence[MetricDescription]], bool] = lambda _metric, _described: True,
) -> Iterator[HistorySeries]:
    """Yield the series of the wanted metrics of a case, sorted by output and metric."""
    latest = states[-1][0].definition if states else ""
    alike = [(state, runs) for state, runs in states if state.definition == latest]
    described = {each.name: each for state, _ in alike for each in state.described}  # the latest applies
    pairs = {(output, metric) for state, _ in alike for output, found in state.outputs.items() for metric in found}
    of_analyzers = tuple(described.values())
    for output, metric in sorted(pair for pair in pairs if wanted(pair[1], of_analyzers)):
        points: list[HistoryPoint] = []
        for state, runs in alike:
            figures = state.outputs.get(output, {}).get(metric, (None, None))
            points += map(HistoryPoint, runs, repeat(figures[0]), repeat(figures[1]))
        of_analyzer = (described[metric],) if metric in described else ()
        yield HistorySeries(case, output, metric, tuple(points), of_analyzer)
