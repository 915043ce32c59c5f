"""Temporary files and folders of killed processes are removed, and those of no other process."""

import os
import subprocess
import sys
import tempfile

import pytest

from precreg.storage.files import abandoned_folders, is_own_path, lock_file, remove_abandoned_files, temporary_folder
from precreg.vcs.repository import remove_abandoned_checkouts
from tests.e2e.command import git, repository

KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from precreg.storage.files import open_replacement
with open_replacement(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED_OWNER = """
import os, signal, sys
from precreg.storage.files import temporary_folder
with temporary_folder() as folder:
    (folder / "inner").mkdir()
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_killed(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    return done.stdout.strip()


def dead_pid():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Give the folder of temporary files of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_file_of_a_killed_writer_is_removed(tmp_path):
    (tmp_path / "record.json").write_text("old")
    run_killed(KILLED_WRITER, str(tmp_path / "record.json"))
    assert len(list(tmp_path.iterdir())) == 2
    remove_abandoned_files(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("record.json", "old")]


def test_files_of_others_stay(tmp_path):
    dead = dead_pid()
    kept = {
        f".record.json.{os.getpid()}.tmp",
        f".record.json.{os.getppid()}.tmp",
        ".record.json.tmp",
        f"record.json.{dead}.tmp",
        f".record.json.{dead}.txt",
        f".record.json.{10**12}.tmp",
        f".locked.{dead}.tmp",
    }
    for name in kept:
        (tmp_path / name).touch()
    (tmp_path / f".folder.{dead}.tmp").mkdir()
    (tmp_path / f".link.{dead}.tmp").symlink_to(tmp_path / f".record.json.{os.getpid()}.tmp")
    os.mkfifo(tmp_path / f".pipe.{dead}.tmp")
    (tmp_path / f".gone.{dead}.tmp").touch()
    with (tmp_path / f".locked.{dead}.tmp").open("ab") as stream:
        assert lock_file(stream)
        remove_abandoned_files(tmp_path)
    found = {path.name for path in tmp_path.iterdir()}
    assert found == kept | {f".folder.{dead}.tmp", f".link.{dead}.tmp", f".pipe.{dead}.tmp"}


def test_a_folder_that_is_missing_has_nothing(tmp_path):
    remove_abandoned_files(tmp_path / "missing")


def test_the_folder_of_a_killed_process_is_found(temporary):
    folder = run_killed(KILLED_OWNER)
    assert [str(found) for found in abandoned_folders()] == [folder]


def test_folders_of_others_stay(temporary):
    dead = dead_pid()
    for name in ("precreg-", f"precreg-{os.getppid()}-x", f"other-{dead}-x", f"precreg-{dead}"):
        (temporary / name).mkdir()
    (temporary / f"precreg-{dead}-link").symlink_to(temporary / "precreg-")
    with temporary_folder() as own:
        assert own.parent == temporary
        os.rename(own, temporary / f"precreg-{dead}-locked")
        assert abandoned_folders() == []
        os.rename(temporary / f"precreg-{dead}-locked", own)


def test_a_checkout_of_a_killed_run_leaves_gits_list(temporary, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "file").touch()
    project = repository(tmp_path / "project")
    folder = temporary / f"precreg-{dead_pid()}-x"
    folder.mkdir()
    git(project, "worktree", "add", "--quiet", "--detach", str(folder / "project"), "HEAD")
    git(project, "worktree", "add", "--quiet", "--detach", str(tmp_path / "users"), "HEAD")
    remove_abandoned_checkouts()
    assert not folder.exists()
    assert git(project, "worktree", "list").count("\n") == 1
    assert (tmp_path / "users" / "file").exists()


def test_own_paths_are_those_of_the_working_folder_and_of_temporary_folders(temporary):
    with temporary_folder() as folder:
        assert is_own_path(f"{folder.relative_to(temporary.parent)}/call/output/y.bin")
    assert is_own_path(".precreg/builds/abc/kernel")
    assert not is_own_path("suites/unit/precreg-kernel.c")
