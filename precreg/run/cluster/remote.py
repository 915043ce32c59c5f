"""What does a Dask worker do for a run?

The functions of this module run in the process of the Dask worker. No code of a project does: batches of items go to
processes of precreg's own pool, one for each thread of the worker, which live from one batch to the next.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import Any, NamedTuple

from msgspec import Struct, msgpack

from precreg import __version__
from precreg.environment import LABEL_VARIABLE, detect_environment, with_accelerators
from precreg.errors import UserError
from precreg.run.cluster.transfer import unpickle_on_worker
from precreg.run.cluster.upload import unpack_tree
from precreg.run.workers import LocalPools, WorkerPool, kill_group
from precreg.types import Case, Environment, GitState

# Names of folders through which tasks pass arrays begin so.
SCRATCH = "precreg-scratch-"


class WorkerFacts(Struct, frozen=True):
    """The facts by which a run accepts or refuses a worker, and the environment in which its cases compute."""

    sources: str
    environment: Environment


class CheckoutFacts(Struct, frozen=True):
    """The state of a project's checkout on a worker: its commit, None without one, and a digest of its sources."""

    git: GitState | None
    sources: str


class RemoteTask(NamedTuple):
    """The tasks of a pool of workers, and the place where they run; the items of two tasks come in pairs."""

    tasks: tuple[Any, ...]
    goes_on: Any
    folder: Path
    path: tuple[Path, ...]


class BatchResult(Struct, frozen=True):
    """The answers to a batch, each as its task encodes it, the seconds by key, and the error that stopped it."""

    answers: list[tuple[bytes, ...]]
    seconds: dict[str, float]
    problem: str = ""


_Pool = WorkerPool[Any, Any] | LocalPools[Any, Any]


class _Session:
    """The trees and tasks of one run in this process, and its pools."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        self.tasks: dict[str, bytes] = {}
        self.idle: dict[tuple[str, tuple[str, ...]], deque[_Pool]] = {}
        self.busy: set[_Pool] = set()
        self.prepared: set[str] = set()
        self.ended = False


_sessions: dict[str, _Session] = {}
# The threads of a Dask worker, and its event loop, share the sessions.
_lock = Lock()


def package_sources() -> str:
    """Return a digest of precreg's own Python files: two versions of one number may differ in them."""
    import precreg

    root, digest = Path(precreg.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:8]


def describe_worker(label: str | None) -> bytes:
    """Return the WorkerFacts of this process, whose own label comes first. Raises UserError (bad-value)."""
    environment = with_accelerators(detect_environment(os.environ.get(LABEL_VARIABLE) or label))
    return msgpack.encode(WorkerFacts(f"{__version__} ({package_sources()})", environment))


def describe_checkout(folder: str) -> bytes:
    """Return the CheckoutFacts of a project's folder. Raises FileNotFoundError without one."""
    from precreg.run.journal import sources_digest
    from precreg.vcs import git_state

    if not Path(folder, "suites").is_dir():
        raise FileNotFoundError(f"no folder {folder}/suites")
    return msgpack.encode(CheckoutFacts(git_state(Path(folder)), sources_digest(Path(folder))))


def missing_path(paths: tuple[str, ...]) -> str | None:
    """Return the first path that this process cannot read; None if it reads all."""
    return next((path for path in paths if not os.access(path, os.R_OK)), None)


def use_folder(session: str, digest: str, folder: str) -> None:
    """Use a folder of this machine as a tree."""
    _session(session).folders[digest] = Path(folder)


# Dask gives itself as `dask_worker` to a function that has such a parameter.
def receive_tree(session: str, digest: str, content: bytes, dask_worker: Any = None) -> None:
    """Unpack a tree in the scratch space of this Dask worker, unless it is there."""
    _session(session).folders[digest] = unpack_tree(content, digest, Path(dask_worker.local_directory))


def make_scratch(session: str, name: str, dask_worker: Any = None) -> None:
    """Make the folder through which the tasks of one item pass arrays."""
    folder = Path(dask_worker.local_directory) / name
    folder.mkdir(exist_ok=True)
    _session(session).folders[name] = folder


def receive_task(session: str, key: str, content: bytes) -> None:
    """Keep a pickled RemoteTask under a key."""
    _session(session).tasks[key] = content


