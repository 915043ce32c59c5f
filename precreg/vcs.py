"""The only module that knows git: where the project stands, and what changed since."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from precreg.errors import UserError

if TYPE_CHECKING:
    from git import Repo

    from precreg.records import GitState


def state(project: Path) -> GitState | None:
    """Return the commit, branch, author and dirtiness of the project's repository; None without one or a commit.

    Raises:
        UserError: no-git, where there is a repository that git refuses to read, because another user owns it.
    """
    repository = _repository(project)
    if repository is None:
        return None
    if not repository.head.is_valid():
        _require_readable(project)
        return None
    from precreg.records import GitState

    branch = "" if repository.head.is_detached else repository.active_branch.name
    dirty = repository.is_dirty(untracked_files=True)
    return GitState(repository.head.commit.hexsha, branch, dirty, author(project))


def author(project: Path) -> str:
    """Return `Name <mail>` of whoever works here, as git would write it into a commit; empty without a repository."""
    repository = _repository(project)
    if repository is None:
        return ""
    from git import Actor

    actor = Actor.author(repository.config_reader())
    return f"{actor.name} <{actor.email}>"


def changed_files(project: Path, since: str) -> set[str]:
    """Return the files below the project that differ from a revision, uncommitted and untracked ones included.

    Paths are relative to the project, with POSIX slashes. Calls git itself, where the rest of this module uses
    GitPython: a check before a push that finds nothing changed must not wait for that import.

    Raises:
        UserError: no-git, or unknown-revision.
    """
    base = _commit(project, since)
    changed = _git(project, "diff", "--name-only", "-z", "--no-renames", "--relative", base, "--").stdout
    untracked = _git(project, "ls-files", "--others", "--exclude-standard", "-z").stdout
    return {*changed.split("\0"), *untracked.split("\0")} - {""}


def _commit(project: Path, revision: str) -> str:
    found = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found.returncode == 0:
        return found.stdout.strip()
    shallow = _require_readable(project) == "true"
    hint = "; this clone is shallow, and the commit may be beyond its edge" if shallow else ""
    raise UserError("unknown-revision", f"expected a commit but got revision={revision!r}{hint}")


def _require_readable(project: Path) -> str:
    """Return "true" of a shallow clone. Raises UserError (no-git) in git's words where it can read no repository."""
    asked = _git(project, "rev-parse", "--is-shallow-repository")
    if asked.returncode != 0:
        raise UserError("no-git", f"expected a git repository at {project}, but git says: {asked.stderr.strip()}")
    return asked.stdout.strip()


def _git(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(project), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    except FileNotFoundError as problem:
        raise UserError("no-git", "expected the command git to be installed, and it is not") from problem


def _repository(project: Path) -> Repo | None:
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo
    except ImportError:  # GitPython raises this where the command git is not installed
        return None
    try:
        return Repo(project, search_parent_directories=True)
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None
