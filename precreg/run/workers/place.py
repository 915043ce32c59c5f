"""Where do the items of a task run: in worker processes of this machine, or on other machines?

A place has room for so many items at once. Tasks and items do not know it, and every part of a run that computes cases
takes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from precreg.run.workers.pool import WorkerPool, run_in_workers
from precreg.run.workers.worker import WorkerTask
from precreg.types import Outcome

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_GivenItem = TypeVar("_GivenItem", contravariant=True)
_FoundAnswer = TypeVar("_FoundAnswer", covariant=True)


class Deadline:
    """The end of a budget of time. Each machine reads it by its own clock: only the seconds left travel in a pickle."""

    def __init__(self, seconds: float) -> None:
        """Set the end so many seconds from now."""
        self._end = monotonic() + seconds

    @property
    def left(self) -> float:
        """Return the seconds until the end, negative after it."""
        return self._end - monotonic()

    def __reduce__(self) -> tuple[type[Deadline], tuple[float]]:
        """Pickle the seconds left."""
        return Deadline, (self.left,)


class VersionPools(Protocol[_GivenItem, _FoundAnswer]):
    """The workers of two tasks, the second of which may use files of the first: two versions of the code."""

    def run(self, items: Sequence[tuple[_GivenItem, _GivenItem]]) -> Iterator[tuple[_FoundAnswer, _FoundAnswer | None]]:
        """Yield the answers of both tasks to each pair of items, in any order; None if the second did not run."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Return the time of each finished item by its key in the first task, both tasks together."""

    def close(self) -> None:
        """Kill all workers, busy or not."""


class RunPlace(Protocol):
    """Workers on this machine, or on the machines of a cluster."""

    @property
    def jobs(self) -> int:
        """Return the number of items that run at once; 0 means in this process."""

    @property
    def builds_here(self) -> bool:
        """Return whether programs of cases are built on this machine before they run."""

    def run(
        self, items: Sequence[_Item], task: WorkerTask[_Item, _Answer], *, until: Deadline | None = None
    ) -> Iterator[_Answer]:
        """Yield the answer to every item as it comes. Raises UserError if no worker is left or can start.

        An item that waits for another machine at the time `until` gets no answer.
        """

    def fingerprint_of(self, outcome: Outcome) -> str:
        """Return the fingerprint of the environment that gave an outcome; empty if all items run in the same one."""

    def open_pools(
        self,
        first: WorkerTask[_Item, _Answer],
        second: WorkerTask[_Item, _Answer],
        goes_on: Callable[[_Answer], bool],
        scratch: Path | None = None,
    ) -> VersionPools[_Item, _Answer]:
        """Return workers for two tasks; the second gets the items whose first answer `goes_on` accepts.

        Items may name files in the folder `scratch`, through which the first task passes arrays to the second.
        """


class LocalPlace(NamedTuple):
    """Up to `jobs` worker processes of this machine."""

    jobs: int
    builds_here: bool = True

    def run(
        self, items: Sequence[_Item], task: WorkerTask[_Item, _Answer], *, until: Deadline | None = None
    ) -> Iterator[_Answer]:
        """Yield the answer to every item as it comes. Raises UserError (no-workers)."""
        return run_in_workers(items, task, max(1, self.jobs))

    def fingerprint_of(self, outcome: Outcome) -> str:
        """Return the empty text: all items run on this machine."""
        return ""

    def open_pools(
        self,
        first: WorkerTask[_Item, _Answer],
        second: WorkerTask[_Item, _Answer],
        goes_on: Callable[[_Answer], bool],
        scratch: Path | None = None,
    ) -> LocalPools[_Item, _Answer]:
        """Return up to `jobs` workers for each task."""
        return LocalPools(first, second, max(1, self.jobs), goes_on)


class LocalPools(Generic[_Item, _Answer]):
    """The worker processes of two tasks.

    Each task has its own workers, so neither sees a module of the other. Only one task computes at a time, so a load of
    the machine slows both down.
    """

    def __init__(
        self,
        first: WorkerTask[_Item, _Answer],
        second: WorkerTask[_Item, _Answer],
        jobs: int,
        goes_on: Callable[[_Answer], bool],
        **pool: Any,
    ) -> None:
        """Prepare the workers; `pool` are further arguments of both pools."""
        self._tasks, self._goes_on = (first, second), goes_on
        self._first = WorkerPool(first, jobs, **pool)
        self._second = WorkerPool(second, jobs, **pool)
        self.seconds: dict[str, float] = {}

    def run(self, items: Sequence[tuple[_Item, _Item]]) -> Iterator[tuple[_Answer, _Answer | None]]:
        """Run all items of the first task, then those of the second; yield both answers of each pair.

        Raises UserError (no-workers).
        """
        of_first, of_second = self._tasks
        first = {of_first.answer_key(answer): answer for answer in self._first.run([item for item, _ in items])}
        keys = {of_second.item_key(item): of_first.item_key(other) for other, item in items}
        self.seconds |= {key: self._first.seconds.get(key, 0.0) for key in keys.values()}
        for other, _ in items:
            if not self._goes_on(first[of_first.item_key(other)]):
                yield first[of_first.item_key(other)], None
        going = [item for other, item in items if self._goes_on(first[of_first.item_key(other)])]
        for answer in self._second.run(going):
            key = keys[of_second.answer_key(answer)]
            self.seconds[key] += self._second.seconds.get(of_second.answer_key(answer), 0.0)
            yield first[key], answer

    def process_ids(self) -> list[int]:
        """Return the ids of the worker processes."""
        return [*self._first.process_ids(), *self._second.process_ids()]

    def close(self) -> None:
        """Kill all workers, busy or not."""
        self._first.close()
        self._second.close()
