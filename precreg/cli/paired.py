"""`precreg run --pair REVISION`: the other version in a checkout of its own, for as long as both are run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path

from precreg import vcs
from precreg.cli.options import RunOptions
from precreg.errors import UserError
from precreg.run.run import IN_PROCESS
from precreg.run.versions import Effort, OtherVersion
from precreg.subject.other_tree import Trees

MOST_SEEDS, MOST_SECONDS = 32, 2.0


def require_pairable(options: RunOptions) -> None:
    """Refuse what a paired run cannot do, and what only a paired run does. Raises UserError (bad-pair)."""
    if options.pair is None:
        if options.max_seeds is not None or options.pair_seconds is not None:
            alone = "--max-seeds" if options.max_seeds is not None else "--pair-seconds"
            raise UserError("bad-pair", f"expected --pair REVISION, which draws more seeds, beside {alone}")
        return
    if options.jobs == IN_PROCESS:
        raise UserError("bad-pair", "expected worker processes, of each version its own, but got --jobs 0")
    if options.resume:
        raise UserError("bad-pair", "expected to run both versions side by side but got --resume: one ran before")


def effort_of(options: RunOptions) -> Effort:
    """Return how many seeds a paired run draws, and for how long."""
    return Effort(
        MOST_SEEDS if options.max_seeds is None else options.max_seeds,
        MOST_SECONDS if options.pair_seconds is None else options.pair_seconds,
    )


def other_commit(project: Path, revision: str) -> str:
    """Return the commit that the revision names, which has the project.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base; bad-pair.
    """
    vcs.leave_the_hook()
    commit, root = vcs.named_commit(project, revision), vcs.top(project)
    suites = (_folder(project, root) / "suites").as_posix()
    if not vcs.has(root, commit, suites):
        raise UserError("bad-pair", f"expected a commit with {suites}/ but got pair={revision}: {commit[:8]} has none")
    return commit


@contextmanager
def other_version(project: Path, revision: str, commit: str) -> Iterator[OtherVersion]:
    """Check the commit out into a temporary folder, which is removed in the end. Raises UserError (no-checkout)."""
    root = vcs.top(project)
    with vcs.checkout(root, commit) as tree:
        own, other = Path(realpath(root)), Path(realpath(tree))
        yield OtherVersion(revision, commit, other / _folder(project, root), Trees(own, other))


def _folder(project: Path, root: Path) -> Path:
    return Path(realpath(project)).relative_to(realpath(root))
