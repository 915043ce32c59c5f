"""The findings on a history on a server are those on a history in a file."""

from tests.history.drift.test_batches import *  # noqa: F403
