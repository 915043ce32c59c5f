"""How does the pre-push hook work?

The hook is a POSIX shell script that runs the Python that installed it. Installing keeps any other hook. git passes the
pushed refs on standard input, pre-commit in variables. Only commits and files that the remote lacks are checked.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError
from precreg.storage import can_affect_cases, replace_file, report_write_errors
from precreg.vcs.command import (
    REPOSITORY_VARIABLES,
    changed_files_since_commit,
    commit_of,
    require_readable,
    run_git,
    with_submodule_files,
)

HOOK_VERSION = 1
# Another tool's hook gets this name, and precreg's hook calls it first.
CHAINED_HOOK_NAME = "pre-push.before-precreg"
_PRECREG_HOOK = re.compile(r"^# precreg pre-push hook, version \d+\.", re.MULTILINE)
# Everything after this line is a list of checks, which installing and uninstalling read back.
_CHECKS_LINE = "# The projects: the Python that installed the hook, and the folder in the repository.\n"

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

{_CHECKS_LINE}"""

_TAIL = "exit $code\n"


class HookCheck(NamedTuple):
    """Describe one checked project: a Python's absolute path, and the project's folder in the repository."""

    python: str
    folder: str


def is_precreg_hook(text: str) -> bool:
    """Return whether precreg made a hook, in any version."""
    return _PRECREG_HOOK.search(text) is not None


def render_hook(checks: Iterable[HookCheck]) -> str:
    """Return the text of the hook that checks these projects, one after another."""
    # Quoted, because a folder's name may contain spaces or characters of the shell.
    lines = (f"check {shlex.quote(check.python)} {shlex.quote(check.folder)}\n" for check in checks)
    return f"{_HEAD}{''.join(lines)}{_TAIL}"


