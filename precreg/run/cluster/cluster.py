"""Which workers of a Dask cluster may run the cases of a project, and which of them did?

A worker has to have the run's version of precreg and the run's state of the project. Another environment is accepted:
its outcomes have the facts that differ, and are judged as results of that environment.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from precreg import __version__
from precreg.errors import UserError
from precreg.run.cluster.connection import ClusterRequest, call_worker
from precreg.run.cluster.remote import (
    SCRATCH,
    CheckoutFacts,
    RemoteTask,
    WorkerFacts,
    describe_checkout,
    describe_worker,
    end_session,
    make_scratch,
    missing_path,
    package_sources,
    receive_task,
    receive_tree,
    use_folder,
)
from precreg.run.cluster.transfer import pickle_for_cluster
from precreg.run.cluster.upload import Tree, pack_repository, pack_tree, tree_roots
from precreg.suite import describe_memory
from precreg.types import (
    LABELS_FACT,
    ClusterWarning,
    ClusterWorker,
    Environment,
    LostWorkers,
    OtherWorkers,
    Outcome,
    RefusedWorker,
)

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

# Facts that neither change bits nor explain a time.
_UNIMPORTANT = frozenset({"os", "python_version", "thread_variables", "kernel_variables", "about_accelerators"})
# The version is read by an expression, because another version of precreg may lack the functions of this one.
_VERSION = "__import__('precreg').__version__"
_CHECKOUT = "checkout"
# The documentation of Dask has this name: dask worker --resources "memory=100e9". Case does not matter.
_MEMORY = "memory"
# Facts that a warning names.
_MAX_FACTS = 4


def worker_name(address: str, facts: Mapping[str, Any]) -> str:
    """Return the name that a worker was given, its address by default; Dask's own clusters count from 0."""
    name = facts.get("name")
    return address if name is None or name == "" else str(name)


class Needs(NamedTuple):
    """The devices that an item requires, the bytes of memory, and the fingerprint of an environment if it needs one."""

    devices: tuple[str, ...] = ()
    memory: int = 0
    environment: str = ""


class AcceptedWorker:
    """A worker that gets items: its place, its environment, and the batches that run on it."""

    def __init__(self, address: str, facts: dict[str, Any], environment: Environment) -> None:
        """Take the scheduler's facts about a worker."""
        self.address, self.environment = address, environment
        self.name = worker_name(address, facts)
        self.slots = int(facts["nthreads"])
        # By the name of the device: Dask writes NPU=1, and a suite requires device:npu.
        self.resources = {name.lower(): name for name, number in facts.get("resources", {}).items() if number >= 1}
        self._memory_name = self.resources.pop(_MEMORY, None)
        # The resource that the worker offers for cases, or else the limit at which Dask ends it; 0 has none.
        offered = facts["resources"][self._memory_name] if self._memory_name else facts.get("memory_limit")
        self.memory = int(offered) if offered else None
        self.active: set[Any] = set()
        # One item has the worker to itself.
        self.is_exclusive = False
        self.known: set[str] = set()
        self.index: int | None = None

    @property
    def label(self) -> str:
        """The name and the address, as messages have them."""
        return self.address if self.name == self.address else f"{self.name} ({self.address})"

    def offers(self, needs: Needs) -> bool:
        """Return whether a label or a resource of this worker names each device, and the rest is as needed."""
        if needs.environment not in ("", self.environment.fingerprint):
            return False
        has_memory = self.memory is None or needs.memory <= self.memory
        chain = self.environment.chain
        return has_memory and all(each in chain or each.lower() in self.resources for each in needs.devices)

    def has_room(self, needs: Needs) -> bool:
        """Return whether the memory beside the items that run now is large enough."""
        if self.memory is None or not needs.memory:
            return True
        used: int = sum(batch.needs.memory for batch in self.active)
        return used + needs.memory <= self.memory

    @property
    def offer(self) -> str:
        """The resources of this worker as a message has them."""
        devices = " ".join(self.resources.values()) or "no resource"
        return devices if self.memory is None else f"{devices}, {describe_memory(self.memory)} of memory"

    def chain(self, devices: Iterable[str]) -> tuple[str, ...]:
        """Return the labels of this worker with devices that only its resources name, before the last, generic."""
        own = self.environment.chain
        return tuple(dict.fromkeys((*own[:-1], *devices, own[-1])))

    def resources_for(self, needs: Needs) -> dict[str, float]:
        """Return the resources that Dask has to keep for an item, also from the tasks of others."""
        devices = {self.resources[name]: 1.0 for each in needs.devices if (name := each.lower()) in self.resources}
        memory = {self._memory_name: float(needs.memory)} if self._memory_name and needs.memory else {}
        return devices | memory


