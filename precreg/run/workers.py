"""How do the items of a task run in worker processes, so that a crash or a hang costs one item alone?

A task says which items these are: cases of a run, or pairs of stored arrays. The pool is precreg's own. Pools of the
standard library do not report which item of a batch killed its worker, nor an answer before its batch is done. A server
that has loaded numpy forks the workers within milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from multiprocessing.reduction import send_handle
from selectors import EVENT_READ, DefaultSelector
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, Signals, pthread_sigmask, raise_signal, signal
from threading import current_thread, main_thread
from time import monotonic
from types import ModuleType
from typing import Any, Generic, TypeVar

from precreg.environment import limit_blas_threads
from precreg.errors import UserError
from precreg.run.worker import (
    READY_MESSAGE,
    RETIRES_AFTER_ANSWER,
    RETIRES_NOW,
    WorkerTask,
    read_end,
    serve_batches,
)
from precreg.types import Failure, Reason

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

# A process that closed its connection, or was killed, ends at once unless the system is busy or the disk hangs.
EXIT_PATIENCE_S = 5.0

# Linux cannot wait for longer than 24 days at once, and a timeout may be longer.
MAX_WAIT_S = 3600.0

# Sending items one by one would leave a worker idle between short items.
MAX_BATCH = 32

# Batches shrink with the number of waiting items, so that all workers finish together.
BATCHES_PER_WORKER = 4

# A fork of the command's own process would copy its threads' locks and its memory.
_CONTEXT = multiprocessing.get_context("forkserver")

# All that a plain case needs, loaded once in the server.
_PRELOADED = ["precreg.run.case_run", "precreg.subject.python"]


class WorkerProcess(Generic[_Item]):
    """One worker, as its parent sees it.

    `batch` has the unfinished items, the running one first. `began` and `deadline` are times of the running item by
    the monotonic clock, in seconds.
    """

    def __init__(self, task: WorkerTask[_Item, Any]) -> None:
        """Start the process. Raises UserError (no-workers)."""
        self.batch: deque[_Item] = deque()
        self.began, self.deadline = 0.0, inf
        self.ready = False
        # The worker runs no item after the present one.
        self.retires = False
        self._task = task
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=serve_batches, args=(theirs, task))
        try:
            self._printed = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
            with _without_main_module():
                self.process.start()
            send_handle(self.connection, self._printed.fileno(), self.process.pid)
        except (OSError, EOFError) as error:
            raise UserError("no-workers", f"expected a worker process to start but got {error!r}") from error
        finally:
            # While this end is open here too, the worker's death would not close the connection.
            theirs.close()

    @property
    def printed(self) -> str:
        """Return the end of the running item's output."""
        return read_end(self._printed.fileno())

    def give(self, items: list[_Item]) -> None:
        """Send a batch of items."""
        self.batch.extend(items)
        # The pool learns of a dead worker from its sentinel, and then hands the batch on.
        with suppress(OSError):
            self.connection.send(items)
        self.set_deadline()

    def set_deadline(self) -> None:
        """Start the time of the item that is now the first of the batch."""
        self.began = monotonic()
        self.deadline = self.began + self._task.timeout_s(self.batch[0]) if self.batch else inf

    def overdue(self) -> bool:
        """Return whether the running item exceeded its timeout, and its answer is not waiting to be read."""
        return self.deadline < monotonic() and not self.connection.poll()

    def describe_end(self) -> str:
        """Wait for the process and return how it ended: "exited with code 5", "killed by SIGSEGV"."""
        self.process.join(EXIT_PATIENCE_S)
        code = self.process.exitcode
        if code is None:
            return "stopped answering"
        return f"exited with code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"

    def last_messages(self) -> Iterator[bytes]:
        """Yield the unread messages of a dead process."""
        with suppress(EOFError, OSError):
            while self.connection.poll():
                yield self.connection.recv_bytes()

    def kill(self) -> None:
        """Kill the process with all children of its subjects, and wait for its end."""
        if self.process.pid is not None:
            with suppress(OSError):
                os.killpg(self.process.pid, SIGKILL)
        # A process that has just started is not yet in a group of its own.
        self.process.kill()
        self.process.join(EXIT_PATIENCE_S)
        self._printed.close()


