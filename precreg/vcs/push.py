"""What a push brings that the remote does not have, and where hooks are kept. Only the command git is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from precreg.errors import UserError
from precreg.vcs.command import commit_of, git, require_readable


def top(folder: Path) -> Path:
    """Return the top of the working tree that a folder is in. Raises UserError (no-git), also in a bare repository."""
    asked = git(folder, "rev-parse", "--show-toplevel")
    if asked.returncode == 0:
        return Path(asked.stdout.removesuffix("\n"))
    require_readable(folder)
    raise UserError("no-git", f"expected a working tree at {folder}, but git says: {asked.stderr.strip()}")


def hooks_folder(root: Path) -> Path:
    """Return where git looks for hooks of the repository whose working tree begins at `root`.

    Raises:
        UserError: no-hooks-folder, where core.hooksPath switches them off: it is empty, or no folder.
    """
    folder = root / git(root, "rev-parse", "--git-path", "hooks").stdout.removesuffix("\n")
    configured = git(root, "config", "--type=path", "core.hooksPath").stdout
    if configured == "\n" or (folder.exists() and not folder.is_dir()):
        message = f"expected hooks to have a folder but got core.hooksPath={configured.strip()}"
        raise UserError("no-hooks-folder", message)
    return folder


def commits(root: Path, revisions: Iterable[str]) -> dict[str, str]:
    """Return the commit of every revision that means one; a tag may mean a file, and has none.

    Raises:
        UserError: no-git, or unknown-revision.
    """
    found = {name: _commit(root, name) for name in revisions}
    return {name: commit for name, commit in found.items() if commit}


def _commit(root: Path, revision: str) -> str:
    asked = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if asked.returncode == 0 or git(root, "cat-file", "-e", revision).returncode == 0:
        return asked.stdout.strip()
    return commit_of(root, revision)


def independent(root: Path, names: Sequence[str]) -> set[str]:
    """Return those commits that are no ancestor of another of them."""
    return set(git(root, "merge-base", "--independent", *names).stdout.split() or names)


def has(root: Path, commit: str, path: str) -> bool:
    """Tell whether a commit has a file or folder; the path is relative to the top."""
    return git(root, "cat-file", "-e", f"{commit}:{path}").returncode == 0


def brought(root: Path, folder: str, commit: str, before: str, remote: str) -> set[str] | None:
    """Return the files below a folder in which a commit differs from what the remote has, relative to the folder.

    That is what the ref has there now, or, for a new ref and for one that somebody else moved, where the commit
    leaves the branches that were fetched from the remote. None stands for all files: the remote has nothing of it.
    """
    if before:
        there = _different(root, folder, before, commit)
        if there is not None:
            return there
    new = git(root, "rev-list", "--boundary", commit, *(["--not", f"--remotes={remote}"] if remote else []))
    if new.returncode == 0 and not new.stdout:
        return set()
    left = next((name[1:] for name in new.stdout.split() if name.startswith("-")), None)
    return None if left is None else _different(root, folder, left, commit)


def _different(root: Path, folder: str, before: str, after: str) -> set[str] | None:
    """Return the files in which two commits differ; None where the first is not in this repository."""
    options = ("-r", "-z", "--name-only", "--no-renames", "--end-of-options")
    asked = git(root, "diff-tree", *options, before, after, "--", f":(literal){folder}")
    if asked.returncode != 0:
        return None
    prefix = "" if folder == "." else f"{folder}/"
    return {path.removeprefix(prefix) for path in asked.stdout.split("\0")} - {""}
