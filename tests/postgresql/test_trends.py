"""The trends of a history on a server are those of a history in a file."""

from tests.history.drift.test_trends import *  # noqa: F403
