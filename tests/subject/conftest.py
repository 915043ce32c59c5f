import pytest

from precreg.subject.call import Call


@pytest.fixture
def project(tmp_path):
    """A project with two suites' folders; `write` puts a file into it."""
    for tier in ("unit", "integration"):
        (tmp_path / "suites" / tier).mkdir(parents=True)
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
    def call(tier="unit", inputs=None, params=None):
        return Call(inputs or {}, params or {}, project / "suites" / tier, project)

    return call
