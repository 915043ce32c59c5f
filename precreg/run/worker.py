"""How does a process run cases, as a worker of its own or as the process of the command?

In the command's process cases are fast and easy to debug, but a subject that crashes or hangs takes the run with it.
A worker takes batches of items from its parent and sends each answer as it comes. A task says which items these are:
cases of a run, or pairs of stored arrays.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO, TextIOWrapper
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from pathlib import Path
from signal import SIGKILL
from threading import Thread
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import msgpack
from msgspec.structs import replace

from precreg.subject import TreePair, redirect_imports
from precreg.types import Case, Execution, Failure, Outcome

_Item = TypeVar("_Item", contravariant=True)
_Answer = TypeVar("_Answer")

# The function that runs one case in a project and an environment (the chain of its labels). It reaches a worker as the
# names of a module and a function. So a worker imports the room of a self-test only for a self-test.
CaseRunner = Callable[[Case, Path, tuple[str, ...]], Outcome]

READY_MESSAGE = b""


class WorkerTask(Protocol[_Item, _Answer]):
    """The work of a pool of workers, and the facts about its items and answers that the parent needs.

    Each worker gets a copy by pickle. A key identifies an item and its answer.
    """

    def prepare(self) -> None:
        """Import the modules that `run` needs, in a worker; an error here is the worker's, and not an item's."""

    def run(self, item: _Item, printed: Callable[[], str], /) -> _Answer:
        """Return the answer to an item, in a worker; `printed` returns the end of the output that the item caused."""

    def decoder(self) -> msgpack.Decoder[_Answer]:
        """Return the decoder of answers."""

    def item_key(self, item: _Item, /) -> str:
        """Return the key of an item."""

    def answer_key(self, answer: _Answer, /) -> str:
        """Return the key of the item that an answer belongs to."""

    def timeout_s(self, item: _Item, /) -> float:
        """Return the longest time that an item may take, in seconds; infinity for no limit."""

    def give_up(self, item: _Item, failure: Failure, /) -> _Answer:
        """Return the answer to an item that exceeded its timeout, or whose worker died."""


class CaseTask(NamedTuple):
    """The cases of a project in an environment, as the task of workers; `runner` is None for a plain run.

    With `trees`, `project` lies in the checkout of another version, and imports from the working tree lead there.
    """

    project: Path
    chain: tuple[str, ...]
    trees: TreePair | None = None
    runner: CaseRunner | None = None

    def prepare(self) -> None:
        """Lead imports to the other version, if there is one, import the runner, and keep the oracles apart."""
        if self.trees is not None:
            redirect_imports(self.trees)
        self._runner()
        from precreg.run.oracle import run_oracles_apart

        run_oracles_apart()

    def run(self, case: Case, printed: Callable[[], str]) -> Outcome:
        """Return the outcome of a case; a failure gets the end of the printed text."""
        if self.trees is not None:
            # Only bounds need a benchmark. They judge the working tree, and the other version may lack it.
            case = replace(case, benchmark=None)
        outcome = self._runner()(case, self.project, self.chain)
        if outcome.execution.failure is None:
            return outcome
        from precreg.subject import add_printed_output

        return add_printed_output(outcome, printed())

    def decoder(self) -> msgpack.Decoder[Outcome]:
        """Return the decoder of outcomes."""
        return msgpack.Decoder(Outcome)

    def item_key(self, case: Case) -> str:
        """Return the id of a case."""
        return case.id

    def answer_key(self, outcome: Outcome) -> str:
        """Return the id of an outcome's case."""
        return outcome.case

    def timeout_s(self, case: Case) -> float:
        """Return the timeout of a case."""
        return case.timeout_s

    def give_up(self, case: Case, failure: Failure) -> Outcome:
        """Return the outcome of a case that has only a failure."""
        return Outcome(case.id, case.definition, Execution(failure=failure))

    def _runner(self) -> CaseRunner:
        if self.runner is not None:
            return self.runner
        # Late, because the parent of workers imports this module too. It never computes, and without numpy it starts
        # the server early enough to limit the threads of BLAS there.
        from precreg.run.case_run import run_case

        return run_case


def run_in_process(cases: Iterable[Case], task: CaseTask) -> Iterator[Outcome]:
    """Yield the outcome of each case in turn, from this process; timeouts do not apply."""
    for case in cases:
        with redirect_stdout(_PrintedInProcess()) as printed, redirect_stderr(printed):
            outcome = task.run(case, printed.getvalue)
        yield outcome


class _Unclosable:
    """A stream for the output of subjects: a subject that closes its standard output closes nothing."""

    def close(self) -> None:
        pass


class _PrintedInProcess(_Unclosable, StringIO):
    pass


class _PrintedByWorker(_Unclosable, TextIOWrapper):
    pass


def serve_batches(connection: Connection, task: WorkerTask[Any, Any]) -> None:
    """Receive the file for the printed output, then run batches of items until the parent sends no more."""
    code = 1
    try:
        task.prepare()
        _run_batches(connection, task)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Threads that a subject left behind would keep a process alive that ends in the usual way.
        os._exit(code)


def _run_batches(connection: Connection, task: WorkerTask[Any, Any]) -> None:
    # In a group of its own the worker dies with all children of its subjects, and a Ctrl-C reaches the parent alone.
    os.setpgid(0, 0)
    Thread(target=_die_with_parent, daemon=True).start()
    printed = recv_handle(connection)
    _redirect_output(printed)
    # Late, because it brings numpy, which the parent does without.
    from precreg.run.oracle import start_oracle_process

    start_oracle_process()
    connection.send_bytes(READY_MESSAGE)
    read_printed = partial(read_end, printed)
    while items := _receive_batch(connection):
        for item in items:
            _empty_file(printed)
            connection.send_bytes(msgpack.encode(task.run(item, read_printed)))


def read_end(printed: int) -> str:
    """Return the last DETAIL_LENGTH bytes of an open file as text."""
    # Late, because it brings numpy, and most parents meet no failure.
    from precreg.subject import DETAIL_LENGTH

    start = max(0, os.fstat(printed).st_size - DETAIL_LENGTH)
    # pread leaves the position alone, at which the subject goes on writing.
    return os.pread(printed, DETAIL_LENGTH, start).decode(errors="replace")


def _receive_batch(connection: Connection) -> list[Any]:
    """Return the next batch; an empty one ends the worker, as a closed connection does."""
    try:
        items: list[Any] = connection.recv()
    except EOFError:
        return []
    return items


def _redirect_output(printed: int) -> None:
    """Send all output of this process to the file, without a buffer that a killed process would lose."""
    # The descriptors too: compiled code and child processes write to them.
    for standard in (1, 2):
        os.dup2(printed, standard)
    unbuffered = open(printed, "wb", buffering=0, closefd=False)  # noqa: SIM115  (lives as long as the worker)
    sys.stdout = sys.stderr = _PrintedByWorker(unbuffered, "utf-8", "backslashreplace", write_through=True)
    faulthandler.enable()


def _empty_file(printed: int) -> None:
    # Most subjects print nothing, and lseek is cheaper than ftruncate.
    if os.lseek(printed, 0, os.SEEK_CUR):
        os.ftruncate(printed, 0)
        os.lseek(printed, 0, os.SEEK_SET)


def _die_with_parent() -> None:
    """Kill this process group once the parent is gone.

    A thread can do so while the subject computes.
    """
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(0, SIGKILL)
