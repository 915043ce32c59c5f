"""How is a large array read in pieces, from a file or from an object of a store?

A mapped file is read at the moment at which its numbers are needed. Pieces are read ahead, while others are measured.
A very large file is read past the page cache, except for the parts that are in it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from ctypes import CDLL, c_size_t, c_void_p, get_errno
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from threading import local
from typing import Any, Protocol
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.storage.object_store import RemoteFile, RemoteReader

# Bytes of one request. A connection of 100 MB/s carries them in 80 ms, of which the request takes a quarter.
_PIECE_BYTES = 1 << 23
# A multiple of the alignment of every dtype.
_ALIGNMENT = 64
# An array of so many bytes is read past the page cache, where it would take the place of other files. A comparison then
# spends 0.05 s a GB in the system, in place of 0.2 to 1.9 s: a virtual machine may have to ask its host for each page
# (two files of 1 GB on ext4, 4 runs).
DIRECT_BYTES = 1 << 30
# Such a read begins at multiples of this number, in the file and in memory. The file system refuses if it wants more.
_DIRECT_BLOCK = 4096
# The slugs of errors of a read.
STREAM_PROBLEMS = ("bad-array-file", "missing-file", "store-failed")


class _Reader(Protocol):
    """A file that fills buffers."""

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a place on. Raises UserError."""


