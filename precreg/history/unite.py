"""Importing an export: the runs that are not there yet take their places among those that are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select, update

from precreg.history.add import add_cases, case_ids, write_latest, write_rows, write_run
from precreg.history.coding import Rows, Scope, coded, expanded
from precreg.history.exchange import CaseLine, Export, RunLine, groups
from precreg.history.read import CHUNK, rows_of, scopes_of, stored_runs
from precreg.history.state import State, digest_of
from precreg.history.tables import HISTORY, RUNS


def unite(connection: Connection, export: Export) -> int:
    """Add the runs of an export that are new, and return how many. An empty history takes over their numbers, too."""
    known = set(connection.execute(select(RUNS.c.identity)).scalars())
    new = [run for run in export.runs if run.identity not in known]
    numbers = _numbers(connection, new, keep=not known)
    ids = case_ids(connection)
    scopes: dict[int, set[int]] = {run.number: set() for run in new}
    environments = {name: _Environment(connection, name, new, numbers) for name in {run.environment for run in new}}
    for part in groups(export.cases(), CHUNK):
        cases = [_Case(line, export.ran(line)) for line in part if line.environment in environments]
        add_cases(connection, ids, (case.line.case for case in cases))
        by_id = {ids[case.line.case]: case for case in cases}
        if by_id:
            environments[part[0].environment].add(connection, by_id)
        for id, case in by_id.items():
            for ran in scopes.keys() & case.ran:
                scopes[ran].add(id)
    for run in new:
        write_run(connection, run, numbers[run.number], Scope.of(scopes[run.number]))
    return len(new)


def _numbers(connection: Connection, new: Iterable[RunLine], *, keep: bool) -> dict[int, int]:
    """Return the number here of each new run, by its number in the export."""
    first = connection.execute(select(HISTORY.c.next_number)).scalar_one()
    numbers = {run.number: run.number if keep else first + place for place, run in enumerate(new)}
    connection.execute(update(HISTORY).values(next_number=max([first - 1, *numbers.values()]) + 1))
    return numbers


class _Case:
    """A case of an export, and the numbers there of the runs that ran it, in order."""

    def __init__(self, line: CaseLine, ran: list[int]) -> None:
        self.line, self.ran = line, ran
        self.states = {number: State.of(kept).text for number, kept in line.changes.items()}

    def every_state(self) -> dict[int, str]:
        """Return the state at each run, by its number in the export."""
        places = {number: place for place, number in enumerate(self.ran)}
        rows = {places[number]: text for number, text in self.states.items()}
        return dict(zip(self.ran, expanded(rows, places.values()).values(), strict=True))


class _Environment:
    """The runs of one environment in order, those that are here and the new ones."""

    def __init__(self, connection: Connection, name: str, new: Iterable[RunLine], numbers: Mapping[int, int]) -> None:
        here = [(run.started, run.number) for run in stored_runs(connection, name)]
        added = [(run.started, numbers[run.number]) for run in new if run.environment == name]
        self._name, self._order = name, [number for _, number in sorted(here + added)]
        self._positions = {number: position for position, number in enumerate(self._order)}
        self._scopes = scopes_of(connection, name)
        self._new = {run.number: self._positions[numbers[run.number]] for run in new if run.environment == name}

    def add(self, connection: Connection, cases: Mapping[int, _Case]) -> None:
        """Write the states of some cases, by their ids here, at the runs that are new."""
        before = rows_of(connection, self._name, cases, self._positions)
        after = {id: self._united(id, before.get(id, {}), case) for id, case in cases.items()}
        write_rows(connection, self._name, self._order, before, after)
        last = {id: digest_of(rows[max(rows)]) for id, rows in after.items() if rows}
        write_latest(connection, self._name, last)

    def _united(self, id: int, before: Rows[str], case: _Case) -> Rows[str]:
        if not before and self._new.keys() >= set(case.ran):
            return coded({self._new[number]: text for number, text in case.states.items()})
        ran = sorted(self._positions[number] for number, scope in self._scopes.items() if id in scope)
        theirs = {self._new[number]: text for number, text in case.every_state().items() if number in self._new}
        return coded(expanded(before, ran) | theirs)
