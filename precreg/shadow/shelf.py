"""Where do the values wait that a way back needs: in one block of memory, or in temporary files?"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from typing import IO, Any, NamedTuple

# Beside it, a trace of a small network takes three times as much without shares (benchmarks/shadow/networks.py).
SHELF_BYTES = 2**23
# The place of a smaller value takes about as much as the value.
_LEAST_BYTES = 2**9
# A file is closed, and its disk is free, when none of its values is kept any longer.
_FILE_BYTES = 2**28


class Codec(NamedTuple):
    """The bytes of a value and its form, the value of bytes that it may keep, and the copy of a value."""

    pack: Callable[[Any], tuple[Any, Any]]
    unpack: Callable[[bytearray, Any], Any]
    copy: Callable[[Any], Any]


class _Block:
    """Bytes one after another: in memory, and at a place of a file later."""

    __slots__ = ("file", "memory", "start")

    def __init__(self, memory: mmap.mmap | None, file: IO[bytes] | None = None, start: int = 0) -> None:
        self.memory, self.file, self.start = memory, file, start

    def read(self, offset: int, length: int) -> bytearray:
        if self.memory is not None:
            return bytearray(memoryview(self.memory)[offset : offset + length])
        assert self.file is not None
        found = bytearray(length)
        waiting, place = memoryview(found), self.start + offset
        while waiting:
            count = os.preadv(self.file.fileno(), [waiting], place)
            if not count:
                raise OSError(f"a temporary file ends before byte {place}")
            waiting, place = waiting[count:], place + count
        return found


class Kept:
    """One value that is kept; `get` returns it, and it must not be changed."""

    __slots__ = ("get",)

    def __init__(self, get: Callable[[], Any]) -> None:
        self.get = get


class Shelf:
    """Keep copies of values: in a block of `limit` bytes, which goes to a file when it is full.

    One block takes less memory than its values would, which lie between values that end soon. Small values stay as they
    are, and so do all of them after a file could not be written.
    """

    def __init__(self, codec: Codec, limit: int = SHELF_BYTES) -> None:
        self.file_bytes = 0
        # The system took no more bytes.
        self.is_full = False
        self._codec, self._limit = codec, limit
        self._block: _Block | None = None
        self._end = 0
        self._file: IO[bytes] | None = None
        self._file_end = 0

    def keep(self, value: Any, size: int) -> Kept:
        """Take a copy of a value of a number of bytes."""
        if size < _LEAST_BYTES:
            return self._as_it_is(value)
        try:
            packed, form = self._codec.pack(value)
            block, offset = self._take(memoryview(packed).cast("B"))
        except OSError:
            self.is_full = True
            return self._as_it_is(value)
        unpack = self._codec.unpack
        return Kept(lambda: unpack(block.read(offset, size), form))

    def _as_it_is(self, value: Any) -> Kept:
        copied = self._codec.copy(value)
        return Kept(lambda: copied)

    def _take(self, given: memoryview) -> tuple[_Block, int]:
        """Return the block that has the bytes now, and their place there."""
        size = len(given)
        if size > self._limit:
            file, start = self._write(given)
            return _Block(None, file, start), 0
        if self._block is not None and self._end + size > self._limit:
            assert self._block.memory is not None
            memory = self._block.memory
            self._block.file, self._block.start = self._write(memoryview(memory)[: self._end])
            self._block.memory, self._block = None, _Block(memory)
            self._end = 0
        if self._block is None:
            self._block = _Block(mmap.mmap(-1, self._limit))
        assert self._block.memory is not None
        offset, self._end = self._end, self._end + size
        self._block.memory[offset : self._end] = given
        return self._block, offset

    def _write(self, given: memoryview) -> tuple[IO[bytes], int]:
        """Append bytes to a file, and return it with their place."""
        if self.is_full:
            raise OSError("no room")
        if self._file is None or self._file_end >= _FILE_BYTES:
            self._file, self._file_end = tempfile.TemporaryFile(buffering=0), 0  # noqa: SIM115
        file, start = self._file, self._file_end
        self.file_bytes += len(given)
        while given:
            count = os.pwrite(file.fileno(), given, self._file_end)
            given, self._file_end = given[count:], self._file_end + count
        return file, start
