"""What user code changes of its process is put back, so that no result depends on what ran before it.

Random state stays as it is: a computation that draws without a seed must show in its repeats.
"""

from __future__ import annotations

import os
import sys
import warnings
from locale import LC_NUMERIC, setlocale

import numpy as np


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
