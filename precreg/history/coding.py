"""Changed rows alone: how the states of one case over many runs are kept as few rows, and read back.

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

T = TypeVar("T")


Rows = dict[int, T]
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


def coded(states: Rows[T]) -> Rows[T]:
    """Leave out every state that is equal to the one before it."""
    rows: Rows[T] = {}
    last: T | None = None
    for position in sorted(states):
        if states[position] != last:
            last = rows[position] = states[position]
    return rows


def expanded(rows: Rows[T], ran: Iterable[int]) -> Rows[T]:
    """Return the state at each of the positions, which are in order.

    Raises:
        DamagedError: if one is before the first row.
    """
    changes, ran = sorted(rows), list(ran)
    if ran and (not changes or ran[0] < changes[0]):
        raise DamagedError("a run ran a case of which nothing is stored")
    return {position: rows[changes[bisect_right(changes, position) - 1]] for position in ran}


def inserted(rows: Rows[T], position: int, state: T, following: int | None) -> Rows[T]:
    """Return the rows after one more run at a position that has none.

    `following` is the position of the next run that ran the case: it has relied on the state before.
    """
    added = {position: state}
    if following is not None:
        added |= expanded(rows, [following])
    return coded(rows | added)


def without_runs(rows: Rows[T], carrier: Callable[[int], int | None]) -> Rows[T]:
    """Return the rows after runs were removed; what stays has the states that it had.

    `carrier(position)` is the first run at or after a position that stays and ran the case, None where there is none.
    """
    moved: Rows[T] = {}
    for position in sorted(rows, reverse=True):
        heir = carrier(position)
        if heir is not None and heir not in moved:  # else a later row speaks for that run
            moved[heir] = rows[position]
    return coded(moved)