def start_fork_server() -> None:
    """Start the server that forks workers, in the background: it loads numpy while the command reads the suites.

    The server and its children ignore an interrupt from the keyboard, because their parent ends them.
    """
    from multiprocessing import resource_tracker
    from multiprocessing.forkserver import ensure_running

    limit_blas_threads()
    _CONTEXT.set_forkserver_preload(_PRELOADED)
    # The server would start the tracker otherwise, and the tracker's start unblocks SIGINT.
    resource_tracker.ensure_running()
    # A new process inherits the blocked signals. A handler would come too late for an interrupt during the imports.
    before = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        ensure_running()
    finally:
        pthread_sigmask(SIG_SETMASK, before)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer an interrupt to the end of the block; in other threads than the main one no interrupt is raised anyway."""
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    before = signal(SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        # The handler is back before the exception, so a second interrupt works as usual.
        signal(SIGINT, before)
        if came:
            raise_signal(SIGINT)


def _signal_name(number: int) -> str:
    # Real-time signals have numbers without a name.
    return Signals(number).name if number in list(Signals) else f"signal {number}"


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Keep a new worker from importing the main module: that may be pytest, or a script without a __main__ check."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def run_in_workers(items: Sequence[_Item], task: WorkerTask[_Item, _Answer], jobs: int) -> Iterator[_Answer]:
    """Yield the answer to every item as it comes, from `jobs` processes.

    The pool kills an item that exceeds its timeout together with its process. A process that dies was running exactly
    one item, and the rest of its batch goes to another process. Raises UserError (no-workers) if a process cannot
    start.
    """
    pool = WorkerPool(task, jobs)
    try:
        yield from pool.run(items)
    finally:
        pool.close()


class WorkerPool(Generic[_Item, _Answer]):
    """Up to `jobs` workers that live from one run of items to the next.

    `seconds` has the time of each finished item by key.
    """

    def __init__(self, task: WorkerTask[_Item, _Answer], jobs: int) -> None:
        """Start the server of workers, and no worker yet."""
        start_fork_server()
        self.seconds: dict[str, float] = {}
        self._waiting: deque[_Item] = deque()
        self._task = task
        self._jobs = jobs
        self._workers: set[WorkerProcess[_Item]] = set()
        self._selector = DefaultSelector()
        self._decoder = task.decoder()

    def run(self, items: Sequence[_Item]) -> Iterator[_Answer]:
        """Yield the answer to every item as it comes, as `run_in_workers` does."""
        self._waiting.extend(items)
        self._assign()
        while self.unfinished():
            yield from self.step()

    def unfinished(self) -> int:
        """Count the items without an answer."""
        return len(self._waiting) + sum(len(worker.batch) for worker in self._workers)

    def step(self) -> Iterator[_Answer]:
        """Start missing workers, wait for a message, a death or a deadline, and yield the answers of it."""
        while len(self._workers) < min(self._jobs, self.unfinished()):
            self._add_worker()
        for key, _ in self._selector.select(self._time_left_s()):
            yield from key.data()
        for worker in [worker for worker in self._workers if worker.overdue()]:
            yield self._stop_overdue(worker)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        with defer_interrupts():
            for worker in list(self._workers):
                self._remove_worker(worker)
        self._selector.close()

    def _add_worker(self) -> None:
        # An interrupt during the start would end the server with a traceback, and leave a worker that nobody kills.
        with defer_interrupts():
            worker = WorkerProcess(self._task)
            self._workers.add(worker)
            self._selector.register(worker.connection, EVENT_READ, partial(self._read_message, worker))
            # A child of a subject may hold the connection open after the worker's death, which the sentinel reports.
            self._selector.register(worker.process.sentinel, EVENT_READ, partial(self._handle_death, worker))

    def _remove_worker(self, worker: WorkerProcess[_Item]) -> None:
        # First, because an interrupt may end this method, and `close` kills only the workers that are left.
        worker.kill()
        self._workers.remove(worker)
        self._selector.unregister(worker.connection)
        self._selector.unregister(worker.process.sentinel)
        worker.connection.close()

    def _time_left_s(self) -> float | None:
        deadline = min(worker.deadline for worker in self._workers)
        return None if deadline == inf else min(MAX_WAIT_S, max(0.0, deadline - monotonic()))

    def _read_message(self, worker: WorkerProcess[_Item]) -> Iterator[_Answer]:
        # The selector may report the connection and the sentinel of one worker at once.
        if worker not in self._workers:
            return
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            yield from self._handle_death(worker)
            return
        yield from self._handle_message(worker, message)

    def _handle_message(self, worker: WorkerProcess[_Item], message: bytes) -> Iterator[_Answer]:
        """Decode one message, and give the worker its next batch before the caller handles the answer."""
        if message == READY_MESSAGE:
            worker.ready = True
            self._assign()
            return
        if message == RETIRES_AFTER_ANSWER:
            worker.retires = True
            return
        if message == RETIRES_NOW:
            self._retire(worker)
            return
        answer = self._decoder.decode(message)
        key = self._task.answer_key(answer)
        # A subject can write to the connection of its worker (tests/run/kernels.py has one).
        if not worker.batch or key != self._task.item_key(worker.batch[0]):
            yield from self._lose_worker(worker, f"gave an outcome of {key} in its place")
            return
        worker.batch.popleft()
        self.seconds[key] = monotonic() - worker.began
        worker.set_deadline()
        if worker.retires:
            self._retire(worker)
        self._assign()
        yield answer

    def _retire(self, worker: WorkerProcess[_Item]) -> None:
        """Remove a worker that its items changed, and put the rest of its batch first in the queue."""
        self._take_back(worker)
        self._remove_worker(worker)

    def _assign(self) -> None:
        """Give a batch to each idle worker."""
        for worker in self._workers:
            if worker.ready and not worker.batch and self._waiting:
                size = max(1, min(MAX_BATCH, len(self._waiting) // (self._jobs * BATCHES_PER_WORKER)))
                worker.give([self._waiting.popleft() for _ in range(size)])

    def _handle_death(self, worker: WorkerProcess[_Item]) -> Iterator[_Answer]:
        """Read the last messages of a dead process, then blame its death on the item that was running, if any."""
        if worker not in self._workers:
            return
        # Not ready any more, or `_assign` would give it another batch while its last messages come in.
        how, had_started, worker.ready = worker.describe_end(), worker.ready, False
        for message in worker.last_messages():
            yield from self._handle_message(worker, message)
        yield from self._lose_worker(worker, how)
        # Another process would die in the same way, and another, without end.
        if not had_started:
            raise UserError("no-workers", f"expected a worker process to start but it {how}")

    def _lose_worker(self, worker: WorkerProcess[_Item], how: str) -> Iterator[_Answer]:
        """Remove a worker that died or sent a false answer; its running item, if any, crashed."""
        if worker.batch:
            yield self._give_up_item(worker, Failure(Reason.CRASHED, how, worker.printed))
        elif worker in self._workers:
            self._remove_worker(worker)

    def _stop_overdue(self, worker: WorkerProcess[_Item]) -> _Answer:
        message = f"exceeded its timeout of {self._task.timeout_s(worker.batch[0]):g} s"
        return self._give_up_item(worker, Failure(Reason.TIMED_OUT, message, worker.printed))

    def _give_up_item(self, worker: WorkerProcess[_Item], failure: Failure) -> _Answer:
        """Remove a worker, put the rest of its batch first in the queue, and return the answer to its running item."""
        item = worker.batch.popleft()
        self._take_back(worker)
        self._remove_worker(worker)
        self._assign()
        return self._task.give_up(item, failure)

    def _take_back(self, worker: WorkerProcess[_Item]) -> None:
        self._waiting.extendleft(reversed(worker.batch))
        worker.batch.clear()
