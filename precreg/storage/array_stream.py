"""How is a large array read in pieces, from a file or from an object of a store?

A mapped file is read at the moment at which its numbers are needed. Pieces are read ahead, while others are measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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
# The slugs of errors of a read.
STREAM_PROBLEMS = ("bad-array-file", "missing-file", "store-failed")


class _Reader(Protocol):
    """A file that fills buffers."""

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a place on. Raises UserError."""


class _FileReader:
    """A local file, for any number of threads. It reports a file that was cut off; a mapping would end the process."""

    def __init__(self, path: Path | str, shown: str) -> None:
        self._shown = shown
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(shown, error.strerror or "") from error
        # Open as long as its stream: a file of the same name may take its place meanwhile.
        finalize(self, os.close, self._descriptor)

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a place on. Raises UserError (bad-array-file)."""
        done = 0
        while done < len(buffer):
            try:
                read = os.preadv(self._descriptor, [buffer[done:]], start + done)
            except OSError as error:
                raise _unreadable(self._shown, error.strerror or "") from error
            if not read:
                raise _unreadable(self._shown, f"it ends at byte {start + done}, and was longer before")
            done += read


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
        self._file = None if isinstance(path, RemoteFile) else _FileReader(path, shown)
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
