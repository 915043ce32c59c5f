"""Who forks the workers of a command, and who ends what their subjects leave behind?

A server that has loaded numpy forks a worker within milliseconds. It has a session of its own: a signal to the command
and its group leaves the server alive, and it ends all workers as soon as its command is gone. Its parent, the keeper,
only waits: it ends what is left when a subject kills the server.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import EAGAIN
from importlib import import_module
from pathlib import Path
from select import POLLIN, poll
from struct import Struct
from threading import Thread
from time import sleep
from typing import NamedTuple, NoReturn

import precreg
from precreg.environment import limit_blas_threads
from precreg.errors import UserError
from precreg.run.workers.processes import adopt_orphans, die_with_parent, end_orphans, kill_group, wait_with_group

# All that a plain case needs, loaded once in the server.
_PRELOADED = ("precreg.run.case_run", "precreg.subject.python", "precreg.run.workers.worker")

# A worker's process id, and later its status as os.waitpid gives it.
_NUMBER = Struct("<q")
_REQUEST = b"w"
# Descriptors of a request: connection, printed text, stage, status.
_PASSED = 4

# A new server loads numpy before it answers, which takes a minute on a machine that is busy with other things.
_START_PATIENCE_S = 300.0
_EXIT_PATIENCE_S = 5.0
# Servers that may end at once before a run gives up.
_SERVERS = 3
_PARENT_POLL_S = 1.0

# The package is loaded from its file, so that its folder need not be on sys.path: that may be the project's root.
_START = """
import sys
sys.path[:] = {path!r}
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("precreg", {file!r}, submodule_search_locations=[{folder!r}])
sys.modules["precreg"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["precreg"])
from precreg.run.workers.server import serve_requests
serve_requests({descriptor})
"""


class ForkedWorker(NamedTuple):
    """A worker's process id, and the descriptor that becomes readable when it ended, or its server did."""

    pid: int
    status: int

    def exit_code(self) -> int | None:
        """Return the exit code of a process that ended, or minus its signal; None if its server ended first."""
        written = os.read(self.status, _NUMBER.size)
        return os.waitstatus_to_exitcode(_NUMBER.unpack(written)[0]) if len(written) == _NUMBER.size else None


class _Server(NamedTuple):
    process: subprocess.Popen[bytes]
    connection: socket.socket
    # A fork of this process has no server until it starts one.
    owner: int


_running: _Server | None = None


