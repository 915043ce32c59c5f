"""A history of schema 1 on a server is upgraded as one in a file."""

from tests.history.test_upgrade import *  # noqa: F403
