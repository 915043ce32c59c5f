"""Which workers of a cluster ran the cases of a run, and which were lost or refused?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

from msgspec import UnsetType

from precreg.types import LostWorkers, RefusedWorker, RunRecord

WorkerState = Literal["ran", "lost", "refused"]


class WorkerRow(NamedTuple):
    """A worker as the reports list it: its name with its address, its state, and the number of its cases.

    `differs` has the facts in which its environment differs from the run's. A refused worker has no environment, and
    its warning has the reason.
    """

    worker: str
    state: WorkerState
    cases: int
    environment: str = ""
    fingerprint: str = ""
    differs: str = ""
    refusal: RefusedWorker | None = None


def worker_rows(record: RunRecord) -> list[WorkerRow]:
    """Return the workers of a run on a cluster: those with cases in their order, then others; none for a local run."""
    return [*_with_cases(record), *_others(record)]


def _lost(record: RunRecord) -> set[str]:
    return {name for fact in record.warnings if isinstance(fact, LostWorkers) for name in fact.workers}


def _with_cases(record: RunRecord) -> Iterator[WorkerRow]:
    lost = _lost(record)
    cases = Counter(result.outcome.worker for result in record.results)
    workers = () if isinstance(record.workers, UnsetType) else record.workers
    for place, each in enumerate(workers):
        name = each.address if each.name == each.address else f"{each.name} ({each.address})"
        differs = ", ".join(f"{fact.removeprefix('about_')} {value or 'absent'}" for fact, value in each.facts.items())
        state: WorkerState = "lost" if name in lost else "ran"
        yield WorkerRow(name, state, cases[place], each.label, each.fingerprint, differs)


def _others(record: RunRecord) -> Iterator[WorkerRow]:
    known = {row.worker for row in _with_cases(record)}
    yield from (WorkerRow(name, "lost", 0) for name in sorted(_lost(record) - known))
    # A worker that failed after some cases has a row already; its warning has the reason.
    for fact in record.warnings:
        if isinstance(fact, RefusedWorker) and fact.worker not in known:
            yield WorkerRow(fact.worker, "refused", 0, refusal=fact)
