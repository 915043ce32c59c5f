"""The tables of a history. A case has a row in `changes` only at a run where what is kept of it changed.

A run's scope is the set of cases that it ran, stored once for all runs that ran the same: so "unchanged" (in the
scope, no row) differs from "not run" (a selection, a shard, a device that was not there, a case that is gone).
`latest` holds, for each case in each environment, the digest of its state at the last run that ran it.

Changed rows alone: how the states of one case over many runs are kept as few rows, and read back.

The runs of an environment have positions 0, 1, 2, ... in order of their start. The state of a case at a run in whose
scope it is, is that of its last row at or before that run. A case's rows stand at runs that ran it, and no two
neighbouring rows are equal: so the rows are a function of the states, whatever the order in which runs were added.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import compress, decompress

from sqlalchemy import Boolean, Column, Integer, LargeBinary, MetaData, Table, Text

HISTORY_SCHEMA = "precreg-history/1"


TABLES_METADATA = MetaData()


HISTORY_TABLE = Table(
    "precreg_history",
    TABLES_METADATA,
    Column("version", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("next_number", Integer, nullable=False),
)
"""One row: what this is, whose, and the number of the next run."""


RUNS_TABLE = Table(
    "precreg_runs",
    TABLES_METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("identity", Text, nullable=False, unique=True),
    Column("started", Text, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("dirty", Boolean, nullable=False),
    Column("environment", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("precreg", Text, nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("scope", Text, nullable=False),
)


SCOPES_TABLE = Table(
    "precreg_scopes",
    TABLES_METADATA,
    Column("digest", Text, primary_key=True),
    Column("bitmap", LargeBinary, nullable=False),
)


CASES_TABLE = Table(
    "precreg_cases",
    TABLES_METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
)


CHANGES_TABLE = Table(
    "precreg_changes",
    TABLES_METADATA,
    Column("environment", Text, primary_key=True),
    Column("case_id", Integer, primary_key=True, autoincrement=False),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
)
"""SQLite appends rows and keys them apart: rows kept in the order of the key would split a page for nearly each."""


LATEST_TABLE = Table(
    "precreg_latest",
    TABLES_METADATA,
    Column("environment", Text, primary_key=True),
    Column("case_id", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


_T = TypeVar("_T")


StateRows = dict[int, _T]
"""The states of one case by position, in order."""


class DamagedError(Exception):
    """What is stored cannot be what a history wrote."""


class Scope:
    """A set of case ids as a bitmap: a hundred thousand cases are 12 KB, a few hundred bytes when compressed."""

    def __init__(self, bitmap: bytes) -> None:
        self._bitmap = bitmap

    @classmethod
    def of(cls, ids: Iterable[int]) -> Scope:
        """Make the scope of these ids, which are not negative."""
        members = sorted(ids)
        bitmap = bytearray(members[-1] // 8 + 1 if members else 0)
        for member in members:
            bitmap[member >> 3] |= 1 << (member & 7)
        return cls(bytes(bitmap))

    @classmethod
    def unpacked(cls, packed: bytes) -> Scope:
        """Read what `packed` gave. Raises DamagedError."""
        try:
            return cls(decompress(packed))
        except zlib.error as problem:
            raise DamagedError(f"which cases a run ran cannot be read: {problem}") from None

    def packed(self) -> bytes:
        """Return the bytes to store."""
        return compress(self._bitmap)

    def __contains__(self, id: int) -> bool:
        place = id >> 3
        return place < len(self._bitmap) and bool(self._bitmap[place] >> (id & 7) & 1)


def encode_states(states: StateRows[_T]) -> StateRows[_T]:
    """Leave out every state that is equal to the one before it."""
    rows: StateRows[_T] = {}
    last: _T | None = None
    for position in sorted(states):
        if states[position] != last:
            last = rows[position] = states[position]
    return rows


def decode_states(rows: StateRows[_T], ran: Iterable[int]) -> StateRows[_T]:
    """Return the state at each of the positions, which are in order.

    Raises:
        DamagedError: if one is before the first row.
    """
    changes, ran = sorted(rows), list(ran)
    if ran and (not changes or ran[0] < changes[0]):
        raise DamagedError("a run ran a case of which nothing is stored")
    return {position: rows[changes[bisect_right(changes, position) - 1]] for position in ran}


def insert_state(rows: StateRows[_T], position: int, state: _T, following: int | None) -> StateRows[_T]:
    """Return the rows after one more run at a position that has none.

    `following` is the position of the next run that ran the case: it has relied on the state before.
    """
    added = {position: state}
    if following is not None:
        added |= decode_states(rows, [following])
    return encode_states(rows | added)


def without_runs(rows: StateRows[_T], carrier: Callable[[int], int | None]) -> StateRows[_T]:
    """Return the rows after runs were removed; what stays has the states that it had.

    `carrier(position)` is the first run at or after a position that stays and ran the case, None where there is none.
    """
    moved: StateRows[_T] = {}
    for position in sorted(rows, reverse=True):
        heir = carrier(position)
        if heir is not None and heir not in moved:  # else a later row speaks for that run
            moved[heir] = rows[position]
    return encode_states(moved)
