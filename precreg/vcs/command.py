"""Which commits and changes does the command git report?

A push that changes nothing must not wait: importing GitPython takes 66 ms, numpy 70 ms, and running git a few
milliseconds. So the functions here start git themselves. `repository.py` has the questions where start-up does not
count, and answers them with GitPython. Both take a folder first, and raise UserError (no-git) with git's message.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from precreg.errors import UserError

_MERGE_BASE_SUFFIX = "..."


def run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder and return its result, successful or not. Raises UserError (no-git) without git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        # surrogateescape, because a file name in git's output may be no UTF-8.
        return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    except FileNotFoundError as problem:
        raise UserError("no-git", "expected the command git to be installed, and it is not") from problem


def run_git_bytes(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Run git with bytes on standard input, and return its output. Raises UserError (no-git) with git's message."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        result = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError as problem:
        raise UserError("no-git", "expected the command git to be installed, and it is not") from problem
    if result.returncode != 0:
        message = result.stderr.decode(errors="replace").strip()
        raise UserError("no-git", f"expected git to read the repository at {folder}, but it says: {message}")
    return result.stdout


def require_readable(folder: Path) -> bool:
    """Check that git can read the repository of a folder, and return whether its clone is shallow.

    Raises:
        UserError: no-git.
    """
    result = run_git(folder, "rev-parse", "--is-shallow-repository")
    if result.returncode != 0:
        raise UserError("no-git", f"expected a git repository at {folder}, but git says: {result.stderr.strip()}")
    return result.stdout.strip() == "true"


def commit_of(folder: Path, revision: str) -> str:
    """Return the commit that a revision names.

    Raises:
        UserError: no-git, unknown-revision.
    """
    # --end-of-options, because a revision may begin with a dash and must not become an option of git.
    result = run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if result.returncode == 0:
        return result.stdout.strip()
    hint = "; this clone is shallow, and the commit may be beyond its edge" if require_readable(folder) else ""
    raise UserError("unknown-revision", f"expected a commit but got revision={revision!r}{hint}")


def resolve_revision(project: Path, revision: str) -> str:
    """Return the commit that a revision names; `REVISION...` is its merge base with HEAD, as in git.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base.
    """
    if not revision.endswith(_MERGE_BASE_SUFFIX):
        return commit_of(project, revision)
    revision = revision.removesuffix(_MERGE_BASE_SUFFIX)
    result = run_git(project, "merge-base", commit_of(project, revision), "HEAD")
    if result.returncode == 0:
        return result.stdout.strip()
    hint = "; this clone is shallow, and the base may be beyond its edge" if require_readable(project) else ""
    message = f"expected HEAD and revision={revision} to have a commit in common, and they have none{hint}"
    raise UserError("no-merge-base", message)


def changed_files(project: Path, since: str) -> set[str]:
    """Return the files below the project that differ from a revision, including uncommitted and untracked ones.

    Paths are relative to the project, with POSIX slashes.

    Raises:
        UserError: no-git, unknown-revision.
    """
    return changed_files_since_commit(project, commit_of(project, since))


def changed_files_since_commit(project: Path, commit: str) -> set[str]:
    """Return the same as `changed_files`, for the id of an existing commit."""
    # A renamed file counts under both names, because a case may depend on the old one.
    changed = run_git(project, "diff", "--name-only", "-z", "--no-renames", "--relative", commit, "--").stdout
    untracked = run_git(project, "ls-files", "--others", "--exclude-standard", "-z").stdout
    return {*changed.split("\0"), *untracked.split("\0")} - {""}
