"""When does a signal that comes at a bad moment raise its exception?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from signal import getsignal, raise_signal, signal
from threading import current_thread, main_thread


@contextmanager
def defer_signals(*numbers: int) -> Iterator[None]:
    """Defer signals that raise an exception to the end of the block; only the main thread gets any."""
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    before = {number: handler for number in numbers if callable(handler := getsignal(number))}
    for number in before:
        signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        # The handlers are back before the exception, so a second signal works as usual.
        for number, handler in before.items():
            signal(number, handler)
        for number in dict.fromkeys(came):
            raise_signal(number)
