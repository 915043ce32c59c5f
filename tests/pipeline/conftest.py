import shutil

import pytest

from tests.pipeline.local import FILES, TOOL, make


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Return the small project with each of the two pipelines."""
    assert TOOL.exists(), "these tests need gitlab-ci-local: `make pipeline` installs it"
    folder = tmp_path_factory.mktemp("made")
    return {name: make(_new(folder / name), text) for name, text in FILES.items()}


@pytest.fixture
def project(made, tmp_path):
    """Return a function that gives a copy of the project with one of the pipelines, on a branch for a merge request."""

    def project(name):
        folder = tmp_path / "small"
        shutil.copytree(made[name], folder)
        return folder

    return project


def _new(folder):
    folder.mkdir()
    return folder
