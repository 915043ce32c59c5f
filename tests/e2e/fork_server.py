"""How does a command start without loading Python and numpy again? As a fork of a process that has both, and no test.

A fork of pytest takes at least three times as long: it has the memory of 25,000 tests and the modules that they loaded.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import precreg
from precreg.diagnose.bisection import process as versions
from precreg.report.template import page_templates
from precreg.run.workers import server as workers

# Their modules import packages of extras, which may be absent.
_WITH_EXTRAS = (
    *("precreg.subject.torch.", "precreg.subject.onnx."),
    *("precreg.shadow.torch.", "precreg.shadow.onnx.", "precreg.shadow.monitor.", "precreg.diagnose.torch."),
    *("precreg.training.observing.", "precreg.training.advice."),
    *("precreg.quantization.torch.", "precreg.quantization.onnx."),
    *("precreg.diagnose.reduction.torch_graph", "precreg.diagnose.reduction.onnx_graph"),
)
# What commands import late, outside precreg.
_LATE = ("git", "jinja2", "junit_xml", "pytest", "rich.progress", "sqlalchemy.dialects.sqlite", "yaml")
# A request names a folder and variables: some kilobytes, and more where a test passes a long list of cases.
_LARGEST_REQUEST = 1 << 20
_ONE_REQUEST = Lock()
# Commands that start the server of workers in any case, and one that does so if the push has cases.
_WITH_WORKERS = (["run"], ["calibrate"], ["faults"], ["selftest"], ["hook", "run"])
# Variables of bisections that nothing reads before a version computes.
_READ_LATE = {*"ABCD", "CFLAGS", "CXXFLAGS", "PYTHONDONTWRITEBYTECODE"}
# The packages that the server has loaded; a command that loads others has modules of its project.
_LOADED = set[str]()


def forked(command, folder, variables, patience):
    """Run `python -m precreg ...` or `python -m pytest ...` in a fork of the server, and return the finished process.

    A command that takes more than `patience` seconds is killed.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = run_forked(command, folder, variables, patience, out.fileno(), err.fileno())
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return subprocess.CompletedProcess(command, code, *texts)


def run_forked(command, folder, variables, patience, out, err):
    """Run a command as `forked` does, with two descriptors as its standard streams, and return its exit code."""
    request = json.dumps([command[2:], str(folder), variables, patience]).encode(errors="surrogateescape")
    assert len(request) < _LARGEST_REQUEST
    with _ONE_REQUEST:
        server = _server(os.getpid()).connection
        socket.send_fds(server, [request], [out, err])
        answer = server.recv(16)
    assert answer, "the server of commands has ended, and printed why to stderr"
    return int(answer)


class _Server(NamedTuple):
    """The server of this process: a socket for requests one by one, and the place of another for shells."""

    connection: socket.socket
    place: Path


def write_command(script, module, patience):
    """Write a script for the PATH of a shell, which runs `python -m MODULE` in a fork of the server."""
    client = Path(__file__).with_name("fork_client.py")
    words = [sys.executable, "-IS", client, _server(os.getpid()).place, patience, module]
    script.write_text(f"""#!/bin/sh\nexec {_quoted(words)} "$@"\n""")
    script.chmod(0o755)


def write_python(script, patience):
    """Write a script that is a Python for a hook: it runs `-P -m MODULE` in a fork, and all else as this Python."""
    client = Path(__file__).with_name("fork_client.py")
    words = [sys.executable, "-IS", client, _server(os.getpid()).place, patience, "-P"]
    script.write_text(f"""#!/bin/sh
if [ "$1 $2" = "-P -m" ]; then
    shift 2
    exec {_quoted(words)} "$@"
fi
exec {_quoted([sys.executable])} "$@"
""")
    script.chmod(0o755)


def _quoted(words):
    return " ".join(f"'{word}'" for word in words)


