"""Projects are written here as in the tests of suites, and analyzers installed as in theirs."""

from tests.measure.analyzers.conftest import brought
from tests.suite.conftest import write

__all__ = ["brought", "write"]
