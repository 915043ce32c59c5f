"""A server for all tests of this folder, and a schema of its own for each history."""

import shutil
import tempfile
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.postgresql.server import PASSWORD, USER, Server

SCHEMAS = count()


@pytest.fixture(scope="session")
def server():
    folder = Path(tempfile.mkdtemp())
    running = Server(folder)
    running.start()
    yield running
    running.stop()
    shutil.rmtree(folder)


@pytest.fixture
def url(server):
    """Return a function that makes a URL of the server, with parts changed."""

    def url(user=USER, password=PASSWORD, port=server.port, database="postgres", query=""):
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{port}/{database}{query}"

    return url


@pytest.fixture
def new_place(server, url):
    """Return a function that names an empty place at each call."""

    def new_place():
        schema = f"history_{next(SCHEMAS)}"
        server.execute(f"CREATE SCHEMA {schema}")
        return url(query=f"?options=-csearch_path%3D{schema}")

    return new_place
