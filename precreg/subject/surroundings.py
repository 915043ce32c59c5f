"""How does precreg contain user code?

It restores the state of the process after each call, so that no result depends on the calls before it. It turns
exceptions into the failure of a case. Random state stays: a computation that draws without a seed must show it in its
repeats.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from locale import LC_NUMERIC, setlocale
from signal import SIGINT, default_int_handler, getsignal, signal
from threading import current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from msgspec.structs import replace

import precreg
from precreg.errors import UserError
from precreg.types import Failure, Outcome, Reason, StateChange

# The floating-point modes that calls and imports left since the last look of health.py.
_left_modes: set[int] = set()


class _Tools(NamedTuple):
    """The functions of numpy and of precreg's arithmetic that restoring a call needs."""

    errstate: Any
    ordinary_mode: int
    floating_point_mode: Callable[[], int]
    set_ordinary_mode: Callable[[], None]
    describe_mode: Callable[[int], tuple[str, ...]]


@cache
def _tools() -> _Tools:
    # Once, because user code can put another module under the name of numpy; and late, because sessions import this
    # module for its failures, and need no numpy.
    from numpy import errstate

    from precreg.arithmetic import (
        ORDINARY_MODE,
        describe_floating_point_mode,
        floating_point_mode,
        set_ordinary_mode,
    )

    return _Tools(errstate, ORDINARY_MODE, floating_point_mode, set_ordinary_mode, describe_floating_point_mode)


def take_left_modes() -> set[int]:
    """Return the floating-point modes that calls left since the last time, and forget them."""
    taken = {*_left_modes}
    _left_modes.clear()
    return taken


def mode_change(mode: int) -> tuple[StateChange, ...]:
    """Return the change that left a floating-point mode, which precreg repairs at once; none for the ordinary mode."""
    named = _tools().describe_mode(mode)
    return (StateChange("floating_point_mode", named, "repaired"),) if named else ()


class SettingsRestored:
    """Restore the state that imports change.

    That is the floating-point mode, warning filters, numpy's error handling, standard streams, current folder,
    recursion limit and numeric locale. Inside, numpy ignores overflow and the like, and the processor rounds to nearest
    and keeps subnormal numbers. Environment variables stay.
    """

    # A class costs a microsecond less per call than a generator with @contextmanager.

    def __enter__(self) -> None:
        """Save the state."""
        self._tools = tools = _tools()
        self._process, self._folder, self._numbers = os.getpid(), os.getcwd(), setlocale(LC_NUMERIC)
        self._streams, self._recursion = (sys.stdin, sys.stdout, sys.stderr), sys.getrecursionlimit()
        self._filters = warnings.filters.copy()  # type: ignore[attr-defined]
        self._errors = tools.errstate(all="ignore")
        self._errors.__enter__()
        tools.set_ordinary_mode()

    def __exit__(self, *_: object) -> None:
        """Restore the parts that changed."""
        # A child that user code forked and that returned from the call must not continue the run a second time.
        if os.getpid() != self._process:
            os._exit(0)
        mode = self._tools.floating_point_mode()
        if mode != self._tools.ordinary_mode:
            _left_modes.add(mode)
            self._tools.set_ordinary_mode()
        self._errors.__exit__(None, None, None)
        sys.setrecursionlimit(self._recursion)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        # Assigning the filters resets a cache in every module, so unchanged filters are left alone.
        if warnings.filters != self._filters:
            warnings.resetwarnings()
            warnings.filters[:] = self._filters  # type: ignore[index]
        if setlocale(LC_NUMERIC) != self._numbers:
            setlocale(LC_NUMERIC, self._numbers)
        if _current_folder() != self._folder:
            os.chdir(self._folder)


class SurroundingsRestored(SettingsRestored):
    """Restore the state that calls change: the settings of an import and the environment variables."""

    def __enter__(self) -> None:
        """Save the state."""
        super().__enter__()
        self._variables = _variables().copy()

    def __exit__(self, *_: object) -> None:
        """Restore the parts that changed."""
        super().__exit__()
        if _variables() != self._variables:
            for name in _variables().keys() - self._variables.keys():
                del os.environb[name]
            os.environb.update(self._variables)


def _current_folder() -> str | None:
    # User code may have removed the folder that it changed to.
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _variables() -> dict[bytes, bytes]:
    """Return the dictionary behind os.environ, in bytes."""
    # Copying os.environ itself decodes every variable and takes 14 us.
    variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    return variables


# Characters that a failure keeps of a message.
MESSAGE_LENGTH = 500
# Characters that a failure keeps from the end of a traceback or of printed text; the cause is at the end.
DETAIL_LENGTH = 4000
# The first words of a report of faulthandler.
_CRASH = "Fatal Python error: "
_MACHINERY = (*(f"{package.__path__[0]}{os.sep}" for package in (precreg, importlib)), "<frozen importlib")
# Frames between precreg's and the user's: precreg enters contexts before it calls user code.
_BEFORE_USER = (*_MACHINERY, contextlib.__file__)


