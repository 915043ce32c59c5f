"""`precreg run --against`, through the command: exit codes, what is told, and what stays untouched."""

import json
import tempfile

import pytest

from precreg.cli.main import precreg
from tests.baseline.integrity.demo import CASE
from tests.baseline.integrity.test_tricks import TRICKS
from tests.e2e import command
from tests.e2e.command import OUTSIDE, git

BASE = "CI_MERGE_REQUEST_DIFF_BASE_SHA"


@pytest.fixture
def run(project, monkeypatch, capsys):
    """Return a function that runs `precreg run ARGUMENTS` in this process; it returns exit code and output."""
    monkeypatch.chdir(project.root)
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    # Causes are searched where a test is about them.
    monkeypatch.setenv("PRECREG_DIAGNOSE", "0")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            precreg(("run", "--jobs", "0", *arguments), prog_name="precreg")
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out + captured.err

    return run


def record(project, folder="reports"):
    return json.loads(project.read(f"{folder}/record.json"))


def told(project, folder="reports"):
    return [(finding["kind"], finding["about"]) for finding in record(project, folder).get("findings", [])]


def test_a_merge_request_that_removes_a_suite_fails_though_every_case_passes(project, run, monkeypatch):
    TRICKS["remove a suite"].done(project)
    assert run()[0] == 0
    monkeypatch.setenv(BASE, project.base)
    code, text = run()
    assert code == 1
    assert "FINDING  unit/mean   case_removed" in text
    assert told(project) == [("case_removed", "unit/mean")]
    assert record(project)["against"] == project.base
    assert run("--against", "off")[0] == 0


def test_a_real_process_in_a_real_shallow_clone_does_not_pass(project, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    project.write("note", "more")
    project.commit()
    git(project.root, "clone", "-q", "--depth", "1", f"file://{project.root}", str(clone))
    done = command.precreg(clone, "run", CI="true", CI_PROJECT_DIR=str(clone), **{BASE: project.base})
    assert done.returncode == 2
    assert "error[unknown-revision]" in done.stderr
    assert "GIT_DEPTH: 0" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_but_reports_is_written(project, run, tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    TRICKS["raise a bound of the project"].done(project)
    index = git(project.root, "ls-files", "--stage")
    before = git(project.root, "status", "--porcelain")
    assert run("--against", "main")[0] == 1
    assert git(project.root, "status", "--porcelain") == before
    assert git(project.root, "ls-files", "--stage") == index
    assert len(git(project.root, "worktree", "list").splitlines()) == 1
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "selection",
    [
        ("--suite", "copy"),
        (CASE,),
        ("--shard", "1/3"),
        ("--shard", "3/3"),
        ("--changed-since", "HEAD", "--suite", "copy"),
    ],
)
def test_findings_are_the_same_whatever_is_selected(project, run, selection):
    TRICKS["raise a bound of the project"].done(project)
    assert run("--against", "main")[0] == 1
    every = told(project)
    assert run("--against", "main", *selection)[0] == 1
    assert told(project) == every


def test_a_selection_by_changes_that_finds_no_case_still_tells(project, run):
    """Take suites away, one of recorded files too: no case that is left depends on them."""
    TRICKS["remove a suite"].done(project)
    project.commit()
    assert run("--changed-since", project.base)[0] == 0
    code, text = run("--changed-since", project.base, "--against", project.base)
    assert code == 1, text
    assert told(project) == [("case_removed", "unit/mean")]


def test_a_case_that_lost_its_tag_is_selected_by_it_all_the_same(project, run):
    TRICKS["remove the tag that a job selects by"].done(project)
    code, text = run("--against", "main", "--tag", "gate")
    assert code == 1
    assert "4 passed" in text


def test_on_the_default_branch_what_was_allowed_is_to_be_removed(project, run, monkeypatch):
    project.allow({"case": "unit/mean", "change": "bound_loosened", "reason": "the device is coarser"})
    assert run()[0] == 0
    assert told(project) == []
    monkeypatch.setenv("CI_COMMIT_BRANCH", "main")
    monkeypatch.setenv("CI_DEFAULT_BRANCH", "main")
    code, text = run()
    assert code == 0, "told, and no reason to fail"
    assert "allowance_unused" in text
    assert "bound_loosened of unit/mean is merged" in text


def test_a_run_is_not_resumed_against_another_base(project, run):
    assert run()[0] == 0
    code, text = run("--resume", "--against", "main")
    assert code == 2
    assert "error[code-changed]" in text


def test_a_base_is_asked_for_before_anything_runs(project, run):
    code, text = run("--against", "nowhere")
    assert code == 2
    assert "error[unknown-revision]" in text
    assert not (project.root / "reports").exists()


def test_a_mistake_in_the_allowances_has_its_line(project, run):
    project.write("baselines/allow.yaml", "allow:\n  - case: unit/mean\n    change: case_removed\n")
    code, text = run("--against", "main")
    assert code == 2
    assert "baselines/allow.yaml:2: error[bad-allowance]: expected a text but got reason=null" in text
