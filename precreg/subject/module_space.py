"""Each suite's folder sees its own modules, though two folders may both hold a package of the same name.

Python knows one module per name and process. A space holds what the imports of one folder found; entering it exchanges
the front of sys.path, and in sys.modules those modules that the folder would find elsewhere. Both stay so until
another folder is entered, so that an import inside a function finds its module too; or until one steps out of it,
where code that is no suite's runs in the same process.

A worker whose code is that of another commit: what Python would find in the working tree, it finds in a checkout.

Packages that are installed from the working tree (python -m pip install -e), and those on PYTHONPATH, would otherwise
be the working tree's for both versions, and every change would look harmless.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from os.path import realpath
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class ModuleSpace:
    """The search path of a folder, the modules set aside while another is entered, and the functions found so far.

    `path` runs from the folder through its parents to the project's root.
    """

    def __init__(self, directory: Path, project: Path) -> None:
        folders = [directory, *directory.parents]
        self.path = [str(folder) for folder in folders[: folders.index(project) + 1]]
        self.set_aside: dict[str, ModuleType] = {}
        self.functions: dict[str, Callable[..., Any]] = {}

    def shadowed(self, name: str) -> str | None:
        """Return the file that the path has for a module, if what is loaded by its name is another; else None."""
        top = name.partition(".")[0]
        found, loaded = PathFinder.find_spec(top, self.path), sys.modules[top].__spec__
        if found is None or (loaded is not None and _location(found) == _location(loaded)):
            return None
        return _location(found)


_PRECREG = __name__.partition(".")[0]
"""This program is never set aside, though its checkout be the project that it runs."""


_spaces: dict[tuple[Path, Path], ModuleSpace] = {}

_entered: ModuleSpace | None = None

_on_path = False


def enter_module_space(directory: Path, project: Path) -> ModuleSpace:
    """Make imports see that folder of the project, and return its space; nothing is done when they already do."""
    global _entered, _on_path
    space = _spaces.get((directory, project))
    if space is None:
        space = _spaces[directory, project] = ModuleSpace(directory, project)
    if space is not _entered:
        leave_module_space()
        if _entered is not None:
            _leave(_entered, space)
        sys.modules.update(space.set_aside)
        space.set_aside.clear()
        _entered = space
    if not _on_path:
        sys.path[:0] = space.path
        _on_path = True
    return space


def leave_module_space() -> None:
    """Take the entered folder off sys.path, so that code of others finds its own modules; what is loaded stays."""
    global _on_path
    if _entered is not None and _on_path:
        for folder in _entered.path:
            if folder in sys.path:
                sys.path.remove(folder)
    _on_path = False


def _leave(left: ModuleSpace, entered: ModuleSpace) -> None:
    """Set aside what the entered folder would not find; a library that both find is loaded once and stays."""
    foreign = {name for name in _project_modules(left) if name != _PRECREG and not _finds(entered, name)}
    for name in [name for name in sys.modules if name.partition(".")[0] in foreign]:
        left.set_aside[name] = sys.modules.pop(name)


def _project_modules(space: ModuleSpace) -> list[str]:
    """Name the top-level modules that were found in one of the space's folders."""
    specs = {name: getattr(module, "__spec__", None) for name, module in sys.modules.items() if "." not in name}
    return [name for name, spec in specs.items() if spec is not None and _folder(spec) in space.path]


def _finds(space: ModuleSpace, name: str) -> bool:
    """Say whether an import within the space would find the module that is loaded."""
    loaded, found = sys.modules[name].__spec__, PathFinder.find_spec(name, space.path)
    return loaded is not None and found is not None and _location(found) == _location(loaded)


def _folder(spec: ModuleSpec) -> str:
    return str(Path(_location(spec)).parent)


def _location(spec: ModuleSpec) -> str:
    """Return the module's file, or the package's folder."""
    return next(iter(spec.submodule_search_locations or ()), spec.origin or "")


"""The program itself is the same for both versions, though it be the project."""


_INSTALLED = frozenset({"site-packages", "dist-packages"})


class TreePair(NamedTuple):
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


def redirect_imports(trees: TreePair) -> None:
    """Make imports, and paths relative to the current folder, those of the checkout, until the process ends."""
    folder = trees.counterpart(os.getcwd())
    sys.path[:] = _moved(sys.path, trees)
    sys.meta_path.insert(0, _Finder(trees))
    if "PYTHONPATH" in os.environ:  # for the processes that subjects start
        os.environ["PYTHONPATH"] = os.pathsep.join(_moved(os.environ["PYTHONPATH"].split(os.pathsep), trees))
    if folder is not None and folder.is_dir():
        os.chdir(folder)


def _moved(places: Iterable[str], trees: TreePair) -> list[str]:
    return [str(trees.counterpart(place or ".") or place) for place in places]


class _Finder(MetaPathFinder):
    """Asks the finders after it, and looks for what they find in the working tree at its place in the checkout."""

    def __init__(self, trees: TreePair) -> None:
        self._trees = trees

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module. Raises ModuleNotFoundError for one that the working tree has, and the commit does not."""
        if name.partition(".")[0] == _PRECREG:
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
