"""Which value does an assignment give to a variable of the user, and what is its shadow?

No engine sees an assignment. Its statement is known while one of its operations runs. The variable is read from its
frame at the next operation of another statement: then the assignment is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from linecache import getline
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from precreg.arithmetic import is_library_file, user_frame
from precreg.shadow.place import Statement, statement_at
from precreg.shadow.recorder import Lookup, Observed
from precreg.subject import is_tensor
from precreg.types import Operation


class Assigned(NamedTuple):
    """A variable after an assignment, its shadow, and the last operation of the statement."""

    operation: Operation
    actual: Any
    exact: Any


class _Running(NamedTuple):
    """A statement that assigns the variable: its frame and instruction, and the last operation that it ran.

    `kept` is what the caller made of the last operation in the frame itself, whose result is often the variable's.
    """

    frame: FrameType
    statement: Statement
    instruction: int
    last: Observed
    kept: tuple[Observed, Any] | None
    names: frozenset[str]


class VariableWatch:
    """Call `show` with each value that a statement gives to a variable of this name.

    `keep` makes what is shown of an operation at once, because the next operation may write into its result.
    """

    def __init__(self, name: str, keep: Callable[[Assigned], Any], show: Callable[[Any], None]) -> None:
        self._name, self._keep, self._show = name, keep, show
        self._lookup: Lookup | None = None
        self._running: dict[int, _Running] = {}

    def take_lookup(self, lookup: Lookup | None) -> None:
        """Find shadows by this from now on; None ends the computation."""
        if lookup is None:
            self.finish()
        self._lookup = lookup

    def see(self, observed: Observed) -> bool:
        """Note the statements that run now, and show the variables of those that ended; return whether any runs."""
        now = {id(frame): (frame, statement) for frame, statement in self._assigning(user_frame())}
        own = user_frame()
        for key, running in list(self._running.items()):
            if key not in now or self._is_over(running, own, observed, now[key][1]):
                self._finish(key, observed)
        for key, (frame, statement) in now.items():
            before = self._running.get(key)
            kept = before.kept if before is not None else None
            if frame is own:
                kept = observed, self._keep(Assigned(observed.operation, observed.actual, observed.exact))
            is_same = before is not None and before.instruction == frame.f_lasti
            names = (before.names if before is not None and is_same else frozenset()) | {observed.operation.name}
            self._running[key] = _Running(frame, statement, frame.f_lasti, observed, kept, names)
        return bool(now)

    def finish(self) -> None:
        """Show the variables of the statements that ran last."""
        for key in list(self._running):
            self._finish(key, None)

    def _assigning(self, innermost: FrameType) -> Iterator[tuple[FrameType, Statement]]:
        frame: FrameType | None = innermost
        while frame is not None:
            # Libraries have variables of the same names.
            if not is_library_file(frame.f_code.co_filename):
                statement = statement_at(frame.f_code.co_filename, frame.f_lineno)
                if self._name in statement.variables:
                    yield frame, statement
            frame = frame.f_back

    def _is_over(self, running: _Running, own: FrameType, observed: Observed, statement: Statement) -> bool:
        """Return whether the frame left the statement, or runs it again in a loop."""
        at = running.frame.f_lasti
        is_again = at == running.instruction and own is running.frame and observed.operation.name in running.names
        return statement != running.statement or at < running.instruction or is_again

    def _finish(self, key: int, following: Observed | None) -> None:
        running = self._running.pop(key)
        value = running.frame.f_locals.get(self._name)
        if not isinstance(value, np.ndarray | np.generic) and not is_tensor(value):
            return
        if running.kept is not None and _is_result(value, running.kept[0].actual):
            self._show(running.kept[1])
        elif self._lookup is not None and (following is None or not _is_result(value, following.actual)):
            # Otherwise the operation that follows has written into the variable.
            actual, exact = self._lookup.plain_array(self._name, value), self._lookup.shadow_of(value)
            file, line = running.frame.f_code.co_filename, running.statement.line
            site = replace(running.last.operation.site, file=file, line=line, code=getline(file, line).strip())
            self._show(self._keep(Assigned(replace(running.last.operation, site=site), actual, exact)))


def _is_result(value: Any, actual: Any) -> bool:
    """Return whether a variable is the result of an operation, or a view of all of it."""
    if is_tensor(value) != is_tensor(actual) or tuple(value.shape) != tuple(actual.shape):
        return False
    if is_tensor(value):
        return bool(value.data_ptr() == actual.data_ptr())
    if not isinstance(value, np.ndarray) or not isinstance(actual, np.ndarray):
        # A scalar has no memory of its own.
        return bool(value == actual) if value.shape == () else False
    return bool(value.__array_interface__["data"][0] == actual.__array_interface__["data"][0])
