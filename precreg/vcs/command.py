"""Asking the command git. GitPython, which takes longer to import than numpy, is no part of this."""

from __future__ import annotations

import subprocess
from pathlib import Path

from precreg.errors import UserError


def run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder and return what came of it, whatever that is. Raises UserError (no-git) without git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    except FileNotFoundError as problem:
        raise UserError("no-git", "expected the command git to be installed, and it is not") from problem


def run_git_bytes(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Give git something on standard input, and return what it prints. Raises UserError (no-git), in git's words."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        asked = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError as problem:
        raise UserError("no-git", "expected the command git to be installed, and it is not") from problem
    if asked.returncode != 0:
        said = asked.stderr.decode(errors="replace").strip()
        raise UserError("no-git", f"expected git to read the repository at {folder}, but it says: {said}")
    return asked.stdout


def require_readable(folder: Path) -> str:
    """Return "true" of a shallow clone. Raises UserError (no-git) in git's words where it can read no repository."""
    asked = run_git(folder, "rev-parse", "--is-shallow-repository")
    if asked.returncode != 0:
        raise UserError("no-git", f"expected a git repository at {folder}, but git says: {asked.stderr.strip()}")
    return asked.stdout.strip()


def commit_of(folder: Path, revision: str) -> str:
    """Return the commit that a revision names. Raises UserError (no-git, unknown-revision)."""
    found = run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found.returncode == 0:
        return found.stdout.strip()
    shallow = require_readable(folder) == "true"
    hint = "; this clone is shallow, and the commit may be beyond its edge" if shallow else ""
    raise UserError("unknown-revision", f"expected a commit but got revision={revision!r}{hint}")
