"""Which operations and events did a traced computation have, in order?

Engines record. Listeners (watches, breakpoints) see each operation with its values while the computation waits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.types import EventKind, Operation, Phase, Site, TraceEvent


class Detail(IntEnum):
    """The level of a trace: each level measures more, and takes more time."""

    # The errors of the outputs.
    OUTPUTS = 0
    # The total error and the range of each operation.
    TOTALS = 1
    # The own and the inherited error of each operation, and its shares.
    OWN = 2
    # The errors of elements in ULP.
    ELEMENTS = 3


class Observed(NamedTuple):
    """One operation with its values: arrays or tensors, as its engine has them.

    `actual` is the low-precision result, `exact` its shadow, and `own_exact` the exact operation on the same inputs.
    `operands` returns the shadows of the inputs, in the order of the operation's `inputs`.
    """

    operation: Operation
    actual: Any
    exact: Any
    own_exact: Any = None
    operands: Callable[[], Sequence[Any]] | None = None


class Listener(Protocol):
    """See each operation at once. The values are the computation's own, and must not be changed."""

    def see(self, observed: Observed) -> None:
        """Look at one operation after it ran."""


@runtime_checkable
class OutputListener(Protocol):
    """See each output of a computation, too, after its last operation."""

    def see_output(self, name: str, actual: NDArray[Any], exact: NDArray[Any] | None) -> None:
        """Look at an output, which is on the host, and at its shadow if it has one."""


class Lookup(Protocol):
    """Find the shadow of any value of the user's program, while engines run."""

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a value, on the host; None if no engine knows it."""

    def plain_array(self, name: str, value: Any) -> NDArray[Any]:
        """Return a value as an array on the host; `name` is its name in errors."""


@runtime_checkable
class ValueListener(Protocol):
    """Look up values that no operation made, too."""

    def take_lookup(self, lookup: Lookup | None) -> None:
        """Find shadows by this from now on; None ends the computation."""


class Recorder:
    """Collect the operations and events of one computation. `step` and `phase` hold for the operations that follow."""

    def __init__(self, detail: Detail = Detail.OWN, listeners: Sequence[Listener] = ()) -> None:
        self.detail = detail
        # Bounds of rounding errors are computed, too. By output they are in units of its error.
        self.has_bounds = False
        self.output_bounds: dict[str, float] = {}
        self.step: int | None = None
        self.phase: Phase = "forward"
        self.operations: list[Operation] = []
        self._listeners = listeners
        self._is_shown = False
        # Arrays that code without a trace computed, by their identity.
        self._foreign: dict[int, weakref.ref[Any]] = {}
        self.has_foreign = False
        self._events: dict[tuple[EventKind, str, Site, str], TraceEvent] = {}

    def note_foreign(self, array: NDArray[Any]) -> None:
        """Note an array whose exact values nobody knows, as long as it lives."""
        key, self.has_foreign = id(array), True
        self._foreign[key] = weakref.ref(array, lambda _: self._foreign.pop(key, None))

    def is_foreign(self, array: NDArray[Any]) -> bool:
        """Return whether an array was noted so."""
        return id(array) in self._foreign

    @property
    def has_listeners(self) -> bool:
        """Return whether listeners see the values of operations."""
        return bool(self._listeners)

    def next_number(self) -> int:
        """Return the number of the operation that is recorded next, from 1."""
        return len(self.operations) + 1

    def record(self, observed: Observed) -> None:
        """Add an operation, which has the next number, and show it to the listeners."""
        if self._is_shown:
            # A listener computes, such as a debugger with an expression of the user.
            return
        self.operations.append(observed.operation)
        self._is_shown = True
        try:
            for listener in self._listeners:
                listener.see(observed)
        finally:
            self._is_shown = False

    def give_lookup(self, lookup: Lookup | None) -> None:
        """Give the engines that run to the listeners that look up values; None before they end."""
        for listener in self._listeners:
            if isinstance(listener, ValueListener):
                listener.take_lookup(lookup)

    def show_output(self, name: str, actual: NDArray[Any], exact: NDArray[Any] | None) -> None:
        """Show an output to the listeners that see outputs."""
        for listener in self._listeners:
            if isinstance(listener, OutputListener):
                listener.see_output(name, actual, exact)

    def note_event(
        self, kind: EventKind, name: str, site: Site, changed: int = 0, elements: int = 0, detail: str = ""
    ) -> None:
        """Add an event; equal events at one site are one, with the largest count of changed elements."""
        if self._is_shown:
            return
        key = (kind, name, site, detail)
        found = self._events.get(key)
        if found is None:
            number = len(self.operations)
            self._events[key] = TraceEvent(kind, number, name, site, 1, changed, elements, detail)
            return
        most = max((found.changed, found.elements), (changed, elements))
        self._events[key] = replace(found, times=found.times + 1, changed=most[0], elements=most[1])

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """Return the events in the order in which they first happened."""
        return tuple(self._events.values())

    def set_shares(self, output: str, shares: dict[int, float]) -> None:
        """Add the shares of one output's error, by the number of the operation."""
        for number, share in shares.items():
            operation = self.operations[number - 1]
            self.operations[number - 1] = replace(operation, shares={**operation.shares, output: share})

    def set_bounds(self, bounds: dict[int, float]) -> None:
        """Add the bounds of own errors, by the number of the operation."""
        for number, bound in bounds.items():
            self.operations[number - 1] = replace(self.operations[number - 1], bound=bound)
