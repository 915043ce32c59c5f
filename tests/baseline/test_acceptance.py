"""The commit that first has the present entry of a baseline, in real repositories."""

import json

import pytest

from precreg.baseline.acceptance import acceptance_commit, commit_has_entry
from precreg.baseline.store import Baselines
from precreg.types import NoAcceptedVersion
from tests.baseline.plain import document_of, write_former
from tests.e2e.command import change, git, precreg, repository, with_suite

SUITE = """\
suite: s
subject: k:double
reference: k:exact
matrix: {rows: [2, 5]}
inputs:
  x: {shape: [$rows, 4], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-2}
"""
KERNEL = "def double(x):\n    return x * 2\n\n\ndef exact(x):\n    return x * 2\n"
FILE = "baselines/generic/unit/s.json"
CASE = "unit/s/rows=2"


def accept(folder, *patterns):
    precreg(folder, "run", "--pair", "off", "--jobs", "0")
    assert precreg(folder, "baseline", "accept", *patterns, "--reason", "why").returncode == 0


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path):
    folder = repository(with_suite(tmp_path / "project", SUITE, KERNEL))
    accept(folder, "*")
    return folder


def rougher(folder):
    rough = "return (x.astype('float16') * 2).astype('float32')\n\n\ndef exact"
    change(folder / "suites/unit/k.py", "return x * 2\n\n\ndef exact", rough)


def test_the_oldest_commit_with_the_present_entry_has_the_accepted_code(project):
    assert acceptance_commit(project, CASE, FILE) == NoAcceptedVersion("not_committed", FILE)
    first = commit(project, "accepted")
    for number in range(2):
        (project / "README").write_text(f"{number}\n")
        commit(project, "something else")
    forget()
    assert acceptance_commit(project, CASE, FILE) == first


def test_another_case_of_the_file_that_changes_later_leaves_the_commit(project):
    first = commit(project, "accepted")
    rougher(project)
    accept(project, "*rows=5")
    second = commit(project, "one of them")
    forget()
    assert acceptance_commit(project, CASE, FILE) == first
    assert acceptance_commit(project, "unit/s/rows=5", FILE) == second


def test_a_commit_has_the_entry_that_a_baseline_has(project):
    first = commit(project, "accepted")
    baseline = Baselines(project).lookup(CASE, ("generic",))
    rougher(project)
    accept(project, "*")
    second = commit(project, "again")
    now = Baselines(project).lookup(CASE, ("generic",))
    assert commit_has_entry(project, first, CASE, baseline)
    assert not commit_has_entry(project, first, CASE, now)
    assert commit_has_entry(project, second, CASE, now)
    assert not commit_has_entry(project, "0" * 40, CASE, now)


def test_the_same_values_with_another_reason_or_in_another_format_are_the_same_baseline(project):
    first = commit(project, "accepted")
    stored = json.loads((project / FILE).read_text())
    stored["cases"]["rows=2"].update(reason="reviewed again", date="2031-01-01", author="Eve <eve@example.org>")
    stored["cases"]["rows=2"]["outputs"]["out"]["metrics"]["of_a_later_version"] = [1.0]
    (project / FILE).write_text(json.dumps(stored, indent=7))
    commit(project, "accepted again, and formatted")
    forget()
    assert acceptance_commit(project, CASE, FILE) == first


def test_a_migration_leaves_the_commit_that_accepted(project):
    path = project / FILE
    write_former(path, document_of(path))
    first = commit(project, "accepted by an earlier version")
    former = Baselines(project).lookup(CASE, ("generic",))
    assert precreg(project, "baseline", "migrate").stdout == "migrated 2 baselines in 1 file\n"
    second = commit(project, "migrated")
    forget()
    assert acceptance_commit(project, CASE, FILE) == first
    now = Baselines(project).lookup(CASE, ("generic",))
    assert now == former
    assert commit_has_entry(project, first, CASE, now)
    assert commit_has_entry(project, second, CASE, former)


def test_a_baseline_that_moved_was_accepted_where_it_was_before(project):
    first = commit(project, "accepted")
    (project / "README").write_text("later\n")
    commit(project, "something else")
    moved = "baselines/cpu/unit/s.json"
    (project / "baselines/cpu/unit").mkdir(parents=True)
    git(project, "mv", FILE, moved)
    commit(project, "another environment's label")
    text = (project / moved).read_text()
    (project / moved).write_text(text.replace('"rows=2"', '"rows=two"'))
    commit(project, "another name of the case")
    forget()
    assert acceptance_commit(project, "unit/s/rows=5", moved) == first
    assert acceptance_commit(project, "unit/s/rows=two", moved) == first


def test_a_merge_leaves_the_commit_of_the_branch_that_accepted(project):
    commit(project, "accepted")
    git(project, "checkout", "-qb", "work")
    rougher(project)
    accept(project, "*rows=5")
    accepted = commit(project, "accepted in the branch")
    git(project, "checkout", "-q", "main")
    main = json.loads((project / FILE).read_text())
    main["cases"]["rows=9"] = main["cases"]["rows=2"]
    (project / FILE).write_text(json.dumps(main))
    commit(project, "another case, later")
    git(project, "merge", "-q", "-s", "ours", "--no-commit", "work")
    git(project, "checkout", "work", "--", FILE, "suites")
    both = json.loads((project / FILE).read_text())
    both["cases"]["rows=9"] = main["cases"]["rows=9"]
    (project / FILE).write_text(json.dumps(both))
    commit(project, "merged")
    forget()
    assert acceptance_commit(project, "unit/s/rows=5", FILE) == accepted


def test_a_file_that_is_no_baseline_at_some_commit_ends_the_way_back(project):
    (project / FILE).rename(project / "kept.json")
    (project / FILE).write_text("[1, 2]\n")
    commit(project, "a mistake")
    (project / "kept.json").rename(project / FILE)
    fixed = commit(project, "fixed")
    forget()
    assert acceptance_commit(project, CASE, FILE) == fixed


def test_a_shallow_clone_has_no_first_commit(project, tmp_path):
    commit(project, "accepted")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", str(clone))
    assert acceptance_commit(clone, CASE, FILE) == NoAcceptedVersion("shallow")


def test_outside_git_no_commit_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = with_suite(tmp_path / "project", SUITE, KERNEL)
    accept(folder, "*")
    found = acceptance_commit(folder, CASE, FILE)
    assert (type(found), found.cause) == (NoAcceptedVersion, "no_git")


def forget():
    """Forget what an earlier call read: within one run no commit is added."""
    from precreg.baseline import acceptance

    acceptance._history.cache_clear()
