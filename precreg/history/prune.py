"""Removing runs: what stays has the figures that it had, though they may have been stored at a run that goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection, bindparam, delete, select

from precreg.history.add import write_latest, write_rows
from precreg.history.coding import Scope, without_runs
from precreg.history.read import chunks, rows_of, scopes_of, stored_runs
from precreg.history.series import Run
from precreg.history.state import digest_of
from precreg.history.tables import CASES, LATEST, RUNS, SCOPES


def to_remove(runs: Sequence[Run], before: str | None, keep: int | None, commits: Collection[str]) -> list[Run]:
    """Choose, of runs in order: those that started before a time, except the newest `keep` and those of the commits.

    `before` is ISO 8601 in UTC; None stands for all times. `keep` counts in each environment by itself.
    """
    newest: set[int] = set()
    for environment in {run.environment for run in runs}:
        own = [run.number for run in runs if run.environment == environment]
        newest.update(own[-keep:] if keep else [])
    old = (run for run in runs if before is None or run.started < before)
    return [run for run in old if run.number not in newest and run.commit not in commits]


def remove_runs(connection: Connection, runs: Collection[Run]) -> None:
    """Remove runs, with the scopes and cases that no other run has."""
    for environment in sorted({run.environment for run in runs}):
        _remove(connection, environment, {run.number for run in runs if run.environment == environment})
    connection.execute(delete(SCOPES).where(SCOPES.c.digest.not_in(select(RUNS.c.scope))))
    connection.execute(delete(CASES).where(CASES.c.id.not_in(select(LATEST.c.case_id))))


def _remove(connection: Connection, environment: str, gone: set[int]) -> None:
    order = [run.number for run in stored_runs(connection, environment)]
    positions = {run: position for position, run in enumerate(order)}
    scopes = scopes_of(connection, environment)
    staying = [(position, scopes[run]) for run, position in positions.items() if run not in gone]
    cases = list(connection.execute(select(LATEST.c.case_id).where(LATEST.c.environment == environment)).scalars())
    for part in chunks(cases):
        before = rows_of(connection, environment, part, positions)
        after = {case: without_runs(rows, _carrier(case, staying)) for case, rows in before.items()}
        write_rows(connection, environment, order, before, after)
        last = {case: rows[max(rows)] if rows else None for case, rows in after.items()}
        ends = {case: state for case, state in last.items() if state != before[case][max(before[case])]}
        digests = {case: None if state is None else digest_of(state) for case, state in ends.items()}
        write_latest(connection, environment, digests)
    connection.execute(delete(RUNS).where(RUNS.c.number == bindparam("gone")), [{"gone": run} for run in gone])


def _carrier(case: int, staying: Sequence[tuple[int, Scope]]) -> Callable[[int], int | None]:
    return lambda position: next((place for place, scope in staying if place >= position and case in scope), None)
