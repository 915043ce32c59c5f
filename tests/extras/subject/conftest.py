import pytest

from precreg.subject.call import Call


@pytest.fixture
def project(tmp_path):
    """A project with a suite's folder; `write` puts a file into it."""
    (tmp_path / "suites" / "unit").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def write(project):
    def write(name, text):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


@pytest.fixture
def call(project):
    def call(inputs=None, params=None):
        return Call(inputs or {}, params or {}, project / "suites" / "unit", project)

    return call
