"""Which runs does a history have, in which order, and which cases did each of them run?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Select, insert, select
from sqlalchemy.exc import DBAPIError

from precreg.errors import UserError
from precreg.history.packing import PackedState
from precreg.history.rows import (
    CASES_TABLE,
    ENVIRONMENTS_TABLE,
    FIGURES_TABLE,
    LAST_TABLE,
    RUNS_TABLE,
    SCOPES_TABLE,
    DamagedError,
    Scope,
    StateRows,
)

if TYPE_CHECKING:
    import numpy as np

    Flags = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


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


def stored_runs(connection: Connection, environment: str | None = None) -> list[HistoryRun]:
    """Return the runs in the order of their start. Runs with an equal start are in the order of adding."""
    query = select(RUNS_TABLE)
    if environment is not None:
        query = query.where(RUNS_TABLE.c.environment == environment)
    # Most runs have the facts of the run before.
    facts: dict[str, dict[str, str]] = {}
    found = [
        HistoryRun(
            number=row.number,
            started=row.started,
            commit=row.commit_id,
            branch=row.branch,
            dirty=row.dirty,
            environment=row.environment,
            fingerprint=row.fingerprint,
            facts=facts.get(row.facts) or facts.setdefault(row.facts, _decode_facts(row.facts)),
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


class EnvironmentRuns:
    """Hold the runs of one environment in the order of their start, with the cases that each ran.

    `id` is 0 for an environment without a run. `order` has the numbers of the runs, and `positions` their places.
    """

    def __init__(self, connection: Connection, label: str) -> None:
        self.label, self.id = label, environment_id(connection, label)
        columns = (RUNS_TABLE.c.started, RUNS_TABLE.c.number, RUNS_TABLE.c.scope)
        query = select(*columns).where(RUNS_TABLE.c.environment == label)
        found = sorted(fetch_many(connection, query, (str, int, str)))
        self.order: list[int] = [number for _, number, _ in found]
        self.positions = {number: position for position, number in enumerate(self.order)}
        digests = list(dict.fromkeys(digest for _, _, digest in found))
        # Runs with equal scopes share one Scope, because thousands of runs usually have a few different scopes.
        places = {digest: place for place, digest in enumerate(digests)}
        self._scope_at = [places[digest] for _, _, digest in found]
        of_label = select(RUNS_TABLE.c.scope).where(RUNS_TABLE.c.environment == label)
        stored = connection.execute(select(SCOPES_TABLE).where(SCOPES_TABLE.c.digest.in_(of_label)))
        unpacked = {row.digest: Scope.unpacked(row.bitmap) for row in stored}
        if not unpacked.keys() >= places.keys():
            raise DamagedError("a run has no stored scope")
        self._scopes = [unpacked[digest] for digest in digests]
        self._ran: dict[bytes, list[int]] = {}

    def position_of(self, run: int | None) -> int:
        """Return the position of a run, 0 for None. Raises UserError (bad-value)."""
        if run is not None and run not in self.positions:
            raise UserError(
                "bad-value",
                f"expected the number of a run in {self.label} but got run={run}",
                hint=f"write a number that precreg history list shows, such as {self.order[-1] if self.order else 1}",
            )
        return 0 if run is None else self.positions[run]

    def ran(self, cases: Sequence[int]) -> list[list[int]]:
        """Return for each case the positions of the runs that ran it. Cases that ran in the same runs share a list."""
        import numpy as np

        if not self._scopes:
            return [[] for _ in cases]
        ids = np.array(cases, np.int64)
        # A new id is beyond the bitmaps of all runs.
        inside = ids >> 3 < self._bitmaps.shape[1]
        bits = self._bitmaps[:, np.where(inside, ids >> 3, 0)] >> (ids & 7).astype(np.uint8) & 1
        flags = np.packbits((bits * inside).astype(bool), axis=0).T.copy()
        return [self._positions_of(one.tobytes()) for one in flags]

    @cached_property
    def _bitmaps(self) -> Flags:
        import numpy as np

        found = np.zeros((len(self._scopes), max(len(scope.bitmap) for scope in self._scopes) or 1), np.uint8)
        for row, scope in zip(found, self._scopes, strict=True):
            row[: len(scope.bitmap)] = np.frombuffer(scope.bitmap, np.uint8)
        return found

    def _positions_of(self, packed: bytes) -> list[int]:
        if packed not in self._ran:
            has = [packed[place >> 3] >> (7 - (place & 7)) & 1 for place in range(len(self._scopes))]
            # As many lists as there are sets of runs. Cases seldom come and go, but a history may have random subsets.
            if len(self._ran) > 10_000:
                self._ran.clear()
            self._ran[packed] = [position for position, scope in enumerate(self._scope_at) if has[scope]]
        return self._ran[packed]


def environment_id(connection: Connection, label: str) -> int:
    """Return the number of an environment; 0 if the history does not have it."""
    query = select(ENVIRONMENTS_TABLE.c.id).where(ENVIRONMENTS_TABLE.c.label == label)
    found: int | None = connection.execute(query).scalar()
    return found or 0


def new_environment_id(connection: Connection, label: str) -> int:
    """Return the number of an environment, and write an environment that the history does not have."""
    if found := environment_id(connection, label):
        return found
    number = max(connection.execute(select(ENVIRONMENTS_TABLE.c.id)).scalars(), default=0) + 1
    connection.execute(insert(ENVIRONMENTS_TABLE).values(id=number, label=label))
    return number


def case_names(connection: Connection, environment: str) -> list[str]:
    """Return the cases that runs of an environment ran, sorted."""
    of_environment = select(LAST_TABLE.c.case_id).where(
        LAST_TABLE.c.environment == environment_id(connection, environment)
    )
    query = select(CASES_TABLE.c.name).where(CASES_TABLE.c.id.in_(of_environment))
    return sorted(connection.execute(query).scalars())


def all_cases(connection: Connection) -> dict[str, int]:
    """Return the id of every case of the history by name. Raises DamagedError."""
    return dict(fetch_many(connection, select(CASES_TABLE.c.name, CASES_TABLE.c.id), (str, int)))


def named_cases(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Return the ids of the cases that have these names."""
    query = select(CASES_TABLE.c.name, CASES_TABLE.c.id).where(CASES_TABLE.c.name.in_(names))
    return {name: id for name, id in connection.execute(query)}


