"""In which chunks are two sides measured, and how do they get into memory?

Arrays that the cores can read are cut, others are copied chunk by chunk. Threads read the next pieces of streams into
a few buffers that are used again, while others are measured. The cuts depend on the size and the layout alone, so that
no bit depends on threads.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import numpy as np

from precreg.storage import Array, ArrayStream

MeasuredSide = Array | ArrayStream

# Pieces that are read or measured at a time.
READ_AHEAD = 3
# Elements of a piece: 4 MiB of float32. Smaller requests would wait for a disk or a store.
PIECE = 1 << 20

Chunk = tuple[int, Array, Array]

# Elements of one copy of an array that is not in C order: 2 MiB of float64 stay in a core's caches.
COPY_CHUNK = 1 << 18
# Elements of one chunk without a copy: small enough for several chunks a thread, large enough for few merges.
IN_PLACE_CHUNK, MAX_IN_PLACE_CHUNK = 1 << 20, 1 << 21
# Elements between two releases of pages: a release costs a system call.
UNMAP_ELEMENTS = 1 << 21


def chunk_size(size: int) -> int:
    """Return the elements of one chunk. They do not depend on the number of threads, so no bit does."""
    return min(max(IN_PLACE_CHUNK, 1 << (size // 32).bit_length()), MAX_IN_PLACE_CHUNK)


def readable_in_place(*sides: Array) -> bool:
    """Return True if the cores can read all arrays where they are: in C order, aligned, in the machine's byte order."""
    for side in sides:
        flags = side.flags
        if not (flags.c_contiguous and flags.aligned and side.dtype.isnative):
            return False
    return True


def cut_chunks(actual: Array, reference: Array, low: int, high: int) -> Iterator[Chunk]:
    """Yield the flat chunks of a range, each with its first position.

    Aligned arrays in C order and the machine's byte order are cut. Other arrays are copied chunk by chunk into one
    buffer, so the caller must use a chunk before it takes the next.
    """
    if readable_in_place(actual, reference):
        a, r = actual.reshape(-1), reference.reshape(-1)
        chunk = chunk_size(a.size)
        for start in range(low, high, chunk):
            stop = min(start + chunk, high)
            yield start, a[start:stop], r[start:stop]
        return
    size = min(COPY_CHUNK, high - low)
    into = np.empty(size, actual.dtype.newbyteorder("=")), np.empty(size, reference.dtype.newbyteorder("="))
    for start in range(low, high, COPY_CHUNK):
        stop = min(start + COPY_CHUNK, high)
        copy_flat((actual, reference), start, stop, into)
        yield start, into[0][: stop - start], into[1][: stop - start]


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
    first, second = (
        side.buffer(length) if isinstance(side, ArrayStream) else np.empty(length, side.dtype.newbyteorder("="))
        for side in (actual, reference)
    )
    return first, second


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


def stream_chunk(*sides: MeasuredSide) -> int:
    """Return the elements of a chunk as cut_chunks has them for mapped files: sums of groups depend on the cuts."""
    in_order = all(side.is_in_order if isinstance(side, ArrayStream) else readable_in_place(side) for side in sides)
    return chunk_size(sides[0].size) if in_order else COPY_CHUNK


def unmap_chunks(chunks: Iterable[Chunk], *arrays: Array) -> Iterator[Chunk]:
    """Yield chunks one after the other, and release the pages of their arrays now and then."""
    read = 0
    for chunk in chunks:
        yield chunk
        read += chunk[1].size
        if read >= UNMAP_ELEMENTS:
            read = 0
            for array in arrays:
                unmap_read(array)


def unmap_read(array: Array) -> None:
    """Release the pages of the file behind a mapped array, so that the process does not grow by the file's size.

    The pages stay in the system's cache, from where another thread can read them again. Only np.memmap of mode "r" is
    released, so that no written element is lost; any other array stays as it is.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    mapped, advice = owner.base, getattr(mmap, "MADV_DONTNEED", None)
    if advice is not None and isinstance(owner, np.memmap) and owner.mode == "r" and isinstance(mapped, mmap.mmap):
        mapped.madvise(advice)
