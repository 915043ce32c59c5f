"""What is pushed, as git tells a pre-push hook on standard input, or pre-commit in the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from precreg.errors import UserError

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

TAGS = "refs/tags/"


class Push(NamedTuple):
    """One ref: what is pushed (a revision, empty for a deletion), where to, and what is there now (empty for none)."""

    revision: str
    target: str
    before: str


class Tip(NamedTuple):
    """One commit that is pushed, the refs that will name it, and what each of them names at the remote until now."""

    commit: str
    targets: tuple[str, ...]
    before: tuple[str, ...]

    @property
    def is_tag(self) -> bool:
        """Tell whether nothing but tags will name the commit."""
        return all(target.startswith(TAGS) for target in self.targets)


def from_git(text: str) -> list[Push]:
    """Read lines of `LOCAL_REF LOCAL_ID REMOTE_REF REMOTE_ID`, where an id of zeros stands for no ref.

    A local ref is what the user typed and may have spaces. Raises UserError (not-a-push) for any other line.
    """
    return [_from_line(line) for line in text.splitlines()]


def _from_line(line: str) -> Push:
    words = line.rsplit(maxsplit=3)
    if len(words) != 4 or not (_ID.fullmatch(words[1]) and _ID.fullmatch(words[3])):
        message = f"expected a line LOCAL_REF LOCAL_ID REMOTE_REF REMOTE_ID from git but got {line[:120]!r}"
        raise UserError("not-a-push", message)
    _, local, target, remote = words
    return Push(local.strip("0") and local, target, remote.strip("0") and remote)


def from_pre_commit(environ: Mapping[str, str]) -> list[Push]:
    """Read pre-commit's variables. Of several refs it names the first only, and none when all of it is new.

    Raises UserError (not-a-push) where pre-commit does not run.
    """
    if not environ.get("PRE_COMMIT"):
        raise UserError("not-a-push", "expected the name of a remote from git, or the variables of pre-commit")
    local = environ.get("PRE_COMMIT_TO_REF") or environ.get("PRE_COMMIT_LOCAL_BRANCH") or "HEAD"
    target = environ.get("PRE_COMMIT_REMOTE_BRANCH") or local
    return [Push(local, target, environ.get("PRE_COMMIT_FROM_REF", ""))]


def tips(pushes: Iterable[Push], commits: Mapping[str, str]) -> list[Tip]:
    """Return what is to be looked at, a commit once; `commits` has the commit of each revision that means one."""
    grouped: dict[str, list[Push]] = {}
    for push in pushes:
        if push.revision in commits:
            grouped.setdefault(commits[push.revision], []).append(push)
    return [
        Tip(commit, tuple(push.target for push in same), tuple(push.before for push in same))
        for commit, same in grouped.items()
    ]
