"""Which settings of the process can user code change, so that precreg can put them back?

A setting here belongs to the whole process and has a plain value: to write the former value undoes the change. What
modules, functions and threads do is in program_state.py.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from locale import LC_ALL, setlocale
from typing import Any, NamedTuple

import numpy as np

from precreg.types import StateKind


class ProcessSetting(NamedTuple):
    """A group of values: `read` returns one for each name, and `write` puts the value of one place back."""

    kind: StateKind
    names: tuple[str, ...]
    read: Callable[[], tuple[Any, ...]]
    write: Callable[[int, Any], object]

    def changes(self, before: tuple[Any, ...]) -> list[int]:
        """Return the places whose values differ from `before`."""
        now = self.read()
        return [] if now == before else [place for place, value in enumerate(before) if now[place] != value]

    def repair(self, before: tuple[Any, ...], places: list[int]) -> bool:
        """Write the former values of some places, and return True if the process has them again."""
        for place in places:
            # The system refuses a hard limit, and Python a handler outside of the main thread.
            with suppress(OSError, ValueError, TypeError, RuntimeError):
                self.write(place, before[place])
        return not self.changes(before)


# signal.getsignal converts its results to enums, which takes 15 us for all signals; the module below it takes 3.
_getsignal: Callable[[int], Any] = import_module("_signal").getsignal
_pthread_sigmask: Callable[[int, Any], set[int]] = import_module("_signal").pthread_sigmask
_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))
_TIMERS = {"real": signal.ITIMER_REAL, "virtual": signal.ITIMER_VIRTUAL, "profiling": signal.ITIMER_PROF}
_LIMITS = {
    name: getattr(resource, name)
    for name in ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "STACK")
    for name in (f"RLIMIT_{name}",)
    if hasattr(resource, name)
}


def _signal_names() -> tuple[str, ...]:
    known = {int(number): number.name for number in signal.Signals}
    return tuple(known.get(number, f"signal {number}") for number in _SIGNALS)


def _restore_mask(_: int, before: set[int]) -> None:
    # A signal that waits would be delivered now, and an alarm would end the process. An interrupt is the user's.
    while waiting := signal.sigpending() - {signal.SIGINT}:
        signal.sigwait(waiting)
    _pthread_sigmask(signal.SIG_SETMASK, before)


def _armed_timers() -> tuple[bool, ...]:
    return tuple(signal.getitimer(timer)[0] > 0 for timer in _TIMERS.values())


def _disarm(place: int, before: bool) -> None:
    # The time that a timer of the caller had left is not known, so it stays as it is.
    if not before:
        signal.setitimer([*_TIMERS.values()][place], 0)


def _read_umask() -> tuple[int]:
    # umask returns the mask only together with setting one.
    mask = os.umask(0o077)
    os.umask(mask)
    return (mask,)


class _Part(NamedTuple):
    """One value of the interpreter, with the functions that get and put it."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


def _attribute(owner: Any, name: str) -> _Part:
    return _Part(name, partial(getattr, owner, name), partial(setattr, owner, name))


_INTERPRETER = (
    _Part("sys.settrace", sys.gettrace, sys.settrace),
    _Part("sys.setprofile", sys.getprofile, sys.setprofile),
    _Part("threading.settrace", threading.gettrace, threading.settrace),
    _Part("threading.setprofile", threading.getprofile, threading.setprofile),
    _Part("threading.stack_size", threading.stack_size, threading.stack_size),
    _attribute(sys, "excepthook"),
    _attribute(sys, "displayhook"),
    _attribute(sys, "unraisablehook"),
    _attribute(threading, "excepthook"),
    _Part("switch interval", sys.getswitchinterval, sys.setswitchinterval),
    _Part("digits of integers", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    _Part("gc.enable", gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    _Part("gc.set_threshold", gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)),
    _Part("gc.set_debug", gc.get_debug, gc.set_debug),
    _Part("gc.callbacks", gc.callbacks.copy, lambda before: gc.callbacks.__setitem__(slice(None), before)),
)
_READ_INTERPRETER = tuple(part.get for part in _INTERPRETER)
# From version 2 on, numpy.errstate around each call restores them.
_NUMPY_1 = (_Part("seterrcall", np.geterrcall, np.seterrcall), _Part("setbufsize", np.getbufsize, np.setbufsize))
_NUMPY = (
    *(_NUMPY_1 if np.__version__.startswith("1.") else ()),
    _Part("printoptions", np.get_printoptions, lambda options: np.set_printoptions(**options)),
)
_PRIORITY = (
    _Part("nice", partial(os.getpriority, os.PRIO_PROCESS, 0), partial(os.setpriority, os.PRIO_PROCESS, 0)),
    *(
        [_Part("processors", partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0))]
        if sys.platform == "linux"
        else []
    ),
)


def _parts(kind: StateKind, parts: tuple[_Part, ...]) -> ProcessSetting:
    getters = tuple(part.get for part in parts)
    return ProcessSetting(
        kind,
        tuple(part.name for part in parts),
        lambda: tuple([get() for get in getters]),
        lambda place, before: parts[place].put(before),
    )


