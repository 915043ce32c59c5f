"""Which files, folders and packages did reading look at, and are they unchanged?

An index stores the answer of some reading together with its trail: the signature of each step on the way to each path,
including links and missing files. The answer holds as long as every signature is the same.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

# This module imports nothing heavy: start-up is most of a command that finds nothing to do.

# The age in ns from which a timestamp is trusted. A younger one may belong to two contents, because the clocks of file
# systems tick: every few milliseconds, or on FAT every two seconds. git calls such files racily clean.
SETTLED_NS = 2_000_000_000
# Linux follows as many links on the way to one file.
_MAX_LINKS = 40

# Mode and inode. For everything except folders on the way to a file, also size, mtime and ctime in ns.
FileSignature = tuple[int, ...]


class PackageOrigin(NamedTuple):
    """Hold the file that an import would load, None for a namespace package, and the folders of a package."""

    file: str | None
    folders: tuple[str, ...]


def find_package_origin(top: str) -> PackageOrigin | None:
    """Return the origin of a package or module without a dot in its name, without importing it; None if missing."""
    return _find_on_path(top, tuple(sys.path))


# sys.path is part of the key, because the check of another commit changes it.
@lru_cache(maxsize=1024)
def _find_on_path(top: str, _path: tuple[str, ...]) -> PackageOrigin | None:
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    return None if spec is None else PackageOrigin(spec.origin, tuple(spec.submodule_search_locations or ()))


def have_same_origins(known: Mapping[str, list[Any] | None]) -> bool:
    """Return whether each package by name has its stored origin, as JSON gives it."""
    return all(find_package_origin(top) == _origin(origin) for top, origin in known.items())


def _origin(known: list[Any] | None) -> PackageOrigin | None:
    return None if known is None else PackageOrigin(known[0], tuple(known[1]))


def has_settled(newest_ns: int, began_ns: int) -> bool:
    """Return whether a file with this timestamp, read after `began_ns`, has one content for it."""
    return newest_ns < began_ns - SETTLED_NS


def file_signature(path: str) -> FileSignature | None:
    """Return numbers that change if a file, a link or a folder changes; None for a missing one. Raises OSError."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def has_signature(path: str, known: Sequence[int] | None) -> bool:
    """Return whether a path has a stored signature, as JSON gives it. Raises OSError."""
    found = file_signature(path)
    return known is None if found is None else known is not None and found[: len(known)] == tuple(known)


def _folder_identity(found: FileSignature) -> FileSignature:
    """Return the part of a folder's signature that stays when files in it come and go."""
    return found[:2] if stat.S_ISDIR(found[0]) else found


class FileTrail:
    """Record everything on the way to paths, by absolute path: files, folders, links with targets, missing files."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[str, FileSignature | None] = {root: file_signature(root)}
        self.listed: set[str] = set()

    def follow(self, path: str) -> list[str]:
        """Record each step of a path up to the first missing one, and return the steps."""
        inside = path.startswith(f"{self.root}/")
        here = self.root if inside else "/"
        waiting = path[len(self.root) if inside else 0 :].split("/")[::-1]
        steps, links = [self.root], 0
        while waiting:
            here = os.path.normpath(os.path.join(here, waiting.pop()))
            found = self._look(here)
            steps.append(here)
            if found is None or links > _MAX_LINKS:
                break
            if stat.S_ISLNK(found[0]):
                links += 1
                waiting += os.readlink(here).split("/")[::-1]
                here = "/" if os.readlink(here).startswith("/") else os.path.dirname(here)
        return steps

    def follow_and_list(self, folder: str) -> list[str]:
        """Record a folder together with the names in it, and return the steps of its path."""
        steps = self.follow(folder)
        self.listed.add(steps[-1])
        return steps

    def newest(self, steps: Iterable[str] | None = None) -> int:
        """Return the time of the last change of these steps, or of all, in ns; a folder changes with the names in it.

        A folder with the sticky bit, as /tmp, and a folder above the project, as a home folder, count only if the names
        in them matter: other programs write there all the time. They cannot exchange an entry of this user in the
        first, and exchange the whole project with an entry of the second.
        """
        return max(
            (
                max(found[3:])
                for path in (self.seen if steps is None else steps)
                if (found := self.seen[path]) is not None and (path in self.listed or not self._is_shared(path, found))
            ),
            default=0,
        )

    def _is_shared(self, path: str, found: FileSignature) -> bool:
        is_above = self.root.startswith(f"{path.rstrip('/')}/")
        return stat.S_ISDIR(found[0]) and (is_above or bool(found[0] & stat.S_ISVTX))

    def to_keep(self) -> dict[str, FileSignature | None]:
        """Return signatures by path, relative to the project for paths inside it."""
        # Files come and go in folders that were only passed, so their own times do not count.
        return {
            self.shown(path): self.signature(path, is_listed=path in self.listed)
            for path in self.seen
            if path != self.root or path in self.listed
        }

    def shown(self, path: str) -> str:
        """Return a path relative to the project, if it is inside."""
        return path.removeprefix(f"{self.root}/")

    def signature(self, path: str, *, is_listed: bool) -> FileSignature | None:
        """Return the signature of a recorded step; of a folder that is not listed, its identity."""
        found = self.seen[path]
        return found if found is None or is_listed else _folder_identity(found)

    def _look(self, path: str) -> FileSignature | None:
        if path not in self.seen:
            self.seen[path] = file_signature(path)
        return self.seen[path]


class WatchedReading:
    """Collect the paths, folders and packages that reading looked at.

    `is_certain` is false after reading that looked at more than it noted, such as code of an installed package.
    """

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.folders: set[str] = set()
        self.packages: set[str] = set()
        self.is_certain = True


_watched: ContextVar[WatchedReading | None] = ContextVar("_watched", default=None)


@contextmanager
def watch_reading(into: WatchedReading) -> Iterator[None]:
    """Add to `into` what functions of this thread note until the end."""
    token = _watched.set(into)
    try:
        yield
    finally:
        _watched.reset(token)


def is_reading_watched() -> bool:
    """Return whether notes are collected, for notes that cost something."""
    return _watched.get() is not None


def note_path(path: str | Path) -> None:
    """Note an absolute path, existing or not, whose content or existence a reader depends on."""
    if (reading := _watched.get()) is not None:
        reading.paths.add(str(path))


def note_folder(folder: str | Path) -> None:
    """Note an absolute path of a folder whose names a reader depends on."""
    if (reading := _watched.get()) is not None:
        reading.folders.add(str(folder))


def note_package(top: str) -> None:
    """Note the name of a package that a reader searched on Python's path."""
    if (reading := _watched.get()) is not None:
        reading.packages.add(top)


def note_unknown() -> None:
    """Note that a reader depends on something without a path, such as code of an installed package."""
    if (reading := _watched.get()) is not None:
        reading.is_certain = False
