"""A worker process as its parent sees it: started, given cases, heard, and killed with all that it started."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from multiprocessing.reduction import send_handle
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, Signals, pthread_sigmask
from time import monotonic
from types import ModuleType

from precreg.environment.environment import limit_blas_threads
from precreg.errors import UserError
from precreg.run.worker import end_of, serve
from precreg.subject.other_tree import Trees
from precreg.types.types import Case

EXIT_PATIENCE_S = 5.0
"""How long a process that closed its connection, or was killed, is waited for."""


_CONTEXT = multiprocessing.get_context("forkserver")

_PRELOADED = ["precreg.run.case_run", "precreg.subject.python", "precreg.subject.files"]


class WorkerProcess:
    """One worker. `batch` holds the cases it has not finished, the running one first, since `began`, to the `deadline`.

    Raises UserError (no-workers) when no process can be started.
    """

    def __init__(self, project: Path, chain: tuple[str, ...], trees: Trees | None = None) -> None:
        self.batch: deque[Case] = deque()
        self.began, self.deadline = 0.0, inf
        self.ready = False
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=serve, args=(theirs, project, chain, trees))
        try:
            self._printed = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
            with _without_main_module():
                self.process.start()
            send_handle(self.connection, self._printed.fileno(), self.process.pid)
        except (OSError, EOFError) as error:
            raise UserError("no-workers", f"expected a worker process to start but got {error!r}") from error
        finally:
            theirs.close()

    @property
    def printed(self) -> str:
        """The end of what the running case has printed."""
        return end_of(self._printed.fileno())

    def give(self, cases: list[Case]) -> None:
        """Send a batch; where the worker is dead already, its death will be heard."""
        self.batch.extend(cases)
        with suppress(OSError):
            self.connection.send(cases)
        self.set_deadline()

    def set_deadline(self) -> None:
        """Let the time of the case that is now the first of the batch begin."""
        self.began = monotonic()
        self.deadline = self.began + self.batch[0].timeout_s if self.batch else inf

    def overdue(self) -> bool:
        """Say whether the running case is past its time, and its outcome not just waiting to be read."""
        return self.deadline < monotonic() and not self.connection.poll()

    def ended(self) -> str:
        """Say how the process ended, which is waited for: "exited with code 5", "killed by SIGSEGV"."""
        self.process.join(EXIT_PATIENCE_S)
        code = self.process.exitcode
        if code is None:
            return "stopped answering"
        return f"exited with code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"

    def last_words(self) -> Iterator[bytes]:
        """Yield the messages of a dead process that were not read yet."""
        with suppress(EOFError, OSError):
            while self.connection.poll():
                yield self.connection.recv_bytes()

    def kill(self) -> None:
        """Kill the process and all that its subjects started, and wait until it is gone."""
        if self.process.pid is not None:
            with suppress(OSError):
                os.killpg(self.process.pid, SIGKILL)
        self.process.kill()
        self.process.join(EXIT_PATIENCE_S)
        self._printed.close()


def prepare() -> None:
    """Start the server that workers are forked from, in the background: it loads numpy while the suites are read.

    It and its children never see an interrupt from the keyboard, which goes to the whole group: the parent ends them.
    """
    from multiprocessing import resource_tracker
    from multiprocessing.forkserver import ensure_running

    limit_blas_threads()
    _CONTEXT.set_forkserver_preload(_PRELOADED)
    resource_tracker.ensure_running()  # which the server starts otherwise, and which unblocks what is blocked
    before = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        ensure_running()  # what is blocked stays so in the new process
    finally:
        pthread_sigmask(SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    return Signals(number).name if number in list(Signals) else f"signal {number}"


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Keep a new worker from importing the main module again: it may be all of pytest, or a script without a guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
