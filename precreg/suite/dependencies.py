"""Which files a case depends on, so that a change selects the cases that it can touch. Nothing is executed.

Seen are the suite, suites/tolerances.yaml, the modules that subject, reference and golden name with all that those
import from the project, and files of inputs and recorded outputs. So is every file that an import looks for in vain: a
module that was there and is removed changes the case. Of the files that a module opens by itself those are seen that it
names in one text, or in a path of texts, relative to itself or to the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from os.path import isfile, normpath, realpath
from pathlib import Path
from typing import Any

from precreg.suite.imports import Imported, installed_from, needs
from precreg.suite.modules import possible_files, search_path
from precreg.tolerance.layers import TOLERANCES
from precreg.types import Case, Computation


def touched(cases: Sequence[Case], changed: Set[str], project: Path) -> list[Case]:
    """Return the cases that depend on a changed file, or whose baseline changed; paths are relative to the project."""
    accepted = {path.partition("/")[2].partition("/")[2] for path in changed if path.startswith("baselines/")}
    return [
        case
        for case in cases
        if f"{case.tier}/{case.suite}.json" in accepted or not changed.isdisjoint(dependencies(case, project))
    ]


def dependencies(case: Case, project: Path) -> frozenset[str]:
    """Return the files that the case depends on, relative to the project; a missing one is among them."""
    computed = (_of_computation(computation, case.directory, project) for computation in (case.subject, case.oracle))
    own = _names(project / case.source.file, project) | _names(project / TOLERANCES, project)
    return frozenset(own).union(*computed, _of_inputs(case, project))


def _of_computation(computation: Computation, directory: str, project: Path) -> frozenset[str]:
    if computation.kind == "files":
        return frozenset(computation.spec.values())
    if computation.kind == "python":
        return _modules(computation.spec.partition(":")[0], directory, project)
    return frozenset(_files_named(computation.spec, directory, project))


def _of_inputs(case: Case, project: Path) -> frozenset[str]:
    return frozenset(_files_named(list(case.inputs.values()), case.directory, project))


def _files_named(value: Any, directory: str, project: Path) -> Iterator[str]:
    """Yield every text inside a value that is the path of a file of the project, relative to the suite."""
    if isinstance(value, str) and isfile(project / directory / value):
        path, root = (project / directory / value).resolve(), project.resolve()
        if path.is_relative_to(root):
            yield path.relative_to(root).as_posix()
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _files_named(item, directory, project)


@lru_cache(maxsize=1024)
def _modules(module: str, directory: str, project: Path) -> frozenset[str]:
    """Return the files of a module, of the packages around it, of what they import, and those that they name."""
    folders = search_path(project, directory)
    found: set[str] = set()
    done = {""}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        waiting.append(name.rpartition(".")[0])
        installed = installed_from(name.partition(".")[0], project)
        for path in possible_files(name, folders if installed is None else (*folders, installed)):
            found.update(_names(path, project))
            if isfile(path):
                needed = needs(path)
                waiting += (_absolute(imported, path, folders, installed) for imported in needed.modules)
                found.update(_opened(path, needed.files, project))
                break
    return frozenset(found)


def _opened(module: Path, files: tuple[str, ...], project: Path) -> Iterator[str]:
    """Yield the files that a module names, relative to itself or to the project."""
    for home in (module.parent, project):
        for file in files:
            yield from _names(home / file, project)


def _names(path: Path, project: Path) -> set[str]:
    """Return the paths, relative to the project, whose change changes a file: its own, and where a link leads."""
    both = (normpath(path), realpath(path))
    return {Path(place).relative_to(project).as_posix() for place in both if Path(place).is_relative_to(project)}


def _absolute(imported: Imported, path: Path, folders: tuple[Path, ...], installed: Path | None) -> str:
    """Return the dotted name of what a module imports, counted from the folder where the module was found."""
    if imported.level == 0:
        return imported.name
    home = path.parents[min(imported.level, len(path.parents)) - 1]
    roots = folders if installed is None else (installed, *folders)
    root = next((folder for folder in roots if home.is_relative_to(folder)), home)
    return ".".join(filter(None, (*home.relative_to(root).parts, imported.name)))
