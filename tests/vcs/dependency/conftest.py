"""Projects are written here as in the tests of suites."""

from tests.suite.conftest import write

__all__ = ["write"]
