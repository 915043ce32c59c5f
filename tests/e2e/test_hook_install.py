"""The hook in real repositories: where it goes, whom it calls, and that nobody's hook gets lost."""

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tests.e2e.command import change, environ, git, precreg, repository
from tests.e2e.pushes import (
    GOOD,
    MAIN,
    WORSE,
    accepted,
    at_remote,
    commit,
    guarded,
    installed,
    kernel,
    project,
    push,
    worsen,
)

__all__ = ["accepted", "guarded", "project"]


def test_without_a_remote_the_hook_is_installed_and_git_has_the_word(project):
    git(project, "remote", "remove", "origin")
    assert "installed in .git/hooks/pre-push" in installed(project)
    passed, said = push(project, "origin", "main")
    assert not passed
    assert "precreg" not in said.replace(str(project), "")


def test_a_hook_of_somebody_else_is_kept(project):
    hook = project / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\n# theirs\n")
    done = precreg(project, "hook", "install")
    assert done.returncode == 2
    assert "error[hook-exists]" in done.stderr
    assert hook.read_text() == "#!/bin/sh\n# theirs\n"


def test_a_chained_hook_is_asked_first_with_all_that_git_says(guarded, tmp_path):
    assert "uninstalled" in precreg(guarded, "hook", "uninstall").stdout
    hook = guarded / ".git/hooks/pre-push"
    theirs = f'#!/bin/sh\necho "$1" > "{tmp_path}/heard"\ncat >> "{tmp_path}/heard"\ntest ! -e "{tmp_path}/no"\n'
    hook.write_text(theirs)
    hook.chmod(0o755)
    installed(guarded, "--chain")
    worse = worsen(guarded)
    passed, said = push(guarded)
    assert not passed
    assert "regressed" in said
    name, line = (tmp_path / "heard").read_text().splitlines()
    assert name == "origin"
    assert line.split() == [MAIN, worse, MAIN, at_remote(guarded)]
    (tmp_path / "no").touch()
    passed, said = push(guarded)
    assert not passed
    assert "precreg" not in said
    assert precreg(guarded, "hook", "uninstall").returncode == 0
    assert hook.read_text() == theirs
    assert os.access(hook, os.X_OK)
    assert not (guarded / ".git/hooks/pre-push.before-precreg").exists()


def test_a_second_hook_is_not_chained_over_the_first(project):
    hooks = project / ".git/hooks"
    (hooks / "pre-push.before-precreg").write_text("first")
    (hooks / "pre-push").write_text("second")
    done = precreg(project, "hook", "install", "--chain")
    assert done.returncode == 2
    assert "error[hook-exists]" in done.stderr
    assert [(hooks / name).read_text() for name in ("pre-push.before-precreg", "pre-push")] == ["first", "second"]


def test_installing_again_changes_nothing_and_updates_an_older_hook(project):
    installed(project)
    hook = project / ".git/hooks/pre-push"
    now = hook.read_text()
    installed(project)
    assert hook.read_text() == now
    hook.write_text(now.replace("version 1.", "version 0.").replace(sys.executable, "/gone/python"))
    installed(project)
    assert hook.read_text() == now


def test_uninstalling_what_is_not_installed(project):
    hook = project / ".git/hooks/pre-push"
    assert "nothing to uninstall" in precreg(project, "hook", "uninstall").stdout
    hook.write_text("theirs")
    done = precreg(project, "hook", "uninstall")
    assert (done.returncode, hook.read_text()) == (0, "theirs")


