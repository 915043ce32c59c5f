"""Every shipped suite is red with its own planted mistake: by the real command, in a real project.

The project has all code, and one suite at a time: each run would read the other suites and their baselines, too. A
suite that no plant guards fails `test_every_suite_has_a_plant`: whoever ships a suite shows what it catches. That
each is green without it is shown in tests/e2e/test_gate.py. One process a plant makes this slow: the command itself is
what is shown.
"""

import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from precreg.suite.load import load_suites
from tests.e2e.command import ROOT, copy_of, precreg, started
from tests.extras.suites import planted_networks
from tests.shipped import alone_in, session_folder

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("planted_*.py"))
PLANTS = [plant for table in TABLES for plant in import_module(f"tests.suites.{table}").PLANTS]
# Planted by tests/extras/suites/test_planted_networks.py, where torch is installed.
WITH_EXTRAS = planted_networks.PLANTS
CAUGHT_AS = {"out_of_tolerance", "regressed", "non_finite_mismatch", "nondeterministic"}


@pytest.fixture(scope="module")
def project(shipped, tmp_path_factory):
    """Copy the suites into a repository, with baselines of this machine, and put suites and baselines aside.

    On another CPU than theirs the shipped baselines judge as another environment, which sees less.
    """
    project = copy_of(ROOT, tmp_path_factory.mktemp("planted"))
    if not shipped.has_baselines_of_this_machine:
        shutil.rmtree(project / "baselines")
        accepted = baselines_of_this_machine(session_folder(tmp_path_factory) / "accepted", shipped.project)
        shutil.copytree(accepted, project / "baselines")
    for suite in load_suites(ROOT):
        for file in files_of(project, suite.id):
            aside = project.parent / "aside" / file.relative_to(project)
            aside.parent.mkdir(parents=True, exist_ok=True)
            file.rename(aside)
    return project


def files_of(project, suite):
    """Return the file of a suite and the files of its baselines."""
    return [project / "suites" / f"{suite}.yaml", *(project / "baselines").glob(f"*/{suite}.*")]


@pytest.fixture
def with_suite(project, plant):
    """Return the project with the suite of a plant alone; each test leaves it as it was."""
    aside = project.parent / "aside"
    placed = [project / file.relative_to(aside) for file in files_of(aside, plant.suite)]
    for file in placed:
        shutil.copy(aside / file.relative_to(project), file)
    yield project
    for file in placed:
        file.unlink()


def baselines_of_this_machine(folder, shipped):
    """Accept the results of the cases that see plants in a folder, or return the baselines that are there already.

    They are the results of the run of the shipped suites: this run goes on with the journal of that one.
    """
    project, accepted = folder / shipped.name, folder / "accepted"
    with alone_in(folder):
        if not accepted.exists():
            shutil.rmtree(copy_of(ROOT, project) / "baselines")
            (project / ".precreg").mkdir()
            shutil.copy(shipped / ".precreg/journal.jsonl", project / ".precreg")
            done = started(project, "run", "--resume", *planted_cases())
            assert done.returncode == 2, done.stdout + done.stderr
            done = precreg(project, "baseline", "accept", "--all", "--reason", "on this machine")
            assert done.returncode == 0, done.stdout + done.stderr
            accepted.touch()
    return project / "baselines"


def planted_cases():
    """Return patterns for the cases that see a plant: other cases need no baselines."""
    return [f"{plant.suite}/{each.removeprefix('*/')}" for plant in PLANTS for each in plant.cases or ("*",)]


def run(project, *arguments):
    """Run the command; return the exit code, and (status, reason) of each case by its id.

    No bytecode is kept: a plant that leaves the size of a module and the second of its change would not be seen.
    """
    done = precreg(project, "run", *arguments, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    return done.returncode, {
        result["id"]: (result["verdict"]["status"], result["verdict"]["reason"]) for result in results
    }


def test_every_suite_has_a_plant():
    planted, shipped = {plant.suite for plant in (*PLANTS, *WITH_EXTRAS)}, {suite.id for suite in load_suites(ROOT)}
    assert sorted(shipped - planted) == [], "shipped without a planted mistake"
    assert sorted(planted - shipped) == [], "planted into no suite"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.suite)
def test_suite_catches_its_planted_mistake(plant, with_suite):
    project = with_suite
    file = project / "suites" / plant.file
    before = file.read_bytes()
    plant.put(project)
    try:
        code, verdicts = run(project, "--suite", plant.suite, "--jobs", "0", *plant.cases)
    finally:
        file.write_bytes(before)
    assert code == 1
    assert {id.rpartition("/")[0] for id in verdicts} == {plant.suite}
    assert "error" not in {status for status, _ in verdicts.values()}, "a mistake that crashes shows nothing"
    assert {reason for status, reason in verdicts.values() if status == "failed"} & CAUGHT_AS, plant.what