def start_fork_server() -> None:
    """Start the server of this process in the background, unless it runs: it loads numpy while suites are read.

    Raises UserError (no-workers).
    """
    global _running
    if _running is not None and _running.owner == os.getpid():
        if _running.process.poll() is None:
            return
        _running.connection.close()
    limit_blas_threads()
    ours, theirs = socket.socketpair()
    code = _START.format(
        path=safe_path(sys.path, os.getcwd()),
        file=precreg.__file__,
        folder=os.path.dirname(precreg.__file__),
        descriptor=theirs.fileno(),
    )
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    # The server inherits the blocked signal. A handler would come too late for an interrupt during its imports.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # -P: the current folder is never on the path. The environment stays the user's.
        process = subprocess.Popen(
            [sys.executable, *flags, "-P", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise UserError("no-workers", f"expected the server of workers to start but got {error!r}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    if _running is None:
        atexit.register(_stop)
    _running = _Server(process, ours, os.getpid())


def safe_path(path: Sequence[str], current: str) -> list[str]:
    """Order a search path so that no module of the user's project takes the place of Python's or of a library.

    Python's own folders come first, and folders around the current one, or below it, come last. "" is left out.
    """
    own = [os.path.dirname(os.__file__), *(each for each in path if each.endswith("lib-dynload"))]
    libraries = [each for each in path if each and each not in own and not _is_of_project(each, current)]
    return [*own, *libraries, *(each for each in path if each and each not in {*own, *libraries})]


def _is_of_project(folder: str, current: str) -> bool:
    place = Path(os.path.realpath(folder))
    if place.is_relative_to(os.path.realpath(sys.prefix)) or "site-packages" in place.parts:
        return False
    here = Path(os.path.realpath(current))
    return here.is_relative_to(place) or place.is_relative_to(here)


def _stop() -> None:
    """End the server, and with it all workers."""
    if _running is not None and _running.owner == os.getpid():
        _running.connection.close()
        with suppress(subprocess.TimeoutExpired):
            _running.process.wait(_EXIT_PATIENCE_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the keeper kill the server and end what its workers leave."""
    process.terminate()
    try:
        process.wait(2 * _EXIT_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def continue_server() -> None:
    """Let the server go on if a subject stopped it."""
    if _running is not None and _running.owner == os.getpid() and _running.process.poll() is None:
        _running.process.send_signal(signal.SIGCONT)


def fork_worker(descriptors: Sequence[int]) -> ForkedWorker:
    """Have the server fork a worker that gets these descriptors: its connection, printed text and stage.

    Raises OSError if the system cannot fork, and EOFError if servers end again and again.
    """
    for _ in range(_SERVERS - 1):
        # A subject may have killed the server a moment ago.
        with suppress(BrokenPipeError, ConnectionResetError, EOFError):
            return _request_worker(descriptors)
    return _request_worker(descriptors)


def _request_worker(descriptors: Sequence[int]) -> ForkedWorker:
    start_fork_server()
    continue_server()
    assert _running is not None
    status, theirs = os.pipe()
    try:
        try:
            socket.send_fds(_running.connection, [_REQUEST], [*descriptors, theirs])
        finally:
            os.close(theirs)
        return ForkedWorker(_read_pid(status), status)
    except BaseException:
        os.close(status)
        # A server that cannot fork, or answers too late, is of no use, and nobody else would end its worker.
        _end(_running.process)
        raise


def _read_pid(status: int) -> int:
    waiting = poll()
    waiting.register(status, POLLIN)
    if not waiting.poll(_START_PATIENCE_S * 1000):
        raise TimeoutError(f"the server of workers did not answer within {_START_PATIENCE_S:g} s")
    written = os.read(status, _NUMBER.size)
    if len(written) < _NUMBER.size:
        raise EOFError("the server of workers ended")
    pid: int = _NUMBER.unpack(written)[0]
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid


def serve_requests(descriptor: int) -> NoReturn:
    """Fork a worker for each request, and report its end, until the command that asks is gone."""
    # The command ends its workers; an interrupt from the keyboard is the command's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    adopt_orphans()
    keeper = os.getpid()
    # Before numpy is loaded, which starts threads, and takes memory that the keeper does not need.
    server = os.fork()
    if server != 0:
        os.close(descriptor)
        _keep(server)
    # A subject that kills its server's group leaves the keeper alive.
    os.setpgid(0, 0)
    adopt_orphans()
    die_with_parent(keeper)
    for name in _PRELOADED:
        # A worker meets the same error, and its parent reports that.
        with suppress(ImportError):
            import_module(name)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    _Forks(socket.socket(fileno=descriptor), woken, wake).serve()


def _keep(server: int) -> NoReturn:
    """Wait for the server, and end its remaining processes: the orphans of a killed server come to its parent."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.kill(server, signal.SIGKILL))
    signal.signal(signal.SIGCONT, lambda _number, _frame: os.kill(server, signal.SIGCONT))
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    # From here on the number may belong to another process.
    for number in (signal.SIGTERM, signal.SIGCONT):
        signal.signal(number, signal.SIG_IGN)
    end_orphans(frozenset())
    os._exit(0)


def _end_with(parent: int) -> None:
    """Kill this process group once the parent is gone, where the system cannot do so."""
    while os.getppid() == parent:
        sleep(_PARENT_POLL_S)
    os.killpg(0, signal.SIGKILL)


class _Forks:
    """The workers of a server: the descriptor for the status of each."""

    def __init__(self, requests: socket.socket, woken: int, wake: int) -> None:
        self._requests, self._woken, self._wake = requests, woken, wake
        self._statuses: dict[int, int] = {}

    def serve(self) -> NoReturn:
        events = poll()
        events.register(self._requests, POLLIN)
        events.register(self._woken, POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in events.poll()}
            if self._woken in ready:
                with suppress(BlockingIOError):
                    os.read(self._woken, 2**16)
                self._report_ends()
            if self._requests.fileno() in ready:
                self._answer()

    def _answer(self) -> None:
        try:
            request, passed, _, _ = socket.recv_fds(self._requests, len(_REQUEST), _PASSED)
        except OSError:
            request, passed = b"", []
        if not request:
            self._end_all()
        *given, status = passed
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(status, _NUMBER.pack(-(error.errno or EAGAIN)))
            for each in passed:
                os.close(each)
            return
        if pid == 0:
            self._become_worker(given, server)
        for each in given:
            os.close(each)
        self._statuses[pid] = status
        self._write(pid, pid)

    def _become_worker(self, given: Sequence[int], server: int) -> NoReturn:
        """Keep nothing of the server's but its modules, and serve the parent to the end."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._requests.close()
            for each in (self._woken, self._wake, *self._statuses.values()):
                os.close(each)
            for each in given:
                os.set_inheritable(each, False)
            os.setpgid(0, 0)
            adopt_orphans()
            if not die_with_parent(server):
                Thread(target=_end_with, args=(server,), daemon=True).start()
            serve: Callable[..., NoReturn] = import_module("precreg.run.workers.worker").serve_parent
            serve(*given)
        finally:
            os._exit(code)

    def _write(self, pid: int, number: int) -> None:
        # The parent may have given the worker up.
        with suppress(OSError):
            os.write(self._statuses[pid], _NUMBER.pack(number))

    def _report_ends(self) -> None:
        """Report the workers that ended, after the processes that they left are gone."""
        for pid in list(self._statuses):
            status = wait_with_group(pid)
            if status is not None:
                end_orphans(self._statuses.keys())
                self._write(pid, status)
                os.close(self._statuses.pop(pid))

    def _end_all(self) -> NoReturn:
        for pid in self._statuses:
            kill_group(pid)
        end_orphans(frozenset())
        os._exit(0)
