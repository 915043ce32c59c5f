import os
import signal
import subprocess
import sys
import tempfile

import pytest

from precreg import vcs
from precreg.errors import UserError
from tests.e2e.command import ROOT, git, repository


@pytest.fixture
def repo(tmp_path):
    place = tmp_path / "my project"
    place.mkdir()
    (place / "a").write_text("committed")
    repository(place)
    (place / "a").write_text("changed")
    return place


def worktrees(repo):
    return len(git(repo, "worktree", "list").splitlines())


def test_the_files_of_the_commit_are_there_and_gone_afterwards(repo):
    with vcs.checkout_commit(repo, "HEAD") as tree:
        assert tree.name == "my project"
        assert (tree / "a").read_text() == "committed"
        (tree / "written").write_text("by a run")
    assert not tree.parent.exists()
    assert worktrees(repo) == 1
    assert (repo / "a").read_text() == "changed"


def test_it_is_gone_after_an_error_too(repo):
    with pytest.raises(KeyboardInterrupt), vcs.checkout_commit(repo, "HEAD") as tree:
        raise KeyboardInterrupt
    assert not tree.parent.exists()
    assert worktrees(repo) == 1


def test_hooks_of_the_repository_do_not_run(repo, tmp_path):
    hook = repo / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    with vcs.checkout_commit(repo, "HEAD"):
        assert not (tmp_path / "ran").exists()


def test_what_cannot_be_checked_out_is_a_clear_error(repo, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UserError) as caught, vcs.checkout_commit(repo, "1" * 40):
        pass
    assert caught.value.slug == "no-checkout"
    assert not list(tmp_path.glob("precreg-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_removes_it(repo, number):
    code = "import sys, time; from pathlib import Path; from precreg import vcs\n"
    code += "with vcs.checkout_commit(Path(sys.argv[1]), 'HEAD') as tree:\n"
    code += "    print(tree, flush=True)\n    time.sleep(60)\n"
    with subprocess.Popen([sys.executable, "-c", code, repo], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        tree = process.stdout.readline().strip()
        assert worktrees(repo) == 2
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert not os.path.exists(tree)
    assert worktrees(repo) == 1


def test_variables_of_the_hook_are_forgotten_and_no_others(monkeypatch):
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'safe.directory=*'")
    vcs.unset_hook_variables()
    assert "GIT_DIR" not in os.environ
    assert "GIT_INDEX_FILE" not in os.environ
    assert "GIT_CONFIG_PARAMETERS" in os.environ