class Cluster:
    """The workers of one scheduler, and what a run has to send to each."""

    def __init__(self, client: Any, request: ClusterRequest, project: Path | None, environment: Environment) -> None:
        """Take a connected client; the environment is that of the run."""
        self.client, self.request, self.session = client, request, uuid4().hex
        self.lost: list[str] = []
        self.retried = self.given_up = 0
        self.workers: dict[str, AcceptedWorker] = {}
        # The time at which a worker came last, or all were lost.
        self.changed_at = monotonic()
        self._project, self._environment = project, environment
        self._refused: dict[str, RefusedWorker] = {}
        self._accepted_any = False
        self._trees: list[Tree] = []
        self._has_project = False
        self._tasks: dict[str, bytes] = {}
        self._sources = f"{__version__} ({package_sources()})"
        self._table: list[ClusterWorker] = []
        self._note: Callable[[ClusterWorker], None] = lambda _worker: None
        self._cases: Counter[str] = Counter()
        self._facts: dict[str, dict[str, str]] = {}

    @property
    def jobs(self) -> int:
        """The number of items that run at once."""
        return max(1, sum(worker.slots for worker in self.workers.values()))

    @property
    def table(self) -> tuple[ClusterWorker, ...]:
        """The workers that gave outcomes, in the order of the indices of outcomes."""
        return tuple(self._table)

    def fingerprint_of(self, outcome: Outcome) -> str:
        """Return the fingerprint of the environment that gave an outcome: its worker's, or this machine's."""
        if outcome.worker is UNSET or outcome.worker >= len(self._table):
            return self._environment.fingerprint
        return self._table[outcome.worker].fingerprint

    def keep_table(self, known: Sequence[ClusterWorker], note: Callable[[ClusterWorker], None]) -> None:
        """Go on with the table of an interrupted run; `note` gets each new worker before its first outcome."""
        self._table, self._note = list(known), note

    def warnings(self) -> Iterator[ClusterWarning]:
        """Yield the facts about workers that a person should see."""
        yield from self._refused.values()
        if self.lost:
            yield LostWorkers(tuple(self.lost), self.retried, self.given_up)
        others = [address for address in self._cases if self._facts[address]]
        if others:
            shown = [name for name in self._facts[others[0]] if name != LABELS_FACT] or [LABELS_FACT]
            texts = tuple(self._compare(name, self._facts[others[0]][name]) for name in shown[:_MAX_FACTS])
            yield OtherWorkers(sum(self._cases[each] for each in others), others[0], texts, len(others))

    def _compare(self, name: str, there: str) -> str:
        here = self._environment.label if name == LABELS_FACT else self._environment.facts.get(name, "")
        return f"{name.removeprefix('about_')} {there or 'absent'} (here {here or 'absent'})"

    def located(self, answer: Any, worker: AcceptedWorker, devices: Iterable[str]) -> Any:
        """Return an answer with its worker, and with the facts of its environment if it is an outcome."""
        if not isinstance(answer, Outcome):
            return answer
        if worker.index is None:
            worker.index = self._add_row(worker)
        self._cases[worker.address] += 1
        facts = self._facts[worker.address] = self._differing(worker, devices)
        execution = answer.execution
        # A worker's facts are the machine's. The facts of the subject's kind say more, so they come last.
        execution = replace(execution, facts={**facts, **execution.facts}) if facts else execution
        return replace(answer, execution=execution, worker=worker.index)

    def _add_row(self, worker: AcceptedWorker) -> int:
        environment = worker.environment
        differing = self._differing(worker, ())
        row = ClusterWorker(worker.name, worker.address, environment.label, environment.fingerprint, differing)
        self._table.append(row)
        self._note(row)
        return len(self._table) - 1

    def _differing(self, worker: AcceptedWorker, devices: Iterable[str]) -> dict[str, str]:
        here, there = self._environment, worker.environment
        names = dict.fromkeys((*there.facts, *here.facts))
        found = {
            name: there.facts.get(name, "")
            for name in names
            if name not in _UNIMPORTANT and there.facts.get(name) != here.facts.get(name)
        }
        chain = worker.chain(devices)
        return found if chain == here.chain else {**found, LABELS_FACT: " ".join(chain)}

    def refresh(self) -> list[AcceptedWorker]:
        """Accept or refuse the workers that came, and return those that are lost. Raises UserError (no-cluster)."""
        try:
            known = self.client.scheduler_info()["workers"]
        except (OSError, KeyError, TimeoutError) as error:
            raise _lost_scheduler(self.request.address) from error
        if getattr(self.client, "status", "running") not in ("running", "connecting"):
            raise _lost_scheduler(self.request.address)
        gone = [self.workers.pop(address) for address in list(self.workers) if address not in known]
        for worker in gone:
            if worker.active:
                self.lose(worker)
        for address in known:
            if address not in self.workers and address not in self._refused:
                self._admit(address, dict(known[address]))
        if gone and not self.workers:
            self.changed_at = monotonic()
        return gone

    def _admit(self, address: str, facts: dict[str, Any]) -> None:
        name = worker_name(address, facts)
        label = address if name == address else f"{name} ({address})"
        found = self._examine(address, label)
        if isinstance(found, RefusedWorker):
            self._refused[address] = found
        elif found is not None:
            self.workers[address] = AcceptedWorker(address, facts, found)
            self.changed_at, self._accepted_any = monotonic(), True

    def _examine(self, address: str, label: str) -> Environment | RefusedWorker | None:
        """Return the environment of a worker, the reason against it, or None if it is gone already."""
        version = call_worker(self.client, address, eval, _VERSION)
        if version is None:
            return None
        if version != __version__:
            return RefusedWorker(label, "precreg", _text(version), __version__)
        described = call_worker(self.client, address, describe_worker, self.request.label)
        if not isinstance(described, bytes):
            return None if described is None else RefusedWorker(label, "failure", _text(described))
        facts = msgspec.msgpack.decode(described, type=WorkerFacts)
        if facts.sources != self._sources:
            return RefusedWorker(label, "precreg", facts.sources, self._sources)
        if absent := call_worker(self.client, address, missing_path, self.request.paths):
            return RefusedWorker(label, "failure", f"cannot read {absent}")
        if self._project is None or self.request.is_uploaded:
            return facts.environment
        return self._examine_checkout(address, label) or facts.environment

    def _examine_checkout(self, address: str, label: str) -> RefusedWorker | None:
        """Return the reason against a worker whose checkout has another state than the run's project."""
        from precreg.run.journal import sources_digest
        from precreg.vcs import git_state

        assert self._project is not None
        found = call_worker(self.client, address, describe_checkout, self.request.project)
        if not isinstance(found, bytes):
            return RefusedWorker(label, "project", _text(found), str(self._project))
        there = msgspec.msgpack.decode(found, type=CheckoutFacts)
        here = CheckoutFacts(git_state(self._project), sources_digest(self._project))
        if here.sources == there.sources:
            return None
        commits = [None if each.git is None or each.git.dirty else each.git.commit for each in (here, there)]
        if commits[0] is not None and commits[0] == commits[1]:
            return None
        return RefusedWorker(label, "project", _state(there), _state(here))

    def lose(self, worker: AcceptedWorker) -> None:
        """Note a worker that ended while it ran items, once."""
        if worker.label not in self.lost:
            self.lost.append(worker.label)

    def refuse(self, worker: AcceptedWorker, problem: str) -> None:
        """Give a worker no further item."""
        self.workers.pop(worker.address, None)
        self._refused[worker.address] = RefusedWorker(worker.label, "failure", problem)

    def require_workers(self) -> None:
        """Raise UserError if no worker is left, and none came in the time of the request."""
        if self.workers:
            return
        if self._refused and not (self._accepted_any and self.lost):
            reasons = "; ".join(describe_refusal(each) for each in self._refused.values())
            raise UserError("refused-workers", f"expected a worker that can run this project but got {reasons}")
        if monotonic() - self.changed_at > self.request.wait_s:
            lost = f", after {len(self.lost)} were lost" if self.lost else ""
            message = f"expected a worker at {self.request.address} within {self.request.wait_s:g} s but got none{lost}"
            raise UserError("no-cluster-workers", message)

    def prepare_worker(self, worker: AcceptedWorker, key: str) -> bool:
        """Send a task and the trees that it needs to a worker, once; return False for a worker that is gone."""
        if key in worker.known:
            return True
        for tree in self._trees:
            if tree.digest not in worker.known and not self._send_tree(worker, tree):
                return False
        if not self._call(worker, receive_task, self.session, key, self._tasks[key]):
            return False
        worker.known.add(key)
        return True

    def _send_tree(self, worker: AcceptedWorker, tree: Tree) -> bool:
        if tree.digest == _CHECKOUT and self._project is not None:
            folder = str(self.request.checkout_root(self._project))
            sent = self._call(worker, use_folder, self.session, tree.digest, folder)
        elif tree.digest.startswith(SCRATCH):
            sent = self._call(worker, make_scratch, self.session, tree.digest)
        else:
            sent = self._call(worker, receive_tree, self.session, tree.digest, tree.content)
        if sent:
            worker.known.add(tree.digest)
        return sent

    def _call(self, worker: AcceptedWorker, function: Callable[..., None], *arguments: Any) -> bool:
        """Call a function on a worker; return False for a worker that is lost, or failed and is refused now."""
        found = call_worker(self.client, worker.address, function, *arguments, absent=False)
        if isinstance(found, BaseException):
            self.refuse(worker, _text(found))
        return found is None

    def pickle(self, value: Any) -> bytes:
        """Return the pickle of a value for a worker."""
        return pickle_for_cluster(value, tree_roots(self._trees))

    def add_scratch(self, folder: Path) -> None:
        """Give each worker a folder of its own in the place of one of this machine."""
        self._trees.append(Tree(folder, f"{SCRATCH}{uuid4().hex}", b""))

    def add_task(self, tasks: tuple[Any, ...], goes_on: Any) -> str:
        """Prepare one task, or two for pairs of items, for the workers, and return its key."""
        self._add_trees(tasks)
        here = Path.cwd()
        if self._project is None:
            return self._keep_task(RemoteTask(tasks, goes_on, here, ()))
        root = self._trees[0].root
        folder = here if here.is_relative_to(root) else self._project
        prefix = os.path.realpath(sys.prefix)
        path = [Path(each) for each in sys.path if each and Path(each).is_relative_to(root)]
        path = [each for each in path if "site-packages" not in each.parts and not each.is_relative_to(prefix)]
        return self._keep_task(RemoteTask(tasks, goes_on, folder, tuple(path)))

    def _keep_task(self, task: RemoteTask) -> str:
        key = uuid4().hex
        self._tasks[key] = self.pickle(task)
        return key

    def _add_trees(self, tasks: tuple[Any, ...]) -> None:
        """Pack the project, and the checkouts of other versions of it that tasks use."""
        if self._project is not None and not self._has_project:
            self._has_project = True
            root = self.request.root_of(self._project)
            uploaded = self.request.is_uploaded
            own = pack_tree(root, self._project) if uploaded else Tree(root, _CHECKOUT, b"")
            self._trees.insert(0, own)
        for task in tasks:
            commits: tuple[str, ...] | None = getattr(task, "commits", None)
            if commits is not None and self._project is not None and self.request.is_uploaded:
                self._trees[0] = pack_repository(self._trees[0], self._project, commits)
            trees = getattr(task, "trees", None)
            if trees is not None and all(tree.root != trees.other for tree in self._trees):
                self._trees.append(pack_tree(trees.other, task.project))

    def close(self) -> None:
        """End the processes of this run on all workers."""
        for address in list(self.workers):
            call_worker(self.client, address, end_session, self.session)


def _lost_scheduler(address: str) -> UserError:
    message = f"lost the scheduler {address}: it no longer answers"
    return UserError("no-cluster", message, hint="start the scheduler again; precreg run goes on with --resume")


def describe_refusal(fact: RefusedWorker) -> str:
    """Return the name of a refused worker, and both sides of the difference."""
    if fact.subject == "failure":
        return f"{fact.worker}: {fact.there}"
    return f"{fact.worker}: {fact.subject} {fact.there}, and this run has {fact.here}"


def _state(facts: CheckoutFacts) -> str:
    """Return the state of a checkout in one line."""
    if facts.git is None:
        return f"sources {facts.sources[:8]}"
    changed = f" with changes ({facts.sources[:8]})" if facts.git.dirty else ""
    return f"commit {facts.git.commit[:12]}{changed}"


def _text(found: object) -> str:
    """Return the version or the exception of a worker as one line."""
    if isinstance(found, ModuleNotFoundError):
        return f"not installed ({found})"
    text = f"{type(found).__name__}: {found}" if isinstance(found, BaseException) else str(found)
    return " ".join(text.split())[:200]
