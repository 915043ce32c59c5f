"""Which modules does an import in user code find?

Each suite's folder has a module space of its own, even if two folders have packages of the same name. In the worker for
another commit, imports from the working tree lead to that commit's checkout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from os.path import realpath
from pathlib import Path
from pkgutil import ModuleInfo, iter_modules
from types import ModuleType
from typing import Any, NamedTuple


class ModuleSpace:
    """Hold the search path of a folder, its modules while another folder is entered, and the functions found so far.

    `path` runs from the folder through its parents to the project's root.
    """

    # Python has one module per name and process. Entering a space exchanges the front of sys.path, and moves those
    # modules out of sys.modules that the folder would find in another place. Its modules stay loaded after a call, but
    # `leave_module_space` takes the folder off sys.path: a selectors.py of the user's would reach foreign code.

    def __init__(self, directory: Path, project: Path) -> None:
        folders = [directory, *directory.parents]
        self.path = [str(folder) for folder in folders[: folders.index(project) + 1]]
        self.set_aside: dict[str, ModuleType] = {}
        self.functions: dict[str, Callable[..., Any]] = {}

    def shadowed(self, name: str) -> str | None:
        """Return the file that the path has for a module if another file is loaded under its name; otherwise None."""
        top = name.partition(".")[0]
        found, loaded = PathFinder.find_spec(top, self.path), sys.modules[top].__spec__
        if found is None or (loaded is not None and _location(found) == _location(loaded)):
            return None
        return _location(found)


# Libraries that precreg imports while it computes a case.
_NEEDED = frozenset({"lazy_loader", "ml_dtypes", "msgspec", "numpy", "packaging", "precreg", "yaml"})
# `test` is the suite of Python's own tests, and the usual name of a project's.
_SHADOWED = (sys.stdlib_module_names | _NEEDED) - {"test"}


def shadowing_files(project: Path, directories: Iterable[str]) -> list[str]:
    """Return the files that imports of subjects may find in place of a module of Python or a library, sorted.

    `directories` are the folders of suites, relative to the project, as the files are.
    """
    folders = {folder for directory in directories for folder in (Path(directory), *Path(directory).parents)}
    return sorted(
        file.as_posix()
        for folder in folders
        for module in iter_modules([str(project / folder)])
        if module.name in _SHADOWED and not _is_loaded_from(module.name, project / folder)
        for file in [_file_of(module, folder)]
    )


def _file_of(module: ModuleInfo, folder: Path) -> Path:
    if module.ispkg:
        return folder / module.name
    spec = module.module_finder.find_spec(module.name, None)
    return folder / Path(spec.origin if spec is not None and spec.origin else f"{module.name}.py").name


def _is_loaded_from(name: str, folder: Path) -> bool:
    """Return whether the loaded module is the folder's own: then the project is that library."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    return loaded is not None and realpath(loaded).startswith(f"{realpath(folder)}{os.sep}")


# precreg itself is never set aside or redirected, even if its own checkout is the project under test.
_PRECREG = __name__.partition(".")[0]
# The state of sys.path and sys.modules is the process's, so the spaces are global, too.
_spaces: dict[tuple[Path, Path], ModuleSpace] = {}
_entered: ModuleSpace | None = None
_on_path = False


def enter_module_space(directory: Path, project: Path) -> ModuleSpace:
    """Make imports use the modules of a project's folder, and return its space; do nothing if they already do."""
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
    """Take the entered folder off sys.path, so that foreign code finds its own modules; loaded modules stay."""
    global _on_path
    if _entered is not None and _on_path:
        for folder in _entered.path:
            if folder in sys.path:
                sys.path.remove(folder)
    _on_path = False


@contextmanager
def use_module_space(directory: Path, project: Path) -> Iterator[None]:
    """Make imports inside use the modules of a project's folder, and take the folder off sys.path afterwards."""
    enter_module_space(directory, project)
    try:
        yield
    finally:
        leave_module_space()


def path_of_others() -> list[str]:
    """Return sys.path without the entered folder."""
    own = _entered.path if _entered is not None and _on_path else []
    # User code can put anything in the place of the list.
    path = [*sys.path] if isinstance(sys.path, list | tuple) else []
    if path[: len(own)] == own:
        return path[len(own) :]
    # User code put entries before them.
    return [folder for folder in path if folder not in own]