class CaseFailed(Exception):  # noqa: N818  (an event, not an error of ours)
    """End a case early: it has no outputs to compare, and `failure` has the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def unavailable(message: str) -> CaseFailed:
    """Make the end of a case that cannot run here: it is skipped, and the run prints the message.

    A message names the missing thing and the remedy, such as "needs cuda, but torch finds no GPU: use on: cpu".
    """
    return CaseFailed(Failure(Reason.UNAVAILABLE, message))


# The interrupts from the keyboard; None while nothing notes them, so that any KeyboardInterrupt may come from there.
_interrupts: list[int] | None = None
_handler_before: Any = default_int_handler


def note_every_interrupt() -> None:
    """Take every KeyboardInterrupt as user code's, in a process that the keyboard does not reach."""
    global _interrupts
    _interrupts = []


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Note interrupts from the keyboard inside, so that a KeyboardInterrupt without one is user code's."""
    global _interrupts, _handler_before
    # Python runs handlers in the main thread alone, and a handler of C code cannot be called.
    if current_thread() is not main_thread() or not callable(getsignal(SIGINT)):
        yield
        return
    _interrupts, _handler_before = [], signal(SIGINT, _note_interrupt)
    try:
        yield
    finally:
        _interrupts = None
        signal(SIGINT, _handler_before)


def _note_interrupt(number: int, frame: FrameType | None) -> None:
    if _interrupts is not None:
        _interrupts.append(number)
    _handler_before(number, frame)


@contextmanager
def blame_failures(reason: Reason) -> Iterator[None]:
    """Turn every exception inside, SystemExit included, into CaseFailed with that reason.

    CaseFailed passes unchanged, and so does an interrupt from the keyboard.
    """
    try:
        yield
    except CaseFailed:
        raise
    except KeyboardInterrupt as error:
        if _interrupts is None or _interrupts:
            raise
        raise CaseFailed(describe_failure(error, reason)) from None
    except BaseException as error:
        raise CaseFailed(describe_failure(error, reason)) from None


def first_line(error: BaseException) -> str:
    """Return the type and the first line of an exception in at most 200 characters, as a fact of a result."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def describe_failure(error: BaseException, reason: Reason) -> Failure:
    """Describe an exception in one line, with the part of its traceback that lies in user code."""
    if isinstance(error, UserError):
        # The user's own exception, in an analyzer or in a function that makes an input.
        has_cause = reason is Reason.ANALYZER_ERROR or error.slug == "bad-input"
        detail = f"{error.without_message()}\n{error.detail}{_traceback(error.__cause__ if has_cause else None)}"
        return Failure(reason, escape_surrogates(error.message), escape_surrogates(detail))
    if isinstance(error, SystemExit):
        return Failure(reason, escape_surrogates(f"exited with {error.code or 0}"))
    return Failure(reason, escape_surrogates(_one_line(error)), escape_surrogates(_traceback(error)))


def _one_line(error: BaseException) -> str:
    """Return the type and the message of an exception, and its notes after them."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    printed = "".join(traceback.format_exception_only(error)).rstrip()
    for note in reversed(notes):
        printed = printed.removesuffix(note).rstrip()
    # The first lines of a syntax error are its place and its text.
    last = printed[printed.rfind(type(error).__qualname__) :] if isinstance(error, SyntaxError) else printed
    return " ".join("; ".join([last, *notes]).split())[:MESSAGE_LENGTH]


def _traceback(error: BaseException | None) -> str:
    """Return the end of an exception's traceback, from the first frame of user code on."""
    if error is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, _frames_of_user(error.__traceback__)))[
        -DETAIL_LENGTH:
    ]


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates, which Python uses for undecodable bytes of file names, and which JSON cannot store."""
    # Names of thousands of files, which have none.
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def add_printed_output(outcome: Outcome, printed: str) -> Outcome:
    """Append the end of the subject's printed text to the failure, if the outcome has one."""
    failure = outcome.execution.failure
    if failure is None or not printed:
        return outcome
    detail = f"{failure.detail}printed:\n{escape_surrogates(printed[-DETAIL_LENGTH:])}"
    return replace(outcome, execution=replace(outcome.execution, failure=replace(failure, detail=detail)))


def user_crash_report(printed: str) -> str:
    """Remove precreg's own frames, and the list of extension modules, from what faulthandler printed in a crash."""
    if _CRASH not in printed:
        return printed
    before, header, report = printed.partition(_CRASH)
    lines = report.splitlines(keepends=True)
    return before + header + "".join(line for line in lines if not _is_machinery(line))


def _is_machinery(line: str) -> bool:
    file = line.removeprefix('  File "')
    return line.startswith("Extension modules:") or (file != line and file.startswith((*_MACHINERY, "<string>")))


def _frames_of_user(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_BEFORE_USER):
        frames = frames.tb_next
    return frames
