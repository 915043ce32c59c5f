"""Where the project stands, and what changed since.

Which commit a run is held against. Apart from what reads it, so that a run without one imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from precreg.environment import merge_request_base
from precreg.vcs.command import commit_of, require_readable, run_git
from precreg.vcs.commit import resolve_revision

if TYPE_CHECKING:
    from git import Repo

    from precreg.types import GitState


def git_state(project: Path) -> GitState | None:
    """Return the commit, branch, author and dirtiness of the project's repository; None without one or a commit.

    Raises:
        UserError: no-git, where there is a repository that git refuses to read, because another user owns it.
    """
    repository = _repository(project)
    if repository is None:
        return None
    if not repository.head.is_valid():
        require_readable(project)
        return None
    from precreg.types import GitState

    branch = "" if repository.head.is_detached else repository.active_branch.name
    dirty = repository.is_dirty(untracked_files=True)
    return GitState(repository.head.commit.hexsha, branch, dirty, git_author(project))


def project_folder(project: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path from the repository's root to a project, with POSIX slashes; empty if it is the root, or without.

    GitLab names the root in CI_PROJECT_DIR. Elsewhere it is the nearest folder with `.git`, and git is not asked: it
    refuses a repository that another user owns, as in a container.
    """
    here = Path(realpath(project))
    named = [Path(realpath(environ["CI_PROJECT_DIR"]))] if environ.get("CI_PROJECT_DIR") else []
    nearest = [above for above in (here, *here.parents) if (above / ".git").exists()][:1]
    root = next((root for root in named + nearest if here.is_relative_to(root)), here)
    return "" if root == here else here.relative_to(root).as_posix()


def git_author(project: Path) -> str:
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
    return changed_files_since_commit(project, commit_of(project, since))


def changed_files_since_commit(project: Path, commit: str) -> set[str]:
    """Return what `changed_files` does, of the id of a commit that is known to be there."""
    changed = run_git(project, "diff", "--name-only", "-z", "--no-renames", "--relative", commit, "--").stdout
    untracked = run_git(project, "ls-files", "--others", "--exclude-standard", "-z").stdout
    return {*changed.split("\0"), *untracked.split("\0")} - {""}


def _repository(project: Path) -> Repo | None:
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo
    except ImportError:  # GitPython raises this where the command git is not installed
        return None
    try:
        return Repo(project, search_parent_directories=True, expand_vars=False)
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None


BASE_AUTO, BASE_OFF = "auto", "off"


def base_commit(project: Path, asked: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the commit to hold a run against, or None.

    `asked` is a revision, which is taken as it is; `REVISION...`, for its merge base with HEAD; `auto`, for the base of
    the merge request whose job this is, none elsewhere; or `off`. Raises UserError: no-git, unknown-revision,
    no-merge-base.
    """
    if asked == BASE_OFF:
        return None
    revision = merge_request_base(project, environ) if asked == BASE_AUTO else asked
    return None if revision is None else resolve_revision(project, revision)