def parse_hook(text: str) -> list[HookCheck]:
    """Return the projects that precreg's hook checks. Raises ValueError for an edited list."""
    words = shlex.split(text.partition(_CHECKS_LINE)[2].removesuffix(_TAIL))
    if words[::3] != ["check"] * (len(words) // 3):
        raise ValueError("expected nothing but checks")
    return [HookCheck(*pair) for pair in zip(words[1::3], words[2::3], strict=True)]


HOOK_NAME = "pre-push"
_PRE_COMMIT = "pre-commit.com"


def install_hook(hooks: Path, check: HookCheck, *, chain: bool) -> None:
    """Write the hook, or update precreg's own; an already checked folder gets the new Python.

    `chain` keeps another tool's hook, which then runs first with the same input and arguments.

    Raises:
        UserError: hook-exists, for another tool's hook without `chain`; not-writable.
    """
    path = hooks / HOOK_NAME
    with report_write_errors(str(path)):
        checks = read_hook_checks(path)
        if checks is None and os.path.lexists(path):
            _move_other_hook(path, chain)
        others = [other for other in checks or [] if other.folder != check.folder]
        # git makes the folder only from its template, and core.hooksPath may name a missing one.
        hooks.mkdir(parents=True, exist_ok=True)
        _write_hook(path, [*others, check])


def uninstall_hook(hooks: Path, folder: str) -> bool:
    """Remove one project from the hook, and with the last one the hook; a chained hook gets its name back.

    Return whether the project was checked. Raises UserError (not-writable).
    """
    path = hooks / HOOK_NAME
    with report_write_errors(str(path)):
        checks = read_hook_checks(path) or []
        kept = [check for check in checks if check.folder != folder]
        if len(kept) == len(checks):
            return False
        if kept:
            _write_hook(path, kept)
        elif os.path.lexists(hooks / CHAINED_HOOK_NAME):
            os.replace(hooks / CHAINED_HOOK_NAME, path)
        else:
            path.unlink()
    return True


def read_hook_checks(path: Path) -> list[HookCheck] | None:
    """Return the projects that a hook checks; None without a hook, or for an edited or foreign one. Raises OSError."""
    try:
        text = os.fsdecode(path.read_bytes())
        return parse_hook(text) if is_precreg_hook(text) else None
    except (FileNotFoundError, ValueError):
        return None


def _move_other_hook(path: Path, chain: bool) -> None:
    if not chain:
        raise UserError(
            "hook-exists", f"expected no hook, or one of precreg's, but {path} is {_describe_other_hook(path)}"
        )
    kept = path.with_name(CHAINED_HOOK_NAME)
    if os.path.lexists(kept):
        raise UserError("hook-exists", f"expected a free name for the hook that is there, but {kept} exists")
    # Refused above if the name is taken: an earlier chained hook would be lost.
    os.rename(path, kept)


def _describe_other_hook(path: Path) -> str:
    is_pre_commits = path.is_file() and _PRE_COMMIT in os.fsdecode(path.read_bytes())
    return "pre-commit's, which takes the check as a hook of its own" if is_pre_commits else "another one"


def _write_hook(path: Path, checks: list[HookCheck]) -> None:
    replace_file(path, os.fsencode(render_hook(checks)))
    path.chmod(0o755)


def unset_hook_variables() -> None:
    """Remove the variables by which git names the hook's repository, also for commands that cases start."""
    for name in REPOSITORY_VARIABLES:
        os.environ.pop(name, None)


# SHA-1, or SHA-256 in repositories that use it.
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
TAGS = "refs/tags/"


class Push(NamedTuple):
    """Describe one pushed ref."""

    # The pushed revision; empty for a deletion.
    revision: str
    # The ref at the remote, and its present commit there; empty for a new ref.
    target: str
    before: str


class Tip(NamedTuple):
    """Describe one pushed commit, the refs that will name it, and the present commit of each ref at the remote."""

    commit: str
    targets: tuple[str, ...]
    before: tuple[str, ...]

    @property
    def is_tag(self) -> bool:
        """Return whether only tags will name the commit."""
        return all(target.startswith(TAGS) for target in self.targets)

    def __str__(self) -> str:
        names = (target.removeprefix("refs/heads/").removeprefix("refs/") for target in self.targets)
        return f"{self.commit[:8]}, {', '.join(names)}"


def parse_git_pushes(text: str) -> list[Push]:
    """Parse lines of `LOCAL_REF LOCAL_ID REMOTE_REF REMOTE_ID`, in which an id of zeros means no ref.

    Raises:
        UserError: not-a-push, for any other line.
    """
    return [_parse_push(line) for line in text.splitlines()]


def _parse_push(line: str) -> Push:
    # From the right, because a local ref is the user's own text and may contain spaces.
    words = line.rsplit(maxsplit=3)
    if len(words) != 4 or not (_ID.fullmatch(words[1]) and _ID.fullmatch(words[3])):
        message = f"expected a line LOCAL_REF LOCAL_ID REMOTE_REF REMOTE_ID from git but got {line[:120]!r}"
        raise UserError("not-a-push", message)
    _, local, target, remote = words
    return Push(local.strip("0") and local, target, remote.strip("0") and remote)


def parse_pre_commit_push(environ: Mapping[str, str]) -> list[Push]:
    """Parse pre-commit's variables, which have only the first of several refs, and no old commit for a new branch.

    Raises:
        UserError: not-a-push, outside pre-commit.
    """
    if not environ.get("PRE_COMMIT"):
        raise UserError("not-a-push", "expected the name of a remote from git, or the variables of pre-commit")
    local = environ.get("PRE_COMMIT_TO_REF") or environ.get("PRE_COMMIT_LOCAL_BRANCH") or "HEAD"
    target = environ.get("PRE_COMMIT_REMOTE_BRANCH") or local
    return [Push(local, target, environ.get("PRE_COMMIT_FROM_REF", ""))]


def pushed_tips(pushes: Iterable[Push], commits: Mapping[str, str]) -> list[Tip]:
    """Return each pushed commit once; `commits` has the commit of each revision that names one."""
    grouped: dict[str, list[Push]] = {}
    # A push of several refs to one commit checks it once.
    for push in pushes:
        if push.revision in commits:
            grouped.setdefault(commits[push.revision], []).append(push)
    return [
        Tip(commit, tuple(push.target for push in same), tuple(push.before for push in same))
        for commit, same in grouped.items()
    ]


def worktree_root(folder: Path) -> Path:
    """Return the root of the working tree around a folder. Raises UserError (no-git), also for a bare repository."""
    result = run_git(folder, "rev-parse", "--show-toplevel")
    if result.returncode == 0:
        return Path(result.stdout.removesuffix("\n"))
    require_readable(folder)
    raise UserError("no-git", f"expected a working tree at {folder}, but git says: {result.stderr.strip()}")


def hooks_folder(root: Path) -> Path:
    """Return git's hooks folder for the repository whose working tree begins at `root`.

    Raises:
        UserError: no-hooks-folder, if core.hooksPath disables hooks: it is empty, or no folder.
    """
    folder = root / run_git(root, "rev-parse", "--git-path", "hooks").stdout.removesuffix("\n")
    configured = run_git(root, "config", "--type=path", "core.hooksPath").stdout
    if configured == "\n" or (folder.exists() and not folder.is_dir()):
        message = f"expected hooks to have a folder but got core.hooksPath={configured.strip()}"
        raise UserError("no-hooks-folder", message)
    return folder


def resolve_commits(root: Path, revisions: Iterable[str]) -> dict[str, str]:
    """Return the commit of every revision that names one; a tag of a file has none.

    Raises:
        UserError: no-git, unknown-revision.
    """
    commits: dict[str, str] = {}
    for revision in revisions:
        try:
            commits[revision] = commit_of(root, revision)
        except UserError:
            # An object that is not a commit is a file or a folder, which a tag may name.
            if run_git(root, "cat-file", "-e", revision).returncode != 0:
                raise
    return commits


def independent_commits(root: Path, names: Sequence[str]) -> set[str]:
    """Return the commits that are not an ancestor of another one of them."""
    return set(run_git(root, "merge-base", "--independent", *names).stdout.split() or names)


def commit_has_path(root: Path, commit: str, path: str) -> bool:
    """Return whether a commit has a file or folder; the path is relative to the root."""
    return run_git(root, "cat-file", "-e", f"{commit}:{path}").returncode == 0


def files_pushed(root: Path, folder: str, commit: str, before: str, remote: str) -> set[str] | None:
    """Return the files below a folder that a push changes at the remote, relative to the folder; None for all files.

    `before` is the ref's present commit at the remote. For a new ref, or one that someone else moved, the comparison
    starts where the commit leaves the branches fetched from the remote. None means that the remote has none of it.
    """
    if before:
        changed = _files_between(root, folder, before, commit)
        if changed is not None:
            return changed
    new = run_git(root, "rev-list", "--boundary", commit, *(["--not", f"--remotes={remote}"] if remote else []))
    if new.returncode == 0 and not new.stdout:
        return set()
    # `--boundary` prints the commits that the remote has, next to the new ones, with a dash.
    boundary = next((name[1:] for name in new.stdout.split() if name.startswith("-")), None)
    return None if boundary is None else _files_between(root, folder, boundary, commit)


def _files_between(root: Path, folder: str, before: str, after: str) -> set[str] | None:
    """Return the files in which two commits differ; None if this repository lacks the first."""
    # A rename counts under both names. `:(literal)` keeps git from reading wildcards in a folder's name.
    options = ("-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", "--end-of-options")
    result = run_git(root, "diff-tree", *options, before, after, "--", f":(literal){folder}")
    if result.returncode != 0:
        return None
    prefix = "" if folder == "." else f"{folder}/"
    return with_submodule_files(root / folder, {path.removeprefix(prefix) for path in result.stdout.split("\0")} - {""})


# Files of the project that a push changes; None means all, because the remote has no commit of it.
ChangedFiles = set[str] | None


def changes_of_push(root: Path, folder: str, pushes: list[Push], remote: str) -> Iterator[tuple[Tip, ChangedFiles]]:
    """Yield the commits that change files on which cases could depend, with the changed files.

    The caller takes the next commit only if the last one passed. Raises UserError as `resolve_commits`.
    """
    passed = ""
    for tip in _tips(root, pushes):
        changed = _changed_files(root, folder, tip, remote)
        # The caller takes the next commit only if the last one passed. So a branch that the remote does not have is
        # compared with that one: a first push does not run every branch in full.
        if changed is None and passed:
            changed = files_pushed(root, folder, tip.commit, passed, remote)
        if changed is None or any(map(can_affect_cases, changed)):
            yield tip, changed
        passed = tip.commit


def _tips(root: Path, pushes: list[Push]) -> list[Tip]:
    """Return the commits to check. A tag that another pushed commit contains is a part of that commit."""
    found = pushed_tips(pushes, resolve_commits(root, {push.revision for push in pushes} - {""}))
    # A release pushes a branch and its tag together, and the same commits would run twice.
    if len(found) > 1 and any(tip.is_tag for tip in found):
        last = independent_commits(root, [tip.commit for tip in found])
        return [tip for tip in found if not tip.is_tag or tip.commit in last]
    return found


def _changed_files(root: Path, folder: str, tip: Tip, remote: str) -> ChangedFiles:
    """Return the files that differ from any commit that the remote has at the pushed refs."""
    every: set[str] = set()
    # One commit may go to several refs of the remote. Their union is safe: too many cases run, never too few.
    for before in dict.fromkeys(tip.before):
        changed = files_pushed(root, folder, tip.commit, before, remote)
        if changed is None:
            return None
        every |= changed
    return every


def other_files(project: Path, commit: str) -> list[str]:
    """Return the files that a case may depend on and that differ between the working tree and the commit."""
    # The working tree may be on a branch without the project, so it cannot run the commit's cases.
    if not (project / "suites").is_dir():
        return ["suites/"]
    return sorted(filter(can_affect_cases, changed_files_since_commit(project, commit)))
