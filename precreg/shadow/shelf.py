"""Where do the values wait that a way back needs: in memory, or beyond a limit in temporary files?"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from typing import IO, Any, NamedTuple

# A trace of a small network takes about as much without shares (benchmarks/shadow/networks.py).
SHELF_BYTES = 2**24
# Its place takes more memory than a smaller value frees.
_LEAST_BYTES = 2**11
# A file is closed, and its disk is free, when none of its values is kept any longer.
_FILE_BYTES = 2**28


class Codec(NamedTuple):
    """The bytes of a value and its form; and the value of bytes that it may keep, in a form."""

    pack: Callable[[Any], tuple[Any, Any]]
    unpack: Callable[[bytearray, Any], Any]


class Kept:
    """One value on a shelf."""

    __slots__ = ("_read", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._read: Callable[[], Any] | None = None

    def get(self) -> Any:
        """Return the value, which must not be changed."""
        return self._value if self._read is None else self._read()

    def move(self, store: Callable[[Any], Callable[[], Any]]) -> None:
        """Give the value to a function that stores it, and returns one that reads it."""
        self._read = store(self._value)
        self._value = None


class Shelf:
    """Keep values. Beyond `limit` bytes the oldest ones go to temporary files; after a failure all stay in memory."""

    def __init__(self, codec: Codec, limit: int = SHELF_BYTES) -> None:
        # In memory, and in files.
        self.bytes = self.file_bytes = 0
        # The system took no more bytes.
        self.is_full = False
        self._codec, self._limit = codec, limit
        self._in_memory: deque[tuple[Kept, int]] = deque()
        self._file: IO[bytes] | None = None
        self._end = 0

    def keep(self, value: Any, size: int) -> Kept:
        """Take a value of a number of bytes, which nobody changes from now on."""
        kept = Kept(value)
        if self.is_full or size < _LEAST_BYTES:
            return kept
        self._in_memory.append((kept, size))
        self.bytes += size
        while self.bytes > self._limit:
            oldest, length = self._in_memory[0]
            try:
                oldest.move(self._store)
            except OSError:
                self.is_full = True
                self._in_memory.clear()
                break
            self._in_memory.popleft()
            self.bytes -= length
        return kept

    def _store(self, value: Any) -> Callable[[], Any]:
        """Append a value to the file, and return the function that reads it."""
        packed, form = self._codec.pack(value)
        waiting = memoryview(packed).cast("B")
        if self._file is None or self._end > _FILE_BYTES:
            self._file, self._end = tempfile.TemporaryFile(buffering=0), 0  # noqa: SIM115
        file, start, length = self._file, self._end, len(waiting)
        file.seek(start)
        while waiting:
            waiting = waiting[file.write(waiting) :]
        self._end += length
        self.file_bytes += length
        return lambda: self._codec.unpack(_read(file, start, length), form)


def _read(file: IO[bytes], start: int, length: int) -> bytearray:
    found = bytearray(length)
    waiting = memoryview(found)
    file.seek(start)
    while waiting:
        count: int = file.readinto(waiting)  # type: ignore[attr-defined]
        if not count:
            raise OSError(f"a temporary file ends before byte {start + length}")
        waiting = waiting[count:]
    return found
