"""Where does a trace stop in the debugger, and which values are at hand there?"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT, raise_signal
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from precreg.arithmetic import user_frame
from precreg.errors import UserError, nearest
from precreg.shadow.ledger import unit_of
from precreg.shadow.place import PlacePattern, is_place
from precreg.shadow.recorder import Detail, Observed
from precreg.types import ErrorSize, Operation, UnmatchedPattern

if TYPE_CHECKING:
    from pdb import Pdb

# The figures that a condition compares: errors, which may be in ULP, and plain numbers.
_ERRORS = {"error": "total", "own": "own", "inherited": "inherited", "total": "total"}
_NUMBERS = ("amplification", "lost_bits")
_CONDITION = re.compile(r"([a-z_]\w*)\s*([<>=!]+)\s*(\S+?)(?:\s*(ulp|%)|\s+(\S+))?", re.IGNORECASE)
_EXAMPLE = "example: --break 'own > 1e-3' or --break 'error > 4 ulp'"


class Condition(NamedTuple):
    """A limit of a figure of an operation, in ULP of its dtype or as it is."""

    figure: str
    limit: float
    in_ulp: bool
    includes_limit: bool

    def holds(self, operation: Operation) -> bool:
        """Return whether the operation's figure is beyond the limit; False where it is not known."""
        value = self._value(operation)
        if value is None:
            return False
        return value >= self.limit if self.includes_limit else value > self.limit

    def _value(self, operation: Operation) -> float | None:
        size: ErrorSize | float | None = getattr(operation, self.figure)
        if not isinstance(size, ErrorSize):
            return size
        if not self.in_ulp:
            return size.relative
        # As the table of the trace: the largest of an element where it was measured, else the norm.
        return size.max_ulp if size.max_ulp is not None else size.relative / unit_of(operation.dtype)


class BreakSpec(NamedTuple):
    """A breakpoint: its text, and its event: `nan`, `inf`, a condition, or a place."""

    text: str
    condition: Condition | None = None
    special: str = ""

    @property
    def needed_detail(self) -> Detail:
        """Return the lowest level that measures the figure of the breakpoint."""
        if self.condition is not None:
            return Detail.TOTALS if self.condition.figure == "total" else Detail.OWN
        return Detail.TOTALS if self.special else Detail.OUTPUTS


def parse_break(text: str) -> BreakSpec:
    """Read OP, FILE:LINE, nan, inf or a condition such as "error > 4 ulp". Raises UserError: bad-watch."""
    text = text.strip()
    if text.lower() in ("nan", "inf"):
        return BreakSpec(text, special=text.lower())
    if re.search(r"[<>=!]", text):
        return BreakSpec(text, _condition(text))
    if not is_place(text):
        message = f"expected an operation, FILE:LINE, nan, inf or a condition but got break={text!r}"
        raise UserError("bad-watch", f"{message}; {_EXAMPLE}")
    return BreakSpec(text)


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        message = f"expected FIGURE > NUMBER or FIGURE > NUMBER ulp but got break={text!r}"
        raise UserError("bad-watch", f"{message}; {_EXAMPLE}")
    figure, sign, number, *units = found.groups(default="")
    unit = "".join(units)
    known = (*_ERRORS, *_NUMBERS)
    if figure.lower() not in known:
        message = f"expected one of {', '.join(known)} but got {figure!r} in break={text!r}"
        raise UserError("bad-watch", f"{message}{nearest(figure, known) or f'; {_EXAMPLE}'}")
    if sign not in (">", ">="):
        raise UserError("bad-watch", f"expected > or >= but got {sign!r} in break={text!r}; {_EXAMPLE}")
    limit = _limit(number, text)
    if unit.lower() not in ("", "ulp") or (unit and figure.lower() in _NUMBERS):
        expected = "no unit" if figure.lower() in _NUMBERS else "the unit ulp or none, for a relative error,"
        raise UserError("bad-watch", f"expected {expected} but got {unit!r} in break={text!r}; {_EXAMPLE}")
    return Condition(_ERRORS.get(figure.lower(), figure.lower()), limit, bool(unit), sign == ">=")


def _limit(number: str, text: str) -> float:
    try:
        limit = float(number)
    except ValueError:
        limit = -1.0
    if not 0.0 <= limit < float("inf"):
        message = f"expected a number of at least 0 but got {number!r} in break={text!r}"
        raise UserError("bad-watch", f"{message}; {_EXAMPLE}")
    return limit


class Breakpoint:
    """Stop in pdb, in the frame of the user's line, after an operation that a breakpoint matches.

    `announce` prints the operation and the names of the values. Leaving the debugger with `quit`, or the end of its
    input, is an interrupt as Ctrl-C is.
    """

    def __init__(self, spec: BreakSpec, announce: Callable[[str, Operation, tuple[str, ...]], None]) -> None:
        self._spec, self._announce = spec, announce
        self._place = PlacePattern(spec.text)
        self._has_matched = False

    def see(self, observed: Observed) -> None:
        """Stop if the operation matches. Raises KeyboardInterrupt."""
        if self._matches(observed.operation):
            self._has_matched = True
            self._stop(observed, user_frame())

    def unmatched(self) -> UnmatchedPattern | None:
        """Return the text if no operation matched; a condition has no nearest names."""
        if self._has_matched:
            return None
        is_place_pattern = self._spec.condition is None and not self._spec.special
        return self._place.unmatched() if is_place_pattern else UnmatchedPattern(self._spec.text)

    def _matches(self, operation: Operation) -> bool:
        if self._spec.condition is not None:
            return self._spec.condition.holds(operation)
        if self._spec.special:
            return operation.range is not None and getattr(operation.range, self._spec.special) > 0
        return self._place.matches(operation)

    def _stop(self, observed: Observed, frame: FrameType) -> None:
        from pdb import Pdb  # most traces stop nowhere

        debugger = Pdb(nosigint=True)
        with _names_in(frame, observed) as names:
            self._announce(self._spec.text, observed.operation, names)
            debugger.reset()
            debugger.interaction(frame, None)
        if debugger.quitting:
            # The signal itself, because a subject that raises KeyboardInterrupt has failed.
            if current_thread() is main_thread():
                raise_signal(SIGINT)
            raise KeyboardInterrupt
        # After `continue` nothing is traced; `next` and `step` stop at the user's next line.
        if debugger.breaks or debugger.stoplineno != -1:
            _trace_from(debugger, frame)


def _trace_from(debugger: Pdb, frame: FrameType) -> None:
    debugger.skip = {"precreg.*", "numpy.*", "torch.*", "contextlib"}
    above: FrameType | None = frame
    while above is not None:
        above.f_trace = debugger.trace_dispatch
        debugger.botframe = above
        above = above.f_back
    sys.settrace(debugger.trace_dispatch)


@contextmanager
def _names_in(frame: FrameType, observed: Observed) -> Iterator[tuple[str, ...]]:
    """Add the values to the names of a frame for the debugger; a name that the frame has itself gets a `_` behind."""
    values = {
        "actual": observed.actual,
        "exact": observed.exact,
        "own_exact": observed.own_exact,
        "operation": observed.operation,
    }
    names: dict[str, Any] = frame.f_locals
    added = {f"{name}_" if name in names else name: value for name, value in values.items()}
    names.update(added)
    try:
        yield tuple(added)
    finally:
        for name in added:
            names.pop(name, None)
