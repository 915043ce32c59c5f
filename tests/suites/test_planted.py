"""Every shipped suite is green as it is, and red with its own planted mistake: by the real command, in a real project.

A suite that no plant guards fails `test_every_suite_has_a_plant`: whoever ships a suite shows what it catches. Two
processes a plant, half a second each, make this the slowest module of the tests: the command itself is what is shown.
"""

import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from precreg.suite.load import load
from tests.e2e.command import ROOT, precreg, repository

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("planted_*.py"))
PLANTS = [plant for table in TABLES for plant in import_module(f"tests.suites.{table}").PLANTS]
CAUGHT_AS = {"out_of_tolerance", "regressed", "non_finite_mismatch", "nondeterministic"}


def project_of(suite, folder):
    """Copy one suite, with every kernel and baseline, into a repository: other suites would only be read in vain."""
    kept = {"tolerances.yaml", suite.partition("/")[2] + ".yaml"}

    def ignored(_, names):
        return [name for name in names if name == "__pycache__" or (name.endswith(".yaml") and name not in kept)]

    for part in ("suites", "baselines"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    return repository(folder)


def run(project, suite):
    """Run one suite; return the exit code and the (status, reason) of each case.

    No bytecode is kept: a plant that leaves the size of a module and the second of its change would not be seen.
    """
    done = precreg(project, "run", "--suite", suite, "--jobs", "0", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    assert {f"{result['tier']}/{result['suite']}" for result in results} == {suite}
    return done.returncode, {(result["verdict"]["status"], result["verdict"]["reason"]) for result in results}


def test_every_suite_has_a_plant():
    planted, shipped = {plant.suite for plant in PLANTS}, {suite.id for suite in load(ROOT)}
    assert sorted(shipped - planted) == [], "shipped without a planted mistake"
    assert sorted(planted - shipped) == [], "planted into no suite"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.suite)
def test_suite_catches_its_planted_mistake(plant, tmp_path):
    project = project_of(plant.suite, tmp_path)
    code, verdicts = run(project, plant.suite)
    assert (code, {status for status, _ in verdicts}) == (0, {"passed"})
    plant.put(project)
    code, verdicts = run(project, plant.suite)
    assert code == 1
    assert "error" not in {status for status, _ in verdicts}, "a mistake that crashes shows nothing"
    assert {reason for status, reason in verdicts if status == "failed"} & CAUGHT_AS, plant.what
