"""Which worker of a cluster runs which items, and what happens to the items of a lost worker?

The run itself gives batches to workers, and Dask carries them. So it knows which items a lost worker had: they run
again elsewhere, alone, and an item that costs several workers is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple

from msgspec import msgpack

from precreg.run.cluster.cluster import AcceptedWorker, Cluster, Needs
from precreg.run.cluster.remote import BatchResult, run_batch
from precreg.run.workers import Deadline
from precreg.suite import describe_memory, required_memory
from precreg.types import Case, Failure, Reason

# Workers that one item may cost: the first two may have ended for other reasons.
MAX_LOSSES = 3
# Seconds of a batch: a message costs some 10 ms, and a lost worker costs the batch.
BATCH_SECONDS = 0.5
# An answer of a small case has some 2 kB, and the items of a batch are lost together.
MAX_BATCH = 128
# Seconds between two looks at the list of workers, and between two looks at answers.
REFRESH_S = 0.5
POLL_S = 0.1
# A result is on its worker. One that does not come within this time is lost with it.
GATHER_S = 30.0

_DEVICE = "device:"
# As tables of workers show a fingerprint.
_SHOWN_DIGITS = 12


class Work(NamedTuple):
    """The items of one answer, one for each task, their requirements, and the workers that they cost so far."""

    items: tuple[Any, ...]
    needs: Needs
    losses: tuple[str, ...] = ()


class _Batch:
    """Items that run on a worker, and the future of their answers."""

    def __init__(self, work: list[Work], worker: AcceptedWorker) -> None:
        # The items of a batch have the same requirements, and run one after the other.
        self.work, self.worker, self.needs = work, worker, work[0].needs
        self.future: Any = None


class Dispatch:
    """The items of a task on their way to workers and back."""

    def __init__(self, cluster: Cluster, tasks: tuple[Any, ...], key: str) -> None:
        """Take the tasks of an item, and their key on workers."""
        self.seconds: dict[str, float] = {}
        self._cluster, self._tasks, self._key = cluster, tasks, key
        self._decoders = [task.decoder() for task in tasks]
        self._waiting: deque[Work] = deque()
        self._active: set[_Batch] = set()
        self._ended: SimpleQueue[_Batch] = SimpleQueue()
        self._refreshed = monotonic()
        # Seconds of an item, with the messages; 0 before the first answer.
        self._of_item = 0.0

    def run(self, items: Sequence[tuple[Any, ...]], until: Deadline | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield the answers to each tuple of items as they come. Raises UserError as the cluster does.

        Items that wait at the time `until` are dropped. Without it, they wait for a worker as long as the user allows.
        """
        self._waiting.extend(Work(each, _needs_of(each)) for each in items)
        try:
            while self._waiting or self._active:
                if until is not None and until.left <= 0:
                    self._waiting.clear()
                if monotonic() - self._refreshed > REFRESH_S:
                    yield from self._refresh()
                self._assign()
                yield from self._give_up_impossible()
                try:
                    batch = self._ended.get(timeout=POLL_S)
                except Empty:
                    continue
                if batch in self._active:
                    yield from self._finish(batch)
        finally:
            for batch in self._active:
                batch.future.cancel()
            self._active.clear()

    def _refresh(self) -> Iterator[tuple[Any, ...]]:
        self._refreshed = monotonic()
        for worker in self._cluster.refresh():
            for batch in [each for each in self._active if each.worker is worker]:
                yield from self._lose(batch)
        self._cluster.require_workers()

    def _assign(self) -> None:
        """Give a batch to each free thread of each worker."""
        for worker in list(self._cluster.workers.values()):
            while self._waiting and not worker.is_exclusive and len(worker.active) < worker.slots:
                work = self._take(worker)
                if not work:
                    break
                if not self._cluster.prepare_worker(worker, self._key):
                    self._waiting.extendleft(reversed(work))
                    break
                self._submit(work, worker)

    def _take(self, worker: AcceptedWorker) -> list[Work]:
        """Take the next items that a worker can run: several with the same devices, or one that cost a worker."""
        size = self._batch_size()
        taken: list[Work] = []
        passed: list[Work] = []
        while self._waiting and len(taken) < size:
            work = self._waiting.popleft()
            has_place = worker.offers(work.needs) and worker.has_room(work.needs)
            fits = has_place and (len(work.losses) < MAX_LOSSES - 1 or not worker.active)
            if not fits or (taken and (work.losses or work.needs != taken[0].needs)):
                passed.append(work)
                if taken:
                    break
                continue
            taken.append(work)
            if work.losses:
                break
        self._waiting.extendleft(reversed(passed))
        return taken

    def _batch_size(self) -> int:
        if not self._of_item:
            return 1
        shared = len(self._waiting) // (2 * self._cluster.jobs)
        return max(1, min(MAX_BATCH, int(BATCH_SECONDS / self._of_item), shared))

    def _submit(self, work: list[Work], worker: AcceptedWorker) -> None:
        batch = _Batch(work, worker)
        # An item that cost two workers runs alone, so that a third loss has one cause.
        worker.is_exclusive = len(work[0].losses) >= MAX_LOSSES - 1
        cluster = self._cluster
        batch.future = cluster.client.submit(
            run_batch,
            cluster.session,
            self._key,
            cluster.pickle([each.items for each in work]),
            worker.chain(batch.needs.devices),
            workers=[worker.address],
            resources=worker.resources_for(batch.needs) or None,
            pure=False,
        )
        self._active.add(batch)
        worker.active.add(batch)
        batch.future.add_done_callback(lambda _future: self._ended.put(batch))

    def _finish(self, batch: _Batch) -> Iterator[tuple[Any, ...]]:
        """Yield the answers of a batch that ended, or hand its items on."""
        from distributed.scheduler import KilledWorker

        # A worker may end after its batch and before its answers are here.
        is_finished = batch.future.status == "finished"
        try:
            content = batch.future.result(timeout=GATHER_S)
        except Exception as error:
            if is_finished or isinstance(error, KilledWorker) or batch.future.cancelled():
                self._cluster.lose(batch.worker)
                yield from self._lose(batch)
            else:
                self._cluster.refuse(batch.worker, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
                self._return(batch)
            return
        result = msgpack.decode(content, type=BatchResult)
        self._remove(batch)
        if result.problem:
            self._cluster.refuse(batch.worker, result.problem)
        yield from self._take_answers(batch, result)

    def _take_answers(self, batch: _Batch, result: BatchResult) -> Iterator[tuple[Any, ...]]:
        missing = {self._tasks[0].item_key(work.items[0]): work for work in batch.work}
        spent = sum(result.seconds.values())
        if result.answers:
            self._of_item = spent / len(result.answers) + 1e-6
        self.seconds |= result.seconds
        for encoded in result.answers:
            answers = [decoder.decode(each) for decoder, each in zip(self._decoders, encoded, strict=False)]
            missing.pop(self._tasks[0].answer_key(answers[0]), None)
            yield tuple(self._cluster.located(each, batch.worker, batch.needs.devices) for each in answers)
        # The worker stopped before these.
        self._waiting.extendleft(missing.values())

    def _lose(self, batch: _Batch) -> Iterator[tuple[Any, ...]]:
        """Hand on the items of a batch whose worker is lost; give up the one that cost several."""
        self._remove(batch)
        for work in reversed(batch.work):
            losses = (*work.losses, batch.worker.label)
            if len(losses) < MAX_LOSSES:
                self._cluster.retried += 1
                self._waiting.appendleft(work._replace(losses=losses))
                continue
            self._cluster.given_up += 1
            how = f"its worker was lost {len(losses)} times: {', '.join(losses)}"
            yield self._give_up(work, Failure(Reason.CRASHED, how))

    def _give_up(self, work: Work, failure: Failure) -> tuple[Any, ...]:
        return tuple(task.give_up(item, failure) for task, item in zip(self._tasks, work.items, strict=True))

    def _return(self, batch: _Batch) -> None:
        self._remove(batch)
        self._waiting.extendleft(reversed(batch.work))

    def _remove(self, batch: _Batch) -> None:
        self._active.discard(batch)
        batch.worker.active.discard(batch)
        batch.worker.is_exclusive = False
        batch.future.release()

    def _give_up_impossible(self) -> Iterator[tuple[Any, ...]]:
        """Give up the items that no worker can run, once no worker came for the time of the request."""
        cluster = self._cluster
        if not cluster.workers or monotonic() - cluster.changed_at < cluster.request.wait_s:
            return
        workers = cluster.workers.values()
        known = {work.needs for work in self._waiting}
        absent = {needs for needs in known if not any(worker.offers(needs) for worker in workers)}
        if not absent:
            return
        has = "; ".join(f"{each.label} has {each.offer}" for each in workers)
        for work in [work for work in self._waiting if work.needs in absent]:
            self._waiting.remove(work)
            needed = _describe_needs(work.needs)
            message = f"needs {needed}, and no worker came with it in {cluster.request.wait_s:g} s ({has})"
            yield self._give_up(work, Failure(Reason.UNAVAILABLE, message))


def _needs_of(items: tuple[Any, ...]) -> Needs:
    """Return the devices and the memory that the case of an item requires, and the environment of an item."""
    case = items[0] if isinstance(items[0], Case) else getattr(items[0], "case", None)
    environment = "" if case is items[0] else getattr(items[0], "environment", "")
    required = case.requires if isinstance(case, Case) else ()
    devices = tuple(each.removeprefix(_DEVICE) for each in required if each.startswith(_DEVICE))
    return Needs(devices, max((required_memory(each) or 0 for each in required), default=0), environment)


def _describe_needs(needs: Needs) -> str:
    devices = f"the device {', '.join(needs.devices)}" if needs.devices else ""
    memory = f"{describe_memory(needs.memory)} of memory" if needs.memory else ""
    environment = f"the environment {needs.environment[:_SHOWN_DIGITS]} of the case" if needs.environment else ""
    return " and ".join(filter(None, (devices, memory, environment)))
