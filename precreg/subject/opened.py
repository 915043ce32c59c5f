"""Which files does a computation open, list or import while it runs?

An audit hook of Python notes them, so names that the code makes at run time count, too. Files that a compiled library
or another process opens by itself are not seen.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from precreg.storage import is_own_path

# Longer lists are shortened to folders. Reviewers see the list of a baseline, and few references open 40 files.
MAX_OPENED = 40

# A path that ends so is a folder: whatever lies in it, or below it, counts.
FOLDER = "/"

_LISTING = frozenset({"os.listdir", "os.scandir"})
# Import systems list every folder of sys.path; a module that appears there shows in other ways.
_IMPORT_SYSTEM = "<frozen importlib"


class OpenedFiles:
    """Note the files that this process opens, lists or imports, from now to its end."""

    # Python has no way to remove an audit hook, so this belongs into a process that ends with its work.

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._installed = tuple(f"{os.path.realpath(folder)}/" for folder in _installed_folders())
        sys.addaudithook(self._note)

    def __len__(self) -> int:
        """Return the number of noted paths."""
        return len(self._paths)

    def paths(self) -> frozenset[str]:
        """Return the absolute paths, links as they were written; files of installed packages are left out."""
        found = {_as_source(path) for path in self._paths}
        # With a slash, so that the installed folders themselves are left out, too.
        return frozenset(path for path in found if not f"{os.path.realpath(path)}/".startswith(self._installed))

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        read = _READERS.get(event)
        if read is None:
            return
        for path in read(arguments):
            if isinstance(path, str | bytes | os.PathLike) and not _is_path_hook(os.fsdecode(path)):
                folder = FOLDER if event in _LISTING and not _called_by_imports() else ""
                if folder or event not in _LISTING:
                    self._paths.add(os.path.abspath(os.fsdecode(path)) + folder)


def _installed_folders() -> Iterator[str]:
    yield from (path for name, path in sysconfig.get_paths().items() if name not in ("data", "scripts"))
    yield from (os.path.dirname(sys.executable), "/proc", "/sys", "/dev", "/etc", "/usr/lib", "/usr/share")
    # precreg itself, wherever it is installed from.
    yield os.path.dirname(os.path.dirname(__file__))


def _is_path_hook(path: str) -> bool:
    """Return whether a path is a name that setuptools puts on sys.path for the imports of an editable package."""
    # importlib.metadata takes each entry of sys.path for a folder.
    name = path.rpartition("/")[2]
    return name.startswith("__editable__.") and name.endswith(".__path_hook__")


def _opened(arguments: tuple[Any, ...]) -> Iterator[Any]:
    path, _, flags = arguments
    if flags & os.O_ACCMODE != os.O_WRONLY:
        yield path


def _imported(arguments: tuple[Any, ...]) -> Iterator[Any]:
    # The file of a compiled module; of other modules it is None, and `open` shows them.
    yield arguments[1]


def _first(arguments: tuple[Any, ...]) -> Iterator[Any]:
    # os.listdir(None) is the current folder.
    yield "." if arguments[0] is None else arguments[0]


def _named(arguments: tuple[Any, ...]) -> Iterator[Any]:
    # A library without a slash comes from the system's folders; None is the process itself.
    if isinstance(arguments[0], str) and FOLDER in arguments[0]:
        yield arguments[0]


def _started(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the program of a new process, and the arguments that are files."""
    words = arguments[1] if isinstance(arguments[1], list | tuple) else ()
    yield from (word for word in (arguments[0], *words) if isinstance(word, str) and os.path.isfile(word))


_READERS: dict[str, Callable[[tuple[Any, ...]], Iterator[Any]]] = {
    "open": _opened,
    "import": _imported,
    "ctypes.dlopen": _named,
    "os.listdir": _first,
    "os.scandir": _first,
    "sqlite3.connect": _first,
    "subprocess.Popen": _started,
    "os.posix_spawn": _started,
}


def _called_by_imports() -> bool:
    # From here up: _note, the hook's caller in Python code, which is the function that lists.
    return sys._getframe(2).f_code.co_filename.startswith(_IMPORT_SYSTEM)


def _as_source(path: str) -> str:
    """Return the module's text for a cached module."""
    if not path.endswith(".pyc"):
        return path
    try:
        return source_from_cache(path)
    except ValueError:
        return path


def inside_project(paths: Collection[str], project: Path) -> tuple[str, ...]:
    """Return paths relative to the project, sorted; a link counts by its own path and by its target.

    Above MAX_OPENED paths, their folders replace them.
    """
    root = os.path.realpath(project)
    found = set(_relative(paths, root))
    while len(found) > MAX_OPENED:
        found = {f"{os.path.dirname(path.rstrip(FOLDER)) or '.'}{FOLDER}" for path in found}
    return tuple(sorted(found))


def _relative(paths: Collection[str], root: str) -> Iterator[str]:
    for path in paths:
        folder = FOLDER if path.endswith(FOLDER) else ""
        for spelling in {os.path.normpath(path), os.path.realpath(path)}:
            inner = spelling.removeprefix(f"{root}/")
            if spelling == root and folder:
                yield f".{FOLDER}"
            # The files of builds and calls have other names on each machine.
            elif inner != spelling and not is_own_path(inner):
                yield inner + folder


def touches(opened: Collection[str], changed: Collection[str]) -> tuple[str, ...]:
    """Return the changed files that a computation opened, or that lie in a folder that it listed; sorted.

    A changed path may be a submodule of git: all files in it changed, then.
    """
    files = {path for path in opened if not path.endswith(FOLDER)}
    folders = tuple(path.removeprefix(f".{FOLDER}") for path in opened if path.endswith(FOLDER))
    return tuple(
        sorted(
            path
            for path in changed
            if path in files or path.startswith(folders) or any(file.startswith(f"{path}/") for file in files)
        )
    )
