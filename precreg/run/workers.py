"""Running cases in worker processes: one that crashes or hangs costs its own case, and nothing else.

A pool of our own, because known ones cannot say which case of a batch was running when its worker died, nor give
outcomes before the batch is done. Workers are forked from a server that has numpy loaded: a new one costs milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic

from msgspec import msgpack

from precreg.errors import UserError
from precreg.run.worker import READY
from precreg.run.worker_process import WorkerProcess, prepare
from precreg.subject.other_tree import Trees
from precreg.types.types import Case, Execution, Failure, Outcome, Reason

LONGEST_WAIT_S = 3600.0
"""Linux cannot wait for longer than 24 days at once, and a timeout may be longer."""


LARGEST_BATCH = 32

BATCHES_PER_WORKER = 4
"""Batches shrink with what is left, to this share of it, so that all workers finish together."""


def run_in_workers(cases: Sequence[Case], project: Path, chain: tuple[str, ...], jobs: int) -> Iterator[Outcome]:
    """Yield the outcome of every case as it comes, from `jobs` processes.

    A case over its timeout is killed with its process, and a process that dies was running exactly one case; the
    rest of its batch goes to another. Raises UserError (no-workers) when processes cannot be started.
    """
    pool = Pool(project, chain, jobs)
    try:
        yield from pool.run(cases)
    finally:
        pool.close()


class Pool:
    """Up to `jobs` workers that live from one run of cases to the next. `seconds` is what each case took, by id."""

    def __init__(self, project: Path, chain: tuple[str, ...], jobs: int, trees: Trees | None = None) -> None:
        """Start nothing yet but the server of workers; `trees` as `serve` takes them."""
        prepare()
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
        return None if deadline == inf else min(LONGEST_WAIT_S, max(0.0, deadline - monotonic()))

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
        if message == READY:
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
                size = max(1, min(LARGEST_BATCH, len(self._waiting) // (self._jobs * BATCHES_PER_WORKER)))
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