@pytest.fixture
def other_python(tmp_path):
    """A virtual environment of its own, with all that this one has, at a path that needs quotes."""
    place = tmp_path / "it's a $venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (site_packages,) = place.glob("lib/*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site_packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return place / "bin" / "python"


def test_a_hook_whose_python_is_gone_stops_the_push_and_says_why(guarded, other_python):
    subprocess.run([other_python, "-m", "precreg", "hook", "install"], cwd=guarded, env=environ(), check=True)
    worsen(guarded)
    passed, said = push(guarded)
    assert not passed
    assert "regressed" in said
    assert "not where it was" not in said
    shutil.rmtree(other_python.parents[1])
    before = at_remote(guarded)
    passed, said = push(guarded)
    assert not passed
    assert "precreg: the push is stopped, because it cannot be checked" in said
    assert f"expected: {other_python} -m precreg" in said
    assert at_remote(guarded) == before
    installed(guarded)
    change(kernel(guarded), WORSE, GOOD)
    commit(guarded, "mended")
    passed, said = push(guarded)
    assert passed, said


def test_a_package_that_is_installed_from_src(guarded, other_python):
    (site_packages,) = other_python.parents[1].glob("lib/*/site-packages")
    (site_packages / "editable.pth").write_text(f"{guarded / 'src'}\n")
    package = guarded / "src" / "ours"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from ours.core import exact, twice\n")
    shutil.move(kernel(guarded), package / "core.py")
    kernel(guarded).write_text("from ours import exact, twice\n")
    commit(guarded, "moved to src")
    subprocess.run([other_python, "-m", "precreg", "hook", "install"], cwd=guarded, env=environ(), check=True)
    passed, said = push(guarded)
    assert passed, said
    change(package / "core.py", GOOD, WORSE)
    commit(guarded, "a wider loss")
    passed, said = push(guarded)
    assert not passed
    assert "1 of 2 cases" in said
    change(package / "core.py", WORSE, GOOD)
    passed, said = push(guarded)
    assert not passed, "the working tree hides what is pushed"
    assert "in a temporary checkout, because the working tree differs in src/ours/core.py\n" in said
    assert "FAILED   unit/twice/default   regressed" in said
    commit(guarded, "mended")
    change(package / "core.py", GOOD, WORSE)
    passed, said = push(guarded)
    assert passed, said


def test_no_repository_is_a_clear_error(tmp_path):
    (tmp_path / "suites").mkdir()
    for arguments in (["install"], ["uninstall"], ["run", "origin", "url"]):
        done = precreg(tmp_path, "hook", *arguments, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
        assert done.returncode == 2
        assert "error[no-git]" in done.stderr


def test_core_hookspath_is_honoured(project):
    git(project, "config", "core.hooksPath", ".hooks of ours")
    said = installed(project)
    assert ".hooks of ours/pre-push" in said
    assert "do not commit" in said
    worsen(project)
    git(project, "reset", "-q", "HEAD")
    passed, said = push(project)
    assert not passed
    assert "regressed" in said


def test_the_top_of_the_working_tree_may_be_the_folder_of_hooks(project):
    git(project, "config", "core.hooksPath", ".")
    said = installed(project)
    assert "installed in ./pre-push" in said
    assert "do not commit" in said


def test_a_linked_worktree_shares_the_hook(guarded, tmp_path):
    linked = tmp_path / "linked tree"
    git(guarded, "worktree", "add", "-q", "-b", "work", str(linked))
    worsen(linked)
    passed, said = push(linked, "origin", "work")
    assert not passed
    assert "FAILED" in said
    assert "temporary checkout" not in said
    installed(linked)
    assert (guarded / ".git/hooks/pre-push").read_text().count("\ncheck ") == 1


def test_a_submodule_has_a_hook_of_its_own(project, tmp_path):
    git(project, "push", "-q", "origin", "main")
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "x").touch()
    repository(whole)
    allowed = ("-c", "protocol.file.allow=always")
    git(whole, *allowed, "submodule", "add", "-q", str(tmp_path / "remote.git"), "part")
    part = whole / "part"
    git(part, "config", "user.name", "Ada")
    git(part, "config", "user.email", "ada@example.org")
    installed(part)
    assert (whole / ".git/modules/part/hooks/pre-push").exists()
    worsen(part)
    passed, said = push(part)
    assert not passed
    assert "regressed" in said


def test_two_projects_of_one_repository(accepted, tmp_path):
    for name in ("first project", "second"):
        for part in ("suites", "baselines"):
            shutil.copytree(accepted / part, tmp_path / "mono" / name / part, dirs_exist_ok=True)
    mono = repository(tmp_path / "mono")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(mono, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(mono, "push", "-q", "origin", "main")
    for name in ("first project", "second"):
        installed(mono / name)
    worsen(mono / "second")
    passed, said = push(mono)
    assert not passed
    assert "no case depends on the pushed files" in said
    assert "1 of 2 cases" in said
    assert (mono / "second/reports").exists()
    assert not (mono / "first project/reports").exists()
    assert precreg(mono / "second", "hook", "uninstall").returncode == 0
    passed, said = push(mono)
    assert passed, said
    assert "no case depends on the pushed files" in said
    assert precreg(mono / "first project", "hook", "uninstall").returncode == 0
    assert not (mono / ".git/hooks/pre-push").exists()


def test_a_package_at_the_top_does_not_stand_in_for_an_installed_one(guarded):
    (guarded / "click.py").write_text("raise SystemExit('the wrong click')\n")
    (guarded / "precreg.py").write_text("raise SystemExit('the wrong precreg')\n")
    commit(guarded, "names")
    passed, said = push(guarded)
    assert passed, said
    assert "wrong" not in said
