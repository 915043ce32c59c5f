"""A mistake planted on purpose into a copy of the shipped suites, so that a test can show who sees it.

Tables stand in `planted_*.py` beside this file: each has PLANTS, a tuple of Plant and RecordedPlant. test_planted.py
reads all tables, and fails for a shipped suite that is in none of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tests.e2e.command import change


class Plant(NamedTuple):
    """A mistake in a text file: `before`, which stands there exactly once, becomes `after`.

    `suite` is the id of the suite that has to catch it, tier/name; `file` is relative to suites/; `what` says the
    mistake in one line, as a commit message would. `cases` are patterns for the cases that see it, where all take long.
    """

    suite: str
    file: str
    before: str
    after: str
    what: str
    cases: tuple[str, ...] = ()

    def put(self, project: Path) -> None:
        """Make the mistake in a project."""
        change(project / "suites" / self.file, self.before, self.after)


class RecordedPlant(NamedTuple):
    """A mistake in recorded outputs: the array of the `.npy` file becomes `alter(array)`."""

    suite: str
    file: str
    alter: Callable[[npt.NDArray], npt.NDArray]
    what: str
    cases: tuple[str, ...] = ()

    def put(self, project: Path) -> None:
        """Make the mistake in a project."""
        path = project / "suites" / self.file
        np.save(path, self.alter(np.load(path)))
