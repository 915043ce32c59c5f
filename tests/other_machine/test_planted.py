"""Every planted mistake is caught by default on another machine than that of the baselines.

numpy and OpenBLAS use fewer instructions here than where the shipped baselines were accepted. So a baseline judges with
the wider limits of another environment, and a pair with the accepted version has to find the rest. The runs are local
ones: in a merge request the suites of its base are read, too, which takes as long as all else and judges the same.
"""

import json

import pytest

from tests.e2e.command import ROOT, copy_of, started
from tests.e2e.test_escalation import disabled_features
from tests.suites.test_planted import CAUGHT_AS, PLANTS

# No bytecode is kept: a plant that leaves the size of a module and the second of its change would not be seen.
OTHER_MACHINE = {
    "NPY_DISABLE_CPU_FEATURES": disabled_features(),
    "OPENBLAS_CORETYPE": "Prescott",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Commit every suite with its shipped baselines; each test leaves the working tree as it was."""
    return copy_of(ROOT, tmp_path_factory.mktemp("planted"))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.suite)
def test_suite_catches_its_planted_mistake_on_another_machine(plant, project):
    file = project / "suites" / plant.file
    before = file.read_bytes()
    plant.put(project)
    try:
        done = started(project, "run", "--suite", plant.suite, *plant.cases, **OTHER_MACHINE)
    finally:
        file.write_bytes(before)
    assert done.returncode == 1, done.stdout + done.stderr
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    assert all(was_accepted_elsewhere(result) for result in results)
    assert "error" not in {result["verdict"]["status"] for result in results}
    failed = {result["verdict"]["reason"] for result in results if result["verdict"]["status"] == "failed"}
    assert failed & CAUGHT_AS, plant.what


def was_accepted_elsewhere(result):
    """Return whether a case has no baseline of this environment: another one's, or none, as a declared failure has."""
    stored = result["accepted"] or result["baseline"]
    return stored is None or stored["change"] is not None
