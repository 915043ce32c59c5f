"""A commit in a folder of its own, for as long as it is looked at."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precreg.errors import UserError
from precreg.vcs.command import git

_ENDING = (signal.SIGTERM, signal.SIGHUP)


_OF_ONE_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_IMPLICIT_WORK_TREE"),
)


def leave_the_hook() -> None:
    """Forget the variables by which git names the hook's repository: they would bend every call to it."""
    for name in _OF_ONE_REPOSITORY:
        os.environ.pop(name, None)


@contextmanager
def checkout(root: Path, commit: str) -> Iterator[Path]:
    """Give a folder that has the files of a commit; it is called like the working tree, and removed in the end.

    Raises:
        UserError: no-checkout, in git's words.
    """
    from tempfile import TemporaryDirectory

    with _orderly_end(), TemporaryDirectory(prefix="precreg-") as temporary:
        place = Path(temporary, root.name or "root")
        without_hooks = ("-c", f"core.hooksPath={os.devnull}")
        try:
            made = git(root, *without_hooks, "worktree", "add", "--quiet", "--detach", str(place), commit)
            if made.returncode != 0:
                raise UserError("no-checkout", f"expected git to check out {commit[:8]}, but: {made.stderr.strip()}")
            yield place
        finally:
            git(root, "worktree", "remove", "--force", "--force", str(place))


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Let the signals that end a process unwind it first."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
