"""Which calls do the tests of a session make, and when are they written as suites?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from precreg.suite.capture import Capture


class SessionCaptures:
    """The captures of a session by the name of the suite: tests that name one suite add to it."""

    def __init__(self, config: pytest.Config) -> None:
        """Write the suites when the session ends."""
        self._root = config.rootpath
        self._captures: dict[str, Capture] = {}
        config.add_cleanup(self._finish)

    @contextmanager
    def of_test(self) -> Iterator[Callable[..., Capture]]:
        """Give the function that begins a capture, and stop the captures of the test at its end."""
        begun: list[Capture] = []

        def capture_calls(what: str | Callable[..., Any], **options: Any) -> Capture:
            made = Capture(what, **{"project": self._root, **options})
            known = self._captures.setdefault(made.name, made)
            begun.append(known.__enter__())
            return known

        try:
            yield capture_calls
        finally:
            for each in begun:
                each.stop()

    def _finish(self) -> None:
        for each in self._captures.values():
            each.finish()
