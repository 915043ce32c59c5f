"""How does a process run cases, as a worker of its own or as the process of the command?

In the command's process cases are fast and easy to debug, but a subject that crashes or hangs takes the run with it.
A worker takes batches of cases from its parent and sends each outcome as it comes.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO, TextIOWrapper
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from pathlib import Path
from signal import SIGKILL
from threading import Thread

from msgspec import msgpack

from precreg.subject import TreePair, redirect_imports
from precreg.types import Case, Outcome

# The function that runs one case in a project and an environment (the chain of its labels). It reaches a worker as the
# names of a module and a function. So a worker imports the room of a self-test only for a self-test.
CaseRunner = Callable[[Case, Path, tuple[str, ...]], Outcome]

READY_MESSAGE = b""


def run_in_process(
    cases: Iterable[Case], project: Path, chain: tuple[str, ...], runner: CaseRunner | None = None
) -> Iterator[Outcome]:
    """Yield the outcome of each case in turn, from this process; timeouts do not apply.

    `runner` is None for a plain run.
    """
    from precreg.subject import add_printed_output

    run = runner or _plain_runner()
    for case in cases:
        with redirect_stdout(_PrintedInProcess()) as printed, redirect_stderr(printed):
            outcome = run(case, project, chain)
        yield add_printed_output(outcome, printed.getvalue())


def _plain_runner() -> CaseRunner:
    # Late, because the parent of workers imports this module too. It never computes, and without numpy it starts the
    # server early enough to limit the threads of BLAS there.
    from precreg.run.case_run import run_case

    return run_case


class _PrintedInProcess(StringIO):
    """Collects the output of subjects; a subject that closes its standard output closes nothing."""

    def close(self) -> None:
        pass


def serve_batches(
    connection: Connection,
    project: Path,
    chain: tuple[str, ...],
    trees: TreePair | None = None,
    runner: CaseRunner | None = None,
) -> None:
    """Receive the file for the output of subjects, then run batches of cases until the parent sends no more.

    With `trees`, `project` lies in the checkout of another version, and imports from the working tree lead there.
    """
    code = 1
    try:
        if trees is not None:
            redirect_imports(trees)
        _run_batches(connection, project, chain, runner or _plain_runner())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Threads that a subject left behind would keep a process alive that ends in the usual way.
        os._exit(code)


def _run_batches(connection: Connection, project: Path, chain: tuple[str, ...], run: CaseRunner) -> None:
    from precreg.subject import add_printed_output

    # In a group of its own the worker dies with all children of its subjects, and a Ctrl-C reaches the parent alone.
    os.setpgid(0, 0)
    Thread(target=_die_with_parent, daemon=True).start()
    printed = recv_handle(connection)
    _redirect_output(printed)
    connection.send_bytes(READY_MESSAGE)
    while cases := _receive_batch(connection):
        for case in cases:
            _empty_file(printed)
            outcome = run(case, project, chain)
            if outcome.execution.failure is not None:
                outcome = add_printed_output(outcome, read_end(printed))
            connection.send_bytes(msgpack.encode(outcome))


def read_end(printed: int) -> str:
    """Return the last DETAIL_LENGTH bytes of an open file as text."""
    # Late, because it brings numpy, and most parents meet no failure.
    from precreg.subject import DETAIL_LENGTH

    start = max(0, os.fstat(printed).st_size - DETAIL_LENGTH)
    # pread leaves the position alone, at which the subject goes on writing.
    return os.pread(printed, DETAIL_LENGTH, start).decode(errors="replace")


def _receive_batch(connection: Connection) -> list[Case]:
    """Return the next batch; an empty one ends the worker, as a closed connection does."""
    try:
        cases: list[Case] = connection.recv()
    except EOFError:
        return []
    return cases


class _PrintedByWorker(TextIOWrapper):
    """Writes the output of subjects; a subject that closes its standard output closes nothing."""

    def close(self) -> None:
        pass


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