@cache
def _server(_pid):
    """Start the server of this process, and return its sockets."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = tempfile.mkdtemp()
    place = Path(folder, "socket")
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as shells:
        shells.bind(str(place))
        shells.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), str(shells.fileno())],
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            pass_fds=[theirs.fileno(), shells.fileno()],
            stdin=subprocess.DEVNULL,
        )
    atexit.register(shutil.rmtree, folder)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return _Server(ours, place)


def serve(connection, shells):
    """Answer each request with the exit code of its command, until the tests end."""
    _load_all()
    _LOADED.update(_packages())
    # Collections of garbage would walk over, and so copy, all that the server has in memory.
    gc.collect()
    gc.freeze()
    while True:
        ready, _, _ = select.select([connection, shells], [], [])
        if shells in ready:
            _serve_shell(connection, shells)
        if connection in ready and not _serve_one(connection, [connection, shells]):
            return


def _serve_shell(connection, shells):
    """Answer a request of a shell from a fork: a pipe of the shell may have several commands at once."""
    client, _ = shells.accept()
    with client:
        if os.fork() == 0:
            _serve_one(client, [connection, shells, client])
            os._exit(0)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve_one(connection, ours):
    """Run the command of a request in a fork, and answer; return False once the requests have ended."""
    request, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
    if not request:
        return False
    child = os.fork()
    if child == 0:
        for each in ours:
            each.close()
        _become(*json.loads(request.decode(errors="surrogateescape")), *descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    return True


def _load_all():
    """Load all that commands load late; jinja2 has compiled the templates of pages then."""
    for module in pkgutil.walk_packages(precreg.__path__, "precreg."):
        if not module.name.endswith(("_core", "__main__")) and not module.name.startswith(_WITH_EXTRAS):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    for name in page_templates().list_templates(extensions=["j2"]):
        page_templates().get_template(name)


def _packages():
    return {name.partition(".")[0] for name in [*sys.modules]} - sys.stdlib_module_names


def _become(words, folder, variables, patience, *streams):
    """Be the command from here on, and end with its exit code; the streams are stdout, stderr and perhaps stdin."""

    def command():
        signal.alarm(patience)
        for source, target in zip(streams, (1, 2, 0), strict=False):
            os.dup2(source, target)
            os.close(source)
        _open_streams()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.dont_write_bytecode = bool(variables.get("PYTHONDONTWRITEBYTECODE"))
        # Python puts the folder of the server there; a command has its own, and none with -P.
        safe = words[0] == "-P"
        places = variables.get("PYTHONPATH", "")
        sys.path[:1] = [*([] if safe else [folder]), *filter(None, places.split(os.pathsep))]
        sys.argv = words[safe:]
        if sys.argv[0] == "precreg" and any(sys.argv[1 : 1 + len(each)] == each for each in _WITH_WORKERS):
            _start_workers()
        versions.subprocess = _Versions
        return _run(sys.argv[0])

    _end_with(command, 70)


def _end_with(run, failed):
    """End this fork with the exit code that a function returns, or with `failed` after an exception."""
    code = failed
    try:
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _open_streams():
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115


class _Child(subprocess.Popen):
    """A child that was forked, as if it had been started."""

    def __init__(self, pid):
        self.args, self.pid, self.returncode = [], pid, None
        self.stdin = self.stdout = self.stderr = None
        self._waitpid_lock, self._child_created = Lock(), True


def _start_workers():
    """Fork the server of the command's workers: it is the real one, but need not load numpy again.

    That takes twice as long as all else in a small run. Tests of workers start commands by `started`.
    """
    ours, theirs = socket.socketpair()
    # As in a new interpreter: an interrupt comes only when the server ignores it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid == 0:
        os.setsid()
        descriptor = os.dup2(theirs.fileno(), 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)
        sys.path[:] = workers.safe_path(sys.path, os.getcwd())
        workers.serve_requests(descriptor)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    theirs.close()
    workers._running = workers._Server(_Child(pid), ours, os.getpid())
    atexit.register(workers._stop)


class _Versions:
    """The module subprocess of a bisection: the processes of its versions are forks, which need not load numpy again.

    That takes most of the time of a small search. Tests of these processes start commands by `started`.
    """

    DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired

    @staticmethod
    def Popen(command, *, env, stdout, **others):  # noqa: N802
        """Fork a version, or start it, if it has other variables or Python, or if this process has project modules."""
        other = {name for name, _ in env.items() ^ os.environ.items()}
        if not other <= _READ_LATE or command[0] != sys.executable or not _packages() <= _LOADED:
            return subprocess.Popen(command, env=env, stdout=stdout, **others)
        pid = os.fork()
        if pid == 0:
            _be_version(command[4:], env, stdout.fileno())
        return _Child(pid)


def _be_version(arguments, variables, printed):
    """Run a version, as `python -P -m precreg.diagnose.bisection.process ARGUMENTS` does, and end."""

    def version():
        os.setsid()
        for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), printed, printed)):
            os.dup2(source, target)
        _open_streams()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ.update(variables)
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        versions._main(*arguments)
        return 0

    _end_with(version, 1)


def _run(module):
    """Run a module as `python -m` does, and return the exit code."""
    if module == "pytest":
        # pytest would warn that it cannot rewrite the asserts of the plugin, which this process has loaded already.
        precreg.__doc__ = "PYTEST_DONT_REWRITE"
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    serve(*(socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:]))
