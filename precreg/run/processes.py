"""Which processes did a subject leave behind, and how do they end?

On Linux a worker, and the server that forks workers, adopt the orphans below them. So a process that left its group or
its session is still a child of one of the two.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Set
from contextlib import suppress
from signal import SIGKILL
from time import monotonic, sleep
from typing import Literal

from precreg.types import StateChange

# Processes that a fact names; it counts the others.
MAX_NAMED_PROCESSES = 3

# Numbers of prctl, from linux/prctl.h.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# A child that a subject asked to end, and did not wait for, ends within milliseconds.
_GRACE_S = 0.1

# A killed process ends at once unless the system is busy or the disk hangs.
_END_PATIENCE_S = 5.0
_END_POLL_S = 0.002


def adopt_orphans() -> None:
    """Make this process the parent of all orphans below it; do nothing on other systems than Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> bool:
    """Have the system kill this process with its parent, and return whether the system can do so."""
    able = _prctl(_PR_SET_PDEATHSIG, SIGKILL)
    # The parent may have died before the call.
    if able and os.getppid() != parent:
        os.kill(os.getpid(), SIGKILL)
    return able


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # late: the command itself needs none of it

    nothing = ctypes.c_ulong(0)
    done: int = ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), nothing, nothing, nothing)
    return done == 0


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
    return frozenset(filter(_is_living, _children())) if has_children() else frozenset()


def left_children(known: Set[int]) -> list[int]:
    """Return the ids of the children that go on, apart from `known`. One that is about to end is waited for."""
    end = monotonic() + _GRACE_S
    while (left := living_children() - known) and monotonic() < end:
        sleep(_END_POLL_S)
    return sorted(left)


def _children() -> Iterator[int]:
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


def name_process(pid: int) -> str:
    """Return the command of a process as its author wrote it, at most 80 characters; its id if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(400).split(b"\0")
    except OSError:
        return f"process {pid}"
    text = b" ".join(word for word in words if word).decode(errors="replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:80] or f"process {pid}"


def process_changes(known: Set[int], remedy: Literal["replaced", "remains"]) -> tuple[StateChange, ...]:
    """Name the processes that user code left running below this one, apart from `known`."""
    left = left_children(known)
    if not left:
        return ()
    names = tuple(name_process(pid) for pid in left[:MAX_NAMED_PROCESSES])
    return (StateChange("processes", names, remedy, max(0, len(left) - MAX_NAMED_PROCESSES)),)


def end_orphans(workers: Set[int]) -> None:
    """Kill every child of this process that is no worker, and all processes below it; return when they ended."""
    end = monotonic() + _END_PATIENCE_S
    # A killed process leaves its own children to this one, so the loop reaches all generations.
    while (orphans := set(_children()) - workers) and monotonic() < end:
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if orphans == set(_children()) - workers:
            sleep(_END_POLL_S)


def kill_group(pid: int) -> None:
    """Kill a process with its group. One that has just started has no group of its own yet."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, SIGKILL)


def wait_with_group(pid: int) -> int | None:
    """Return the status of a child that ended, once its group is killed, too; None for a child that goes on."""
    if sys.platform == "darwin":
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        kill_group(pid)
        return status
    # The group's number belongs to nobody else until the child is waited for.
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return None
    kill_group(pid)
    return os.waitpid(pid, 0)[1]
