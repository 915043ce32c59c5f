"""How do the items of a task run in worker processes, so that a crash or a hang costs one item alone?

A task says which items these are: cases of a run, or pairs of stored arrays. The pool is precreg's own. Pools of the
standard library do not report which item of a batch killed its worker, nor an answer before its batch is done. A server
that has loaded numpy forks the workers within milliseconds.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from select import POLLIN, poll
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from signal import SIGINT
from time import monotonic
from typing import Any, Generic, TypeVar

from msgspec import MsgspecError

from precreg.errors import UserError
from precreg.run.workers.channel import BrokenMessage, ParentConnection
from precreg.run.workers.processes import kill_group
from precreg.run.workers.server import ForkedWorker, continue_server, fork_worker, safe_path, start_fork_server
from precreg.run.workers.worker import (
    ANSWER,
    LAST_ANSWER,
    READY_MESSAGE,
    RETIRES_MESSAGE,
    WorkerStart,
    WorkerTask,
    read_end,
)
from precreg.subject import defer_signals, describe_exit, describe_stage, read_stage, stage_file
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

# Processes that die before they take an item, one after the other, before a run gives up.
MAX_FAILED_STARTS = 3

# Servers that die while no item runs, before a run gives up: something outside of it kills them.
MAX_LOST_SERVERS = 5

# Errors of decoding a message that a subject wrote: no msgpack, another shape, a depth or a number without end.
_UNDECODABLE = (MsgspecError, ValueError, RecursionError, OverflowError, MemoryError)


class WorkerProcess(Generic[_Item]):
    """One worker, as its parent sees it.

    `batch` has the unfinished items, the running one first. `began` and `deadline` are times of the running item by
    the monotonic clock, in seconds. `answered` counts the items that it finished.
    """

    def __init__(self, task: WorkerTask[_Item, Any], folder: str, path: Sequence[str]) -> None:
        """Start the process in a folder, with a search path. Raises UserError (no-workers)."""
        self.batch: deque[_Item] = deque()
        self.began, self.deadline = 0.0, inf
        self.ready = False
        self.answered = 0
        self.exit_code: int | None = None
        self._task = task
        try:
            self.process = self._start()
        except (OSError, EOFError) as error:
            raise UserError("no-workers", f"expected a worker process to start but got {error!r}") from error
        start = WorkerStart([each or folder for each in path], safe_path(path, folder), folder, pickle.dumps(task))
        self.connection.send(pickle.dumps(start))

    def _start(self) -> ForkedWorker:
        ours, theirs = socket.socketpair()
        self.connection = ParentConnection(ours)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._stage = stage_file()
        # While this end is open here too, the worker's death would not close the connection.
        with theirs:
            return fork_worker([theirs.fileno(), self._printed.fileno(), self._stage])

    def give(self, items: list[_Item]) -> None:
        """Send a batch of items."""
        self.batch.extend(items)
        self.connection.send(pickle.dumps(items))
        self.set_deadline()

    def set_deadline(self) -> None:
        """Start the time of the item that is now the first of the batch."""
        self.began = monotonic()
        self.deadline = self.began + self._task.timeout_s(self.batch[0]) if self.batch else inf

    def failure(self, reason: Reason, how: str) -> Failure:
        """Return the failure of the running item: its stage, and the end of its printed text."""
        stage = read_stage(self._stage)
        return Failure(reason, how if stage is None else f"{how} while {describe_stage(stage)}", self._read_printed())

    def _read_printed(self) -> str:
        return read_end(self._printed.fileno())

    def describe_end(self) -> str:
        """Return how the process ended: "exited with code 5", "killed by SIGSEGV"."""
        code = self.exit_code
        if code is None:
            return "lost the server of its process"
        return describe_exit(code)

    def read_status(self) -> None:
        """Read the exit code of the process that ended."""
        self.exit_code = self.process.exit_code()

    def kill(self) -> None:
        """Kill the process with all that its subjects started, and wait for its end."""
        if self.exit_code is None:
            continue_server()
            kill_group(self.process.pid)
            ended = poll()
            ended.register(self.process.status, POLLIN)
            # The server answers once the processes that the worker left are gone, too.
            ended.poll(EXIT_PATIENCE_S * 1000)

    def close(self) -> None:
        """Close all that the parent holds of the worker."""
        self.connection.close()
        self._printed.close()
        os.close(self._stage)
        os.close(self.process.status)


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

    def __init__(
        self, task: WorkerTask[_Item, _Answer], jobs: int, *, folder: str = "", path: Sequence[str] = ()
    ) -> None:
        """Start the server of workers, and no worker yet.

        Workers begin in `folder`, this process's by default; the folders of `path` come first in their search path.
        """
        start_fork_server()
        self._folder, self._path = folder or os.getcwd(), [*path, *sys.path]
        self.seconds: dict[str, float] = {}
        self._waiting: deque[_Item] = deque()
        self._task = task
        self._jobs = jobs
        self._workers: set[WorkerProcess[_Item]] = set()
        self._selector = DefaultSelector()
        self._decoder = task.decoder()
        self._suspects, self._lost_servers, self._failed_starts = set[str](), 0, 0

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
        while len(self._workers) < min(1 if self._suspects else self._jobs, self.unfinished()):
            self._add_worker()
        for key, events in self._selector.select(self._time_left_s()):
            yield from key.data(events)
        for worker in [worker for worker in self._workers if worker.deadline < monotonic()]:
            # Its answer may have come while the caller handled another one.
            yield from self._exchange(worker, EVENT_READ)
            if worker in self._workers and worker.deadline < monotonic():
                yield from self._stop_overdue(worker)

    def process_ids(self) -> list[int]:
        """Return the ids of the worker processes."""
        return [worker.process.pid for worker in list(self._workers)]

    def close(self) -> None:
        """Kill all workers, busy or not."""
        with defer_signals(SIGINT):
            for worker in list(self._workers):
                self._remove_worker(worker)
        self._selector.close()

    def _add_worker(self) -> None:
        # An interrupt during the start would leave a worker that nobody kills.
        with defer_signals(SIGINT):
            worker = WorkerProcess(self._task, self._folder, self._path)
            self._workers.add(worker)
            self._selector.register(worker.connection, EVENT_READ, partial(self._exchange, worker))
            self._listen(worker)
            # A child of a subject may hold the connection open after the worker's death, which the status reports.
            self._selector.register(worker.process.status, EVENT_READ, partial(self._handle_death, worker))

    def _remove_worker(self, worker: WorkerProcess[_Item]) -> None:
        # First, because an interrupt may end this method, and `close` kills only the workers that are left.
        worker.kill()
        self._workers.remove(worker)
        self._selector.unregister(worker.process.status)
        if worker.connection.fileno() in self._selector.get_map():
            self._selector.unregister(worker.connection)
        worker.close()

    def _listen(self, worker: WorkerProcess[_Item]) -> None:
        """Wait for messages of a worker, and for room if it did not take all of a message."""
        events = EVENT_READ | EVENT_WRITE if worker.connection.has_unsent else EVENT_READ
        if self._selector.get_key(worker.connection).events != events:
            self._selector.modify(worker.connection, events, partial(self._exchange, worker))

    def _time_left_s(self) -> float | None:
        deadline = min(worker.deadline for worker in self._workers)
        return None if deadline == inf else min(MAX_WAIT_S, max(0.0, deadline - monotonic()))

    def _exchange(self, worker: WorkerProcess[_Item], events: int) -> Iterator[_Answer]:
        """Send and receive as much as possible now, and handle the complete messages."""
        # The selector may report the connection and the status of one worker at once.
        if worker not in self._workers or worker.connection.closed:
            return
        if events & EVENT_WRITE:
            worker.connection.send_rest()
        if events & EVENT_READ:
            worker.connection.receive()
            yield from self._handle_messages(worker)
        if worker not in self._workers:
            return
        if worker.connection.closed:
            # A worker that ends has closed its end a moment before. One that goes on is given up.
            self._selector.unregister(worker.connection)
            continue_server()
            worker.deadline = min(worker.deadline, monotonic() + EXIT_PATIENCE_S)
        else:
            self._listen(worker)

    def _handle_messages(self, worker: WorkerProcess[_Item]) -> Iterator[_Answer]:
        try:
            while worker in self._workers and (message := worker.connection.next_message()) is not None:
                yield from self._handle_message(worker, message)
        except BrokenMessage as broken:
            yield from self._lose_worker(worker, str(broken), is_broken=True)

    def _handle_message(self, worker: WorkerProcess[_Item], message: bytes) -> Iterator[_Answer]:
        """Decode one message, and give the worker its next batch before the caller handles the answer."""
        if message == READY_MESSAGE and not worker.ready and not worker.answered and worker.exit_code is None:
            worker.ready = True
            self._assign()
            return
        # A worker that has run nothing has no reason to retire: forged messages would make an item run without end.
        if message == RETIRES_MESSAGE and worker.answered:
            self._return_batch(worker)
            return
        kind = message[:1]
        if not worker.batch or kind not in (ANSWER, LAST_ANSWER):
            raise BrokenMessage("sent a message that answers nothing")
        try:
            answer = self._decoder.decode(memoryview(message)[1:])
        except _UNDECODABLE as error:
            raise BrokenMessage("sent an outcome that cannot be read") from error
        key = self._task.answer_key(answer)
        # A subject can write to the connection of its worker (tests/run/kernels.py has one).
        if key != self._task.item_key(worker.batch[0]):
            raise BrokenMessage(f"gave an outcome of {key} in its place")
        worker.batch.popleft()
        worker.answered += 1
        self._suspects.discard(key)
        self.seconds[key] = monotonic() - worker.began
        if kind == LAST_ANSWER:
            self._return_batch(worker)
        else:
            worker.set_deadline()
            self._assign()
        yield answer

    def _assign(self) -> None:
        """Give a batch to each idle worker."""
        for worker in self._workers:
            if worker.ready and not worker.batch and self._waiting:
                size = max(1, min(MAX_BATCH, len(self._waiting) // (self._jobs * BATCHES_PER_WORKER)))
                worker.give([self._waiting.popleft() for _ in range(size)])
                self._listen(worker)

    def _handle_death(self, worker: WorkerProcess[_Item], _events: int) -> Iterator[_Answer]:
        """Read the last messages of a dead process, then blame its death on the item that was running, if any."""
        if worker not in self._workers:
            return
        # Not ready any more, or `_assign` would give it another batch while its last messages come in.
        had_started, worker.ready = worker.ready, False
        worker.read_status()
        if not worker.connection.closed:
            worker.connection.receive()
        yield from self._handle_messages(worker)
        if worker.exit_code is None:
            yield from self._lose_server()
            return
        yield from self._lose_worker(worker, worker.describe_end())
        # Something else may have killed one process. Otherwise the next would die in the same way, without end.
        self._failed_starts = 0 if had_started else self._failed_starts + 1
        if self._failed_starts == MAX_FAILED_STARTS:
            raise UserError("no-workers", f"expected a worker process to start but it {worker.describe_end()}")

    def _lose_server(self) -> Iterator[_Answer]:
        """Remove all workers, because the server that forked them died; an item that ran alone then crashed."""
        for worker in self._workers:
            worker.ready = False
        running = [worker for worker in self._workers if worker.batch]
        if not running:
            self._lost_servers += 1
            if self._lost_servers == MAX_LOST_SERVERS:
                raise UserError("no-workers", "expected a worker process to start but the server of workers died")
        if len(running) == 1 and self._task.item_key(running[0].batch[0]) in self._suspects:
            yield from self._lose_worker(running[0], "lost the server of its process")
        for worker in list(self._workers):
            # The next server runs these one after the other, so that a second loss has one cause.
            self._suspects |= {self._task.item_key(worker.batch[0])} if worker.batch else set()
            self._return_batch(worker)

    def _lose_worker(self, worker: WorkerProcess[_Item], how: str, *, is_broken: bool = False) -> Iterator[_Answer]:
        """Remove a worker that died or sent a broken message; its running item, if any, crashed.

        A message that an earlier item of the worker may have caused does not count: the item runs again.
        """
        if worker not in self._workers:
            return
        if not worker.batch or (is_broken and worker.answered):
            self._return_batch(worker)
        else:
            yield self._give_up_item(worker, worker.failure(Reason.CRASHED, how))

    def _stop_overdue(self, worker: WorkerProcess[_Item]) -> Iterator[_Answer]:
        if worker.connection.closed:
            yield from self._lose_worker(worker, "closed its connection", is_broken=True)
            return
        how = f"exceeded its timeout of {self._task.timeout_s(worker.batch[0]):g} s"
        yield self._give_up_item(worker, worker.failure(Reason.TIMED_OUT, how))

    def _give_up_item(self, worker: WorkerProcess[_Item], failure: Failure) -> _Answer:
        """Remove a worker, hand the rest of its batch on, and return the answer to its running item."""
        item = worker.batch.popleft()
        self._suspects.discard(self._task.item_key(item))
        self._return_batch(worker)
        return self._task.give_up(item, failure)

    def _return_batch(self, worker: WorkerProcess[_Item]) -> None:
        """Remove a worker, and put its batch first in the queue."""
        self._waiting.extendleft(reversed(worker.batch))
        worker.batch.clear()
        self._remove_worker(worker)
        self._assign()
