"""A history as text, complete and readable: JSON Lines, a header, then the runs, then the cases.

A case's line says which runs ran it, as ranges of run numbers from first to last in the order of the runs of its
environment, and its state at each run where that changed. The header counts both, so a file that was cut is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Annotated, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, func, select

from precreg.errors import UserError
from precreg.history.add import NewRun, in_utc
from precreg.history.coding import Scope
from precreg.history.read import chunks, rows_of, scopes_of, stored_runs
from precreg.history.state import Kept
from precreg.history.tables import CASES, LATEST, RUNS, SCHEMA

_T = TypeVar("_T", bound=Struct)


class Header(Struct, frozen=True):
    """The first line: whose history, and how many lines of runs and of cases follow."""

    schema: str
    project: str
    runs: int
    cases: int


class RunLine(NewRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One run with its number in the history that was exported."""

    number: Annotated[int, Meta(ge=1, lt=2**31 - 1)]


class CaseLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One case in one environment."""

    case: str
    environment: str
    ran: list[tuple[int, int]]
    changes: dict[int, Kept]


class _RawCaseLine(Struct, frozen=True):
    case: str
    environment: str
    ran: list[tuple[int, int]]
    changes: dict[int, msgspec.Raw]


def exported(connection: Connection, project: str) -> Iterator[bytes]:
    """Yield the lines of a history; equal histories give equal lines."""
    runs = stored_runs(connection)
    cases = connection.execute(select(func.count()).select_from(LATEST)).scalar_one()
    yield _line(Header(SCHEMA, project, len(runs), cases))
    identities = {number: identity for number, identity in connection.execute(select(RUNS.c.number, RUNS.c.identity))}
    for run in runs:
        yield _line(RunLine(identity=identities[run.number], **asdict(run)))
    names = {id: name for name, id in sorted((name, id) for id, name in connection.execute(select(CASES)))}
    for environment in sorted({run.environment for run in runs}):
        order = [run.number for run in runs if run.environment == environment]
        yield from map(_line, _cases(connection, environment, order, names))


def _cases(
    connection: Connection, environment: str, order: Sequence[int], names: Mapping[int, str]
) -> Iterator[_RawCaseLine]:
    positions = {number: position for position, number in enumerate(order)}
    scopes = scopes_of(connection, environment)
    for part in chunks(names):
        rows = rows_of(connection, environment, part, positions)
        for case in (case for case in part if case in rows):
            changes = {order[position]: msgspec.Raw(rows[case][position].encode()) for position in sorted(rows[case])}
            yield _RawCaseLine(names[case], environment, list(_ranges(case, order, scopes)), changes)


def _ranges(case: int, order: Sequence[int], scopes: Mapping[int, Scope]) -> Iterator[tuple[int, int]]:
    for ran, group in groupby(order, lambda number: case in scopes[number]):
        if ran:
            numbers = list(group)
            yield numbers[0], numbers[-1]


def _line(value: Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"


class Export:
    """An export that is read: its header and runs at once, its cases one by one.

    Raises:
        UserError: unreadable-history, future-schema; with the line.
    """

    def __init__(self, lines: Iterable[bytes], shown: str) -> None:
        self.shown = shown
        self._lines, self._number = iter(lines), 0
        self.header = self._next(Header)
        self._check_schema()
        self.runs = [self._next(RunLine) for _ in range(self.header.runs)]
        self._check_order()
        self._order: dict[str, list[int]] = {}
        for run in self.runs:
            self._order.setdefault(run.environment, []).append(run.number)

    def cases(self) -> Iterator[CaseLine]:
        """Yield the cases, and find the end of the file after the last."""
        last = ("", "")
        for _ in range(self.header.cases):
            case = self._next(CaseLine)
            last, before = (case.environment, case.case), last
            if last <= before:
                self._refuse("expected environments, and the cases of each, in order and once")
            if not set(case.changes) <= {*self.ran(case)} or not case.ran or case.ran[0][0] not in case.changes:
                self._refuse("expected a state at the first run that ran the case, and no state where none did")
            yield case
        if next(self._lines, None) is not None:
            self._refuse(f"expected {self.header.cases} cases but there are more lines")

    def ran(self, case: CaseLine) -> list[int]:
        """Return the numbers of the runs that ran a case, in order."""
        order = self._order.get(case.environment, [])
        try:
            return [n for first, last in case.ran for n in order[order.index(first) : order.index(last) + 1]]
        except ValueError:
            self._refuse(f"expected runs of {case.environment} but got ran={case.ran}")

    def _check_schema(self) -> None:
        known, version = (schema.rpartition("/") for schema in (SCHEMA, self.header.schema))
        if version[0] != known[0] or not version[2].isdecimal():
            self._refuse(f"expected a history of schema {SCHEMA} but got schema={self.header.schema!r}")
        if int(version[2]) > int(known[2]):
            message = f"expected schema {SCHEMA} or older but got schema={self.header.schema}"
            raise UserError("future-schema", message, file=self.shown, line=1)

    def _check_order(self) -> None:
        keys = [(run.started, run.number) for run in self.runs]
        if keys != sorted(keys) or not all(_is_in_utc(run.started) for run in self.runs):
            self._refuse("expected runs in the order in which they started, in UTC")
        for name in ("number", "identity"):
            if len({getattr(run, name) for run in self.runs}) < len(self.runs):
                self._refuse(f"expected runs that differ in {name}")

    def _next(self, kind: type[_T]) -> _T:
        line = next(self._lines, None)
        self._number += 1
        if line is None:
            self._refuse("expected more lines: the file was cut")
        try:
            return msgspec.json.decode(line, type=kind)
        except (ValueError, RecursionError) as problem:
            self._refuse(f"expected a line of a history but got: {problem}")

    def _refuse(self, message: str) -> NoReturn:
        raise UserError("unreadable-history", message, file=self.shown, line=self._number)


def _is_in_utc(started: str) -> bool:
    try:
        return in_utc(started) == started
    except UserError:
        return False


def groups(cases: Iterable[CaseLine], size: int) -> Iterator[list[CaseLine]]:
    """Yield the cases in lists, each of one environment."""
    for _, of_one in groupby(cases, lambda case: case.environment):
        while part := list(islice(of_one, size)):
            yield part
