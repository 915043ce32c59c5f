"""The shipped suites by pytest, in one process and in two, and by the command: the same of every case.

Slow, because pytest runs the cases of two tiers twice; the model tier, which trains networks, is left out.
"""

import pytest

from tests.pytest_plugin.session import pytest_, record

TIERS = ("unit", "integration")
# These two of 70 suites take two thirds of the time of the tiers: two processes run them, and one process does not.
STUDIES = ("error_growth", "operand_formats")


def facts(record, without=()):
    """Return everything of each case of the tiers but the time it took, and the files."""
    results = {
        result["id"]: result
        for result in record["results"]
        if result["tier"] in TIERS and result["suite"] not in without
    }
    for result in results.values():
        del result["outcome"]["execution"]["duration_s"]
        # pytest computes references beside their subjects, and cannot tell who opened a file.
        del result["outcome"]["execution"]["oracle_files"]
    return results


@pytest.mark.parametrize(("processes", "without"), [("0", STUDIES), ("2", ())])
def test_pytest_comes_to_the_same(shipped, tmp_path, processes, without):
    option = ("-o", "precreg_suites=suites", f"--precreg-output={tmp_path}")
    folders = (f"suites/{tier}" for tier in TIERS)
    ignored = (f"--ignore=suites/unit/{suite}.yaml" for suite in without)
    done = pytest_(shipped.project, *folders, "-q", "-n", processes, *option, *ignored, CI="true")
    expected = facts(shipped.record, without)
    assert done.returncode == 0, done.stdout[-2000:]
    assert len(expected) > 100
    assert facts(record(tmp_path)) == expected
