"""A commit's files out of git's store: as they were committed, in a folder that is gone afterwards."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from precreg import vcs
from precreg.errors import UserError
from tests.e2e.command import git, repository

TEXTS = (".py", ".yaml")


@pytest.fixture
def project(tmp_path):
    """A project in a folder of a repository, with a link, a submodule and bytes that are no text."""
    root = tmp_path / "all"
    place = root / "my project"
    (place / "suites").mkdir(parents=True)
    (place / "suites/a.yaml").write_bytes(b"a: 1\r\nb: \xff\n")
    (place / "suites/ü b.py").write_text("x = 1\n")
    (place / "suites/c.npy").write_bytes(bytes(100))
    (place / "suites/empty.yaml").write_text("")
    (place / "suites/link.yaml").symlink_to("a.yaml")
    (root / "outside.yaml").write_text("not ours")
    repository(root)
    (place / "suites/a.yaml").write_text("changed")
    (place / "suites/ü b.py").unlink()
    return place


def files(project, commit="HEAD", named=lambda path: path.endswith(".npy")):
    with vcs.files_at_commit(
        project, vcs.named_commit(project, commit).commit, lambda path: path.endswith(TEXTS), named
    ) as then:
        assert then.name == project.name
        return {path.relative_to(then).as_posix(): path.read_bytes() for path in then.rglob("*") if path.is_file()}


def test_what_is_read_is_as_it_was_committed_and_what_is_named_is_empty(project):
    assert files(project) == {
        "suites/a.yaml": b"a: 1\r\nb: \xff\n",
        "suites/link.yaml": b"a: 1\r\nb: \xff\n",
        "suites/ü b.py": b"x = 1\n",
        "suites/c.npy": b"",
        "suites/empty.yaml": b"",
    }
    assert "suites/c.npy" not in files(project, named=lambda _: False)


def test_the_folder_is_removed_after_an_error_too(project, tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with pytest.raises(KeyboardInterrupt), vcs.files_at_commit(project, "HEAD", every, every) as then:
        stopped(then, place)
    assert list(place.iterdir()) == []


def stopped(then, place):
    assert [then.parent] == list(place.iterdir())
    raise KeyboardInterrupt


def test_a_link_that_leads_out_is_a_link_and_nothing_is_written_through_it(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "suites/away").symlink_to(outside)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a link")
    with vcs.files_at_commit(project, "HEAD", every, every) as then:
        assert os.readlink(then / "suites/away") == str(outside)
    assert list(outside.iterdir()) == []


def test_a_path_that_would_leave_the_folder_is_left_out(project):
    """Git refuses to make such a tree; a repository that somebody made by other means may have one."""
    blob = git(project, "hash-object", "-w", "suites/c.npy")
    with vcs.files_at_commit(project.parent, commit_of(project, (b"100644 ..", blob)), every, every) as then:
        assert list(then.iterdir()) == []


def test_what_is_below_a_link_is_left_out(project, tmp_path):
    """The same: a folder that is a link, too, would lead what is in it out of the folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "target").write_text(str(outside))
    link = git(project, "hash-object", "-w", str(tmp_path / "target"))
    below = tree_of(project, (b"120000 away", link))
    commit = commit_of(project, (b"120000 a", link), (b"40000 a", below))
    with vcs.files_at_commit(project.parent, commit, every, every) as then:
        assert os.readlink(then / "a") == str(outside)
    assert list(outside.iterdir()) == []


def every(_path):
    return True


def tree_of(project, *entries):
    """Return a tree as it stands, whatever git would say of it; each entry has a mode, a name, and an id."""
    asked = ["git", "-C", project, "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
    body = b"".join(name + b"\0" + bytes.fromhex(id) for name, id in entries)
    return subprocess.run(asked, input=body, check=True, capture_output=True).stdout.decode().strip()


def commit_of(project, *entries):
    return git(project, "commit-tree", "-m", "bad", tree_of(project, *entries))


def test_a_submodule_is_not_there(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.py").write_text("")
    repository(other)
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "suites/sub")
    git(project, "commit", "-q", "-m", "a submodule")
    assert not [path for path in files(project) if path.startswith("suites/sub/")]


def test_a_folder_that_the_commit_lacks_is_empty(project):
    (project.parent / "new").mkdir()
    assert files(project.parent / "new") == {}


def test_an_object_that_is_lost_is_a_clear_error(project):
    blob = git(project, "rev-parse", "HEAD:./suites/ü b.py")
    (project.parent / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UserError, match="missing") as caught:
        files(project)
    assert caught.value.slug == "no-git"


def test_no_repository_is_a_clear_error(tmp_path):
    with pytest.raises(UserError) as caught, vcs.files_at_commit(Path(tmp_path), "HEAD", every, every):
        pass
    assert caught.value.slug == "no-git"
