"""How do a worker and its parent exchange messages, whatever a subject writes into the worker's connection?

A message is a mark, its length and its content. The parent never waits for a worker: it reads the bytes that are there,
and keeps the bytes that a worker does not take yet.
"""

from __future__ import annotations

import os
from socket import socket
from struct import Struct

# The mark's first byte never begins a message of msgpack, so an answer written twice over is not a header.
_HEADER = Struct("<4sI")
_MARK = b"\xc1prc"

# The most bytes of one message. The outcome of 1,000 seeds of a matrix has some 10 MB (docs/verdicts.md).
MAX_MESSAGE_BYTES = 2**28

# One read takes as much as the buffer of a connection holds by default on Linux.
_READ_BYTES = 2**18
# Reads in a row from one worker, so that a flood does not keep the parent from the other workers.
_READS = 16


class BrokenMessage(Exception):  # noqa: N818  (an event, not an error of ours)
    """Report bytes that no worker of ours sends: `str()` says how they differ from a message."""


def detach(descriptor: int) -> None:
    """Put an empty file in the place of a descriptor."""
    # The number stays taken, so that nothing that is opened later can be mistaken for the connection.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


class WorkerConnection:
    """The worker's end. It waits for the parent, which always reads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A child that a subject forks must neither write here nor hold the connection open.
        os.register_at_fork(after_in_child=self._replace)

    def send_bytes(self, content: bytes) -> None:
        """Send one message."""
        rest = memoryview(_HEADER.pack(_MARK, len(content)) + content)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def recv_bytes(self) -> bytes:
        """Receive one message. Raises EOFError if the parent closed its end."""
        return self._read(_HEADER.unpack(self._read(_HEADER.size))[1])

    def _read(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = os.read(self._descriptor, length - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def _replace(self) -> None:
        detach(self._descriptor)


class ParentConnection:
    """The parent's end, which never blocks. `closed` is set after the last byte of a worker that closed its end."""

    def __init__(self, end: socket) -> None:
        end.setblocking(False)
        self.closed = False
        self._end = end
        self._received, self._unsent = bytearray(), bytearray()

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._end.fileno()

    def receive(self) -> None:
        """Read the bytes that are there, up to some megabytes."""
        for _ in range(_READS):
            try:
                part = self._end.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            self._received += part
            if not part:
                self.closed = True
            if len(part) < _READ_BYTES:
                return

    def next_message(self) -> bytes | None:
        """Return the next complete message, or None. Raises BrokenMessage for other bytes, and for too long ones."""
        if len(self._received) < _HEADER.size:
            if not _MARK.startswith(bytes(self._received[: len(_MARK)])):
                raise BrokenMessage("sent bytes that are no message")
            return None
        mark, length = _HEADER.unpack_from(self._received)
        if mark != _MARK:
            raise BrokenMessage("sent bytes that are no message")
        if length > MAX_MESSAGE_BYTES:
            raise BrokenMessage(f"sent a message of {length} bytes, and the limit is {MAX_MESSAGE_BYTES}")
        end = _HEADER.size + length
        if len(self._received) < end:
            return None
        content = bytes(self._received[_HEADER.size : end])
        del self._received[:end]
        return content

    def send(self, content: bytes) -> None:
        """Send a message, or keep the part that the worker does not take yet."""
        self._unsent += _HEADER.pack(_MARK, len(content)) + content
        self.send_rest()

    def send_rest(self) -> None:
        """Send as many bytes as the worker takes now."""
        try:
            while self._unsent:
                del self._unsent[: self._end.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            # The pool learns of a dead worker from its status, and then hands the batch on.
            self._unsent.clear()

    @property
    def has_unsent(self) -> bool:
        """Return whether a part of a message waits for the worker."""
        return bool(self._unsent)

    def close(self) -> None:
        """Close this end."""
        self._end.close()
