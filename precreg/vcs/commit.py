"""The files of a project as a commit has them, without checking it out: no working tree and no index is touched.

A commit in a folder of its own, for as long as it is looked at.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from precreg.errors import UserError
from precreg.vcs.command import commit_of, require_readable, run_git, run_git_bytes

_FILE, _LINK = "100", "120000"

_AS_THE_MERGE_BASE = "..."


class _Stored(NamedTuple):
    """One file of a commit: its mode, the id of its content, and its path relative to the project."""

    mode: str
    content: str
    path: str


def resolve_revision(project: Path, revision: str) -> str:
    """Return the commit that a revision names; `REVISION...` is the merge base of that and HEAD, as git writes it.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base.
    """
    if revision.endswith(_AS_THE_MERGE_BASE):
        return _merge_base(project, revision.removesuffix(_AS_THE_MERGE_BASE))
    return commit_of(project, revision)


def _merge_base(project: Path, revision: str) -> str:
    commit = commit_of(project, revision)
    asked = run_git(project, "merge-base", commit, "HEAD")
    if asked.returncode == 0:
        return asked.stdout.strip()
    shallow = require_readable(project) == "true"
    hint = "; this clone is shallow, and the base may be beyond its edge" if shallow else ""
    message = f"expected HEAD and revision={revision} to have a commit in common, and they have none{hint}"
    raise UserError("no-merge-base", message)


@contextmanager
def files_at_commit(
    project: Path, commit: str, read: Callable[[str], bool], named: Callable[[str], bool]
) -> Iterator[Path]:
    """Give a temporary folder with files of the project as a commit has them; paths are relative to the project.

    Files that are to be `read` have their content, byte by byte as git stores it, without filters: of a file in LFS
    that is its pointer. Those that only have to be `named` are there and empty. Links are links; what submodules have
    is not there. The folder is called like the project, and removed in the end.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="precreg-") as temporary:
        folder = Path(os.path.realpath(temporary), project.name or "root")
        folder.mkdir()
        _write(
            project, folder, [file for file in _listed(project, commit) if read(file.path) or named(file.path)], read
        )
        yield folder


def _listed(project: Path, commit: str) -> list[_Stored]:
    """Return the files of a commit below the project; none that would leave it, or is below another file."""
    text = run_git_bytes(project, "ls-tree", "-r", "-z", "--end-of-options", commit, ".").decode(
        "utf-8", "surrogateescape"
    )
    lines = (line.partition("\t") for line in text.split("\0") if line)
    found = {path: _Stored(about[:6], about.rpartition(" ")[2], path) for about, _, path in lines}
    return [
        file
        for path, file in found.items()
        if not {"..", ".git"} & set(PurePosixPath(path).parts)
        and found.keys().isdisjoint(map(str, PurePosixPath(path).parents))
    ]


def _write(project: Path, folder: Path, files: Sequence[_Stored], read: Callable[[str], bool]) -> None:
    """Write files, and then the links: nothing is written through one, where names that differ in case are one, too."""
    links = [file for file in files if file.mode == _LINK]
    plain = [file for file in files if file.mode.startswith(_FILE)]
    wanted = [file for file in plain if read(file.path)]
    contents = dict(zip(wanted, _contents(project, [file.content for file in wanted]), strict=True))
    for file in plain:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(contents.get(file, b""))
    for file, target in zip(links, _contents(project, [file.content for file in links]), strict=True):
        place = folder / file.path
        if not os.path.lexists(place) and Path(os.path.realpath(place.parent)).is_relative_to(folder):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(os.fsdecode(target))


def _contents(project: Path, ids: Sequence[str]) -> Iterator[bytes]:
    """Yield the contents that ids stand for. Raises UserError (no-git) for one that the repository has lost."""
    if not ids:
        return
    answer = run_git_bytes(project, "cat-file", "--batch", given="\n".join(ids).encode() + b"\n")
    place = 0
    for _ in ids:
        begin = answer.index(b"\n", place) + 1
        about = answer[place : begin - 1].decode()
        if about.endswith("missing"):
            raise UserError("no-git", f"expected the repository to have all that it lists but git says: {about}")
        place = begin + int(about.split(" ")[2]) + 1
        yield answer[begin : place - 1]


_ENDING = (signal.SIGTERM, signal.SIGHUP)


_OF_ONE_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_IMPLICIT_WORK_TREE"),
)


def unset_hook_variables() -> None:
    """Forget the variables by which git names the hook's repository: they would bend every call to it."""
    for name in _OF_ONE_REPOSITORY:
        os.environ.pop(name, None)


@contextmanager
def checkout_commit(root: Path, commit: str) -> Iterator[Path]:
    """Give a folder that has the files of a commit; it is called like the working tree, and removed in the end.

    Raises:
        UserError: no-checkout, in git's words.
    """
    from tempfile import TemporaryDirectory

    with _orderly_end(), TemporaryDirectory(prefix="precreg-") as temporary:
        place = Path(temporary, root.name or "root")
        without_hooks = ("-c", f"core.hooksPath={os.devnull}")
        try:
            made = run_git(root, *without_hooks, "worktree", "add", "--quiet", "--detach", str(place), commit)
            if made.returncode != 0:
                raise UserError("no-checkout", f"expected git to check out {commit[:8]}, but: {made.stderr.strip()}")
            yield place
        finally:
            run_git(root, "worktree", "remove", "--force", "--force", str(place))


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
