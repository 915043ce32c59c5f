"""Which tables does a history have, and how do few rows encode the states of a case over many runs?

A case has a row in `figures` only at runs that changed its state. The scope of a run is the set of cases that it ran.
So "unchanged" (in the scope, no row) differs from "not run" (not in the scope). Runs with equal scopes share one.
`last` has the digest of the last state of each case in each environment. Rows name environments, cases and texts by
number, because they repeat in most of the rows.

The runs of an environment have positions 0, 1, 2, ... in the order of their start. If a run's scope has a case, the
state of the case is in its last row at or before that run. Rows stand only at runs that ran the case, and neighbouring
rows differ. So the states determine the rows, in whatever order runs were added.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from zlib import compress

from sqlalchemy import Boolean, Column, Dialect, Integer, LargeBinary, MetaData, Table, Text, TypeDecorator

HISTORY_SCHEMA = "precreg-history/2"
TABLES_METADATA = MetaData()


class DamagedError(Exception):
    """Report that the database has rows that no history wrote."""


class _Checked(TypeDecorator[Any]):
    """Refuse a stored value of another type: SQLite keeps any value in any column."""

    stored_type: type

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if type(value) is not self.stored_type:
            raise DamagedError(f"expected a value of type {self.stored_type.__name__} but got {str(value)[:40]!r}")
        return value


class CheckedText(_Checked):
    """A text."""

    impl = Text
    cache_ok = True
    stored_type = str


class CheckedBinary(_Checked):
    """Bytes."""

    impl = LargeBinary
    cache_ok = True
    stored_type = bytes


class _Boolean(_Checked):
    impl = Boolean
    cache_ok = True
    stored_type = bool


class CheckedInteger(_Checked):
    """An integer of at least 0 that fits into the INTEGER of PostgreSQL."""

    impl = Integer
    cache_ok = True
    stored_type = int

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return a stored integer. Raises DamagedError."""
        number = super().process_result_value(value, dialect)
        if not 0 <= number < 2**31:
            raise DamagedError(f"expected a number from 0 to 2147483647 but got {number}")
        return number


# This table has one row: the schema, the name of the project, and the number of the next run.
HISTORY_TABLE = Table(
    "precreg_history",
    TABLES_METADATA,
    Column("version", CheckedText(), nullable=False),
    Column("project", CheckedText(), nullable=False),
    Column("next_number", CheckedInteger(), nullable=False),
)

