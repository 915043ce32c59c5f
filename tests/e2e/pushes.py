"""A project with accepted results and an empty remote, and real pushes to it."""

import shlex
import shutil
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, change, environ, git, precreg, repository
from tests.e2e.fork_server import write_python

SUITE = """\
suite: twice
subject: k:twice
reference: k:exact
inputs:
  x: {shape: [64, 16], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-2}
"""
KERNEL = "def twice(x):\n    return x * 2\n\n\ndef exact(x):\n    return x + x\n"
GOOD, WORSE = "return x * 2", "return (x.astype('float16') * 2).astype(x.dtype)"
OTHER = SUITE.replace("twice", "other").replace("k:other", "k2:twice").replace("k:exact", "k2:exact")
MAIN = "refs/heads/main"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository of two suites whose results are accepted, committed, and not pushed yet."""
    folder = tmp_path_factory.mktemp("accepted")
    unit = folder / "suites" / "unit"
    unit.mkdir(parents=True)
    for name, suite, module in (("twice", SUITE, "k"), ("other", OTHER, "k2")):
        (unit / f"{name}.yaml").write_text(suite)
        (unit / f"{module}.py").write_text(KERNEL)
    (folder / "README.md").write_text("A project.\n")
    repository(folder)
    accept(folder)
    return folder


def accept(project):
    precreg(project, "run", "--jobs", "0")
    done = precreg(project, "baseline", "accept", "--all", "--reason", "first")
    assert done.returncode == 0, done.stderr
    commit(project, "accepted")


@pytest.fixture
def project(accepted, tmp_path):
    """The repository under a name that no shell script should see unquoted, and an empty remote, `origin`."""
    place = tmp_path / 'präzise $HOME\'s "Ordner"'
    shutil.copytree(accepted, place, ignore=shutil.ignore_patterns("reports", ".precreg", "__pycache__"))
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(place, "remote", "add", "origin", str(tmp_path / "remote.git"))
    return place


@pytest.fixture
def guarded(project):
    """The repository with the hook installed, after its first push."""
    git(project, "push", "-q", "-u", "origin", "main")
    installed(project)
    return project


@pytest.fixture
def guarded_by_fork(guarded):
    """The guarded repository, whose hook runs in a fork: its pushes take a fifth of the time."""
    return with_hook_in_fork(guarded)


def with_hook_in_fork(project):
    """Exchange the Python of an installed hook for forks of a process that has precreg loaded; return the project.

    Tests of the hook's own Python, and of signals, which a fork does not get from its terminal, leave it as it is.
    """
    python = project.parent / "python"
    write_python(python, PATIENCE_S)
    change(project / ".git" / "hooks" / "pre-push", shlex.quote(sys.executable), shlex.quote(str(python)))
    return project


def installed(project, *arguments):
    done = precreg(project, "hook", "install", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernel(project, name="k"):
    return project / "suites" / "unit" / f"{name}.py"


def worsen(project, message="a wider loss", name="k"):
    change(kernel(project, name), GOOD, WORSE)
    return commit(project, message)


def commit(project, message):
    git(project, "add", "-A")
    git(project, "commit", "-q", "--allow-empty", "-m", message)
    return git(project, "rev-parse", "HEAD")


def push(project, *arguments, **variables):
    """Run `git push ARGUMENTS` and return (whether it came through, all that was printed)."""
    done = subprocess.run(
        ["git", "push", *(arguments or ("origin", "main"))],
        cwd=project,
        env=environ(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode == 0, done.stdout + done.stderr


def at_remote(project, ref=MAIN):
    return git(project, "ls-remote", "origin", ref).partition("\t")[0]
