"""A cluster on the loopback interface, whose workers a test starts."""

import pytest

from benchmarks.loopback_cluster import started_cluster
from tests.e2e.command import THREADS, environ


@pytest.fixture
def cluster(tmp_path):
    """A scheduler without workers."""
    with started_cluster(tmp_path / "cluster", environ(**THREADS)) as started:
        yield started