def fetch_many(connection: Connection, query: Select[Any], types: Sequence[type]) -> list[Any]:
    """Return the rows of a query as plain tuples. Raises DamagedError for a value of another type."""
    # The driver's rows: SQLAlchemy's, and the types of its columns, cost five times as much for 100,000 rows.
    result = connection.execute(query)
    try:
        rows: list[Any] = [] if result.cursor is None else list(result.cursor.fetchall())
    except connection.dialect.loaded_dbapi.Error as problem:
        # SQLAlchemy does so for its own rows.
        raise DBAPIError(str(query), None, problem) from None
    finally:
        result.close()
    for column, kind in enumerate(types):
        # SQLite keeps any value in any column.
        for found in {type(row[column]) for row in rows} - {kind}:
            raise DamagedError(f"expected a value of type {kind.__name__} but got one of type {found.__name__}")
    return rows


def case_rows(
    connection: Connection, environment: int, cases: Collection[int], positions: Mapping[int, int]
) -> dict[int, StateRows[PackedState]]:
    """Return the rows of the cases by case id and by position of the run. Raises DamagedError."""
    table = FIGURES_TABLE.c
    columns = table.case_id, table.run, table.definition, table.reason, table.form, table.figures
    query = select(*columns).where(table.environment == environment, table.case_id.in_(cases))
    found: dict[int, StateRows[PackedState]] = {}
    for case, run, *state in fetch_many(connection, query, (int, int, int, int, int, bytes)):
        if run not in positions:
            raise DamagedError(f"a state belongs to run {run}, which does not exist")
        found.setdefault(case, {})[positions[run]] = PackedState(*state)
    return found
