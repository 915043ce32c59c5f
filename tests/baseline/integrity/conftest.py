import pytest

from tests.baseline.integrity import demo


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    demo.make(folder)
    return folder


@pytest.fixture
def project(template, tmp_path):
    """A copy of the project of demo.py, in which nothing is changed yet."""
    return demo.copy(template, tmp_path)
