"""A worker whose code is that of another commit: what Python would find in the working tree, it finds in a checkout.

Packages that are installed from the working tree (python -m pip install -e), and those on PYTHONPATH, would otherwise
be the working tree's for both versions, and every change would look harmless.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from os.path import realpath
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

_OURS = __name__.partition(".")[0]
"""The program itself is the same for both versions, though it be the project."""


_INSTALLED = frozenset({"site-packages", "dist-packages"})


class Trees(NamedTuple):
    """The top of the user's working tree, and the top of the checkout that stands for it. Both are real paths."""

    own: Path
    other: Path

    def counterpart(self, place: str) -> Path | None:
        """Return what a path of the working tree is called in the checkout, be it there or not.

        None for what is not of the project: libraries that are installed into an environment within the tree.
        """
        path = Path(realpath(place))
        installed = path.is_relative_to(realpath(sys.prefix)) or not _INSTALLED.isdisjoint(path.parts)
        if installed or path.is_relative_to(self.other) or not path.is_relative_to(self.own):
            return None
        return self.other / path.relative_to(self.own)


def move_into(trees: Trees) -> None:
    """Make imports, and paths relative to the current folder, those of the checkout, until the process ends."""
    folder = trees.counterpart(os.getcwd())
    sys.path[:] = _moved(sys.path, trees)
    sys.meta_path.insert(0, _Finder(trees))
    if "PYTHONPATH" in os.environ:  # for the processes that subjects start
        os.environ["PYTHONPATH"] = os.pathsep.join(_moved(os.environ["PYTHONPATH"].split(os.pathsep), trees))
    if folder is not None and folder.is_dir():
        os.chdir(folder)


def _moved(places: Iterable[str], trees: Trees) -> list[str]:
    return [str(trees.counterpart(place or ".") or place) for place in places]


class _Finder(MetaPathFinder):
    """Asks the finders after it, and looks for what they find in the working tree at its place in the checkout."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module. Raises ModuleNotFoundError for one that the working tree has, and the commit does not."""
        if name.partition(".")[0] == _OURS:
            return None
        found = self._found(name, path, target)
        there = None if found is None or not found.has_location else self._trees.counterpart(found.origin or "")
        if found is None or there is None:
            return found
        if not there.exists():
            raise ModuleNotFoundError(f"the working tree alone has {found.origin}, and not the commit", name=name)
        folders = None if found.submodule_search_locations is None else [str(there.parent)]
        return spec_from_file_location(name, there, submodule_search_locations=folders)

    def _found(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None
