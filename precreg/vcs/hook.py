"""Putting the hook into a repository's folder of hooks, and taking it out again; nobody else's hook is lost."""

from __future__ import annotations

import os
from pathlib import Path

from precreg.errors import UserError
from precreg.storage.writing import replace_file, writing
from precreg.vcs.script import CHAINED, Check, is_ours, parse, render

NAME = "pre-push"

_PRE_COMMIT = "pre-commit.com"


def install(hooks: Path, check: Check, *, chain: bool) -> None:
    """Write the hook, or bring our own up to date; a folder that it checks already gets the new Python.

    `chain` keeps somebody else's hook beside ours, to be called first with the same input and arguments.

    Raises:
        UserError: hook-exists where somebody else's hook is there and may not be chained; not-writable.
    """
    path = hooks / NAME
    with writing(str(path)):
        checks = checks_of(path)
        if checks is None and os.path.lexists(path):
            _make_way(path, chain)
        others = [other for other in checks or [] if other.folder != check.folder]
        hooks.mkdir(parents=True, exist_ok=True)
        _write(path, [*others, check])


def uninstall(hooks: Path, folder: str) -> bool:
    """Take one project out of the hook, and with the last one the hook; a chained hook gets its name back.

    Return whether the project was checked. Raises UserError (not-writable).
    """
    path = hooks / NAME
    with writing(str(path)):
        checks = checks_of(path) or []
        kept = [check for check in checks if check.folder != folder]
        if len(kept) == len(checks):
            return False
        if kept:
            _write(path, kept)
        elif os.path.lexists(hooks / CHAINED):
            os.replace(hooks / CHAINED, path)
        else:
            path.unlink()
    return True


def checks_of(path: Path) -> list[Check] | None:
    """Return the projects that a hook checks; None where there is none, or it is not as we made it. Raises OSError."""
    try:
        text = os.fsdecode(path.read_bytes())
        return parse(text) if is_ours(text) else None
    except (FileNotFoundError, ValueError):
        return None


def _make_way(path: Path, chain: bool) -> None:
    if not chain:
        raise UserError("hook-exists", f"expected no hook, or one of precreg's, but {path} is {_somebodys(path)}")
    kept = path.with_name(CHAINED)
    if os.path.lexists(kept):
        raise UserError("hook-exists", f"expected a free name for the hook that is there, but {kept} exists")
    os.rename(path, kept)


def _somebodys(path: Path) -> str:
    is_pre_commits = path.is_file() and _PRE_COMMIT in os.fsdecode(path.read_bytes())
    return "pre-commit's, which takes the check as a hook of its own" if is_pre_commits else "another one"


def _write(path: Path, checks: list[Check]) -> None:
    replace_file(path, os.fsencode(render(checks)))
    path.chmod(0o755)
