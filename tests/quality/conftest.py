from tests.run.conftest import case, project

__all__ = ["case", "project"]
