"""Which processes did a call start and leave running below this one, and how did a process end?"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from signal import Signals
from time import monotonic, sleep

# A child that a subject asked to end, and did not wait for, ends within milliseconds.
_GRACE_S = 0.1
_POLL_S = 0.002


class ChildProcesses:
    """The children that this process has of its own."""

    # The whole list of all threads takes 60 us. The list of one thread, by an open descriptor, takes one.

    def __init__(self) -> None:
        self._path = f"/proc/self/task/{os.getpid()}/children"
        self._descriptor = os.open(self._path, os.O_RDONLY) if os.path.exists(self._path) else None
        self.accept()

    def accept(self) -> None:
        """Take the present children as the process's own."""
        self._known = living_children()
        self._listed = self._read()

    def left(self, *, has_threads: bool) -> list[int]:
        """Return the ids of further children that go on. One that is about to end is waited for.

        With threads all of their lists are read: each has the children that it started.
        """
        if not has_threads and self._listed is not None and self._read() == self._listed:
            return []
        end = monotonic() + _GRACE_S
        while (left := living_children() - self._known) and monotonic() < end:
            sleep(_POLL_S)
        self._listed = self._read()
        return sorted(left)

    def _read(self) -> bytes | None:
        """Return the list of the children that the first thread started, or None if it is not known."""
        if self._descriptor is None:
            return None
        # User code may have closed the descriptor, or put another file in its place.
        with suppress(OSError):
            return os.pread(self._descriptor, 4096, 0)
        return None


def has_children() -> bool:
    """Return whether this process has a child, alive or not. That costs a microsecond."""
    # macOS has no waitid, and no list of children either.
    if sys.platform == "darwin":
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def living_children() -> frozenset[int]:
    """Return the ids of this process's children that have not ended."""
    return frozenset(filter(_is_living, child_ids())) if has_children() else frozenset()


def child_ids() -> Iterator[int]:
    """Yield the ids of this process's children, ended ones included."""
    try:
        for thread in os.listdir("/proc/self/task"):
            with suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                yield from map(int, file.read().split())
    except OSError:
        # Other systems have no /proc. There the end of the process group has to do.
        return


def _is_living(pid: int) -> bool:
    return (_stat(pid) or ["Z"])[0] not in "ZX"


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def name_processes(pids: Iterable[int]) -> tuple[str, ...]:
    """Return the commands of processes, each once with the number of its processes."""
    counted = Counter(map(_name_process, pids))
    return tuple(name if number == 1 else f"{name}, {number} times" for name, number in counted.items())


def _name_process(pid: int) -> str:
    """Return the command of a process as its author wrote it, at most 80 characters; its id if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(400).split(b"\0")
    except OSError:
        return f"process {pid}"
    with suppress(OSError), open("/proc/self/cmdline", "rb") as own:
        if own.read(400).split(b"\0") == words:
            return "a fork of this process"
    text = b" ".join(word for word in words if word).decode(errors="replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:80] or f"process {pid}"


def describe_exit(code: int) -> str:
    """Write an exit code, or minus the signal that killed a process: "exited with code 5", "killed by SIGSEGV"."""
    if code >= 0:
        return f"exited with code {code}"
    # Real-time signals have numbers without a name.
    return f"killed by {Signals(-code).name if -code in list(Signals) else f'signal {-code}'}"
