"""How is a large array of an object store read in pieces, without a copy of all of it?"""

from __future__ import annotations

from math import prod
from tempfile import TemporaryFile
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.storage.object_store import RemoteFile, RemoteReader

# Bytes of one request. A connection of 100 MB/s carries them in 80 ms, of which the request takes a quarter.
_PIECE_BYTES = 1 << 23
# A multiple of the alignment of every dtype.
_ALIGNMENT = 64


class ArrayStream:
    """An array in C order in an object, from byte `start` on.

    `read` gives a part of it. As an array of numpy it is a copy in a temporary file without a name, which is made once.
    """

    def __init__(self, file: RemoteFile, dtype: np.dtype[Any], shape: tuple[int, ...], start: int) -> None:
        self.dtype, self.shape = dtype, shape
        self._file, self._start = file, start
        self._readers = local()
        self._copy: NDArray[Any] | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_in_order(self) -> bool:
        """True if a mapped file of this content would be aligned, in the machine's byte order."""
        return self.dtype.isnative and self._start % self.dtype.alignment == 0

    def read(self, low: int, high: int) -> NDArray[Any]:
        """Return the elements of a range, flat, in the machine's byte order. Threads may read at once.

        Raises:
            UserError: missing-file, store-failed.
        """
        width = self.dtype.itemsize
        content = self._reader().read_range(self._start + low * width, self._start + high * width)
        return np.frombuffer(content, self.dtype).astype(self.dtype.newbyteorder("="), copy=False)

    def _reader(self) -> RemoteReader:
        reader: RemoteReader | None = getattr(self._readers, "reader", None)
        if reader is None:
            reader = self._readers.reader = RemoteReader(self._file)
        return reader

    def reshape(self, shape: tuple[int, ...]) -> ArrayStream:
        """Return the same elements in another shape. Raises ValueError if their number differs."""
        if prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.size} elements into {shape}")
        return ArrayStream(self._file, self.dtype, shape, self._start)

    def copy_bytes(self) -> NDArray[np.uint8]:
        """Return the bytes of the array, mapped from a temporary file without a name.

        Raises:
            UserError: missing-file, store-failed.
        """
        begin, end = self._start, self._start + self.size * self.dtype.itemsize
        with TemporaryFile(prefix="precreg-") as file:
            # At an address that is aligned as in a mapped file, because the cuts of measuring depend on it.
            before = file.write(bytes(begin % _ALIGNMENT))
            for start in range(begin, end, _PIECE_BYTES):
                file.write(self._reader().read_range(start, min(start + _PIECE_BYTES, end)))
            file.flush()
            return np.memmap(file, np.uint8, "r", before, (end - begin,))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the array as numpy asks for it."""
        if self._copy is None:
            self._copy = self.copy_bytes().view(self.dtype).reshape(self.shape)
        return self._copy if dtype is None else self._copy.astype(dtype)
