"""Which other version of the code does a run compare with, and where is it checked out?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError
from precreg.subject import TreePair
from precreg.vcs import checkout_commit, commit_has_path, resolve_revision, unset_hook_variables, worktree_root


class OtherVersion(NamedTuple):
    """The version that judges: the revision as requested, its commit, and the project's folder in its checkout."""

    revision: str
    commit: str
    project: Path
    trees: TreePair


def other_commit(project: Path, revision: str) -> str:
    """Return the commit of the revision. Raises UserError: no-git, unknown-revision, no-merge-base; bad-pair."""
    unset_hook_variables()
    commit, root = resolve_revision(project, revision), worktree_root(project)
    suites = (_folder_in(root, project) / "suites").as_posix()
    if not commit_has_path(root, commit, suites):
        raise UserError("bad-pair", f"expected a commit with {suites}/ but got pair={revision}: {commit[:8]} has none")
    return commit


@contextmanager
def other_version(project: Path, revision: str, commit: str) -> Iterator[OtherVersion]:
    """Check the commit out into a temporary folder, and remove it at the end. Raises UserError (no-checkout)."""
    root = worktree_root(project)
    with checkout_commit(root, commit) as tree:
        own, other = Path(realpath(root)), Path(realpath(tree))
        yield OtherVersion(revision, commit, other / _folder_in(root, project), TreePair(own, other))


def _folder_in(root: Path, project: Path) -> Path:
    return Path(realpath(project)).relative_to(realpath(root))
