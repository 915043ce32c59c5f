"""Everything that holds of a history in a file holds of one on a server."""

from tests.history.test_store import *  # noqa: F403