def end_session(session: str) -> None:
    """Kill all processes of a run, busy or not, and forget the run."""
    with _lock:
        ended = _sessions.pop(session, None)
        if ended is None:
            return
        ended.ended = True
        busy = list(ended.busy)
    for pool in busy:
        # The thread that uses the pool closes it.
        for pid in pool.process_ids():
            kill_group(pid)
    for pools in ended.idle.values():
        while pools:
            pools.popleft().close()
    for name, folder in ended.folders.items():
        if name.startswith(SCRATCH):
            rmtree(folder, ignore_errors=True)


def run_batch(session: str, key: str, items: bytes, chain: tuple[str, ...]) -> bytes:
    """Run a batch of items of a task in processes of this machine, and return the BatchResult.

    `chain` has the labels of this worker's environment, with the devices that it has by its resources.
    """
    here = _session(session)
    work: list[tuple[Any, ...]] = unpickle_on_worker(items, here.folders)
    answers: list[tuple[bytes, ...]] = []
    _build_programs(here, key, work)
    try:
        pool = _take_pool(here, key, chain)
    except UserError as problem:
        return msgpack.encode(BatchResult([], {}, problem.message))
    problem_met = ""
    try:
        for found in _answers(pool, work):
            answers.append(tuple(msgpack.encode(answer) for answer in found))
            if here.ended:
                break
    except UserError as problem:
        problem_met = problem.message
    except BaseException:
        _end_pool(here, pool)
        raise
    result = BatchResult(answers, dict(pool.seconds), problem_met)
    _end_pool(here, pool) if problem_met or here.ended else _keep_pool(here, (key, chain), pool)
    return msgpack.encode(result)


def _answers(pool: _Pool, work: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    pool.seconds.clear()
    if isinstance(pool, LocalPools):
        for first, second in pool.run([(one, other) for one, other in work]):
            yield (first,) if second is None else (first, second)
    else:
        yield from ((answer,) for answer in pool.run([item for (item,) in work]))


def _session(name: str) -> _Session:
    with _lock:
        return _sessions.setdefault(name, _Session())


def _take_pool(here: _Session, key: str, chain: tuple[str, ...]) -> _Pool:
    with _lock:
        idle = here.idle.setdefault((key, chain), deque())
        pool = idle.popleft() if idle else _new_pool(here, key, chain)
        here.busy.add(pool)
        return pool


def _keep_pool(here: _Session, key: tuple[str, tuple[str, ...]], pool: _Pool) -> None:
    """Keep a pool with its process for the next batch."""
    with _lock:
        here.busy.discard(pool)
        here.idle[key].append(pool)


def _end_pool(here: _Session, pool: _Pool) -> None:
    with _lock:
        here.busy.discard(pool)
    pool.close()


def _new_pool(here: _Session, key: str, chain: tuple[str, ...]) -> _Pool:
    task: RemoteTask = unpickle_on_worker(here.tasks[key], here.folders)
    tasks = tuple(_in_environment(each, chain) for each in task.tasks)
    place: dict[str, Any] = {"folder": str(task.folder), "path": [str(each) for each in task.path]}
    # One process: Dask counts its own threads and resources, and gives each thread one batch.
    if len(tasks) == 1:
        return WorkerPool(tasks[0], 1, **place)
    return LocalPools(tasks[0], tasks[1], 1, task.goes_on, **place)


def _in_environment(task: Any, chain: tuple[str, ...]) -> Any:
    """Return a task for the environment of this worker; some tasks depend on none."""
    return task._replace(chain=chain) if hasattr(task, "chain") else task


def _build_programs(here: _Session, key: str, work: Sequence[tuple[Any, ...]]) -> None:
    """Build the programs of cases before their time counts, as a run on one machine does."""
    from precreg.run.pipeline import prepare_cases

    task: RemoteTask | None = None
    for place, each in ((place, item) for items in work for place, item in enumerate(items)):
        case = each if isinstance(each, Case) else getattr(each, "case", None)
        name = f"{key} {place} {getattr(case, 'definition', '')}"
        if isinstance(case, Case) and name not in here.prepared:
            task = task or unpickle_on_worker(here.tasks[key], here.folders)
            prepare_cases([case], task.tasks[place].project)
            here.prepared.add(name)
