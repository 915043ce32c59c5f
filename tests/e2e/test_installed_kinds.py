"""A kind of an installed package as the reference: a merge request that changes what is behind it is found."""

import json

import pytest

from tests.e2e.command import change, git, precreg, repository

KIND = """\
from pathlib import Path

from precreg.subjects import Dependencies, Kind, Outputs


def tabled(spec, call):
    factor = float((call.directory / f"{spec}.table").read_text())
    return Outputs({"out": call.inputs["x"] * factor}, 0.0)


def called(spec, call):
    space = {}
    exec((call.directory / "oracle.py").read_text(), space)
    return Outputs({"out": space[spec.partition(":")[2]](**call.inputs)}, 0.0)


TABLED = Kind(run=tabled, dependencies=lambda spec, folder: Dependencies(files=[f"{spec}.t*"]))
CALLED = Kind(run=called, target=lambda spec: spec, dependencies=lambda spec, folder: Dependencies())
"""
SUITE = """\
suite: {name}
subject: k:doubled
reference: {reference}
inputs: {{x: {{shape: [64, 16], dtype: float32, normal: {{}}}}}}
tolerance: {{rtol: 1e-1}}
"""


@pytest.fixture
def project(tmp_path):
    """A project on a branch, whose main has accepted baselines; the kinds are on PYTHONPATH."""
    site, unit = tmp_path / "site", tmp_path / "project/suites/unit"
    info = site / "behind-1.dist-info"
    info.mkdir(parents=True)
    unit.mkdir(parents=True)
    (site / "behind_kind.py").write_text(KIND)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: behind\nVersion: 1\n")
    points = "tabled = behind_kind:TABLED\ncalled = behind_kind:CALLED\n"
    (info / "entry_points.txt").write_text(f"[precreg.subjects]\n{points}")
    (unit / "k.py").write_text("def doubled(x):\n    return x * 2\n")
    (unit / "oracle.py").write_text("def exact(x):\n    return x * 2\n")
    (unit / "two.table").write_text("2.0\n")
    (unit / "tabled.yaml").write_text(SUITE.format(name="tabled", reference="{tabled: two}"))
    (unit / "called.yaml").write_text(SUITE.format(name="called", reference="{called: 'oracle:exact'}"))
    made = repository(tmp_path / "project")
    run(made, "run", code=2)
    run(made, "baseline", "accept", "--all", "--reason", "first")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "accepted")
    git(made, "checkout", "-qb", "branch")
    return made


def run(project, *arguments, code=0):
    done = precreg(project, *arguments, PYTHONPATH=str(project.parent / "site"))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def findings(project):
    record = json.loads((project / "reports/record.json").read_text())
    return {finding["about"]: finding["kind"] for finding in record["findings"]}


def test_a_changed_file_that_the_kind_declares_is_a_changed_reference(project):
    change(project / "suites/unit/two.table", "2.0", "2.001")
    git(project, "commit", "-qam", "another table")
    run(project, "run", "--against", "main", code=1)
    assert findings(project) == {"unit/tabled": "reference_changed"}


def test_a_changed_function_that_the_kind_calls_is_a_changed_reference(project):
    change(project / "suites/unit/oracle.py", "x * 2", "x * 2.001")
    git(project, "commit", "-qam", "another oracle")
    run(project, "run", "--against", "main", code=1)
    assert findings(project) == {"unit/called": "reference_changed"}


def test_without_a_change_there_is_no_finding(project):
    (project / "notes.txt").write_text("nothing\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "notes")
    run(project, "run", "--against", "main")
    assert findings(project) == {}


def test_a_listed_computation_has_its_kind(project):
    shown = run(project, "list", "-v")
    assert "k:doubled against reference tabled two" in shown
    assert "reference   called oracle:exact" in run(project, "explain", "called")
