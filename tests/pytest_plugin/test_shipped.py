"""The shipped suites by pytest, in one process and in two, and by the command: the same of every case.

Slow, because three programs run every case of two tiers; the model tier, which trains networks, is left out.
"""

import pytest

from tests.e2e.command import ROOT, copy_of, precreg
from tests.pytest_plugin.session import pytest_, record

TIERS = ("unit", "integration")


def facts(folder):
    """Return everything of each case but the time it took."""
    results = {result["id"]: result for result in record(folder)["results"]}
    for result in results.values():
        del result["outcome"]["execution"]["duration_s"]
    return results


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return copy_of(ROOT, tmp_path_factory.mktemp("shipped"))


@pytest.fixture(scope="module")
def by_command(project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    done = precreg(project, "run", "--output", folder, *(f"--tier={tier}" for tier in TIERS))
    return done.returncode, facts(folder)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_pytest_comes_to_the_same(project, by_command, tmp_path, processes):
    option = ("-o", "precreg_suites=suites", f"--precreg-output={tmp_path}")
    done = pytest_(project, *(f"suites/{tier}" for tier in TIERS), "-q", "-n", processes, *option)
    code, expected = by_command
    assert done.returncode == min(code, 1), done.stdout[-2000:]
    assert len(expected) > 100
    assert facts(tmp_path) == expected
