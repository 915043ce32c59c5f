"""Which values did each metric have at the runs of a history?

The functions read blocks of cases, and make the series of each case from its rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import Connection

from precreg.history.packing import QUERY_CHUNK, KeptCase, PackedState, Texts, query_chunks
from precreg.history.rows import StateRows, stretches_of
from precreg.history.runs import EnvironmentRuns, all_cases, case_rows, named_cases
from precreg.suite import match_names
from precreg.types import MetricDescription


class HistoryPoint(Struct, frozen=True, gc=False):
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


# Gets the name of a metric and the metrics of the case's analyzers.
Wanted = Callable[[str, Sequence[MetricDescription]], bool]


def _every_metric(_metric: str, _described: Sequence[MetricDescription]) -> bool:
    return True


class StoredCase(NamedTuple):
    """Hold one case with a run: the positions of the runs that ran it, and its rows by the position of the run."""

    name: str
    ran: list[int]
    rows: StateRows[PackedState]


class CaseBlock(NamedTuple):
    """Hold some cases, sorted by name, with the runs of their environment from the position `start` on."""

    runs: EnvironmentRuns
    texts: Texts
    start: int
    cases: list[StoredCase]

    def series(self, case: StoredCase, wanted: Wanted = _every_metric) -> Iterator[HistorySeries]:
        """Yield the series of the wanted metrics of a case, sorted by output and metric. Raises DamagedError."""
        return make_series(case.name, self.states(case), wanted)

    def load_texts(self) -> None:
        """Read the texts of all cases at once: a query for each case would cost more than its rows."""
        self.texts.load({number for one in self.cases for state in one.rows.values() for number in state[:2]})

    def states(self, case: StoredCase) -> CaseStates:
        """Return each state of a case with the runs that had it, oldest first. Raises DamagedError."""
        ran, order = case.ran[bisect_left(case.ran, self.start) :], self.runs.order
        stretches = [(state, [order[place] for place in places]) for state, places in stretches_of(case.rows, ran)]
        kept = self.texts.unpack(state for state, _ in stretches)
        return [(state, numbers) for state, (_, numbers) in zip(kept, stretches, strict=True)]


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
    wanted: Wanted,
) -> Iterator[CaseCourse]:
    """Yield the course of each case that `every_series` reads, with the series of the metrics that are `wanted`.

    `wanted` gets the name of a metric, and the metrics of the case's analyzers. Raises UserError (bad-value), too.
    """
    for case, states in _states_of_cases(connection, environment, since, patterns):
        reasons = {run: state.reason for state, runs in states for run in runs}
        yield CaseCourse(case, reasons, tuple(make_series(case, states, wanted)))


def every_block(
    connection: Connection, environment: str, since: int | None = None, patterns: Sequence[str] = ()
) -> Iterator[CaseBlock]:
    """Yield the cases with a run that match as in `match_names`, sorted, in blocks. Raises DamagedError.

    Raises UserError (bad-value) if the environment has no run with the number `since`.
    """
    runs, texts = EnvironmentRuns(connection, environment), Texts(connection)
    # States are decoded from the first run on, because the row of a state may be older than the run `since`.
    start = runs.position_of(since)
    for part in query_chunks(_matching_cases(connection, patterns)):
        ids = [id for _, id in part]
        rows = case_rows(connection, runs.id, ids, runs.positions)
        found = zip(part, runs.ran(ids), strict=True)
        # Cases of other environments have no run here.
        yield CaseBlock(
            runs, texts, start, [StoredCase(name, ran, rows.get(id, {})) for (name, id), ran in found if ran]
        )


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
    for block in every_block(connection, environment, since, patterns):
        block.load_texts()
        for case in block.cases:
            yield case.name, block.states(case)


def make_series(
    case: str,
    states: CaseStates,
    wanted: Wanted = _every_metric,
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
