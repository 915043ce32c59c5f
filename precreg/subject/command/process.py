"""How does a program run to its end, and which part of its printed text is kept?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from math import inf
from pathlib import Path
from select import POLLIN, poll
from shutil import which
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM
from subprocess import DEVNULL, PIPE, Popen
from time import monotonic, perf_counter
from typing import NamedTuple

from precreg.errors import UserError, nearest
from precreg.subject.child_processes import describe_exit
from precreg.subject.signals import defer_signals
from precreg.subject.surroundings import DETAIL_LENGTH

_PIECE_BYTES = 1 << 16
# Without pidfd_open (before Linux 5.3, and on macOS) the end of a program whose children hold its pipes is polled.
_POLL_MS = 10.0
_LONGEST_WAIT_MS = 3_600_000.0
# Characters of a printed line in a message.
_SHOWN = 200


class Ended(NamedTuple):
    """The end of a program: exit code, or minus its signal, the ends of its two streams, and its time in seconds."""

    code: int
    output: str
    errors: str
    duration_s: float


class Overdue(Exception):  # noqa: N818  (an event, not an error of ours)
    """End a program that exceeded its time."""


def run_program(
    arguments: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    *,
    timeout_s: float = inf,
    own_group: bool = False,
) -> Ended:
    """Run a program without standard input, and return once it ended, whatever its children do.

    The program is in the process group of the worker, and ends with it. With `own_group` it has a group of its own, and
    an exception here ends this group. Raises UserError (missing-program), Overdue.
    """
    began = perf_counter()
    with ExitStack() as starting:
        # An exception between the start of the program and `with process` would leave the program running.
        starting.enter_context(defer_signals(SIGINT, SIGTERM, SIGHUP))
        try:
            process = Popen(
                arguments,
                cwd=folder,
                env=variables,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                process_group=0 if own_group else None,
            )
        except (OSError, ValueError) as problem:
            # ValueError: a NUL in an argument.
            why = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
            raise UserError("missing-program", f"expected to start {arguments[0]} but: {why}") from None
        with process:
            try:
                starting.close()
                output, errors = _read_until_end(process, monotonic() + timeout_s)
                code, duration_s = process.wait(), perf_counter() - began
            except BaseException:
                _kill(process, own_group)
                raise
    return Ended(code, output, errors, duration_s)


def _kill(process: Popen[bytes], own_group: bool) -> None:
    process.kill()
    if own_group:
        with suppress(OSError):
            os.killpg(process.pid, SIGKILL)


class _End:
    """The end of a stream of bytes, so that a program that prints without end takes no memory."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, piece: bytes) -> None:
        # UTF-8 has up to 4 bytes a character.
        self._kept = (self._kept + piece)[-4 * DETAIL_LENGTH :]

    def text(self) -> str:
        return self._kept.decode(errors="replace")[-DETAIL_LENGTH:]


def _read_until_end(process: Popen[bytes], deadline: float) -> tuple[str, str]:
    """Read the two streams of a program until it ended, and return their ends. Raises Overdue."""
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {stream.fileno(): _End() for stream in (process.stdout, process.stderr)}
    ended = _open_end(process.pid)
    waiting = poll()
    for descriptor in (*streams, *(() if ended is None else (ended,))):
        waiting.register(descriptor, POLLIN)
    try:
        has_ended = False
        while not has_ended:
            if (left_ms := (deadline - monotonic()) * 1000) < 0:
                raise Overdue
            longest = _LONGEST_WAIT_MS if ended is not None else _POLL_MS
            ready = [descriptor for descriptor, _ in waiting.poll(min(left_ms, longest))]
            for descriptor in streams.keys() & ready:
                if not _read_piece(descriptor, streams[descriptor]):
                    waiting.unregister(descriptor)
            has_ended = ended in ready if ended is not None else process.poll() is not None
        _read_rest(streams)
    finally:
        if ended is not None:
            os.close(ended)
    output, errors = (end.text() for end in streams.values())
    return output, errors


def _open_end(pid: int) -> int | None:
    """Return a descriptor that is readable once a process ended; None where the system has none."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


def _read_piece(descriptor: int, end: _End) -> bool:
    """Read the present bytes of a stream; return False at its end."""
    piece = os.read(descriptor, _PIECE_BYTES)
    end.add(piece)
    return bool(piece)


def _read_rest(streams: Mapping[int, _End]) -> None:
    """Read the bytes in the pipes after the program's end: a child of it may keep them open, and go on writing."""
    for descriptor, end in streams.items():
        os.set_blocking(descriptor, False)
        try:
            # A pipe holds 16 pieces at most, unless a program enlarged it.
            for _ in range(16):
                if not _read_piece(descriptor, end):
                    break
        except BlockingIOError:
            pass


def find_program(name: str, variables: Mapping[str, str]) -> str:
    """Return the path of a program on PATH. Raises UserError: missing-program."""
    path = variables.get("PATH", os.defpath)
    found = which(name, path=path)
    if found is None:
        near = nearest(name, _programs_on(path))
        raise UserError("missing-program", f"expected a program on PATH but got command={name}{near}")
    return found


def _programs_on(path: str) -> set[str]:
    names: set[str] = set()
    for folder in path.split(os.pathsep):
        try:
            names.update(os.listdir(folder or "."))
        except OSError:
            continue
    return names


def require_executable(path: Path, shown: str) -> None:
    """Check that a file can be executed. Raises UserError: missing-program."""
    if not path.is_file():
        near = nearest(path.name, [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else [])
        raise UserError("missing-program", f"expected a program but {shown} is not there{near}")
    if not os.access(path, os.X_OK):
        raise UserError("missing-program", f"expected a program but {shown} is not executable: chmod +x {shown}")


def failure_detail(ended: Ended) -> str:
    """Return the ends of the standard error and output of a program, without a stream that `describe_end` has whole."""
    streams = (("standard error", ended.errors), ("standard output", ended.output))
    # A message of the only line has all of it, unless it was cut or changed.
    message = describe_end(ended)
    shown = next((name for name, text in streams if text.strip() and message.endswith(f": {text.strip()}")), None)
    return "".join(f"{name}:\n{text.rstrip()}\n" for name, text in streams if text.strip() and name != shown)


def describe_end(ended: Ended, *, word: str = "") -> str:
    """Write how a program ended, and the first printed line with a word, or the last one: "exited with code 3: ...".

    Compilers print the error before lines that explain it.
    """
    lines = (ended.errors.strip() or ended.output.strip()).splitlines()
    shown = next((line for line in lines if word and word in line), lines[-1] if lines else "")
    line = "".join(letter if letter.isprintable() else "?" for letter in shown.strip()[:_SHOWN])
    return describe_exit(ended.code) + (f": {line}" if line else "")