def set_path_of_others(path: list[str]) -> None:
    """Make sys.path the given one, after the entered folder."""
    own = _entered.path if _entered is not None and _on_path else []
    sys.path[:] = [*own, *path]


def _leave(left: ModuleSpace, entered: ModuleSpace) -> None:
    """Set aside the modules that the entered folder would not find."""
    # A library that both folders find stays: loading numpy twice in a process fails.
    foreign = {name for name in _project_modules(left) if name != _PRECREG and not _finds(entered, name)}
    for name in [name for name in sys.modules if name.partition(".")[0] in foreign]:
        left.set_aside[name] = sys.modules.pop(name)


def _project_modules(space: ModuleSpace) -> list[str]:
    """Name the top-level modules that come from the space's folders."""
    specs = {name: getattr(module, "__spec__", None) for name, module in sys.modules.items() if "." not in name}
    return [name for name, spec in specs.items() if spec is not None and _folder(spec) in space.path]


def _finds(space: ModuleSpace, name: str) -> bool:
    """Return whether an import within the space would find the loaded module."""
    loaded, found = sys.modules[name].__spec__, PathFinder.find_spec(name, space.path)
    return loaded is not None and found is not None and _location(found) == _location(loaded)


def _folder(spec: ModuleSpec) -> str:
    return str(Path(_location(spec)).parent)


def _location(spec: ModuleSpec) -> str:
    """Return the module's file, or the package's folder."""
    return next(iter(spec.submodule_search_locations or ()), spec.origin or "")


# Folders of installed packages. A virtual environment in the working tree serves both versions.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


class TreePair(NamedTuple):
    """Hold the top of the user's working tree and the top of the checkout that replaces it, as real paths."""

    own: Path
    other: Path

    def counterpart(self, place: str) -> Path | None:
        """Return the path in the checkout for a path in the working tree, even if the checkout has no such file.

        None for paths outside the project, and for libraries installed into an environment within the tree.
        """
        path = Path(realpath(place))
        installed = path.is_relative_to(realpath(sys.prefix)) or not _INSTALLED.isdisjoint(path.parts)
        if installed or path.is_relative_to(self.other) or not path.is_relative_to(self.own):
            return None
        return self.other / path.relative_to(self.own)


def redirect_imports(trees: TreePair) -> None:
    """Redirect imports, and paths relative to the current folder, to the checkout until the process ends."""
    # Packages installed from the working tree (pip install -e), and those on PYTHONPATH, would otherwise be the
    # working tree's for both versions, and every change would look harmless.
    folder = trees.counterpart(os.getcwd())
    sys.path[:] = _redirected(sys.path, trees)
    sys.meta_path.insert(0, _Finder(trees))
    if "PYTHONPATH" in os.environ:  # subjects may start processes of their own
        os.environ["PYTHONPATH"] = os.pathsep.join(_redirected(os.environ["PYTHONPATH"].split(os.pathsep), trees))
    if folder is not None and folder.is_dir():
        os.chdir(folder)


def _redirected(places: Iterable[str], trees: TreePair) -> list[str]:
    return [str(trees.counterpart(place or ".") or place) for place in places]


class _Finder(MetaPathFinder):
    """Find modules with the finders after this one, and replace files of the working tree by files of the checkout."""

    def __init__(self, trees: TreePair) -> None:
        self._trees = trees

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module.

        Raises:
            ModuleNotFoundError: the working tree has the module and the commit does not.
        """
        if name.partition(".")[0] == _PRECREG:
            return None
        finders = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in finders)
        found = next((spec for spec in specs if spec is not None), None)
        there = None if found is None or not found.has_location else self._trees.counterpart(found.origin or "")
        if found is None or there is None:
            return found
        if not there.exists():
            raise ModuleNotFoundError(f"the working tree alone has {found.origin}, and not the commit", name=name)
        folders = None if found.submodule_search_locations is None else [str(there.parent)]
        return spec_from_file_location(name, there, submodule_search_locations=folders)
