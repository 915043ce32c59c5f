"""Where does an import find a module, and which files does the module lead to?

A module leads to the modules that it imports, the files that its texts name, and the libraries that those link. The
search executes no code of the project. Its results stay in memory until `forget_module_searches`.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from os.path import isfile, islink, normpath, realpath
from pathlib import Path
from typing import NamedTuple

from precreg.storage import (
    ImportedName,
    files_named,
    libraries_linked,
    libraries_loaded,
    names_imported,
    parse_module,
    relative_import_folder,
    telling_nodes,
)
from precreg.suite import possible_files, search_path
from precreg.vcs.dependency_index import LIBRARY_VARIABLE, can_affect_cases, installed_from

_COMPILED_SUFFIXES = (".so", ".pyd")


class ModuleNeeds(NamedTuple):
    """Hold the imports of a module, and its texts that look like files."""

    modules: tuple[ImportedName, ...]
    files: tuple[str, ...]


@lru_cache(maxsize=1024)
def read_module_needs(path: Path) -> ModuleNeeds:
    """Return the needs of a module, at any depth of its code; none of a module that Python cannot parse."""
    # A compiled module has no text; its libraries are found apart.
    tree = None if path.suffix in _COMPILED_SUFFIXES else parse_module(path.read_bytes())
    modules: list[ImportedName] = []
    files: list[str] = []
    for node in telling_nodes(tree) if tree is not None else ():
        modules += names_imported(node)
        files += (file.as_posix() for file in files_named(node) if can_affect_cases(file.name))
        files += (file.as_posix() for file in libraries_loaded(node))
    return ModuleNeeds(tuple(modules), tuple(files))


# Most modules of a project are reached from several others. This cache and the one of libraries keep the paths, so that
# a file is one path in all searches, and its hash is computed once.
@lru_cache(maxsize=1024)
def _named_files(path: Path, project: Path) -> frozenset[Path]:
    """Return the paths that the texts of a module may name."""
    return frozenset(home / file for home in (path.parent, project) for file in read_module_needs(path).files)


class ModuleSearch(NamedTuple):
    """Hold the result of a search for a module: files relative to the project, paths tried, and package names."""

    files: frozenset[str]
    paths: frozenset[Path]
    packages: frozenset[str]


@lru_cache(maxsize=1024)
def search_module(module: str, directory: str, project: Path) -> ModuleSearch:
    """Search a module, the packages around it, its imports, and the files that they name."""
    folders = search_path(project, directory)
    tried: set[Path] = set()
    done = {""}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        waiting.append(name.rpartition(".")[0])
        installed = installed_from(name.partition(".")[0], project)
        looked = _find_module(name, folders if installed is None else (*folders, installed))
        tried.update(looked.paths)
        for path in looked.found:
            needed = read_module_needs(path)
            waiting += (_absolute_name(imported, path, folders, installed) for imported in needed.modules)
            tried |= _named_files(path, project)
    tried.update(*(with_libraries(path, project) for path in [*tried] if ".so" in path.name))
    files = frozenset[str]().union(*(spellings(path, project) for path in tried))
    return ModuleSearch(files, frozenset(tried), frozenset(name.partition(".")[0] for name in done - {""}))


class _FoundModule(NamedTuple):
    """Hold the searched paths of a module, and its files."""

    paths: tuple[Path, ...]
    found: tuple[Path, ...]


# Most modules of a project are imported by several others.
@lru_cache(maxsize=8192)
def _find_module(name: str, folders: tuple[Path, ...]) -> _FoundModule:
    """Look for a module as Python does: in each folder as a package, then compiled, then as a source."""
    tried: list[Path] = []
    found: list[Path] = []
    for path in possible_files(name, folders):
        if path.name == "__init__.py":
            tried.append(path)
            compiled: list[Path] = []
        else:
            compiled = [path.with_name(path.stem + suffix) for suffix in EXTENSION_SUFFIXES]
            tried += (*compiled, path)
        # Python stops at a compiled module. It may be built from the source beside it.
        found += (each for each in (*compiled, path) if isfile(each))
        if found:
            break
    return _FoundModule(tuple(tried), tuple(found))


@lru_cache(maxsize=32768)
def spellings(path: Path, project: Path) -> frozenset[str]:
    """Return the paths of a file relative to the project: its own, and the target of its links."""
    root, text = f"{project}/", str(path)
    folder, _, name = text.rpartition("/")
    # `realpath` asks for the state of each folder on the way, and most paths share their folders.
    is_plain = folder and name and ".." not in text and not islink(text)
    both = (normpath(text), f"{_real_folder(folder)}/{name}" if is_plain else realpath(text))
    return frozenset(place.removeprefix(root) for place in both if place.startswith(root))


@lru_cache(maxsize=8192)
def _real_folder(folder: str) -> str:
    return realpath(folder).rstrip("/")


def _absolute_name(imported: ImportedName, path: Path, folders: tuple[Path, ...], installed: Path | None) -> str:
    """Return the dotted name of an import, from the folder in which the importing module was found."""
    if imported.level == 0:
        return imported.name
    home = relative_import_folder(path, imported.level)
    roots = folders if installed is None else (installed, *folders)
    root = next((folder for folder in roots if home.is_relative_to(folder)), home)
    return ".".join(filter(None, (*home.relative_to(root).parts, imported.name)))


@lru_cache(maxsize=32768)
def with_libraries(path: Path, project: Path) -> frozenset[Path]:
    """Return a file, and the paths in the project at which the loader looks for the libraries that it links."""
    if not _is_library(path):
        return frozenset((path,))
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if _is_library(file) and isfile(file):
            linked = libraries_linked(file)
            folders = (*linked.folders, *os.environ.get(LIBRARY_VARIABLE, "").split(":"))
            # A name with a slash is a path, relative to the folder in which the case runs: the project.
            paths = (
                normpath(project / folder / name)
                for name in linked.names
                for folder in (folders if "/" not in name else ("",))
            )
            waiting += (Path(place) for place in paths if Path(place).is_relative_to(project))
    return frozenset(found)


def _is_library(path: Path) -> bool:
    """Return whether a name belongs to a library of ELF: libop.so, libop.so.1."""
    return ".so" in path.name and ".so" in path.suffixes


def module_dependencies(module: str, directory: str, project: Path) -> frozenset[str]:
    """Return the files that an import in a suite's folder leads to, relative to the project, including missing ones."""
    return search_module(module, directory, project).files


def forget_module_searches() -> None:
    """Forget the results of searches, so that files count as they are now."""
    for search in (
        read_module_needs,
        _named_files,
        search_module,
        _find_module,
        with_libraries,
        spellings,
        _real_folder,
    ):
        search.cache_clear()
