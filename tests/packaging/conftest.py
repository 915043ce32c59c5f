"""The sdist and the wheel of `make wheel`, and a shell without a compiler."""

import shutil

import pytest

from tests.e2e.command import ROOT, environ

# What `make run` calls, apart from Python. Every compiler stays off the PATH.
TOOLS = ("git", "ls", "make", "sh", "touch")


def _built(pattern):
    found = list((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"dist/ needs one {pattern} but has {len(found)}: run `make wheel`"
    return found[0]


@pytest.fixture(scope="session")
def wheel():
    return _built("*.whl")


@pytest.fixture(scope="session")
def sdist():
    return _built("*.tar.gz")


@pytest.fixture(scope="session")
def no_compiler(tmp_path_factory):
    """Return the environment variables of a shell that finds no compiler."""
    folder = tmp_path_factory.mktemp("bin")
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    variables = environ(PATH=str(folder), PYTHONPATH="", MAKEFLAGS="")
    return {name: value for name, value in variables.items() if name not in ("CC", "CXX")}
