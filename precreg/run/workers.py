"""A worker process as its parent sees it: started, given cases, heard, and killed with all that it started.

Running cases in worker processes: one that crashes or hangs costs its own case, and nothing else.

A pool of our own, because known ones cannot say which case of a batch was running when its worker died, nor give
outcomes before the batch is done. Workers are forked from a server that has numpy loaded: a new one costs milliseconds.
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
from precreg.run.worker import READY_MESSAGE, read_end, serve_batches
from precreg.subject import TreePair
from precreg.types import Case, Execution, Failure, Outcome, Reason

EXIT_PATIENCE_S = 5.0
"""How long a process that closed its connection, or was killed, is waited for."""


_CONTEXT = multiprocessing.get_context("forkserver")

_PRELOADED = ["precreg.run.case_run", "precreg.subject.python"]


class WorkerProcess:
    """One worker. `batch` holds the cases it has not finished, the running one first, since `began`, to the `deadline`.

    Raises UserError (no-workers) when no process can be started.
    """

    def __init__(self, project: Path, chain: tuple[str, ...], trees: TreePair | None = None) -> None:
        self.batch: deque[Case] = deque()
        self.began, self.deadline = 0.0, inf
        self.ready = False
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=serve_batches, args=(theirs, project, chain, trees))
        try:
            self._printed = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
            with _without_main_module():
                self.process.start()
            send_handle(self.connection, self._printed.fileno(), self.process.pid)
        except (OSError, EOFError) as error:
            raise UserError("no-workers", f"expected a worker process to start but got {error!r}") from error
        finally:
            theirs.close()

    @property
    def printed(self) -> str:
        """The end of what the running case has printed."""
        return read_end(self._printed.fileno())

    def give(self, cases: list[Case]) -> None:
        """Send a batch; where the worker is dead already, its death will be heard."""
        self.batch.extend(cases)
        with suppress(OSError):
            self.connection.send(cases)
        self.set_deadline()

    def set_deadline(self) -> None:
        """Let the time of the case that is now the first of the batch begin."""
        self.began = monotonic()
        self.deadline = self.began + self.batch[0].timeout_s if self.batch else inf

    def overdue(self) -> bool:
        """Say whether the running case is past its time, and its outcome not just waiting to be read."""
        return self.deadline < monotonic() and not self.connection.poll()

    def ended(self) -> str:
        """Say how the process ended, which is waited for: "exited with code 5", "killed by SIGSEGV"."""
        self.process.join(EXIT_PATIENCE_S)
        code = self.process.exitcode
        if code is None:
            return "stopped answering"
        return f"exited with code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"

    def last_words(self) -> Iterator[bytes]:
        """Yield the messages of a dead process that were not read yet."""
        with suppress(EOFError, OSError):
            while self.connection.poll():
                yield self.connection.recv_bytes()

    def kill(self) -> None:
        """Kill the process and all that its subjects started, and wait until it is gone."""
        if self.process.pid is not None:
            with suppress(OSError):
                os.killpg(self.process.pid, SIGKILL)
        self.process.kill()
        self.process.join(EXIT_PATIENCE_S)
        self._printed.close()


def start_fork_server() -> None:
    """Start the server that workers are forked from, in the background: it loads numpy while the suites are read.

    It and its children never see an interrupt from the keyboard, which goes to the whole group: the parent ends them.
    """
    from multiprocessing import resource_tracker
    from multiprocessing.forkserver import ensure_running

    limit_blas_threads()
    _CONTEXT.set_forkserver_preload(_PRELOADED)
    resource_tracker.ensure_running()  # which the server starts otherwise, and which unblocks what is blocked
    before = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        ensure_running()  # what is blocked stays so in the new process
    finally:
        pthread_sigmask(SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    return Signals(number).name if number in list(Signals) else f"signal {number}"


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Keep a new worker from importing the main module again: it may be all of pytest, or a script without a guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


MAX_WAIT_S = 3600.0
"""Linux cannot wait for longer than 24 days at once, and a timeout may be longer."""


MAX_BATCH = 32

BATCHES_PER_WORKER = 4
"""Batches shrink with what is left, to this share of it, so that all workers finish together."""


def run_in_workers(cases: Sequence[Case], project: Path, chain: tuple[str, ...], jobs: int) -> Iterator[Outcome]:
    """Yield the outcome of every case as it comes, from `jobs` processes.

    A case over its timeout is killed with its process, and a process that dies was running exactly one case; the
    rest of its batch goes to another. Raises UserError (no-workers) when processes cannot be started.
    """
    pool = WorkerPool(project, chain, jobs)
    try:
        yield from pool.run(cases)
    finally:
        pool.close()


class WorkerPool:
    """Up to `jobs` workers that live from one run of cases to the next. `seconds` is what each case took, by id."""

    def __init__(self, project: Path, chain: tuple[str, ...], jobs: int, trees: TreePair | None = None) -> None:
        """Start nothing yet but the server of workers; `trees` as `serve` takes them."""
        start_fork_server()
        self.seconds: dict[str, float] = {}
        self._waiting: deque[Case] = deque()
        self._new_worker = partial(WorkerProcess, project, chain, trees)
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
        """Have enough workers, wait for something to happen, and yield what comes of it."""
        while len(self._workers) < min(self._jobs, self.unfinished()):
            self._hire()
        for key, _ in self._selector.select(self._time_left_s()):
            yield from key.data()
        for worker in [worker for worker in self._workers if worker.overdue()]:
            yield self._stopped(worker)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        for worker in list(self._workers):
            self._dismiss(worker)
        self._selector.close()

    def _hire(self) -> None:
        worker = self._new_worker()
        self._workers.add(worker)
        self._selector.register(worker.connection, EVENT_READ, partial(self._heard, worker))
        self._selector.register(worker.process.sentinel, EVENT_READ, partial(self._died, worker))

    def _dismiss(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker.connection)
        self._selector.unregister(worker.process.sentinel)
        worker.kill()
        worker.connection.close()

    def _time_left_s(self) -> float | None:
        deadline = min(worker.deadline for worker in self._workers)
        return None if deadline == inf else min(MAX_WAIT_S, max(0.0, deadline - monotonic()))

    def _heard(self, worker: WorkerProcess) -> Iterator[Outcome]:
        """Take one message; a connection that is closed means that its process is dying."""
        if worker not in self._workers:
            return
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            yield from self._died(worker)
            return
        yield from self._taken(worker, message)

    def _taken(self, worker: WorkerProcess, message: bytes) -> Iterator[Outcome]:
        """Understand one message, and keep the worker busy before anyone looks at the outcome."""
        if message == READY_MESSAGE:
            worker.ready = True
            self._assign()
            return
        outcome = self._decoder.decode(message)
        if not worker.batch or outcome.case != worker.batch[0].id:
            yield from self._lost(worker, f"gave an outcome of {outcome.case} in its place")
            return
        self.seconds[worker.batch.popleft().id] = monotonic() - worker.began
        worker.set_deadline()
        self._assign()
        yield outcome

    def _assign(self) -> None:
        """Give a batch to each worker that has nothing to do."""
        for worker in self._workers:
            if worker.ready and not worker.batch and self._waiting:
                size = max(1, min(MAX_BATCH, len(self._waiting) // (self._jobs * BATCHES_PER_WORKER)))
                worker.give([self._waiting.popleft() for _ in range(size)])

    def _died(self, worker: WorkerProcess) -> Iterator[Outcome]:
        """Take what the process still said, then blame its death on the case it was running, if any."""
        if worker not in self._workers:
            return
        how, had_started, worker.ready = worker.ended(), worker.ready, False
        for message in worker.last_words():
            yield from self._taken(worker, message)
        yield from self._lost(worker, how)
        if not had_started:
            raise UserError("no-workers", f"expected a worker process to start but it {how}")

    def _lost(self, worker: WorkerProcess, how: str) -> Iterator[Outcome]:
        """Part with a worker that died or cannot be believed; the case that it was running, if any, crashed."""
        if worker.batch:
            yield self._given_up(worker, Failure(Reason.CRASHED, how, worker.printed))
        elif worker in self._workers:
            self._dismiss(worker)

    def _stopped(self, worker: WorkerProcess) -> Outcome:
        message = f"exceeded its timeout of {worker.batch[0].timeout_s:g} s"
        return self._given_up(worker, Failure(Reason.TIMED_OUT, message, worker.printed))

    def _given_up(self, worker: WorkerProcess, failure: Failure) -> Outcome:
        """Replace a worker by none, hand the rest of its batch on, and return the outcome of its running case."""
        case = worker.batch.popleft()
        self._waiting.extendleft(reversed(worker.batch))
        worker.batch.clear()
        self._dismiss(worker)
        self._assign()
        return Outcome(case.id, case.definition, Execution(failure=failure))
