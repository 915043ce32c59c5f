"""How do cases run in worker processes, so that a crash or a hang costs one case alone?

The pool is precreg's own. Pools of the standard library do not report which case of a batch killed its worker, nor an
outcome before its batch is done. A server that has loaded numpy forks the workers within milliseconds.
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
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, Signals, pthread_sigmask
from time import monotonic
from types import ModuleType

from msgspec import msgpack

from precreg.environment import limit_blas_threads
from precreg.errors import UserError
from precreg.run.worker import READY_MESSAGE, CaseRunner, read_end, serve_batches
from precreg.subject import TreePair
from precreg.types import Case, Execution, Failure, Outcome, Reason

# A process that closed its connection, or was killed, ends at once unless the system is busy or the disk hangs.
EXIT_PATIENCE_S = 5.0

# Linux cannot wait for longer than 24 days at once, and a timeout may be longer.
MAX_WAIT_S = 3600.0

# Sending cases one by one would leave a worker idle between short cases.
MAX_BATCH = 32

# Batches shrink with the number of waiting cases, so that all workers finish together.
BATCHES_PER_WORKER = 4

# A fork of the command's own process would copy its threads' locks and its memory.
_CONTEXT = multiprocessing.get_context("forkserver")

# All that a plain case needs, loaded once in the server.
_PRELOADED = ["precreg.run.case_run", "precreg.subject.python"]


class WorkerProcess:
    """One worker, as its parent sees it.

    `batch` has the unfinished cases, the running one first. `began` and `deadline` are times of the running case by
    the monotonic clock, in seconds.
    """

    def __init__(
        self,
        project: Path,
        chain: tuple[str, ...],
        trees: TreePair | None = None,
        runner: CaseRunner | None = None,
    ) -> None:
        """Start the process; the arguments are those of `serve_batches`. Raises UserError (no-workers)."""
        self.batch: deque[Case] = deque()
        self.began, self.deadline = 0.0, inf
        self.ready = False
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=serve_batches, args=(theirs, project, chain, trees, runner))
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
        """Return the end of the running case's output."""
        return read_end(self._printed.fileno())

    def give(self, cases: list[Case]) -> None:
        """Send a batch of cases."""
        self.batch.extend(cases)
        # The pool learns of a dead worker from its sentinel, and then hands the batch on.
        with suppress(OSError):
            self.connection.send(cases)
        self.set_deadline()

    def set_deadline(self) -> None:
        """Start the time of the case that is now the first of the batch."""
        self.began = monotonic()
        self.deadline = self.began + self.batch[0].timeout_s if self.batch else inf

    def overdue(self) -> bool:
        """Return whether the running case exceeded its timeout, and its outcome is not waiting to be read."""
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


def run_in_workers(
    cases: Sequence[Case], project: Path, chain: tuple[str, ...], jobs: int, runner: CaseRunner | None = None
) -> Iterator[Outcome]:
    """Yield the outcome of every case as it comes, from `jobs` processes.

    The pool kills a case that exceeds its timeout together with its process. A process that dies was running exactly
    one case, and the rest of its batch goes to another process. `runner` is None for a plain run. Raises UserError
    (no-workers) if a process cannot start.
    """
    pool = WorkerPool(project, chain, jobs, runner=runner)
    try:
        yield from pool.run(cases)
    finally:
        pool.close()


