"""The shipped suites by pytest, in one process and in two, and by the command: the same of every case.

Slow, because pytest runs every case of two tiers twice; the model tier, which trains networks, is left out.
"""

import pytest

from tests.pytest_plugin.session import pytest_, record

TIERS = ("unit", "integration")


def facts(record):
    """Return everything of each case of the tiers but the time it took, and the files."""
    results = {result["id"]: result for result in record["results"] if result["tier"] in TIERS}
    for result in results.values():
        del result["outcome"]["execution"]["duration_s"]
        # pytest computes references beside their subjects, and cannot tell who opened a file.
        del result["outcome"]["execution"]["oracle_files"]
    return results


@pytest.mark.parametrize("processes", ["0", "2"])
def test_pytest_comes_to_the_same(shipped, tmp_path, processes):
    option = ("-o", "precreg_suites=suites", f"--precreg-output={tmp_path}")
    folders = (f"suites/{tier}" for tier in TIERS)
    done = pytest_(shipped.project, *folders, "-q", "-n", processes, *option, CI="true")
    expected = facts(shipped.record)
    assert done.returncode == 0, done.stdout[-2000:]
    assert len(expected) > 100
    assert facts(record(tmp_path)) == expected