# `identity` recognises a run that is added twice. `scope` is a digest in SCOPES_TABLE.
RUNS_TABLE = Table(
    "precreg_runs",
    TABLES_METADATA,
    Column("number", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("identity", CheckedText(), nullable=False, unique=True),
    Column("started", CheckedText(), nullable=False),
    Column("commit_id", CheckedText(), nullable=False),
    Column("branch", CheckedText(), nullable=False),
    Column("dirty", _Boolean(), nullable=False),
    Column("environment", CheckedText(), nullable=False),
    Column("fingerprint", CheckedText(), nullable=False),
    Column("facts", CheckedText(), nullable=False),
    Column("precreg", CheckedText(), nullable=False),
    Column("exit_code", CheckedInteger(), nullable=False),
    Column("scope", CheckedText(), nullable=False),
)

# Most runs of a project run the same cases, so they share one bitmap.
SCOPES_TABLE = Table(
    "precreg_scopes",
    TABLES_METADATA,
    Column("digest", CheckedText(), primary_key=True),
    Column("bitmap", CheckedBinary(), nullable=False),
)

CASES_TABLE = Table(
    "precreg_cases",
    TABLES_METADATA,
    Column("id", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("name", CheckedText(), nullable=False, unique=True),
)

ENVIRONMENTS_TABLE = Table(
    "precreg_environments",
    TABLES_METADATA,
    Column("id", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("label", CheckedText(), nullable=False, unique=True),
)

# Definitions, reasons, and the names of outputs and metrics. The digest is the key, because an entry of an index of
# PostgreSQL has at most 2,704 bytes, and a case with many outputs has longer names.
TEXTS_TABLE = Table(
    "precreg_texts",
    TABLES_METADATA,
    Column("id", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("digest", CheckedBinary(), nullable=False, unique=True),
    Column("text", CheckedText(), nullable=False),
)

# In SQLite the rows are in the order of the key: the rows of a case are on one page or two, and the key has no index of
# its own. PostgreSQL appends rows, and has an index.
FIGURES_TABLE = Table(
    "precreg_figures",
    TABLES_METADATA,
    Column("environment", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("case_id", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("run", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("definition", CheckedInteger(), nullable=False),
    Column("reason", CheckedInteger(), nullable=False),
    Column("form", CheckedInteger(), nullable=False),
    Column("figures", CheckedBinary(), nullable=False),
    sqlite_with_rowid=False,
)

LAST_TABLE = Table(
    "precreg_last",
    TABLES_METADATA,
    Column("environment", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("case_id", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("digest", CheckedBinary(), nullable=False),
    sqlite_with_rowid=False,
)


_T = TypeVar("_T")

# The states of one case by the position of the run, in the order of the positions.
StateRows = dict[int, _T]


# 134 million cases. A damaged scope could otherwise unpack to more than the memory holds.
MAX_SCOPE_BYTES = 1 << 24


class Scope:
    """Store a set of case ids as a bitmap.

    100,000 cases take 12 KB, and a few hundred bytes when compressed.
    """

    def __init__(self, bitmap: bytes) -> None:
        self._bitmap = bitmap

    @classmethod
    def of(cls, ids: Iterable[int]) -> Scope:
        """Return the scope of the ids, which must be at least 0."""
        members = sorted(ids)
        bitmap = bytearray(members[-1] // 8 + 1 if members else 0)
        for member in members:
            bitmap[member >> 3] |= 1 << (member & 7)
        return cls(bytes(bitmap))

    @classmethod
    def unpacked(cls, packed: bytes) -> Scope:
        """Return the scope from the bytes of `packed`. Raises DamagedError."""
        unpacker = zlib.decompressobj()
        try:
            bitmap = unpacker.decompress(packed, MAX_SCOPE_BYTES)
        except zlib.error as problem:
            raise DamagedError(f"the scope of a run cannot be read: {problem}") from None
        if not unpacker.eof:
            limit = f"it is cut, or has more than {MAX_SCOPE_BYTES} bytes"
            raise DamagedError(f"the scope of a run cannot be read: {limit}")
        return cls(bitmap)

    def packed(self) -> bytes:
        """Return the compressed bitmap."""
        return compress(self._bitmap)

    @property
    def bitmap(self) -> bytes:
        """Return the bits of the ids 0, 1, 2, ...: eight in a byte, the lowest bit first."""
        return self._bitmap

    def __contains__(self, id: int) -> bool:
        place = id >> 3
        return place < len(self._bitmap) and bool(self._bitmap[place] >> (id & 7) & 1)


def encode_states(states: StateRows[_T]) -> StateRows[_T]:
    """Return the rows of the states: every state that differs from the state before."""
    rows: StateRows[_T] = {}
    last: _T | None = None
    for position in sorted(states):
        if states[position] != last:
            last = rows[position] = states[position]
    return rows


def decode_states(rows: StateRows[_T], ran: Iterable[int]) -> StateRows[_T]:
    """Return the state at each position of `ran`, which is in ascending order.

    Raises:
        DamagedError: if a position is before the first row.
    """
    changes, ran = sorted(rows), list(ran)
    if ran and (not changes or ran[0] < changes[0]):
        raise DamagedError("a run has a case without a stored state")
    return {position: rows[changes[bisect_right(changes, position) - 1]] for position in ran}


def stretches_of(rows: StateRows[_T], ran: Sequence[int]) -> list[tuple[_T, Sequence[int]]]:
    """Return each state with the positions of `ran` that had it, oldest first. `ran` is in ascending order.

    Raises:
        DamagedError: if a position is before the first row.
    """
    changes = sorted(rows)
    if ran and (not changes or ran[0] < changes[0]):
        raise DamagedError("a run has a case without a stored state")
    # A row is at a run that ran the case, but the first positions may be cut off.
    ends = [*(bisect_left(ran, change) for change in changes[1:]), len(ran)]
    begins = [0, *ends]
    found = ((rows[change], ran[begin:end]) for change, begin, end in zip(changes, begins, ends, strict=False))
    return [(state, places) for state, places in found if places]


def insert_state(rows: StateRows[_T], position: int, state: _T, following: int | None) -> StateRows[_T]:
    """Return the rows with one more state at a position without a run.

    `following` is the position of the next run that ran the case, or None without a later run.
    """
    # The following run may have no row because its state equals the state before `position`. It gets a row first;
    # encode_states removes the row again if it repeats the new state.
    added = {position: state}
    if following is not None:
        added |= decode_states(rows, [following])
    return encode_states(rows | added)


def without_runs(rows: StateRows[_T], carrier: Callable[[int], int | None]) -> StateRows[_T]:
    """Return the rows without the removed runs. The states at the other runs do not change.

    `carrier(position)` is the position of the first remaining run at or after a position that ran the case, or None.
    """
    moved: StateRows[_T] = {}
    for position in sorted(rows, reverse=True):
        heir = carrier(position)
        if heir is not None and heir not in moved:  # a later row has set the state of that run already
            moved[heir] = rows[position]
    return encode_states(moved)
