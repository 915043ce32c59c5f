"""Running cases in this process: fast and easy to debug, but a subject that crashes or hangs takes the run with it.

The life of a worker process: it takes batches of cases, and sends each outcome as it comes.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO, TextIOWrapper
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from pathlib import Path
from signal import SIGKILL
from threading import Thread

from msgspec import msgpack

from precreg.run.case_run import run_case
from precreg.subject import DETAIL_LENGTH, TreePair, add_printed_output, redirect_imports
from precreg.types import Case, Outcome


class _PrintedInProcess(StringIO):
    """Takes what subjects print; one that closes its standard output closes nothing."""

    def close(self) -> None:
        pass


def run_in_process(cases: Iterable[Case], project: Path, chain: tuple[str, ...]) -> Iterator[Outcome]:
    """Yield the outcome of each case in turn. Timeouts are not enforced."""
    for case in cases:
        with redirect_stdout(_PrintedInProcess()) as printed, redirect_stderr(printed):
            outcome = run_case(case, project, chain)
        yield add_printed_output(outcome, printed.getvalue())


READY_MESSAGE = b""


def serve_batches(connection: Connection, project: Path, chain: tuple[str, ...], trees: TreePair | None = None) -> None:
    """Take over the file that the parent sends for what subjects print, then run batches until there are no more.

    `trees` are given where the project is that of a checkout, which then stands for the working tree.

    The process leads a group of its own, so that the parent can kill it with all that its subjects started, and so
    that a Ctrl-C reaches the parent alone. It ends here whatever happens: a thread that a subject left behind would
    keep it alive, and its case waiting.
    """
    code = 1
    try:
        if trees is not None:
            redirect_imports(trees)
        _run_batches(connection, project, chain)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _run_batches(connection: Connection, project: Path, chain: tuple[str, ...]) -> None:
    from precreg.run.case_run import run_case

    os.setpgid(0, 0)
    Thread(target=_die_with_parent, daemon=True).start()
    printed = recv_handle(connection)
    _redirect(printed)
    connection.send_bytes(READY_MESSAGE)
    while cases := _received(connection):
        for case in cases:
            _empty(printed)
            outcome = run_case(case, project, chain)
            if outcome.execution.failure is not None:
                outcome = add_printed_output(outcome, read_end(printed))
            connection.send_bytes(msgpack.encode(outcome))


def read_end(printed: int) -> str:
    """Return the end of what is in an open file."""
    start = max(0, os.fstat(printed).st_size - DETAIL_LENGTH)
    return os.pread(printed, DETAIL_LENGTH, start).decode(errors="replace")


def _received(connection: Connection) -> list[Case]:
    try:
        cases: list[Case] = connection.recv()
    except EOFError:
        return []
    return cases


class _PrintedByWorker(TextIOWrapper):
    """Takes what subjects print; one that closes its standard output closes nothing."""

    def close(self) -> None:
        pass


def _redirect(printed: int) -> None:
    """Let all that this process prints go into the file at once, and where it was when a signal kills it."""
    for standard in (1, 2):
        os.dup2(printed, standard)
    unbuffered = open(printed, "wb", buffering=0, closefd=False)  # noqa: SIM115  (lives as long as the worker)
    sys.stdout = sys.stderr = _PrintedByWorker(unbuffered, "utf-8", "backslashreplace", write_through=True)
    faulthandler.enable()


def _empty(printed: int) -> None:
    """Forget what was printed; asking first is cheaper than cutting a file that is empty already."""
    if os.lseek(printed, 0, os.SEEK_CUR):
        os.ftruncate(printed, 0)
        os.lseek(printed, 0, os.SEEK_SET)


def _die_with_parent() -> None:
    """Kill this group once the parent is gone; a thread can, whatever the subject is doing."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(0, SIGKILL)
