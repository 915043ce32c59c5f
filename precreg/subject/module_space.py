"""Each suite's folder sees its own modules, though two folders may both hold a package of the same name.

Python knows one module per name and process. A space holds what the imports of one folder found; entering it exchanges
the front of sys.path, and in sys.modules those modules that the folder would find elsewhere. Both stay so until
another folder is entered, so that an import inside a function finds its module too; or until one steps out of it,
where code that is no suite's runs in the same process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


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


_OURS = __name__.partition(".")[0]
"""This program is never set aside, though its checkout be the project that it runs."""


_spaces: dict[tuple[Path, Path], ModuleSpace] = {}

_entered: ModuleSpace | None = None

_on_path = False


def enter(directory: Path, project: Path) -> ModuleSpace:
    """Make imports see that folder of the project, and return its space; nothing is done when they already do."""
    global _entered, _on_path
    space = _spaces.get((directory, project))
    if space is None:
        space = _spaces[directory, project] = ModuleSpace(directory, project)
    if space is not _entered:
        step_out()
        if _entered is not None:
            _leave(_entered, space)
        sys.modules.update(space.set_aside)
        space.set_aside.clear()
        _entered = space
    if not _on_path:
        sys.path[:0] = space.path
        _on_path = True
    return space


def step_out() -> None:
    """Take the entered folder off sys.path, so that code of others finds its own modules; what is loaded stays."""
    global _on_path
    if _entered is not None and _on_path:
        for folder in _entered.path:
            if folder in sys.path:
                sys.path.remove(folder)
    _on_path = False


def _leave(left: ModuleSpace, entered: ModuleSpace) -> None:
    """Set aside what the entered folder would not find; a library that both find is loaded once and stays."""
    foreign = {name for name in _project_modules(left) if name != _OURS and not _finds(entered, name)}
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
