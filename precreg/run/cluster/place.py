"""How does a run use a cluster as its place?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from precreg.environment import count_processors
from precreg.run.cluster.cluster import Cluster
from precreg.run.cluster.connection import ClusterRequest, connect
from precreg.run.cluster.dispatch import Dispatch
from precreg.run.workers import Deadline, VersionPools, WorkerTask
from precreg.types import Environment

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class ClusterPlace(Cluster):
    """A place of a run: the workers of one scheduler."""

    builds_here = False

    def run(
        self, items: Sequence[_Item], task: WorkerTask[_Item, _Answer], *, until: Deadline | None = None
    ) -> Iterator[_Answer]:
        """Yield the answer to every item as it comes; none for those that wait at the time `until`.

        Raises UserError: no-cluster-workers, refused-workers, no-cluster for a scheduler that is lost.
        """
        dispatch = Dispatch(self, (task,), self.add_task((task,), None))
        for (answer,) in dispatch.run([(item,) for item in items], until=until):
            yield answer

    def open_pools(
        self,
        first: WorkerTask[_Item, _Answer],
        second: WorkerTask[_Item, _Answer],
        goes_on: Callable[[_Answer], bool],
        scratch: Path | None = None,
    ) -> VersionPools[_Item, _Answer]:
        """Return the workers of two tasks; both run a pair of items on one machine, one after the other.

        Each worker has a folder of its own in the place of `scratch`.
        """
        if scratch is not None:
            self.add_scratch(scratch)
        return ClusterPools(self, (first, second), self.add_task((first, second), goes_on))


class ClusterPools:
    """The workers of two tasks on a cluster: a pair of items runs on one machine."""

    def __init__(self, cluster: Cluster, tasks: tuple[Any, Any], key: str) -> None:
        """Take two tasks, and their key on workers."""
        self.seconds: dict[str, float] = {}
        self._dispatch = Dispatch(cluster, tasks, key)

    def run(self, items: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Yield the answers of both tasks to each pair of items, in any order; None if the second did not run."""
        for answers in self._dispatch.run(items):
            self.seconds |= self._dispatch.seconds
            yield answers[0], answers[1] if len(answers) > 1 else None

    def close(self) -> None:
        """Do nothing: the cluster ends its processes with the run."""


@contextmanager
def open_cluster(request: ClusterRequest, project: Path | None, environment: Environment) -> Iterator[ClusterPlace]:
    """Connect to the scheduler, or start a cluster on this machine; wait for the first worker, and end the processes.

    Raises UserError: missing-extra, no-cluster, no-cluster-workers, refused-workers, bad-upload.
    """
    with connect(request, count_processors()) as client:
        cluster = ClusterPlace(client, request, project, environment)
        try:
            cluster.refresh()
            cluster.require_workers()
            yield cluster
        finally:
            with suppress(Exception):
                cluster.close()
