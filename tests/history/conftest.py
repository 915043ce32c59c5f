"""Where the tests of this folder keep histories: SQLite files. tests/postgresql runs the same tests on a server."""

from itertools import count

import pytest


@pytest.fixture
def new_place(tmp_path):
    """Return a function that names an empty place at each call."""
    numbers = count()
    return lambda: str(tmp_path / f"history-{next(numbers)}.sqlite")
