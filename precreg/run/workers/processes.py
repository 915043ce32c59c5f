"""Which processes did a subject leave behind, and how do they end?

On Linux a worker, and the server that forks workers, adopt the orphans below them. So a process that left its group or
its session is still a child of one of the two.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Set
from contextlib import suppress
from signal import SIGKILL
from time import monotonic, sleep

from precreg.subject import child_ids

# Numbers of prctl, from linux/prctl.h.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

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


def end_orphans(workers: Set[int]) -> None:
    """Kill every child of this process except workers, and all processes below it; return when they ended."""
    end = monotonic() + _END_PATIENCE_S
    # A killed process leaves its own children to this one, so the loop reaches all generations.
    while (orphans := set(child_ids()) - workers) and monotonic() < end:
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if orphans == set(child_ids()) - workers:
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
