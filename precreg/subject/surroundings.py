"""What user code changes of its process is put back, so that no result depends on what ran before it.

Random state stays as it is: a computation that draws without a seed must show in its repeats.

From an exception in a user's code to the failure that stands in the outcome.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from locale import LC_NUMERIC, setlocale
from types import TracebackType

import numpy as np
from msgspec.structs import replace

import precreg
from precreg.errors import UserError
from precreg.types import Failure, Outcome, Reason


class SettingsRestored:
    """Puts back what an import changes: warnings filters, numpy's error handling, standard streams, folder, and more.

    That is the recursion limit, and how the locale writes numbers. The environment's variables stay: libraries set
    them when they are imported, for all that they do later. Inside, numpy ignores overflow and the like. A child that
    user code forks, and that comes back, ends here: only the process that entered may go on.

    A class, and not a generator, because it costs a microsecond less at every call.
    """

    def __enter__(self) -> None:
        """Remember everything."""
        self._process, self._folder, self._numbers = os.getpid(), os.getcwd(), setlocale(LC_NUMERIC)
        self._streams, self._recursion = (sys.stdin, sys.stdout, sys.stderr), sys.getrecursionlimit()
        self._filters = warnings.filters.copy()  # type: ignore[attr-defined]
        self._errors = np.errstate(all="ignore")
        self._errors.__enter__()

    def __exit__(self, *_: object) -> None:
        """Put back what has changed."""
        if os.getpid() != self._process:
            os._exit(0)
        self._errors.__exit__(None, None, None)
        sys.setrecursionlimit(self._recursion)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        if warnings.filters != self._filters:
            warnings.resetwarnings()
            warnings.filters[:] = self._filters  # type: ignore[index]
        if setlocale(LC_NUMERIC) != self._numbers:
            setlocale(LC_NUMERIC, self._numbers)
        if _folder() != self._folder:
            os.chdir(self._folder)


class SurroundingsRestored(SettingsRestored):
    """Puts back what a call changes: all that SettingsRestored does, and the environment's variables."""

    def __enter__(self) -> None:
        """Remember everything."""
        super().__enter__()
        self._variables = _variables().copy()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if _variables() != self._variables:
            for name in _variables().keys() - self._variables.keys():
                del os.environb[name]
            os.environb.update(self._variables)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _variables() -> dict[bytes, bytes]:
    """Return what os.environ holds, not a copy of it: that would take 14 us."""
    variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    return variables


MESSAGE_LENGTH = 500

DETAIL_LENGTH = 4000
"""Characters of a message, and of the end of a traceback or of what was printed, that a failure keeps."""


_MACHINERY = (*(f"{package.__path__[0]}{os.sep}" for package in (precreg, importlib)), "<frozen importlib")


class CaseFailed(Exception):  # noqa: N818  (an event, not an error of ours)
    """Ends a case early: there are no outputs to compare, and `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@contextmanager
def blame_failures(reason: Reason) -> Iterator[None]:
    """Turn whatever is raised inside, an exit included, into CaseFailed with that reason, unless it is one already.

    A Ctrl-C is the user's.
    """
    try:
        yield
    except (KeyboardInterrupt, CaseFailed):
        raise
    except BaseException as error:
        raise CaseFailed(describe_failure(error, reason)) from None


def describe_failure(error: BaseException, reason: Reason) -> Failure:
    """Tell an exception in one line, and the part of its traceback that lies in the user's code."""
    if isinstance(error, UserError):
        cause = error.__cause__ if reason is Reason.ANALYZER_ERROR else None
        return Failure(reason, escape_surrogates(error.message), escape_surrogates(f"{error}\n{_traceback(cause)}"))
    if isinstance(error, SystemExit):
        return Failure(reason, escape_surrogates(f"exited with {error.code or 0}"))
    message = " ".join(traceback.format_exception_only(error)[-1].split())[:MESSAGE_LENGTH]
    return Failure(reason, escape_surrogates(message), escape_surrogates(_traceback(error)))


def _traceback(error: BaseException | None) -> str:
    """Return the end of the traceback of an error that user code raised."""
    if error is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, _users_part(error.__traceback__)))[-DETAIL_LENGTH:]


def escape_surrogates(text: str) -> str:
    """Write out lone surrogates, which no record could hold: Python has them for what is undecodable in a file name."""
    return text.encode(errors="backslashreplace").decode()


def add_printed_output(outcome: Outcome, printed: str) -> Outcome:
    """Add the end of what the subject printed to the failure, if the outcome has one."""
    failure = outcome.execution.failure
    if failure is None or not printed:
        return outcome
    detail = f"{failure.detail}printed:\n{escape_surrogates(printed[-DETAIL_LENGTH:])}"
    return replace(outcome, execution=replace(outcome.execution, failure=replace(failure, detail=detail)))


def _users_part(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frames = frames.tb_next
    return frames
