import shutil
import subprocess
import sys

import pytest

from precreg import vcs
from precreg.errors import UserError


def git(folder, *arguments):
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@example.org")
    (tmp_path / "project" / "suites").mkdir(parents=True)
    (tmp_path / "project" / "suites" / "a.yaml").write_text("a")
    (tmp_path / "outside.txt").write_text("o")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_state_names_commit_branch_author_and_cleanliness(repository):
    state = vcs.git_state(repository / "project")
    assert state.commit == git(repository, "rev-parse", "HEAD")
    assert (state.branch, state.dirty, state.author) == ("main", False, "Ada <ada@example.org>")


def test_state_sees_a_dirty_tree_and_a_detached_head(repository):
    (repository / "new.txt").write_text("n")
    git(repository, "checkout", "-q", "--detach")
    state = vcs.git_state(repository)
    assert (state.branch, state.dirty) == ("", True)


def test_a_folders_name_is_no_variable(repository, monkeypatch, recwarn):
    monkeypatch.setenv("HERE", "elsewhere")
    folder = repository / "cost in $HERE"
    (folder / "suites").mkdir(parents=True)
    assert vcs.git_state(folder).commit == git(repository, "rev-parse", "HEAD")
    assert [str(warning.message) for warning in recwarn] == []


def test_no_repository_and_no_commit_give_no_state(tmp_path):
    assert vcs.git_state(tmp_path) is None
    assert vcs.git_author(tmp_path) == ""
    git(tmp_path, "init", "-q")
    assert vcs.git_state(tmp_path) is None


def test_a_repository_that_git_refuses_is_told_from_none(repository, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UserError, match="dubious ownership") as caught:
        vcs.git_state(repository)
    assert caught.value.slug == "no-git"


def test_changed_files_are_relative_to_the_project_and_stay_inside(repository):
    project = repository / "project"
    assert vcs.changed_files(project, "HEAD") == set()
    (project / "suites" / "a.yaml").write_text("changed")
    (project / "suites" / "ü b.yaml").write_text("untracked, not ASCII")
    (repository / "outside.txt").write_text("changed")
    assert vcs.changed_files(project, "HEAD") == {"suites/a.yaml", "suites/ü b.yaml"}


def test_a_deleted_and_a_renamed_file_are_changed(repository):
    git(repository, "mv", "project/suites/a.yaml", "project/suites/b.yaml")
    assert vcs.changed_files(repository / "project", "HEAD") == {"suites/a.yaml", "suites/b.yaml"}


@pytest.mark.parametrize("revision", ["nowhere", "--output=/tmp/x", ""])
def test_an_unknown_revision_is_a_clear_error(repository, revision):
    with pytest.raises(UserError) as caught:
        vcs.changed_files(repository, revision)
    assert caught.value.slug == "unknown-revision"
    assert f"revision={revision!r}" in str(caught.value)


def test_a_shallow_clone_says_so(repository):
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    first = git(repository, "rev-parse", "HEAD~1")
    git(repository, "clone", "-q", "--depth", "1", f"file://{repository}", "clone")
    with pytest.raises(UserError, match="shallow"):
        vcs.changed_files(repository / "clone", first)


def test_no_git_is_a_clear_error(tmp_path, monkeypatch):
    with pytest.raises(UserError) as caught:
        vcs.changed_files(tmp_path, "HEAD")
    assert caught.value.slug == "no-git"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="not") as caught:
        vcs.changed_files(tmp_path, "HEAD")
    assert caught.value.slug == "no-git"


def test_the_folder_is_the_way_from_the_repositorys_root(repository):
    assert vcs.project_folder(repository / "project", {}) == "project"
    assert vcs.project_folder(repository / "project" / "suites", {}) == "project/suites"
    assert vcs.project_folder(repository, {}) == ""


def test_the_folder_is_told_in_a_worktree(repository):
    git(repository, "worktree", "add", "-q", str(repository / "elsewhere"))
    assert vcs.project_folder(repository / "elsewhere" / "project", {}) == "project"


def test_gitlab_names_the_root_of_a_project_that_is_inside(repository, tmp_path_factory):
    """A project whose own repository is nested in the one that the pipeline is of, such as a submodule."""
    nested = repository / "vendored" / "part"
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    assert vcs.project_folder(nested, {}) == ""
    assert vcs.project_folder(nested, {"CI_PROJECT_DIR": str(repository)}) == "vendored/part"
    elsewhere = {"CI_PROJECT_DIR": str(tmp_path_factory.mktemp("elsewhere"))}
    assert vcs.project_folder(repository / "project", elsewhere) == "project"


def test_without_a_repository_there_is_no_folder(tmp_path):
    assert vcs.project_folder(tmp_path, {}) == ""


def test_changed_lines_are_those_of_commits_and_of_the_working_tree(repository):
    project = repository / "project"
    base = git(repository, "rev-parse", "HEAD")
    assert vcs.changed_lines(project, base, {"suites/a.yaml"}) is None
    (project / "f.py").write_text("".join(f"{number}\n" for number in range(1, 11)))
    (project / "bits.bin").write_bytes(b"\0\1")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "ten lines")
    base = git(repository, "rev-parse", "HEAD")
    (project / "f.py").write_text("1\ntwo\n3\n4\n5\n6\n9\n10\neleven\n")
    git(repository, "commit", "-qam", "another second line")
    # A carriage return begins no line of the diff, so this line forges no hunk.
    (project / "f.py").write_bytes(b"0\r@@ -1 +90 @@\n2\n3\n4\n5\n6\n9\n10\neleven\n")
    (project / "bits.bin").write_bytes(b"\0\2")
    (project / "new [1].py").write_text("1\n")
    found = vcs.changed_lines(project, base, {"f.py", "bits.bin", "new [1].py", "suites/a.yaml", "../outside.txt"})
    assert {file: [(lines.start, len(lines)) for lines in ranges][:3] for file, ranges in found.items()} == {
        "f.py": [(1, 1), (6, 1), (9, 1)],
        "bits.bin": [],
        "new [1].py": [(1, sys.maxsize - 1)],
    }
    assert vcs.changed_lines(project, base, set()) == {}


def test_a_copy_of_commits_has_their_files_and_no_history(repository, tmp_path_factory):
    first = git(repository, "rev-parse", "HEAD")
    for text in ("b", "c"):
        (repository / "project/suites/a.yaml").write_text(text)
        git(repository, "commit", "-qam", text)
    folder = tmp_path_factory.mktemp("copy")
    vcs.copy_commits(repository, [first], folder)
    shutil.copytree(repository / "project", folder / "project", dirs_exist_ok=True)
    shutil.copy(repository / "outside.txt", folder)
    state = vcs.git_state(folder / "project")
    assert (state.commit, state.dirty) == (git(repository, "rev-parse", "HEAD"), False)
    with vcs.checkout_commit(folder, first) as tree:
        assert (tree / "project/suites/a.yaml").read_text() == "a"
    assert git(folder, "rev-list", "--all").splitlines() == [state.commit]
    (folder / "outside.txt").write_text("changed")
    assert vcs.changed_files_since_commit(folder, first) == {"outside.txt", "project/suites/a.yaml"}


def test_a_folder_without_a_commit_has_nothing_to_copy(tmp_path, tmp_path_factory):
    git(tmp_path, "init", "-q")
    with pytest.raises(UserError) as caught:
        vcs.copy_commits(tmp_path, [], tmp_path_factory.mktemp("copy"))
    assert caught.value.slug == "unknown-revision"
