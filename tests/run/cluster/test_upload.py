"""A worker gets the files of the project as they are now, and no archive writes outside its own folder."""

import hashlib
import io
import os
import subprocess
import tarfile
import zlib

import pytest

from precreg.errors import UserError
from precreg.run.cluster import upload
from precreg.run.cluster.upload import pack_tree, unpack_tree


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "suites").mkdir(parents=True)
    (folder / "suites" / "kernels.py").write_text("OLD = 1\n")
    (folder / ".gitignore").write_text("*.log\n*.so\n.venv/\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def files(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


def test_edits_and_untracked_files_travel_and_ignored_files_do_not(project, tmp_path):
    (project / "suites" / "kernels.py").write_text("NEW = 1\n")
    (project / "suites" / "more.yaml").write_text("")
    (project / "a.log").write_text("noise")
    (project / "core.so").write_bytes(b"built in place")
    tree = pack_tree(project, project)
    root = unpack_tree(tree.content, tree.digest, tmp_path)
    assert files(root) == [".gitignore", "core.so", "suites/kernels.py", "suites/more.yaml"]
    assert (root / "suites" / "kernels.py").read_text() == "NEW = 1\n"


def test_a_deleted_file_does_not_travel(project, tmp_path):
    (project / "suites" / "kernels.py").unlink()
    tree = pack_tree(project, project)
    assert files(unpack_tree(tree.content, tree.digest, tmp_path)) == [".gitignore"]


def test_the_digest_is_that_of_the_content(project):
    before = pack_tree(project, project).digest
    os.utime(project / "suites" / "kernels.py", (1, 1))
    assert pack_tree(project, project).digest == before
    (project / "suites" / "kernels.py").write_text("OLD = 2\n")
    assert pack_tree(project, project).digest != before


def test_outside_git_all_files_travel_that_are_not_hidden(tmp_path):
    folder = tmp_path / "plain"
    (folder / "suites").mkdir(parents=True)
    (folder / "suites" / "a.yaml").write_text("")
    (folder / "data.txt").write_text("")
    (folder / ".secret").write_text("")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "big").write_text("")
    tree = pack_tree(folder, folder)
    assert files(unpack_tree(tree.content, tree.digest, tmp_path)) == ["data.txt", "suites/a.yaml"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside"])
def test_a_link_out_of_the_project_is_refused_by_name(project, target):
    (project / "suites" / "link").symlink_to(target)
    with pytest.raises(UserError, match=f"suites/link leads to {target}") as caught:
        pack_tree(project, project)
    assert caught.value.slug == "bad-upload"


def test_a_link_inside_travels_as_a_link(project, tmp_path):
    (project / "suites" / "link.py").symlink_to("kernels.py")
    tree = pack_tree(project, project)
    link = unpack_tree(tree.content, tree.digest, tmp_path) / "suites" / "link.py"
    assert (link.is_symlink(), link.read_text()) == (True, "OLD = 1\n")


def test_a_project_that_is_too_large_is_refused(project, monkeypatch):
    monkeypatch.setattr(upload, "MAX_UPLOAD_BYTES", 2**20)
    (project / "data.bin").write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(UserError, match="at most 1 MiB"):
        pack_tree(project, project)


def archive(name, **member):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        info = tarfile.TarInfo(name)
        for key, value in member.items():
            setattr(info, key, value)
        made.addfile(info, io.BytesIO())
    packed = stream.getvalue()
    return zlib.compress(packed), hashlib.sha256(packed).hexdigest()[:32]


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("../evil", {}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "../../evil"}),
        ("device", {"type": tarfile.CHRTYPE}),
    ],
)
def test_an_archive_cannot_leave_its_folder(tmp_path, name, member):
    content, digest = archive(name, **member)
    inner = tmp_path / "scratch"
    with pytest.raises(tarfile.FilterError):
        unpack_tree(content, digest, inner)
    assert not (tmp_path / "evil").exists()
    assert not (inner / f"precreg-{digest}").exists(), "a refused tree is never taken for a complete one"


def test_an_archive_of_another_digest_is_refused(project, tmp_path):
    tree = pack_tree(project, project)
    with pytest.raises(ValueError, match="digest"):
        unpack_tree(tree.content, "0" * 32, tmp_path)


def test_a_tree_that_is_there_is_not_unpacked_again(project, tmp_path):
    tree = pack_tree(project, project)
    root = unpack_tree(tree.content, tree.digest, tmp_path)
    (root / "suites" / "mark").write_text("")
    assert unpack_tree(b"", tree.digest, tmp_path) == root
    assert (root / "suites" / "mark").exists()
