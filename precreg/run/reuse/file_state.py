"""Which state does a file, a folder or a missing path have?

A state is a short text, and equal states mean equal content. Small files of the project count by their bytes, so a
restored time hides no change. Larger files, and files outside the project, count by size, inode and the times of their
last change. The system sets one of these times, and no program can restore it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from precreg.storage import can_affect_cases, read_small_file

# The content of a larger file is not read: hashing it may take longer than the run of its case.
MAX_HASHED_BYTES = 1 << 20
MISSING = "missing"
_DIGEST_BYTES = 16
# Files whose content other rules follow: modules by imports, and suites by the definitions of their cases.
_FOLLOWED = frozenset({".py", ".pyc", ".yaml", ".yml"})
# Python writes this folder while it imports.
_CACHE_FOLDER = "__pycache__"
# Code with one of these words may import a module, or read one, whose name no import statement has.
_DYNAMIC = re.compile(
    rb"\b(importlib|import_module|__import__|pkgutil|runpy|sys\.modules)\b|(?<![.\w])(exec|eval)\s*\("
)


def digest_of(*parts: str | bytes) -> str:
    """Return a digest of texts, in which each part has its own place."""
    found = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode(errors="surrogateescape")
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


class FileStates:
    """The states of paths as they are now; each is read once."""

    def __init__(self, project: Path) -> None:
        """Read nothing yet; `project` is absolute."""
        self._roots = tuple(f"{root}/" for root in dict.fromkeys((str(project), os.path.realpath(project))))
        self._states: dict[str, str] = {}
        self._dynamic: dict[str, bool] = {}
        self._modules: dict[str, frozenset[str]] = {}

    def state(self, path: str) -> str:
        """Return the state of an absolute path. With a slash at its end it is a folder, and its names count."""
        found = self._states.get(path)
        if found is None:
            found = self._states[path] = self._read_folder(path) if path.endswith("/") else self._read(path)
        return found

    def digest(self, paths: Iterable[str]) -> str:
        """Return a digest of paths and their states."""
        return digest_of(*(f"{path}\0{self.state(path)}" for path in sorted(set(paths))))

    def data_names(self, folder: str) -> str:
        """Return a digest of the names of the data files in a folder: code may look whether one is there."""
        key = f"{folder}//"
        if key not in self._states:
            names = (entry.name for entry in _entries(folder) if _is_data(entry))
            self._states[key] = digest_of(*sorted(names))
        return self._states[key]

    def module_names(self, folder: str) -> frozenset[str]:
        """Return the names that an import may find in a folder."""
        if folder not in self._modules:
            self._modules[folder] = frozenset(entry.name.partition(".")[0] for entry in _entries(folder))
        return self._modules[folder]

    def is_dynamic(self, path: str) -> bool:
        """Return whether a module may import others by names that it makes."""
        if path not in self._dynamic:
            self.state(path)
        return self._dynamic.get(path, False)

    def _read(self, path: str) -> str:
        try:
            real = os.path.realpath(path)
            facts = os.stat(real)
            if stat.S_ISDIR(facts.st_mode):
                return f"folder {real}"
            if not stat.S_ISREG(facts.st_mode):
                return f"special {real} {facts.st_mode} {facts.st_rdev}"
            if facts.st_size > MAX_HASHED_BYTES or not real.startswith(self._roots) or "/site-packages/" in real:
                return f"file {real} {_signature(facts)}"
            _, content = read_small_file(real, MAX_HASHED_BYTES)
        # A path may have a NUL, or a name that the file system refuses.
        except (OSError, ValueError) as problem:
            return MISSING if isinstance(problem, FileNotFoundError | NotADirectoryError) else f"error {problem}"
        if content is None:
            return f"file {real} {_signature(os.stat(real))}"
        if path.endswith(".py"):
            self._dynamic[path] = _DYNAMIC.search(content) is not None
        # A module finds the files beside it by its real place, so the target of a link belongs to its state.
        linked = "" if real == path else f" {real}"
        return f"{digest_of(content)} {facts.st_mode & 0o111:o}{linked}"

    def _read_folder(self, path: str) -> str:
        if not os.path.isdir(path):
            return MISSING
        names = (entry.name for entry in _entries(path) if entry.name != _CACHE_FOLDER)
        return f"folder {os.path.realpath(path)} {digest_of(*sorted(names))}"


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_data(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    is_followed = os.path.splitext(name)[1] in _FOLLOWED
    return not is_followed and can_affect_cases(name) and (entry.is_symlink() or not entry.is_dir())


def _signature(facts: os.stat_result) -> str:
    return f"{facts.st_dev} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_mode}"


def file_signature_text(path: str) -> str:
    """Return the size, the inode and the times of a file as a text; MISSING without one."""
    try:
        return _signature(os.stat(path))
    except (OSError, ValueError):
        return MISSING


def changed_since(path: str, began_ns: int) -> bool:
    """Return whether a path may have changed at a time by the clock of its file system, or later.

    A missing path may have been there while its folder changed.
    """
    place = path.rstrip("/") or "/"
    while True:
        try:
            # Each step of the way counts: a link, and its target. Programs set the time of the content as they like,
            # and the system alone sets this one.
            return max(os.lstat(place).st_ctime_ns, os.stat(place).st_ctime_ns) >= began_ns
        except (OSError, ValueError):
            parent = os.path.dirname(place)
            if parent == place:
                return True
            place = parent
