"""From an exception in a user's code to the failure that stands in the outcome."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from msgspec.structs import replace

import precreg
from precreg.errors import UserError
from precreg.types.types import Failure, Outcome, Reason

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
def blamed_on(reason: Reason) -> Iterator[None]:
    """Turn whatever is raised inside, an exit included, into CaseFailed with that reason, unless it is one already.

    A Ctrl-C is the user's.
    """
    try:
        yield
    except (KeyboardInterrupt, CaseFailed):
        raise
    except BaseException as error:
        raise CaseFailed(describe(error, reason)) from None


def describe(error: BaseException, reason: Reason) -> Failure:
    """Tell an exception in one line, and the part of its traceback that lies in the user's code."""
    if isinstance(error, UserError):
        cause = error.__cause__ if reason is Reason.ANALYZER_ERROR else None
        return Failure(reason, encodable(error.message), encodable(f"{error}\n{_traceback(cause)}"))
    if isinstance(error, SystemExit):
        return Failure(reason, encodable(f"exited with {error.code or 0}"))
    message = " ".join(traceback.format_exception_only(error)[-1].split())[:MESSAGE_LENGTH]
    return Failure(reason, encodable(message), encodable(_traceback(error)))


def _traceback(error: BaseException | None) -> str:
    """Return the end of the traceback of an error that user code raised."""
    if error is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, _users_part(error.__traceback__)))[-DETAIL_LENGTH:]


def encodable(text: str) -> str:
    """Write out lone surrogates, which no record could hold: Python has them for what is undecodable in a file name."""
    return text.encode(errors="backslashreplace").decode()


def with_printed(outcome: Outcome, printed: str) -> Outcome:
    """Add the end of what the subject printed to the failure, if the outcome has one."""
    failure = outcome.execution.failure
    if failure is None or not printed:
        return outcome
    detail = f"{failure.detail}printed:\n{encodable(printed[-DETAIL_LENGTH:])}"
    return replace(outcome, execution=replace(outcome.execution, failure=replace(failure, detail=detail)))


def _users_part(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frames = frames.tb_next
    return frames
