"""Calls in a fresh process: peak memory, forms that the environment chooses, and the package of another checkout."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from measuring.data import Pair, draw

Prepare = Callable[[Pair], Callable[[], object]]


class Task(NamedTuple):
    """What a child compares, how, and with which environment; everything in it is sent to the child by name."""

    prepare: Prepare
    kind: str
    n: int
    reference_dtype: str
    environment: Mapping[str, str] = {}
    checkout: str = ""  # the folder with the package; '' is the one that this process has


@contextmanager
def _process(target: Callable[..., None], task: Task) -> Iterator[Connection]:
    """Start a process of its own interpreter and talk to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child: BaseProcess = context.Process(target=target, args=(theirs, task))
    before, folders = dict(os.environ), list(sys.path)
    os.environ.update(task.environment)
    # A new process imports from the folders that its parent has when it starts it.
    sys.path[:0] = [task.checkout] if task.checkout else []
    try:
        child.start()
    finally:
        sys.path[:] = folders
        os.environ.clear()
        os.environ.update(before)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        child.join()


@contextmanager
def remote_call(task: Task) -> Iterator[Callable[[], Any]]:
    """Yield a function that makes a call in the child and returns its result."""
    with _process(_serve, task) as connection:

        def call() -> Any:
            connection.send(True)
            return connection.recv()

        yield call


def _serve(connection: Connection, task: Task) -> None:
    call = task.prepare(draw(task.kind, task.n, task.reference_dtype))
    with connection:
        while True:
            try:
                connection.recv()
            except EOFError:
                return
            connection.send(call())


def peak_over_inputs(task: Task) -> int:
    """Return by how many bytes a call raises the peak of a fresh process that holds the inputs already.

    The call is made on few elements first, so that what modules take once is not counted.
    """
    with _process(_measure_peak, task) as connection:
        return int(connection.recv())


def _measure_peak(connection: Connection, task: Task) -> None:
    task.prepare(draw(task.kind, 1000, task.reference_dtype))()
    call = task.prepare(draw(task.kind, task.n, task.reference_dtype))
    _give_back()
    before = _reset_peak()
    call()
    with connection:
        connection.send(max(0, _peak() - before))


def _give_back() -> None:
    """Return what is freed to the system, where glibc would keep it for the call to use unseen."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _reset_peak() -> int:
    """Forget the peak so far and return the present one."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
