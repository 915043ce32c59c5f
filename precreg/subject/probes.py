"""How does user code mark a value for a trace? `precreg.probe`.

Production code calls it, so this module imports nothing that costs time, and a call without a trace is one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

# The running trace, if there is one.
_receive: Callable[[str, object], None] | None = None


def probe(name: str, value: _T) -> _T:
    """Return the value. A running trace records its error under the name, and watches and dumps find it by the name."""
    if _receive is not None:
        _receive(name, value)
    return value


def receive_probes(receive: Callable[[str, object], None] | None) -> None:
    """Give each probed value to a function from now on; None ends it."""
    global _receive
    _receive = receive
