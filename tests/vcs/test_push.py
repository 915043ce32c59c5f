import pytest

from precreg.errors import UserError
from precreg.vcs import hook
from tests.e2e.command import git, repository


@pytest.fixture
def repo(tmp_path):
    """A repository with a project in p/ and a remote, `origin`, that has its first commit."""
    place = tmp_path / "répo"
    (place / "p").mkdir(parents=True)
    (place / "p" / "a").write_text("1")
    (place / "outside").write_text("1")
    repository(place)
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(place, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(place, "push", "-q", "origin", "main")
    return place


def commit(repo, **files):
    for name, text in files.items():
        (repo / "p" / name).write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", "next")
    return git(repo, "rev-parse", "HEAD")


def brought(repo, commit, before="", remote="origin", folder="p"):
    return hook.files_pushed(repo, folder, commit, before, remote)


def test_what_differs_from_what_the_ref_has(repo):
    before = git(repo, "rev-parse", "HEAD")
    after = commit(repo, a="2", b="new")
    (repo / "p" / "untracked").write_text("")
    assert brought(repo, after, before) == {"a", "b"}
    assert brought(repo, before, after) == {"a", "b"}, "backwards, as a forced push may go"
    assert brought(repo, after, before, folder=".") == {"p/a", "p/b"}


def test_a_new_ref_is_compared_with_where_it_left_the_remote(repo):
    git(repo, "checkout", "-q", "-b", "work")
    first = commit(repo, b="")
    second = commit(repo, c="")
    assert brought(repo, second) == {"b", "c"}
    git(repo, "push", "-q", "origin", f"{first}:refs/heads/half")
    git(repo, "fetch", "-q")
    assert brought(repo, second) == {"c"}
    assert brought(repo, first) == set(), "the remote has it under another name"


def test_after_a_merge_the_nearest_place_counts(repo):
    git(repo, "checkout", "-q", "-b", "work")
    commit(repo, b="")
    git(repo, "checkout", "-q", "main")
    commit(repo, c="")
    git(repo, "push", "-q", "origin", "main")
    git(repo, "checkout", "-q", "work")
    git(repo, "merge", "-q", "--no-edit", "main")
    assert brought(repo, git(repo, "rev-parse", "HEAD")) == {"b"}


@pytest.mark.parametrize("remote", ["elsewhere", "https://example.org/x.git", ""])
def test_of_a_remote_of_which_nothing_is_known_everything_is_new(repo, remote):
    assert brought(repo, git(repo, "rev-parse", "HEAD"), remote=remote) is None


def test_history_of_its_own_is_new(repo):
    git(repo, "checkout", "-q", "--orphan", "other")
    assert brought(repo, commit(repo)) is None


def test_what_somebody_else_pushed_is_not_here(repo):
    after = commit(repo, b="")
    assert brought(repo, after, "1" * 40) == {"b"}


def test_what_looks_like_an_option_is_none(repo, tmp_path):
    after = commit(repo, b="")
    assert brought(repo, after, f"--output={tmp_path}/written") == {"b"}
    assert not (tmp_path / "written").exists()


def test_names_are_taken_as_they_are(repo):
    (repo / "p" / ":(glob)*").mkdir()
    before = git(repo, "rev-parse", "HEAD")
    (repo / "p" / ":(glob)*" / 'ü "x"\n').write_text("")
    after = commit(repo, a="2")
    assert brought(repo, after, before, folder="p/:(glob)*") == {'ü "x"\n'}


def test_commits_of_revisions(repo):
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-a", "v1", "-m", "first")
    git(repo, "tag", "key", "HEAD:outside")
    assert hook.resolve_commits(repo, ["v1", "main", "key"]) == {"v1": head, "main": head}
    with pytest.raises(UserError) as caught:
        hook.resolve_commits(repo, ["nowhere"])
    assert caught.value.slug == "unknown-revision"


def test_where_git_cannot_answer_nothing_is_taken_for_pushed(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for ask in (lambda: hook.resolve_commits(tmp_path, ["1" * 40]), lambda: hook.worktree_root(tmp_path)):
        with pytest.raises(UserError) as caught:
            ask()
        assert caught.value.slug == "no-git"
    assert hook.independent_commits(tmp_path, ["1" * 40, "2" * 40]) == {"1" * 40, "2" * 40}
    assert brought(tmp_path, "1" * 40) is None


def test_a_bare_repository_has_no_working_tree(tmp_path):
    git(tmp_path, "init", "-q", "--bare")
    with pytest.raises(UserError, match="working tree") as caught:
        hook.worktree_root(tmp_path)
    assert caught.value.slug == "no-git"


def test_commits_on_the_way_to_others_are_not_independent(repo):
    first = git(repo, "rev-parse", "HEAD")
    second = commit(repo)
    assert hook.independent_commits(repo, [first, second]) == {second}


def test_where_hooks_are_looked_for(repo, tmp_path):
    assert hook.hooks_folder(repo) == repo / ".git/hooks"
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert hook.hooks_folder(tmp_path / "linked") == repo / ".git/hooks"
    git(repo, "config", "core.hooksPath", "my hooks")
    assert hook.hooks_folder(repo) == repo / "my hooks"
    git(repo, "config", "core.hooksPath", str(tmp_path / "shared"))
    assert hook.hooks_folder(repo) == tmp_path / "shared"


@pytest.mark.parametrize("path", ["", "/dev/null"])
def test_hooks_that_are_switched_off_have_no_folder(repo, path):
    git(repo, "config", "core.hooksPath", path)
    with pytest.raises(UserError) as caught:
        hook.hooks_folder(repo)
    assert caught.value.slug == "no-hooks-folder"
    assert caught.value.message.endswith(f"core.hooksPath={path}")
