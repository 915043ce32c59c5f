"""The text of the hook: a script of the POSIX shell that calls the Pythons that installed it.

Putting the hook into a repository's folder of hooks, and taking it out again; nobody else's hook is lost.

What is pushed, as git tells a pre-push hook on standard input, or pre-commit in the environment.

What a push brings that the remote does not have, and where hooks are kept. Only the command git is asked.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError
from precreg.storage import replace_file, report_write_errors
from precreg.vcs.command import commit_of, require_readable, run_git

HOOK_VERSION = 1

CHAINED_HOOK_NAME = "pre-push.before-precreg"
"""The name that somebody else's hook gets, beside ours, which calls it first."""


_OURS = re.compile(r"^# precreg pre-push hook, version \d+\.", re.MULTILINE)

_CHECKS = "# The projects: the Python that installed the hook, and the folder in the repository.\n"


_HEAD = f"""\
#!/bin/sh
# precreg pre-push hook, version {HOOK_VERSION}. Made by `precreg hook install`, removed by `precreg hook uninstall`.
# It stops a push that makes results less precise. `git push --no-verify` goes around it.

remote=$1
url=$2
hook=$0
chained=${{0%/*}}/{CHAINED_HOOK_NAME}
pushed=$(cat && echo .)
pushed=${{pushed%.}}
code=0

if [ -x "$chained" ]; then
    printf '%s' "$pushed" | "$chained" "$@" || exit
fi

check() {{
    printf '%s' "$pushed" | "$1" -P -m precreg hook run --folder "$2" -- "$remote" "$url" && return
    code=$?
    "$1" -P -c 'import precreg.cli.hook' 2>/dev/null || cat >&2 <<MESSAGE
precreg: the push is stopped, because it cannot be checked: precreg is not where it was when the hook was installed.
  expected: $1 -m precreg
  what to do: precreg hook install, once more, with a Python that has precreg
  or: git push --no-verify, which pushes unchecked; or remove the check with: rm '$hook'
MESSAGE
}}

{_CHECKS}"""

_TAIL = "exit $code\n"


class HookCheck(NamedTuple):
    """One project that the hook checks: a Python's absolute path, and the project's folder in the repository."""

    python: str
    folder: str


def is_precreg_hook(text: str) -> bool:
    """Tell whether a hook was made by precreg, whatever its version."""
    return _OURS.search(text) is not None


def render_hook(checks: Iterable[HookCheck]) -> str:
    """Return the hook that checks these projects, one after another."""
    lines = (f"check {shlex.quote(check.python)} {shlex.quote(check.folder)}\n" for check in checks)
    return f"{_HEAD}{''.join(lines)}{_TAIL}"


