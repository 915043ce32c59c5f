"""Many proposals and baselines at once: totals, suites and the largest changes, never hundreds of lines."""

import json
import re

import pytest

from precreg.cli.changes import ACCEPTED_FILE, MAX_LISTED, MAX_SINGLE_CASES
from tests.e2e.command import git, repository
from tests.scaled import Project

CASES = 60
SUITE = """\
suite: s
subject: k:coarse
reference: k:exact
matrix: {n: [%s]}
inputs: {x: {shape: [8, $n], dtype: float32, normal: {mean: 0, std: 1}}}
seeds: 2
tolerance: {rtol: 1, atol: 1}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """60 accepted and committed cases, with proposals that are all worse."""
    project = Project(tmp_path_factory.mktemp("many"))
    numbers = ", ".join(str(number) for number in range(64, 64 + CASES))
    (project.folder / "suites/unit/s.yaml").write_text(SUITE % numbers)
    project.run("run", "--jobs", "0")
    first = project.run("baseline", "accept", "--all", "--reason", "first version", "--confirm", "0")
    assert first.exit_code == 0, first.output
    repository(project.folder)
    git(project.folder, "add", "-A", "-f", "baselines")
    project.scale(3.0)
    project.run("run", "--jobs", "0")
    return project


def lines(project, *arguments):
    done = project.run(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_many_proposals_are_counted_and_the_largest_are_shown(project):
    shown = lines(project, "baseline", "diff")
    assert len(shown) < 40
    assert f"{CASES} cases ({CASES} worse)" in shown
    assert shown[-1] == f"{CASES} proposals"
    assert sum(line.startswith("unit/s/n=") for line in shown) == MAX_SINGLE_CASES
    assert any("precreg baseline diff 'unit/s/*'" in line for line in shown)
    rows = [line for line in shown if line.startswith("unit/s/n=")]
    ratios = [float(re.search(r" ([0-9.]+)x worse", row)[1]) for row in rows]
    assert ratios == sorted(ratios, reverse=True)
    every = lines(project, "baseline", "diff", "--verbose")
    assert sum(line.startswith("unit/s/n=") for line in every) == CASES
    assert len(lines(project, "baseline", "diff", "n=64")) < 40


def test_the_note_of_proposals_is_markdown_alone(project):
    shown = lines(project, "baseline", "diff", "--markdown")
    assert shown[0] == f"### Baselines: {CASES} cases ({CASES} worse)"
    assert shown[-1] == f"And {CASES - MAX_SINGLE_CASES} cases more: `precreg baseline diff --verbose`"
    assert len(lines(project, "baseline", "diff", "--markdown", "--verbose")) == 4 + CASES


def test_many_baselines_are_counted_by_file(project):
    shown = lines(project, "baseline", "list")
    assert CASES > MAX_LISTED
    assert [line.partition(", accepted")[0] for line in shown[:2]] == [
        f"baselines/generic/unit/s.json: {CASES}",
        f"{CASES} baselines in 1 file",
    ]
    assert len(lines(project, "baseline", "list", "--all")) == CASES
    assert len(lines(project, "baseline", "list", "*n=7?")) == 10


def test_many_accepted_cases_are_summed_up_and_all_are_in_a_file(project):
    shown = lines(project, "baseline", "accept", "--all", "--reason", "three times as fast", "--confirm", "0")
    assert len(shown) < 40
    assert f"accepted {CASES} cases ({CASES} worse), in 1 file" in shown
    assert f"{CASES} cases: not run again" in shown
    text = (project.folder / ACCEPTED_FILE).read_text()
    assert text.count("\n| `unit/s/n=") == CASES
    note = lines(project, "baseline", "diff", "--against", "HEAD", "--markdown")
    assert note[0].startswith(f"### Baselines: {CASES} cases ({CASES} worse) since `")
    assert all("three times as fast" in line for line in note if line.startswith("| `unit/s/n"))
    document = json.loads((project.folder / "baselines/generic/unit/s.json").read_text())
    assert {case["reason"] for case in document["cases"].values()} == {"three times as fast"}
