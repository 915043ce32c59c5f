"""Reading the tables: the runs in order, and the series of each case made from its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

import msgspec
from sqlalchemy import Connection, select

from precreg.errors import UserError
from precreg.history.coding import DamagedError, Rows, Scope, expanded
from precreg.history.series import Point, Run, Series
from precreg.history.state import Kept, decoded
from precreg.history.tables import CASES, CHANGES, RUNS, SCOPES

CHUNK = 500
"""Cases that are read at once: what is in memory at one time, and the parameters of one query."""


def stored_runs(connection: Connection, environment: str | None = None) -> list[Run]:
    """Return the runs in the order in which they started; those of one second in the order they were added."""
    asked = select(RUNS)
    if environment is not None:
        asked = asked.where(RUNS.c.environment == environment)
    found = [
        Run(
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
    used = {row.number: row.scope for row in connection.execute(select(RUNS).where(RUNS.c.environment == environment))}
    unpacked = {row.digest: Scope.unpacked(row.bitmap) for row in connection.execute(select(SCOPES))}
    if not unpacked.keys() >= set(used.values()):
        raise DamagedError("of a run it is not stored which cases it ran")
    return {number: unpacked[digest] for number, digest in used.items()}


def chunks(ids: Iterable[int]) -> Iterator[list[int]]:
    """Yield the ids in lists that one query takes."""
    remaining = iter(ids)
    while part := list(islice(remaining, CHUNK)):
        yield part


def rows_of(
    connection: Connection, environment: str, cases: Collection[int], positions: Mapping[int, int]
) -> dict[int, Rows[str]]:
    """Return the rows of some cases, each by the position of its run."""
    asked = select(CHANGES.c.case_id, CHANGES.c.run, CHANGES.c.state).where(
        CHANGES.c.environment == environment, CHANGES.c.case_id.in_(cases)
    )
    found: dict[int, Rows[str]] = {}
    for case, run, state in connection.execute(asked):
        if run not in positions:
            raise DamagedError(f"figures are stored of run {run}, which is not there")
        found.setdefault(case, {})[positions[run]] = state
    return found


def every_series(
    connection: Connection, environment: str, since: int | None, patterns: Sequence[str]
) -> Iterator[Series]:
    """Yield the series of the cases that match, sorted by case, output and metric."""
    order = [run.number for run in stored_runs(connection, environment)]
    start = _position(order, since, environment)
    positions = {number: position for position, number in enumerate(order)}
    scopes = scopes_of(connection, environment)
    names = {id: name for name, id in sorted((name, id) for id, name in connection.execute(select(CASES)))}
    for part in chunks(id for id, name in names.items() if matches(name, patterns)):
        rows = rows_of(connection, environment, part, positions)
        for case in part:
            ran = [position for position in range(start, len(order)) if case in scopes[order[position]]]
            kept = {position: decoded(state) for position, state in rows.get(case, {}).items()}
            yield from _series(names[case], expanded(kept, ran), order)


def _position(order: Sequence[int], since: int | None, environment: str) -> int:
    if since is None:
        return 0
    if since not in order:
        raise UserError("bad-value", f"expected the number of a run in {environment} but got run={since}")
    return order.index(since)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern names a case: its id, a part of it, or with the wildcards * ? []. No pattern names all."""
    return not patterns or any(pattern in name or fnmatchcase(name, pattern) for pattern in patterns)


def _series(case: str, states: Mapping[int, Kept], order: Sequence[int]) -> Iterator[Series]:
    alike = {place: state for place, state in states.items() if state.definition == states[max(states)].definition}
    pairs = {
        (output, metric) for state in alike.values() for output, found in state.outputs.items() for metric in found
    }
    for output, metric in sorted(pairs):
        points = (
            Point(order[place], *state.outputs.get(output, {}).get(metric, (None, None)))
            for place, state in alike.items()
        )
        yield Series(case, output, metric, tuple(points))
