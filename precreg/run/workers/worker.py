"""How does a process run cases, as a worker of its own or as the process of the command?

In the command's process cases are fast and easy to debug, but a subject that crashes or hangs takes the run with it.
A worker takes batches of items from its parent and sends each answer as it comes. A task says which items these are:
cases of a run, or pairs of stored arrays.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from msgspec import msgpack
from msgspec.structs import replace

from precreg.run.workers.channel import MAX_MESSAGE_BYTES, WorkerConnection
from precreg.subject import Activity, TreePair, enter_stage, redirect_imports, share_stage
from precreg.types import Case, Execution, Failure, Outcome, Reason

_Item = TypeVar("_Item", contravariant=True)
_Answer = TypeVar("_Answer")

# The function that runs one case in a project and an environment (the chain of its labels). It reaches a worker as the
# names of a module and a function. So a worker imports the room of a self-test only for a self-test.
CaseRunner = Callable[[Case, Path, tuple[str, ...]], Outcome]

# The report of a crash has the newest call first, and Python prints up to 100 calls of each thread.
MAX_CRASH_REPORT = 1 << 16

READY_MESSAGE = b""
# The first byte of a message with an answer. After its last answer a worker runs no further item, because the item
# left its process in a state that could reach others.
ANSWER, LAST_ANSWER = b"\x00", b"\x01"
# The worker does not run the next item of its batch.
RETIRES_MESSAGE = b"\x02"


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
    `accepted` has the accepted digests of the outputs of each case whose errors may be mapped (`add_error_maps`).
    """

    project: Path
    chain: tuple[str, ...]
    trees: TreePair | None = None
    runner: CaseRunner | None = None
    accepted: Mapping[str, tuple[str, ...]] = {}

    def prepare(self) -> None:
        """Lead imports to the other version, if any, import the runner, and start the process of the oracles."""
        if self.trees is not None:
            redirect_imports(self.trees)
        self._runner()
        from precreg.run.oracle import start_oracle_process

        start_oracle_process()

    def run(self, case: Case, printed: Callable[[], str]) -> Outcome:
        """Return the outcome of a case; a failure gets the end of the printed text."""
        if self.trees is not None:
            # Only bounds need a benchmark. They judge the working tree, and the other version may lack it.
            case = replace(case, benchmark=None)
        outcome = self._run_watched(case)
        if outcome.execution.failure is None:
            return outcome
        from precreg.subject import add_printed_output

        return add_printed_output(outcome, printed())

    def _run_watched(self, case: Case) -> Outcome:
        """Return the outcome with the changes that the case left in its process. Raises WorkerRetires."""
        from precreg.subject import current_watch

        watch = current_watch()
        if watch is None:
            return self._runner()(case, self.project, self.chain)
        watch.begin_case(imported_modules(case, self.project))
        outcome = self._runner()(case, self.project, self.chain)
        if not (left := watch.end_case()):
            return outcome
        return replace(outcome, execution=replace(outcome.execution, left=left))

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
        from precreg.run.computation import PlainComputation

        return lambda case, project, chain: run_case(case, project, chain, PlainComputation(self.accepted.get(case.id)))


def imported_modules(case: Case, project: Path) -> Iterator[tuple[str, str]]:
    """Yield the keys of the modules that a case imports in its worker, without its oracle's."""
    from precreg.subject import ANALYZER_IMPORT, import_keys
    from precreg.suite.inputs import PYTHON_KEY

    for computation in (case.subject, case.benchmark):
        if computation is not None:
            yield from import_keys(computation, project / case.directory)
    for mapping in case.inputs.values():
        if PYTHON_KEY in mapping:
            yield str(project / case.directory), mapping[PYTHON_KEY]["function"].partition(":")[0]
    yield from ((ANALYZER_IMPORT, name) for name in case.analyzers)


def run_in_process(cases: Iterable[Case], task: CaseTask) -> Iterator[Outcome]:
    """Yield the outcome of each case in turn, from this process; timeouts do not apply."""
    from precreg.subject import watch_case_in_process

    for number, case in enumerate(cases):
        with (
            redirect_stdout(_PrintedInProcess()) as printed,
            redirect_stderr(printed),
            watch_case_in_process(is_first=number == 0),
        ):
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


class WorkerStart(NamedTuple):
    """The parent's search path and folder, and the task by pickle: unpickling it imports modules from the path."""

    path: list[str]
    # The path while the worker starts: the project's folders come last.
    safe_path: list[str]
    folder: str
    task: bytes


def serve_parent(descriptor: int, printed: int, stage: int) -> NoReturn:
    """Receive a task, then run batches of items until the parent stops sending."""
    code = 1
    try:
        connection = WorkerConnection(descriptor)
        start: WorkerStart = pickle.loads(connection.recv_bytes())
        sys.path[:] = start.safe_path
        os.chdir(start.folder)
        task: WorkerTask[Any, Any] = pickle.loads(start.task)
        sys.path[:] = start.path
        _redirect_output(printed)
        share_stage(stage)
        task.prepare()
        _run_batches(connection, task, printed)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Threads that a subject left behind would keep a process alive that ends in the usual way.
        os._exit(code)


def _run_batches(connection: WorkerConnection, task: WorkerTask[Any, Any], printed: int) -> None:
    # Late, because they bring numpy, which the parent does without.
    from precreg.run.oracle import expect_cases, has_lost_oracle_process
    from precreg.subject import WorkerRetires, watch_worker

    read_printed, watch = partial(read_end, printed), watch_worker()
    connection.send_bytes(READY_MESSAGE)
    while items := _receive_batch(connection):
        expect_cases(item for item in items if isinstance(item, Case))
        for item in items:
            _empty_file(printed)
            enter_stage(Activity.OTHER)
            try:
                content = _encode_answer(task, item, task.run(item, read_printed))
            except WorkerRetires:
                connection.send_bytes(RETIRES_MESSAGE)
                return
            is_last = watch.is_spoiled or has_lost_oracle_process()
            connection.send_bytes((LAST_ANSWER if is_last else ANSWER) + content)
            if is_last:
                return


def _encode_answer(task: WorkerTask[_Item, _Answer], item: _Item, answer: _Answer) -> bytes:
    content = msgpack.encode(answer)
    if len(content) <= MAX_MESSAGE_BYTES:
        return content
    message = f"gave an outcome of {len(content)} bytes, and the limit is {MAX_MESSAGE_BYTES}"
    return msgpack.encode(task.give_up(item, Failure(Reason.SUBJECT_ERROR, message)))


def read_end(printed: int) -> str:
    """Return the last DETAIL_LENGTH characters of an open file, without precreg's own frames in a crash report."""
    # Late, because it brings numpy, and most parents meet no failure.
    from precreg.subject import DETAIL_LENGTH, user_crash_report

    start = max(0, os.fstat(printed).st_size - MAX_CRASH_REPORT)
    # pread leaves the position alone, at which the subject goes on writing.
    text = os.pread(printed, MAX_CRASH_REPORT, start).decode(errors="replace")
    return user_crash_report(text)[-DETAIL_LENGTH:]


def _receive_batch(connection: WorkerConnection) -> list[Any]:
    """Return the next batch; an empty one ends the worker, as a closed connection does."""
    try:
        items: list[Any] = pickle.loads(connection.recv_bytes())
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
