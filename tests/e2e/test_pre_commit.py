"""The check as a hook of pre-commit's, with the real pre-commit and the hooks that this repository offers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import PATIENCE_S, ROOT, change, environ, git, precreg, repository
from tests.e2e.fork_server import write_command
from tests.e2e.pushes import (
    GOOD,
    KERNEL,
    MAIN,
    WORSE,
    accepted,
    at_remote,
    commit,
    installed,
    kernel,
    project,
    push,
    with_hook_in_fork,
    worsen,
)
from tests.e2e.test_pre_push_page import FILES

__all__ = ["accepted", "project"]

LOCAL = FILES[".pre-commit-config.yaml"]


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """A repository that offers the hooks of this one, at a revision."""
    folder = tmp_path_factory.mktemp("precreg")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", folder)
    repository(folder)
    return f"repos:\n  - repo: {folder}\n    rev: {git(folder, 'rev-parse', 'HEAD')}\n    hooks:\n      - id: precreg\n"


@pytest.fixture
def home(tmp_path):
    """The variables that put our commands on the PATH, and pre-commit's cache aside. `precreg` runs in a fork."""
    (tmp_path / "bin").mkdir()
    write_command(tmp_path / "bin" / "precreg", "precreg", PATIENCE_S)
    commands = [str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {"PATH": os.pathsep.join(commands), "PRE_COMMIT_HOME": str(tmp_path / "cache")}


def configured(project, home, text):
    (project / ".pre-commit-config.yaml").write_text(text)
    commit(project, "with pre-commit")
    command = [sys.executable, "-m", "pre_commit", "install", "--hook-type", "pre-push"]
    subprocess.run(command, cwd=project, env=environ(**home), check=True, capture_output=True)


def test_a_push_is_stopped_from_the_first_one_on(project, home, offered):
    configured(project, home, offered)
    worsen(project)
    passed, said = push(project, **home)
    assert not passed
    assert "2 of 2 cases" in said, "pre-commit names no revisions where all is new"
    assert "FAILED   unit/twice/default   regressed" in said
    assert at_remote(project) == ""
    change(kernel(project), WORSE, GOOD)
    first = commit(project, "mended")
    passed, said = push(project, **home)
    assert passed, said
    assert at_remote(project) == first
    worsen(project)
    passed, said = push(project, **home)
    assert not passed
    assert "1 of 2 cases" in said
    assert at_remote(project) == first


def test_a_new_branch_is_compared_with_where_it_left(project, home):
    configured(project, home, LOCAL)
    assert push(project, **home)[0]
    git(project, "checkout", "-q", "-b", "work")
    kernel(project, "k2").write_text(KERNEL + "# harmless\n")
    commit(project, "harmless")
    worsen(project)
    passed, said = push(project, "origin", "work", **home)
    assert not passed
    assert "2 of 2 cases" in said
    change(kernel(project), WORSE, GOOD)
    commit(project, "mended")
    assert push(project, "origin", "work", **home)[0]
    assert at_remote(project, "refs/heads/work") == git(project, "rev-parse", "work")


def test_a_branch_that_is_not_checked_out(project, home):
    configured(project, home, LOCAL)
    assert push(project, **home)[0]
    git(project, "checkout", "-q", "-b", "work")
    worsen(project)
    git(project, "checkout", "-q", "main")
    passed, said = push(project, "origin", "work", **home)
    assert not passed
    assert "temporary checkout" in said
    passed, said = push(project, "origin", f"main:{MAIN}", **home)
    assert passed, said


def test_without_precreg_on_the_path_the_push_is_stopped(project, home):
    configured(project, home, LOCAL)
    git_alone = {**home, "PATH": f"{Path(shutil.which('git')).parent}{os.pathsep}/bin"}
    if shutil.which("precreg", path=git_alone["PATH"]):
        pytest.skip("precreg is installed beside git")
    passed, said = push(project, **git_alone)
    assert not passed
    assert "precreg" in said


def test_our_own_hook_beside_that_of_pre_commit(project, home):
    """pre-commit moves a hook that is there aside, and calls it."""
    installed(project)
    with_hook_in_fork(project)
    configured(project, home, "repos: []\n")
    worsen(project)
    passed, said = push(project, **home)
    assert not passed
    assert "regressed" in said
    done = precreg(project, "hook", "install")
    assert done.returncode == 2
    assert "is pre-commit's" in done.stderr