def parse_hook(text: str) -> list[HookCheck]:
    """Return the projects that a hook of precreg's checks. Raises ValueError where somebody has changed their list."""
    words = shlex.split(text.partition(_CHECKS)[2].removesuffix(_TAIL))
    if words[::3] != ["check"] * (len(words) // 3):
        raise ValueError("expected nothing but checks")
    return [HookCheck(*pair) for pair in zip(words[1::3], words[2::3], strict=True)]


HOOK_NAME = "pre-push"

_PRE_COMMIT = "pre-commit.com"


def install_hook(hooks: Path, check: HookCheck, *, chain: bool) -> None:
    """Write the hook, or bring our own up to date; a folder that it checks already gets the new Python.

    `chain` keeps somebody else's hook beside ours, to be called first with the same input and arguments.

    Raises:
        UserError: hook-exists where somebody else's hook is there and may not be chained; not-writable.
    """
    path = hooks / HOOK_NAME
    with report_write_errors(str(path)):
        checks = read_hook_checks(path)
        if checks is None and os.path.lexists(path):
            _make_way(path, chain)
        others = [other for other in checks or [] if other.folder != check.folder]
        hooks.mkdir(parents=True, exist_ok=True)
        _write(path, [*others, check])


def uninstall_hook(hooks: Path, folder: str) -> bool:
    """Take one project out of the hook, and with the last one the hook; a chained hook gets its name back.

    Return whether the project was checked. Raises UserError (not-writable).
    """
    path = hooks / HOOK_NAME
    with report_write_errors(str(path)):
        checks = read_hook_checks(path) or []
        kept = [check for check in checks if check.folder != folder]
        if len(kept) == len(checks):
            return False
        if kept:
            _write(path, kept)
        elif os.path.lexists(hooks / CHAINED_HOOK_NAME):
            os.replace(hooks / CHAINED_HOOK_NAME, path)
        else:
            path.unlink()
    return True


def read_hook_checks(path: Path) -> list[HookCheck] | None:
    """Return the projects that a hook checks; None where there is none, or it is not as we made it. Raises OSError."""
    try:
        text = os.fsdecode(path.read_bytes())
        return parse_hook(text) if is_precreg_hook(text) else None
    except (FileNotFoundError, ValueError):
        return None


def _make_way(path: Path, chain: bool) -> None:
    if not chain:
        raise UserError("hook-exists", f"expected no hook, or one of precreg's, but {path} is {_somebodys(path)}")
    kept = path.with_name(CHAINED_HOOK_NAME)
    if os.path.lexists(kept):
        raise UserError("hook-exists", f"expected a free name for the hook that is there, but {kept} exists")
    os.rename(path, kept)


def _somebodys(path: Path) -> str:
    is_pre_commits = path.is_file() and _PRE_COMMIT in os.fsdecode(path.read_bytes())
    return "pre-commit's, which takes the check as a hook of its own" if is_pre_commits else "another one"


def _write(path: Path, checks: list[HookCheck]) -> None:
    replace_file(path, os.fsencode(render_hook(checks)))
    path.chmod(0o755)


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


def parse_git_pushes(text: str) -> list[Push]:
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


def parse_pre_commit_push(environ: Mapping[str, str]) -> list[Push]:
    """Read pre-commit's variables. Of several refs it names the first only, and none when all of it is new.

    Raises UserError (not-a-push) where pre-commit does not run.
    """
    if not environ.get("PRE_COMMIT"):
        raise UserError("not-a-push", "expected the name of a remote from git, or the variables of pre-commit")
    local = environ.get("PRE_COMMIT_TO_REF") or environ.get("PRE_COMMIT_LOCAL_BRANCH") or "HEAD"
    target = environ.get("PRE_COMMIT_REMOTE_BRANCH") or local
    return [Push(local, target, environ.get("PRE_COMMIT_FROM_REF", ""))]


def pushed_tips(pushes: Iterable[Push], commits: Mapping[str, str]) -> list[Tip]:
    """Return what is to be looked at, a commit once; `commits` has the commit of each revision that means one."""
    grouped: dict[str, list[Push]] = {}
    for push in pushes:
        if push.revision in commits:
            grouped.setdefault(commits[push.revision], []).append(push)
    return [
        Tip(commit, tuple(push.target for push in same), tuple(push.before for push in same))
        for commit, same in grouped.items()
    ]


def worktree_root(folder: Path) -> Path:
    """Return the top of the working tree that a folder is in. Raises UserError (no-git), also in a bare repository."""
    asked = run_git(folder, "rev-parse", "--show-toplevel")
    if asked.returncode == 0:
        return Path(asked.stdout.removesuffix("\n"))
    require_readable(folder)
    raise UserError("no-git", f"expected a working tree at {folder}, but git says: {asked.stderr.strip()}")


def hooks_folder(root: Path) -> Path:
    """Return where git looks for hooks of the repository whose working tree begins at `root`.

    Raises:
        UserError: no-hooks-folder, where core.hooksPath switches them off: it is empty, or no folder.
    """
    folder = root / run_git(root, "rev-parse", "--git-path", "hooks").stdout.removesuffix("\n")
    configured = run_git(root, "config", "--type=path", "core.hooksPath").stdout
    if configured == "\n" or (folder.exists() and not folder.is_dir()):
        message = f"expected hooks to have a folder but got core.hooksPath={configured.strip()}"
        raise UserError("no-hooks-folder", message)
    return folder


def resolve_commits(root: Path, revisions: Iterable[str]) -> dict[str, str]:
    """Return the commit of every revision that means one; a tag may mean a file, and has none.

    Raises:
        UserError: no-git, or unknown-revision.
    """
    found = {name: _commit(root, name) for name in revisions}
    return {name: commit for name, commit in found.items() if commit}


def _commit(root: Path, revision: str) -> str:
    asked = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if asked.returncode == 0 or run_git(root, "cat-file", "-e", revision).returncode == 0:
        return asked.stdout.strip()
    return commit_of(root, revision)


def independent_commits(root: Path, names: Sequence[str]) -> set[str]:
    """Return those commits that are no ancestor of another of them."""
    return set(run_git(root, "merge-base", "--independent", *names).stdout.split() or names)


def commit_has_path(root: Path, commit: str, path: str) -> bool:
    """Tell whether a commit has a file or folder; the path is relative to the top."""
    return run_git(root, "cat-file", "-e", f"{commit}:{path}").returncode == 0


def files_pushed(root: Path, folder: str, commit: str, before: str, remote: str) -> set[str] | None:
    """Return the files below a folder in which a commit differs from what the remote has, relative to the folder.

    That is what the ref has there now, or, for a new ref and for one that somebody else moved, where the commit
    leaves the branches that were fetched from the remote. None stands for all files: the remote has nothing of it.
    """
    if before:
        there = _different(root, folder, before, commit)
        if there is not None:
            return there
    new = run_git(root, "rev-list", "--boundary", commit, *(["--not", f"--remotes={remote}"] if remote else []))
    if new.returncode == 0 and not new.stdout:
        return set()
    left = next((name[1:] for name in new.stdout.split() if name.startswith("-")), None)
    return None if left is None else _different(root, folder, left, commit)


def _different(root: Path, folder: str, before: str, after: str) -> set[str] | None:
    """Return the files in which two commits differ; None where the first is not in this repository."""
    options = ("-r", "-z", "--name-only", "--no-renames", "--end-of-options")
    asked = run_git(root, "diff-tree", *options, before, after, "--", f":(literal){folder}")
    if asked.returncode != 0:
        return None
    prefix = "" if folder == "." else f"{folder}/"
    return {path.removeprefix(prefix) for path in asked.stdout.split("\0")} - {""}
