"""What state is a repository in, which commit is the base of a run, and which files does a commit have?

A few files are read from git's objects without a checkout, so that no working tree and no index changes. A whole commit
is checked out into a temporary worktree. GitPython reads the repository's state: its start-up, 66 ms, does not count in
a run.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from precreg.environment import merge_request_base
from precreg.errors import UserError
from precreg.storage import abandoned_folders, temporary_folder
from precreg.vcs.command import NamedCommit, commit_of, named_commit, require_readable, run_git, run_git_bytes

if TYPE_CHECKING:
    from git import Repo

    from precreg.types import GitState

# The words for a base that are no revision.
BASE_AUTO, BASE_OFF = "auto", "off"
# Modes in git's trees: 100644 and 100755 are files, 120000 is a symbolic link; 160000, a submodule, has no content.
_FILE, _LINK = "100", "120000"
# By default these signals end Python without running any `finally`, which would leave the worktree registered in git.
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class _StoredFile(NamedTuple):
    """Describe one file of a commit: its mode, the id of its content, and its path relative to the project."""

    mode: str
    content: str
    path: str


def git_state(project: Path) -> GitState | None:
    """Return the commit, branch, author and dirtiness of the project's repository; None without one or a commit.

    Raises:
        UserError: no-git, for a repository that git refuses to read because another user owns it, and for one that
            has lost objects.
    """
    repository = _find_repository(project)
    if repository is None:
        return None
    commit = run_git(project, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit.returncode != 0:
        # A refused repository looks like one without a commit. This check distinguishes them.
        require_readable(project)
        return None
    from precreg.types import GitState

    branch = "" if repository.head.is_detached else repository.active_branch.name
    return GitState(commit.stdout.strip(), branch, _is_dirty(project), git_author(project))


def _is_dirty(project: Path) -> bool:
    """Return whether files differ from the commit. Raises UserError (no-git) for a repository that lost objects."""
    # git itself and not GitPython, which would pass on variables that point to another repository. A comparison of
    # contents finds lost objects, and the status finds untracked files.
    compared = run_git(project, "diff", "--quiet", "--no-ext-diff", "--ignore-submodules=none", "HEAD")
    if compared.returncode == 1:
        return True
    listed = run_git(project, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none")
    for result in (compared, listed):
        if result.returncode != 0:
            message = " ".join(result.stderr.split())
            raise UserError("no-git", f"expected git to read the repository but it says: {message}")
    return bool(listed.stdout)


def git_author(project: Path) -> str:
    """Return `Name <mail>` of the current user, as git would write it into a commit; empty without a repository."""
    repository = _find_repository(project)
    if repository is None:
        return ""
    from git import Actor

    actor = Actor.author(repository.config_reader())
    return f"{actor.name} <{actor.email}>"


def project_folder(project: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path from the repository's root to a project, with POSIX slashes; empty for the root itself."""
    # Only paths, and not git: in a container, git often refuses a repository that another user owns. GitLab names the
    # root in CI_PROJECT_DIR. Otherwise it is the nearest folder with `.git`.
    here = Path(realpath(project))
    named = [Path(realpath(environ["CI_PROJECT_DIR"]))] if environ.get("CI_PROJECT_DIR") else []
    nearest = [above for above in (here, *here.parents) if (above / ".git").exists()][:1]
    root = next((root for root in named + nearest if here.is_relative_to(root)), here)
    return "" if root == here else here.relative_to(root).as_posix()


def _find_repository(project: Path) -> Repo | None:
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo
    except ImportError:  # GitPython raises this without the command git
        return None
    try:
        # expand_vars would replace $NAME in the path of a folder.
        return Repo(project, search_parent_directories=True, expand_vars=False)
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None


def base_commit(project: Path, base: str, environ: Mapping[str, str] = os.environ) -> NamedCommit | None:
    """Return the base commit of a run, or None.

    `base` is a revision as `named_commit` takes it; `auto`, the base of the merge request in whose job the run is, if
    any; or `off`.

    Raises:
        UserError: no-git, unknown-revision, ambiguous-revision, no-merge-base.
    """
    if base == BASE_OFF:
        return None
    revision = merge_request_base(project, environ) if base == BASE_AUTO else base
    return None if revision is None else named_commit(project, revision)


# Where a merge request of a developer's branch most likely goes. Full names, because a tag may have the same short one.
_TARGETS = tuple(f"refs/{name}" for name in ("remotes/origin/HEAD", "remotes/origin/main", "remotes/origin/master"))
_TARGETS += ("refs/heads/main", "refs/heads/master")


def review_base(project: Path, base: str = BASE_AUTO) -> str:
    """Return the commit that a merge request of the present branch is compared with.

    `base` is as for `base_commit`. Where `auto` names no merge request, it is the merge base of HEAD and the default
    branch; without one, HEAD itself.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base.
    """
    return merge_target(project, base) or commit_of(project, "HEAD")


def merge_target(project: Path, base: str = BASE_AUTO) -> str | None:
    """Return the same as `review_base`, but None if the clone has no default branch.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base.
    """
    found = base_commit(project, base)
    if found is not None:
        return found.commit
    for target in _TARGETS if base == BASE_AUTO else ():
        if run_git(project, "rev-parse", "--verify", "--quiet", target).returncode == 0:
            return named_commit(project, f"{target}...").commit
    return None


