"""Which other version of the code does a run compare with, and where is it checked out?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError
from precreg.subject import TreePair
from precreg.vcs import (
    NamedCommit,
    checkout_commit,
    commit_has_path,
    named_commit,
    unset_hook_variables,
    worktree_root,
)


class OtherVersion(NamedTuple):
    """The version that judges: the revision as requested, its commit, and the project's folder in its checkout."""

    revision: str
    commit: str
    project: Path
    trees: TreePair


def other_commit(project: Path, revision: str) -> NamedCommit:
    """Return the commit for the revision. Raises UserError: bad-pair, and the errors of `named_commit`."""
    unset_hook_variables()
    named, root = named_commit(project, revision), worktree_root(project)
    suites = (_folder_in(root, project) / "suites").as_posix()
    if not commit_has_path(root, named.commit, suites):
        message = f"expected a commit with {suites}/ but got pair={revision}: {named.commit[:8]} has none"
        raise UserError("bad-pair", message)
    return named


@contextmanager
def checked_out_version(project: Path, revision: str, commit: str) -> Iterator[OtherVersion]:
    """Check the commit out into a temporary folder, and remove it at the end. Raises UserError (no-checkout)."""
    root = worktree_root(project)
    with checkout_commit(root, commit) as tree:
        own, other = Path(realpath(root)), Path(realpath(tree))
        yield OtherVersion(revision, commit, other / _folder_in(root, project), TreePair(own, other))


def _folder_in(root: Path, project: Path) -> Path:
    return Path(realpath(project)).relative_to(realpath(root))
