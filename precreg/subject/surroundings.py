"""How does precreg contain user code?

It restores the state of the process after each call, so that no result depends on the calls before it. It turns
exceptions into the failure of a case. Random state stays: a computation that draws without a seed must show it in its
repeats.
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

from msgspec.structs import replace

import precreg
from precreg.errors import UserError
from precreg.types import Failure, Outcome, Reason


class SettingsRestored:
    """Restore the state that imports change.

    That is the warning filters, numpy's error handling, standard streams, current folder, recursion limit and numeric
    locale. Inside, numpy ignores overflow and the like. Environment variables stay.
    """

    # A class costs a microsecond less per call than a generator with @contextmanager.

    def __enter__(self) -> None:
        """Save the state."""
        import numpy as np  # late: sessions import this module for its failures, and need no numpy

        self._process, self._folder, self._numbers = os.getpid(), os.getcwd(), setlocale(LC_NUMERIC)
        self._streams, self._recursion = (sys.stdin, sys.stdout, sys.stderr), sys.getrecursionlimit()
        self._filters = warnings.filters.copy()  # type: ignore[attr-defined]
        self._errors = np.errstate(all="ignore")
        self._errors.__enter__()

    def __exit__(self, *_: object) -> None:
        """Restore the parts that changed."""
        # A child that user code forked and that returned from the call must not continue the run a second time.
        if os.getpid() != self._process:
            os._exit(0)
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
_MACHINERY = (*(f"{package.__path__[0]}{os.sep}" for package in (precreg, importlib)), "<frozen importlib")


class CaseFailed(Exception):  # noqa: N818  (an event, not an error of ours)
    """End a case early: it has no outputs to compare, and `failure` has the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@contextmanager
def blame_failures(reason: Reason) -> Iterator[None]:
    """Turn every exception inside, SystemExit included, into CaseFailed with that reason.

    CaseFailed passes unchanged, and so does KeyboardInterrupt.
    """
    try:
        yield
    except (KeyboardInterrupt, CaseFailed):
        raise
    except BaseException as error:
        raise CaseFailed(describe_failure(error, reason)) from None


def describe_failure(error: BaseException, reason: Reason) -> Failure:
    """Describe an exception in one line, with the part of its traceback that lies in user code."""
    if isinstance(error, UserError):
        cause = error.__cause__ if reason is Reason.ANALYZER_ERROR else None
        return Failure(reason, escape_surrogates(error.message), escape_surrogates(f"{error}\n{_traceback(cause)}"))
    if isinstance(error, SystemExit):
        return Failure(reason, escape_surrogates(f"exited with {error.code or 0}"))
    message = " ".join(traceback.format_exception_only(error)[-1].split())[:MESSAGE_LENGTH]
    return Failure(reason, escape_surrogates(message), escape_surrogates(_traceback(error)))


def _traceback(error: BaseException | None) -> str:
    """Return the end of an exception's traceback, from the first frame of user code on."""
    if error is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, _frames_of_user(error.__traceback__)))[
        -DETAIL_LENGTH:
    ]


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates, which Python uses for undecodable bytes of file names, and which JSON cannot store."""
    return text.encode(errors="backslashreplace").decode()


def add_printed_output(outcome: Outcome, printed: str) -> Outcome:
    """Append the end of the subject's printed text to the failure, if the outcome has one."""
    failure = outcome.execution.failure
    if failure is None or not printed:
        return outcome
    detail = f"{failure.detail}printed:\n{escape_surrogates(printed[-DETAIL_LENGTH:])}"
    return replace(outcome, execution=replace(outcome.execution, failure=replace(failure, detail=detail)))


def _frames_of_user(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frames = frames.tb_next
    return frames
