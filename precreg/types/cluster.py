"""Which machines of a cluster ran the cases of a run, and what went wrong with them?"""

from __future__ import annotations

from msgspec import Struct, field

from precreg.types.case import Fact


class ClusterWorker(Struct, frozen=True, omit_defaults=True):
    """A Dask worker that ran cases: its name and address, and the label and fingerprint of its environment.

    `facts` are the facts in which its environment differs from the run's; empty where a fact is absent there.
    """

    name: str
    address: str
    label: str
    fingerprint: str
    facts: dict[str, str] = field(default_factory=dict)


class LostWorkers(Fact, frozen=True, tag="lost_workers"):
    """Dask workers that ended while they ran items: their names, the items that ran again, and those given up."""

    workers: tuple[str, ...]
    retried: int
    given_up: int = 0


class RefusedWorker(Fact, frozen=True, tag="refused_worker"):
    """A Dask worker that got no item: its name, the thing that differs or failed, its value there and here."""

    worker: str
    subject: str
    there: str
    here: str = ""


class OtherWorkers(Fact, frozen=True, tag="other_workers"):
    """Cases that ran in another environment than the run's: their number, a worker, and the facts that differ.

    Facts are texts "name there (here)".
    """

    cases: int
    worker: str
    facts: tuple[str, ...]
    workers: int = 1


ClusterWarning = LostWorkers | RefusedWorker | OtherWorkers