class _FileReader:
    """A local file, for any number of threads. It reports a file that was cut off; a mapping would end the process."""

    def __init__(self, path: Path | str, shown: str, size: int) -> None:
        self._shown = shown
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(shown, error.strerror or "") from error
        # Open as long as its stream: a file of the same name may take its place meanwhile.
        finalize(self, os.close, self._descriptor)
        self._direct = _DirectReader.of(self._descriptor) if size >= DIRECT_BYTES else None

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a place on. Raises UserError (bad-array-file)."""
        done = 0
        while done < len(buffer):
            try:
                read = self._read(start + done, buffer[done:])
            except OSError as error:
                raise _unreadable(self._shown, error.strerror or "") from error
            if not read:
                raise _unreadable(self._shown, f"it ends at byte {start + done}, and was longer before")
            done += read

    def _read(self, place: int, buffer: memoryview) -> int:
        """Read the beginning of a buffer, and return its length; 0 at the end of the file."""
        # Another thread may set it to None meanwhile.
        direct = self._direct
        if direct is not None:
            try:
                if not direct.is_cached(place, len(buffer)):
                    return direct.read(place, buffer)
            # A file system may want larger blocks than ours. Reading then goes through the page cache.
            except OSError:
                self._direct = None
        return os.preadv(self._descriptor, [buffer], place)


class _DirectReader:
    """An open file that is read past the page cache, for any number of threads."""

    def __init__(self, descriptor: int) -> None:
        # By the descriptor: another file of the same name may have taken its place. Systems without it are not served.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT
        self._descriptor = os.open(f"/proc/self/fd/{descriptor}", flags)
        finalize(self, os.close, self._descriptor)
        # Nobody reads the mapping: it has the addresses for which the system knows the pages in its cache.
        self._pages = np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)
        self._mincore = CDLL(None, use_errno=True).mincore

    @classmethod
    def of(cls, descriptor: int) -> _DirectReader | None:
        """Return the reader of an open file; None where the system or the file system has none."""
        try:
            return cls(descriptor)
        except (AttributeError, OSError, ValueError):
            return None

    def is_cached(self, place: int, size: int) -> bool:
        """Return whether all pages of a range are in the page cache. Raises OSError."""
        first = place - place % mmap.PAGESIZE
        stop = min(place + size, self._pages.size)
        found = np.zeros(max(0, -(-(stop - first) // mmap.PAGESIZE)), np.uint8)
        address = c_void_p(self._pages.ctypes.data + first)
        if self._mincore(address, c_size_t(max(0, stop - first)), c_void_p(found.ctypes.data)):
            raise OSError(get_errno(), "mincore")
        return bool((found & 1).all())

    def read(self, place: int, buffer: memoryview) -> int:
        """Read whole blocks, and return the number of bytes that the buffer got; 0 at the end of the file.

        Raises OSError if the buffer has no blocks at the places of the file's.
        """
        before = place % _DIRECT_BLOCK
        head = min(-before % _DIRECT_BLOCK, len(buffer))
        rest = (len(buffer) - head) % _DIRECT_BLOCK
        # The blocks at both ends have bytes outside the buffer.
        ends = _aligned_bytes(2 * _DIRECT_BLOCK, 0).data
        first, last = ends[:_DIRECT_BLOCK], ends[_DIRECT_BLOCK:]
        inside = buffer[head : len(buffer) - rest]
        parts = [first] * bool(before) + [inside] * bool(inside) + [last] * bool(rest)
        read = os.preadv(self._descriptor, parts, place - before) - before
        if before:
            buffer[:head] = first[before : before + head]
        buffer[len(buffer) - rest :] = last[:rest]
        return max(0, min(read, len(buffer)))


def _aligned_bytes(size: int, place: int) -> NDArray[np.uint8]:
    """Return memory for the bytes of a file from a place on, at an address to which they can be read directly."""
    memory = np.empty(size + _DIRECT_BLOCK, np.uint8)
    skipped = (place - memory.ctypes.data) % _DIRECT_BLOCK
    return memory[skipped : skipped + size]


def _unreadable(shown: str, problem: str) -> UserError:
    return UserError("bad-array-file", f"expected a readable file but got: {problem}", file=shown)


class ArrayStream:
    """An array in C order in a file, from byte `start` on. As an array of numpy it is what `load` returns."""

    def __init__(
        self,
        path: Path | str | RemoteFile,
        shown: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        start: int,
        load: Callable[[], NDArray[Any]],
    ) -> None:
        self.dtype, self.shape = dtype, shape
        self._path, self._shown, self._start, self._load = path, shown, start, load
        self._file = None if isinstance(path, RemoteFile) else _FileReader(path, shown, self.size * dtype.itemsize)
        self._readers = local()
        self._whole: NDArray[Any] | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_in_order(self) -> bool:
        """True if a mapping of the file is aligned and in the machine's byte order."""
        return self.dtype.isnative and self._start % self.dtype.alignment == 0

    def buffer(self, length: int) -> NDArray[Any]:
        """Return an array of so many elements, in the machine's byte order, for `read`."""
        dtype = self.dtype.newbyteorder("=")
        # An element at an odd place in the file would be at an odd address.
        place = 0 if self._start % dtype.alignment else self._start
        return _aligned_bytes(length * dtype.itemsize, place).view(dtype)

    def read(self, low: int, into: NDArray[Any]) -> None:
        """Fill a flat array of the machine's byte order with the elements from `low` on. Threads may read at once.

        Raises:
            UserError: bad-array-file, missing-file, store-failed.
        """
        self._reader().read_into(self._start + low * self.dtype.itemsize, into.view(np.uint8).data)
        if not self.dtype.isnative:
            into.byteswap(inplace=True)

    def _reader(self) -> _Reader:
        if not isinstance(self._path, RemoteFile):
            assert self._file is not None
            return self._file
        # A connection serves one thread at a time.
        if not hasattr(self._readers, "reader"):
            self._readers.reader = RemoteReader(self._path)
        reader: RemoteReader = self._readers.reader
        return reader

    def reshape(self, shape: tuple[int, ...]) -> ArrayStream:
        """Return the same elements in another shape. Raises ValueError if their number differs."""
        if prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.size} elements into {shape}")
        load = self._load
        return ArrayStream(self._path, self._shown, self.dtype, shape, self._start, lambda: load().reshape(shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the array as numpy asks for it."""
        if self._whole is None:
            self._whole = self._load()
        return self._whole if dtype is None else self._whole.astype(dtype)


def copy_remote_bytes(file: RemoteFile, start: int, size: int) -> NDArray[np.uint8]:
    """Return bytes of an object, mapped from a copy in a temporary file without a name.

    Raises:
        UserError: missing-file, store-failed.
    """
    reader = RemoteReader(file)
    with TemporaryFile(prefix="precreg-") as copied:
        # At an address that is aligned as in a mapped file, because the cuts of measuring depend on it.
        before = copied.write(bytes(start % _ALIGNMENT))
        for begin in range(start, start + size, _PIECE_BYTES):
            copied.write(reader.read_range(begin, min(begin + _PIECE_BYTES, start + size)))
        copied.flush()
        return np.memmap(copied, np.uint8, "r", before, (size,))