SETTINGS = (
    ProcessSetting(
        "signal_handlers",
        _signal_names(),
        lambda: tuple(map(_getsignal, _SIGNALS)),
        lambda place, before: signal.signal(_SIGNALS[place], before),
    ),
    ProcessSetting("blocked_signals", ("mask",), lambda: (_pthread_sigmask(signal.SIG_BLOCK, ()),), _restore_mask),
    ProcessSetting("timers", tuple(_TIMERS), _armed_timers, _disarm),
    ProcessSetting(
        "resource_limits",
        tuple(_LIMITS),
        lambda: tuple(map(resource.getrlimit, _LIMITS.values())),
        lambda place, before: resource.setrlimit([*_LIMITS.values()][place], before),
    ),
    ProcessSetting("umask", ("umask",), _read_umask, lambda _, before: os.umask(before)),
    ProcessSetting("locale", ("locale",), lambda: (setlocale(LC_ALL),), lambda _, before: setlocale(LC_ALL, before)),
    # The variable TZ is restored after each call, and the C library reads it only on request.
    ProcessSetting("time_zone", ("time zone",), lambda: (time.tzname,), lambda _, __: time.tzset()),
    ProcessSetting(
        "faulthandler", ("enable",), lambda: (faulthandler.is_enabled(),), lambda _, __: faulthandler.enable()
    ),
    _parts("interpreter", _INTERPRETER),
    _parts("numpy_settings", _NUMPY),
    _parts("priority", _PRIORITY),
)


def event_loop_policy() -> Any:
    """Return the policy of asyncio, which has the current event loop; None before its first use."""
    return getattr(sys.modules.get("asyncio.events"), "_event_loop_policy", None)


def restore_event_loop_policy(before: Any) -> None:
    """Put a policy back: a computation that sets no event loop then gets the same as without the cases before it."""
    # asyncio.run alone makes a policy, and no reader needs to know that. set_event_loop_policy warns in newer versions.
    if event_loop_policy() is not before:
        sys.modules["asyncio.events"]._event_loop_policy = before  # type: ignore[attr-defined]


_STANDARD = ("stdin", "stdout", "stderr")


def descriptor_setting() -> ProcessSetting:
    """Return the setting of the three standard descriptors, with copies of them as they are now."""
    copies = [os.dup(number) if _identity(number) else None for number in range(len(_STANDARD))]

    def write(place: int, _: Any) -> None:
        copy = copies[place]
        if copy is None:
            os.close(place)
        else:
            os.dup2(copy, place)

    return ProcessSetting("descriptors", _STANDARD, lambda: tuple([_identity(number) for number in (0, 1, 2)]), write)


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return the device and the inode behind a descriptor, or None where it is closed."""
    try:
        facts = os.fstat(descriptor)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


# The folder has an entry for each thread, and so its number of links grows with them.
_TASKS = "/proc/self/task"
# A thread that has ended leaves the folder a moment later.
_PATIENCE_S, _STEPS = 0.005, 40


_count_python_threads: Callable[[], int] = import_module("_thread")._count
# The number of links that the folder of the threads has with one thread.
ONE_THREAD = 3


class SystemThreads:
    """Count the threads of this process, native threads included."""

    # A look by path takes 12 us, and by an open descriptor 2.

    def __init__(self) -> None:
        self._descriptor = os.open(_TASKS, os.O_RDONLY) if os.path.isdir(_TASKS) else None
        self._inode = None if self._descriptor is None else os.fstat(self._descriptor).st_ino

    def count(self) -> int:
        """Return a number that grows by one with each thread that is not Python's, or is Python's and about to end."""
        return self.links() - _count_python_threads()

    def links(self) -> int:
        """Return a number that grows by one with each thread; 0 if the system does not say it."""
        if self._descriptor is None:
            return 0
        try:
            facts = os.fstat(self._descriptor)
            if facts.st_ino == self._inode:
                return facts.st_nlink
        except OSError:
            pass
        # User code closed the descriptor.
        return os.stat(_TASKS).st_nlink

    def cancel_traceback_timer(self, own: int) -> bool:
        """Cancel faulthandler.dump_traceback_later, and return True if a thread was waiting for it.

        `own` is the number of threads before the case.
        """
        # A thread that Python has joined may still be ending. It must not count as the timer, which ends no earlier
        # than it is cancelled.
        threads = self._fewest(own)
        if threads <= own:
            return False
        # The timer is a thread that only faulthandler knows.
        faulthandler.cancel_dump_traceback_later()
        return self._fewest(threads - 1) < threads

    def _fewest(self, expected: int) -> int:
        """Return the number of threads once it is at most the expected one, or after some milliseconds."""
        for _ in range(_STEPS):
            if self.count() <= expected:
                break
            time.sleep(_PATIENCE_S)
        return self.count()
