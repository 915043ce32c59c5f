"""Which commits and changes does the command git report?

A push that changes nothing must not wait: importing GitPython takes 66 ms, numpy 70 ms, and running git a few
milliseconds. So the functions here start git themselves. `repository.py` has the questions where start-up does not
count, and answers them with GitPython. Both take a folder first, and raise UserError (no-git) with git's message.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError, nearest, nearest_name

_MERGE_BASE_SUFFIX = "..."
# These variables point git at another repository, or replace parts of one. They would override the project's folder,
# and git itself sets some of them for hooks.
REPOSITORY_VARIABLES = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_IMPLICIT_WORK_TREE", "GIT_SHALLOW_FILE"),
    *("GIT_REPLACE_REF_BASE", "GIT_QUARANTINE_PATH", "GIT_ATTR_SOURCE"),
)
# These change the meaning of paths in arguments, or run a program in place of git's comparison.
_OTHER_VARIABLES = (
    *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"),
    *("GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS"),
)
# Replace refs and grafts show git other commits, trees and files than an id names. A path below a file is missing for
# certain; an existing empty file would make git print advice about grafts.
_TRUE_OBJECTS = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": f"{os.devnull}/none"}
# Without the lock, a command of the user beside a run never finds the index locked.
_NO_LOCKS = {"GIT_OPTIONAL_LOCKS": "0"}
# Programs of the repository's settings: a monitor of the file system may hide a changed file, and a check of signatures
# prints between the lines of a log.
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false")


def git_environment() -> dict[str, str]:
    """Return the variables for git: it reads the repository of its folder, with the objects that ids really name."""
    dropped = {*REPOSITORY_VARIABLES, *_OTHER_VARIABLES}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, **_TRUE_OBJECTS, **_NO_LOCKS}


def run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder and return its result, successful or not. Raises UserError (no-git) without git."""
    command = ["git", "-C", str(folder), *_OPTIONS, *arguments]
    try:
        # surrogateescape, because a file name in git's output may be no UTF-8.
        return subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", check=False, env=git_environment()
        )
    except FileNotFoundError as problem:
        raise UserError("no-git", "expected the command git to be installed, and it is not") from problem