class WorkerPool:
    """Up to `jobs` workers that live from one run of cases to the next.

    `seconds` has the time of each finished case by id: its drawing, its computations and its measuring.
    """

    def __init__(
        self,
        project: Path,
        chain: tuple[str, ...],
        jobs: int,
        trees: TreePair | None = None,
        runner: CaseRunner | None = None,
    ) -> None:
        """Start the server of workers, and no worker yet; `trees` and `runner` are those of `serve_batches`."""
        start_fork_server()
        self.seconds: dict[str, float] = {}
        self._waiting: deque[Case] = deque()
        self._new_worker = partial(WorkerProcess, project, chain, trees, runner)
        self._jobs = jobs
        self._workers: set[WorkerProcess] = set()
        self._selector = DefaultSelector()
        self._decoder = msgpack.Decoder(Outcome)

    def run(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """Yield the outcome of every case as it comes, as `run_in_workers` does."""
        self._waiting.extend(cases)
        self._assign()
        while self.unfinished():
            yield from self.step()

    def unfinished(self) -> int:
        """Count the cases without an outcome."""
        return len(self._waiting) + sum(len(worker.batch) for worker in self._workers)

    def step(self) -> Iterator[Outcome]:
        """Start missing workers, wait for a message, a death or a deadline, and yield the outcomes of it."""
        while len(self._workers) < min(self._jobs, self.unfinished()):
            self._add_worker()
        for key, _ in self._selector.select(self._time_left_s()):
            yield from key.data()
        for worker in [worker for worker in self._workers if worker.overdue()]:
            yield self._stop_overdue(worker)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        for worker in list(self._workers):
            self._remove_worker(worker)
        self._selector.close()

    def _add_worker(self) -> None:
        worker = self._new_worker()
        self._workers.add(worker)
        self._selector.register(worker.connection, EVENT_READ, partial(self._read_message, worker))
        # A child of a subject may hold the connection open after the worker's death; the sentinel reports it anyway.
        self._selector.register(worker.process.sentinel, EVENT_READ, partial(self._handle_death, worker))

    def _remove_worker(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker.connection)
        self._selector.unregister(worker.process.sentinel)
        worker.kill()
        worker.connection.close()

    def _time_left_s(self) -> float | None:
        deadline = min(worker.deadline for worker in self._workers)
        return None if deadline == inf else min(MAX_WAIT_S, max(0.0, deadline - monotonic()))

    def _read_message(self, worker: WorkerProcess) -> Iterator[Outcome]:
        # The selector may report the connection and the sentinel of one worker at once.
        if worker not in self._workers:
            return
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            yield from self._handle_death(worker)
            return
        yield from self._handle_message(worker, message)

    def _handle_message(self, worker: WorkerProcess, message: bytes) -> Iterator[Outcome]:
        """Decode one message, and give the worker its next batch before the caller judges the outcome."""
        if message == READY_MESSAGE:
            worker.ready = True
            self._assign()
            return
        outcome = self._decoder.decode(message)
        # A subject can write to the connection of its worker (tests/run/kernels.py has one).
        if not worker.batch or outcome.case != worker.batch[0].id:
            yield from self._lose_worker(worker, f"gave an outcome of {outcome.case} in its place")
            return
        self.seconds[worker.batch.popleft().id] = monotonic() - worker.began
        worker.set_deadline()
        self._assign()
        yield outcome

    def _assign(self) -> None:
        """Give a batch to each idle worker."""
        for worker in self._workers:
            if worker.ready and not worker.batch and self._waiting:
                size = max(1, min(MAX_BATCH, len(self._waiting) // (self._jobs * BATCHES_PER_WORKER)))
                worker.give([self._waiting.popleft() for _ in range(size)])

    def _handle_death(self, worker: WorkerProcess) -> Iterator[Outcome]:
        """Read the last messages of a dead process, then blame its death on the case that was running, if any."""
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

    def _lose_worker(self, worker: WorkerProcess, how: str) -> Iterator[Outcome]:
        """Remove a worker that died or sent a false outcome; its running case, if any, crashed."""
        if worker.batch:
            yield self._give_up_case(worker, Failure(Reason.CRASHED, how, worker.printed))
        elif worker in self._workers:
            self._remove_worker(worker)

    def _stop_overdue(self, worker: WorkerProcess) -> Outcome:
        message = f"exceeded its timeout of {worker.batch[0].timeout_s:g} s"
        return self._give_up_case(worker, Failure(Reason.TIMED_OUT, message, worker.printed))

    def _give_up_case(self, worker: WorkerProcess, failure: Failure) -> Outcome:
        """Remove a worker, put the rest of its batch first in the queue, and return the outcome of its running case."""
        case = worker.batch.popleft()
        self._waiting.extendleft(reversed(worker.batch))
        worker.batch.clear()
        self._remove_worker(worker)
        self._assign()
        return Outcome(case.id, case.definition, Execution(failure=failure))
