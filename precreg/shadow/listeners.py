"""Which watches and breakpoints does a user ask for, and which recorder do they listen to?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from precreg.errors import UserError
from precreg.shadow.breakpoints import Breakpoint, BreakSpec, parse_break
from precreg.shadow.recorder import Detail, Listener, Recorder
from precreg.shadow.watch import Selection, Watch, WatchedValues, WatchSpec, parse_lanes, parse_watch
from precreg.types import Operation, Trace, WatchedValue

# Elements of watched values that a trace keeps. A file of so many has about 10 MB.
MAX_KEPT_ELEMENTS = 100_000

_EVERYTHING = "*"


class WatchRequest(NamedTuple):
    """The level of a trace, its watches and breakpoints, and the lanes that watches without a selection show."""

    detail: Detail = Detail.OWN
    watches: tuple[WatchSpec, ...] = ()
    breaks: tuple[BreakSpec, ...] = ()
    lanes: Selection | None = None


def read_watch_request(
    detail: int = Detail.OWN, watches: Sequence[str] = (), breaks: Sequence[str] = (), lanes: str | None = None
) -> WatchRequest:
    """Read the texts of watches, breakpoints and lanes. Without a watch, detail 3 watches every operation.

    Raises:
        UserError: bad-watch.
    """
    if detail not in tuple(Detail):
        message = f"expected a detail from 0 to 3 but got detail={detail!r}"
        raise UserError("bad-watch", message, hint="write --detail 2")
    level = Detail(detail)
    shown = [*watches] or ([_EVERYTHING] if level is Detail.ELEMENTS else [])
    stops = tuple(map(parse_break, breaks))
    for stop in stops:
        if level < stop.needed_detail:
            message = f"expected --detail {stop.needed_detail:d} or more for break={stop.text!r} but got {level:d}"
            raise UserError("bad-watch", message, hint=f"write --detail {stop.needed_detail:d} --break '{stop.text}'")
    if lanes is not None and not shown:
        message = f"expected --watch or --detail 3 beside --lanes but got lanes={lanes!r} alone"
        raise UserError("bad-watch", message, hint="write --detail 3 --lanes 0:8")
    return WatchRequest(level, tuple(map(parse_watch, shown)), stops, None if lanes is None else parse_lanes(lanes))


class Listeners:
    """The watches and breakpoints of one computation, and the recorder that they listen to.

    `show` prints a watched value, and `announce` the operation at which the debugger opens. `others` listen, too.
    """

    def __init__(
        self,
        request: WatchRequest,
        show: Callable[[WatchedValue], None],
        announce: Callable[[str, Operation, tuple[str, ...]], None],
        others: Sequence[Listener] = (),
    ) -> None:
        self._values = WatchedValues(MAX_KEPT_ELEMENTS)
        self._show_live = show
        self._watches = [Watch(spec, self._show, request.lanes) for spec in request.watches]
        self._breaks = [Breakpoint(spec, announce) for spec in request.breaks]
        # Watches first: the debugger then opens below the values of the operation.
        self.recorder = Recorder(request.detail, (*others, *self._watches, *self._breaks))

    def add_to(self, trace: Trace) -> Trace:
        """Return the trace with the watched values, and the texts that nothing matched."""
        found = [watch.unmatched() for watch in self._watches] + [stop.unmatched() for stop in self._breaks]
        return replace(
            trace,
            watched=tuple(self._values.values),
            watched_left_out=self._values.left_out,
            unmatched=tuple(each for each in found if each is not None),
        )

    def _show(self, value: WatchedValue) -> None:
        self._values.add(value)
        self._show_live(value)
