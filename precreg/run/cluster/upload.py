"""Which files of a project reach the machines of a cluster, and how are they packed and unpacked?

A tree is packed as it is now, with edits that nobody committed. Its digest is that of the names, modes and contents, so
a worker unpacks each state once.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

from precreg.errors import UserError
from precreg.run.journal import project_sources
from precreg.storage import temporary_folder
from precreg.vcs import copy_commits, run_git

# A message of this size takes seconds in a network of 1 Gbit/s, and both sides hold it in memory.
MAX_UPLOAD_BYTES = 2**30
# Fast, because the network of a cluster is faster than a stronger compression.
_LEVEL = 1
_MEBIBYTE = 2**20


class Tree(NamedTuple):
    """A folder of this machine as a cluster gets it: the digest of its content, and the compressed archive."""

    root: Path
    digest: str
    content: bytes


def pack_tree(root: Path, project: Path, repository: Path | None = None) -> Tree:
    """Pack the files of a folder: those of git, tracked or not ignored, and sources and arrays of the project.

    Outside a repository all files count that are not hidden. `repository` becomes the folder `.git`.

    Raises UserError (bad-upload) for a folder that is too large, and for a link that leads out of it.
    """
    stream, total = BytesIO(), 0
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(_names(root, project)):
            path = root / name
            if path.is_symlink():
                _require_inside(path, root)
            elif not path.is_file():
                continue  # deleted, and still in the index
            total += path.lstat().st_size
            if total > MAX_UPLOAD_BYTES:
                raise _too_large(root)
            archive.add(path, name, recursive=False, filter=_without_owner)
        if repository is not None:
            archive.add(repository, ".git", filter=_without_owner)
    packed = stream.getvalue()
    return Tree(root, hashlib.sha256(packed).hexdigest()[:32], zlib.compress(packed, _LEVEL))


def pack_repository(tree: Tree, project: Path, commits: Sequence[str]) -> Tree:
    """Pack the files of a tree again, with a repository of HEAD and the commits, without their history.

    Returns the tree itself where git knows no commit. Raises UserError as `pack_tree` does.
    """
    with temporary_folder() as folder:
        try:
            copy_commits(tree.root, commits, folder)
        except UserError as problem:
            if problem.slug not in ("no-git", "unknown-revision"):
                raise
            return tree
        return pack_tree(tree.root, project, folder / ".git")


def unpack_tree(content: bytes, digest: str, folder: Path) -> Path:
    """Unpack an archive below a folder unless it is there, and return its root. Raises ValueError for another digest.

    No file leaves the new folder, which gets its name last: a worker that dies meanwhile leaves no half tree.
    """
    root = folder / f"precreg-{digest}"
    if root.is_dir():
        return root
    packed = zlib.decompress(content)
    if hashlib.sha256(packed).hexdigest()[:32] != digest:
        raise ValueError(f"expected an archive with the digest {digest}")
    partial = folder / f"precreg-{digest}.{os.getpid()}"
    rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        # This filter refuses absolute names, names with .. and links that lead out of the folder.
        archive.extractall(partial, filter="data")
    partial.rename(root)
    return root


def _names(root: Path, project: Path) -> set[str]:
    listed = run_git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    sources = {path.relative_to(root).as_posix() for path in project_sources(project)}
    if listed.returncode != 0:
        return sources | set(_all_names(root))
    names = {name for name in listed.stdout.split("\0") if name}
    # git lists a submodule by its folder.
    modules = {name for name in names if (root / name).is_dir() and not (root / name).is_symlink()}
    inside = {f"{name}/{each}" for name in modules for each in _all_names(root / name)}
    return (names - modules) | inside | sources


def _all_names(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not _is_left_out(folder, name)]
        yield from (Path(folder, name).relative_to(root).as_posix() for name in files if not name.startswith("."))


def _is_left_out(folder: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return name.startswith(".") or name in ("__pycache__", "node_modules") or is_environment


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out the facts that differ between two checkouts of one state."""
    member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def _require_inside(link: Path, root: Path) -> None:
    target = os.readlink(link)
    if os.path.isabs(target) or not Path(os.path.realpath(link)).is_relative_to(os.path.realpath(root)):
        place = link.relative_to(root).as_posix()
        raise UserError("bad-upload", f"expected links within {root} but {place} leads to {target}")


def _too_large(root: Path) -> UserError:
    limit = MAX_UPLOAD_BYTES // _MEBIBYTE
    return UserError("bad-upload", f"expected a project of at most {limit} MiB but {root} has more")


def tree_roots(trees: Iterable[Tree]) -> dict[Path, str]:
    """Return the digest of each tree by its folder, as it is written and with links resolved."""
    return {root: tree.digest for tree in trees for root in (tree.root, Path(os.path.realpath(tree.root)))}