def run_git_bytes(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Run git with bytes on standard input, and return its output. Raises UserError (no-git) with git's message."""
    command = ["git", "-C", str(folder), *_OPTIONS, *arguments]
    try:
        result = subprocess.run(command, input=given, capture_output=True, check=False, env=git_environment())
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


class NamedCommit(NamedTuple):
    """Hold a commit, and the revision that named it; the commit may be the revision's merge base with HEAD."""

    revision: str
    commit: str
    is_merge_base: bool = False


def commit_of(folder: Path, revision: str) -> str:
    """Return the commit that a revision names.

    Raises:
        UserError: no-git, unknown-revision, ambiguous-revision.
    """
    # --end-of-options, because a revision may begin with a dash and must not become an option of git.
    result = run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    _require_one_meaning(folder, revision)
    if result.returncode == 0:
        return result.stdout.strip()
    edge = "; this clone is shallow, and the commit may be beyond its edge" if require_readable(folder) else ""
    names = run_git(folder, "for-each-ref", "--format=%(refname:short)").stdout.split()
    message = f"expected a commit but got revision={revision!r}{edge}{nearest(revision, names)}"
    near = nearest_name(revision, names)
    raise UserError("unknown-revision", message, hint=f"write {near} in place of {revision}" if near else "")


def named_commit(project: Path, revision: str) -> NamedCommit:
    """Return the commit for a revision: of a branch, and of `REVISION...`, the merge base with HEAD.

    A tag, an id and an expression such as `main~2` name their own commit.

    Raises:
        UserError: no-git, unknown-revision, ambiguous-revision, no-merge-base.
    """
    text = revision.removesuffix(_MERGE_BASE_SUFFIX)
    commit = commit_of(project, text)
    # The tip of a branch has the changes of others, too. Those are no change of the present work.
    if text == revision and not _is_branch(project, text):
        return NamedCommit(text, commit)
    # While a merge is under way, both sides belong to the present work: this is the base of the commit to come.
    merged = run_git(project, "rev-parse", "--verify", "--quiet", "MERGE_HEAD").stdout.split()
    result = run_git(project, "merge-base", commit, "HEAD", *merged)
    if result.returncode == 0:
        return NamedCommit(text, result.stdout.strip(), is_merge_base=True)
    hint = "; this clone is shallow, and the base may be beyond its edge" if require_readable(project) else ""
    message = f"expected HEAD and revision={text} to have a commit in common, and they have none{hint}"
    raise UserError("no-merge-base", message)


def _is_branch(project: Path, revision: str) -> bool:
    """Return whether a revision is the name of a branch, here or fetched from a remote."""
    # HEAD is the present commit, although git follows it to a branch.
    if revision in ("HEAD", "@"):
        return False
    options = ("--verify", "--quiet", "--symbolic-full-name", "--end-of-options")
    return run_git(project, "rev-parse", *options, revision).stdout.startswith(("refs/heads/", "refs/remotes/"))


_FULL_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHORT_ID = re.compile(r"[0-9a-fA-F]{4,64}")
# An expression begins with a name, and no name of a ref contains these.
_EXPRESSION = re.compile(r"[~^:]|@\{")


def _require_one_meaning(folder: Path, revision: str) -> None:
    """Refuse a name for which git would choose one of several commits. Raises UserError (ambiguous-revision)."""
    name = _EXPRESSION.split(revision, maxsplit=1)[0]
    # git reads a whole id as that object, and a name that begins with refs/ as that ref, whatever else exists.
    if name in ("", "HEAD", "@") or name.startswith("refs/") or _FULL_ID.fullmatch(name):
        return
    meanings = [*_refs_named(folder, name), *_commits_abbreviated(folder, name)]
    if len(meanings) == 1 and meanings[0].startswith("refs/"):
        # A file of that name in the folder .git comes before each ref.
        seen, meant = (run_git(folder, "rev-parse", "--verify", "--quiet", each).stdout for each in (name, meanings[0]))
        meanings += [f".git/{name}"] if seen != meant else []
    if len(meanings) > 1:
        both = f"{', '.join(meanings[:-1])} and {meanings[-1]}"
        raise UserError("ambiguous-revision", f"expected one commit but got revision={revision!r}, which means {both}")


def _refs_named(folder: Path, name: str) -> list[str]:
    """Return the full names of the refs that a short name could mean, in the order in which git looks for them."""
    every = [f"{prefix}{name}" for prefix in ("refs/", "refs/tags/", "refs/heads/", "refs/remotes/")]
    every.append(f"refs/remotes/{name}/HEAD")
    found = run_git(folder, "for-each-ref", "--format=%(refname)", *every).stdout.splitlines()
    return [ref for ref in every if ref in found]


def _commits_abbreviated(folder: Path, name: str) -> list[str]:
    """Return the ids of the commits that a short id could mean."""
    if not _SHORT_ID.fullmatch(name):
        return []
    ids = run_git(folder, "rev-parse", f"--disambiguate={name}").stdout.split()
    return [id for id in ids if run_git(folder, "cat-file", "-t", id).stdout.strip() == "commit"]


def changed_files(project: Path, since: str) -> set[str]:
    """Return the files below the project that differ from a revision, including uncommitted and untracked ones.

    Paths are relative to the project, with POSIX slashes. The revision is read as `named_commit` does.

    Raises:
        UserError: no-git, unknown-revision, ambiguous-revision, no-merge-base.
    """
    if since == "HEAD":
        # One call of git less; without a commit, `named_commit` has the better message.
        with suppress(UserError):
            return changed_files_since_commit(project, since)
    return changed_files_since_commit(project, named_commit(project, since).commit)


def changed_files_since_commit(project: Path, commit: str) -> set[str]:
    """Return the same as `changed_files`, for the id of an existing commit. Raises UserError (no-git)."""
    # A renamed file counts under both names, because a case may depend on the old one. A submodule's own settings must
    # not hide that it changed.
    options = ("--name-only", "-z", "--no-renames", "--relative", "--ignore-submodules=none", "--no-ext-diff")
    changed = run_git(project, "diff", *options, commit, "--")
    untracked = run_git(project, "ls-files", "--others", "--exclude-standard", "-z")
    for result in (changed, untracked):
        # A repository that lost an object has no list of changes, which is not an empty one.
        if result.returncode != 0:
            message = " ".join(result.stderr.split())
            raise UserError(
                "no-git", f"expected git to compare the files of {project} with {commit[:8]} but: {message}"
            )
    return with_submodule_files(project, {*changed.stdout.split("\0"), *untracked.stdout.split("\0")} - {""})


_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def changed_lines(project: Path, commit: str, files: Collection[str]) -> dict[str, tuple[range, ...]] | None:
    """Return the lines of some files that differ from a commit, including uncommitted changes.

    Files are relative to the project, with POSIX slashes; unchanged ones are left out. A removed line counts as the
    line before it. All lines of an untracked file are changed, and a binary file has none. Return None if no file of
    the project differs.

    Raises:
        UserError: no-git.
    """
    changed = changed_files_since_commit(project, commit)
    return {file: _changed_lines(project, commit, file) for file in sorted(changed & {*files})} if changed else None


def _changed_lines(project: Path, commit: str, file: str) -> tuple[range, ...]:
    # Bytes, because a carriage return in a line would begin another one, and the text after it could read as a hunk.
    options = ("--unified=0", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
    text = run_git_bytes(project, "--literal-pathspecs", "diff", *options, commit, "--", file)
    if not text:
        return (range(1, sys.maxsize),)
    hunks = ((int(first), int(count or 1)) for first, count in _HUNK.findall(text))
    # A hunk without new lines removed some after its line, which is 0 at the beginning of a file.
    return tuple(range(max(first, 1), max(first, 1) + max(count, 1)) for first, count in hunks)


def with_submodule_files(project: Path, paths: set[str]) -> set[str]:
    """Return changed paths and the files below those that are folders, in the working tree.

    Of a submodule, or of another repository in the project, git lists the folder alone.
    """
    folders = (project / path for path in paths)
    return paths.union(*(_files_below(project, each) for each in folders if each.is_dir() and not each.is_symlink()))


def _files_below(project: Path, folder: Path) -> set[str]:
    found: set[str] = set()
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each != ".git"]
        found.update(Path(place, file).relative_to(project).as_posix() for file in files if file != ".git")
    return found