@contextmanager
def files_at_commit(
    project: Path, commit: str, read: Callable[[str], bool], named: Callable[[str], bool]
) -> Iterator[Path]:
    """Give a temporary folder with files of the project at a commit; paths are relative to the project.

    Files for which `read` is true have their content, byte by byte as git stores it. Files for which only `named` is
    true exist and are empty. Links are links, and submodules are absent. The folder has the project's name.
    """
    # git's filters do not run on the contents: they could run commands of the repository. So a file in LFS is only its
    # pointer here.
    with temporary_folder() as temporary:
        folder = Path(realpath(temporary), project.name or "root")
        folder.mkdir()
        files = [file for file in _list_files(project, commit) if read(file.path) or named(file.path)]
        _write_files(project, folder, files, read)
        yield folder


def _list_files(project: Path, commit: str) -> list[_StoredFile]:
    """Return the files of a commit below the project, except those whose path could lead out of the folder."""
    text = run_git_bytes(project, "ls-tree", "-r", "-z", "--end-of-options", commit, ".").decode(
        "utf-8", "surrogateescape"
    )
    lines = (line.partition("\t") for line in text.split("\0") if line)
    found = {path: _StoredFile(about[:6], about.rpartition(" ")[2], path) for about, _, path in lines}
    # A crafted commit may contain "..", or one path both as a link and as a folder.
    return [
        file
        for path, file in found.items()
        if not {"..", ".git"} & set(PurePosixPath(path).parts)
        and found.keys().isdisjoint(map(str, PurePosixPath(path).parents))
    ]


def _write_files(project: Path, folder: Path, files: Sequence[_StoredFile], read: Callable[[str], bool]) -> None:
    """Write files first and links after them."""
    # Links come last, so that no file is written through one. On file systems that ignore case, two names can be one.
    links = [file for file in files if file.mode == _LINK]
    plain = [file for file in files if file.mode.startswith(_FILE)]
    wanted = [file for file in plain if read(file.path)]
    contents = dict(zip(wanted, _read_contents(project, [file.content for file in wanted]), strict=True))
    for file in plain:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(contents.get(file, b""))
    for file, target in zip(links, _read_contents(project, [file.content for file in links]), strict=True):
        place = folder / file.path
        if not os.path.lexists(place) and Path(realpath(place.parent)).is_relative_to(folder):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(os.fsdecode(target))


def _read_contents(project: Path, ids: Sequence[str]) -> Iterator[bytes]:
    """Yield the contents of objects by id.

    Raises:
        UserError: no-git, for an object that the repository has lost.
    """
    if not ids:
        return
    # git itself and not GitPython, whose newer versions refuse a whole commit for one odd path, and older ones do not.
    # One process serves all objects. Each answer is a header "id type size", a newline, the content, and a newline.
    answer = run_git_bytes(project, "cat-file", "--batch", given="\n".join(ids).encode() + b"\n")
    place = 0
    for _ in ids:
        begin = answer.index(b"\n", place) + 1
        about = answer[place : begin - 1].decode()
        if about.endswith("missing"):
            raise UserError("no-git", f"expected the repository to have all that it lists but git says: {about}")
        place = begin + int(about.split(" ")[2]) + 1
        yield answer[begin : place - 1]


@contextmanager
def checkout_commit(root: Path, commit: str) -> Iterator[Path]:
    """Give a temporary folder with all files of a commit; it has the working tree's name.

    Raises:
        UserError: no-checkout, with git's message.
    """
    with _unwind_on_signals(), temporary_folder() as temporary:
        place = Path(temporary, root.name or "root")
        without_hooks = ("-c", f"core.hooksPath={os.devnull}")
        try:
            made = run_git(root, *without_hooks, "worktree", "add", "--quiet", "--detach", str(place), commit)
            if made.returncode != 0:
                message = " ".join(made.stderr.split())
                raise UserError("no-checkout", f"expected git to check out {commit[:8]}, but: {message}")
            yield place
        finally:
            # Forced twice: once for changed files, once more for a locked worktree.
            run_git(root, "worktree", "remove", "--force", "--force", str(place))


def copy_commits(root: Path, commits: Sequence[str], folder: Path) -> None:
    """Make a repository in a folder: it has the HEAD of `root`, and the files of HEAD and the commits alone.

    Raises:
        UserError: no-git, unknown-revision without a commit.
    """
    ids = tuple(dict.fromkeys((commit_of(root, "HEAD"), *commits)))
    run_git_bytes(folder, "init", "--quiet", "--template=")
    listed = run_git_bytes(root, "rev-list", "--objects", "--no-walk", *ids)
    packed = run_git_bytes(root, "pack-objects", "--quiet", "--stdout", given=listed)
    run_git_bytes(folder, "index-pack", "--stdin", given=packed)
    # As in a shallow clone: git does not look for the parents of these.
    (folder / ".git" / "shallow").write_text("".join(f"{id}\n" for id in ids))
    run_git_bytes(folder, "update-ref", "HEAD", ids[0])
    # With an index, git reports the same changed files as in the working tree.
    run_git_bytes(folder, "read-tree", "HEAD")


def remove_abandoned_checkouts() -> None:
    """Remove the temporary folders of this user's killed runs, and their entries in git's lists of worktrees."""
    for folder in abandoned_folders():
        for link in folder.glob("*/.git"):
            if link.is_file():
                run_git(link.parent, "worktree", "remove", "--force", "--force", str(link.parent))
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _unwind_on_signals() -> Iterator[None]:
    """Turn the signals that end a process into SystemExit, so that context managers clean up."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in _END_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
