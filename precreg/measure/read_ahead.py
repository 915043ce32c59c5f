"""How are the next elements of two streams read, while others are measured?

Threads fill a few buffers ahead. Each buffer is used again, so that memory does not grow with the arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import numpy as np

from precreg.measure.pairing import Chunk
from precreg.storage import Array, ArrayStream

MeasuredSide = Array | ArrayStream

# Pieces that are read or measured at a time.
READ_AHEAD = 3
# Elements of a piece: 4 MiB of float32. Smaller requests would wait for a disk or a store.
PIECE = 1 << 20


class _Piece(NamedTuple):
    """The first position of a piece, and its two reads."""

    start: int
    reads: tuple[Future[Array], Future[Array]]


def read_ahead(actual: MeasuredSide, reference: MeasuredSide, places: range, chunk: int) -> Iterator[Chunk]:
    """Yield chunks of a range of places, each with its first place, in the machine's byte order.

    The caller must use a chunk before it takes the next. Raises UserError as the streams do.
    """
    length = chunk * max(1, PIECE // chunk)
    starts = iter(range(places.start, places.stop, length))
    with ThreadPoolExecutor(2) as readers:

        def ask(start: int, into: tuple[Array, Array]) -> tuple[_Piece, tuple[Array, Array]]:
            size = min(length, places.stop - start)
            first, second = (
                readers.submit(_read, side, start, buffer[:size])
                for side, buffer in zip((actual, reference), into, strict=True)
            )
            return _Piece(start, (first, second)), into

        asked = deque(ask(start, _buffers(actual, reference, length)) for start in islice(starts, READ_AHEAD))
        while asked:
            piece, into = asked.popleft()
            a, r = (read.result() for read in piece.reads)
            for at in range(0, a.size, chunk):
                yield piece.start + at, a[at : at + chunk], r[at : at + chunk]
            # Its elements are measured, so that its buffers are free.
            asked.extend(ask(start, into) for start in islice(starts, 1))


def _buffers(actual: MeasuredSide, reference: MeasuredSide, length: int) -> tuple[Array, Array]:
    return np.empty(length, actual.dtype.newbyteorder("=")), np.empty(length, reference.dtype.newbyteorder("="))


def _read(side: MeasuredSide, start: int, into: Array) -> Array:
    if isinstance(side, ArrayStream):
        side.read(start, into)
    elif side.flags.c_contiguous:
        into[...] = side.reshape(-1)[start : start + into.size]
    else:
        copy_flat((side, side), start, start + into.size, (into, into))
    return into


def copy_flat(arrays: tuple[Array, Array], start: int, stop: int, into: tuple[Array, Array]) -> None:
    """Copy a range of two arrays, flat in C order, into two flat ones."""
    # nditer copies any range in C order without a copy of the whole array, which reshape(-1) would make.
    flags = ["external_loop", "buffered", "ranged"]
    with np.nditer(arrays, flags, [["readonly"], ["readonly"]], order="C", buffersize=1 << 14) as pieces:  # type: ignore[call-overload]
        pieces.iterrange = (start, stop)
        done = 0
        for a, r in pieces:
            into[0][done : done + a.size] = a
            into[1][done : done + a.size] = r
            done += a.size
