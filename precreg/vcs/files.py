"""Which files a case depends on, so that a change selects the cases that it can touch. Nothing is executed.

Seen are the suite, suites/tolerances.yaml, the table of a device of the project's own, the modules that subject,
reference and golden name with all that those import from the project, and files of inputs and recorded outputs. So is
every file that an import looks for in vain: a module that was there and is removed changes the case. Of the files that
a module opens by itself those are seen that it names in one text, or in a path of texts, relative to itself or to the
project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from os.path import isfile, normpath, realpath
from pathlib import Path
from typing import Any, NamedTuple

from precreg.arithmetic.devices.read import table_paths
from precreg.measure.installed import entry_point
from precreg.suite.modules import possible_files, search_path
from precreg.tolerance.layers import TOLERANCES
from precreg.types.types import Case
from precreg.vcs.imports import Imported, needs
from precreg.vcs.packages import installed_from


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
    named = (path for path in _named_by(case, project) if isfile(path))
    own = (_names(path, project) for path in (*_own(case, project), *named))
    return frozenset().union(*own, *(_modules(*searched, project).files for searched in _modules_of(case)))


def paths(case: Case, project: Path) -> frozenset[Path]:
    """Return every path at which the dependencies were looked for, as it was spelled: with links, and there or not."""
    own = (*_own(case, project), *_named_by(case, project))
    return frozenset(own).union(*(_modules(*searched, project).paths for searched in _modules_of(case)))


def packages(cases: Iterable[Case], project: Path) -> frozenset[str]:
    """Return the names of packages whose origin was looked up, first parts of dotted names; without Python's own."""
    searches = {searched for case in cases for searched in _modules_of(case)}
    asked = frozenset[str]().union(*(_modules(*searched, project).packages for searched in searches))
    return asked - sys.stdlib_module_names


def _own(case: Case, project: Path) -> Iterator[Path]:
    """Yield the suite, the tolerances below it, the table of its device, and recorded outputs, there or not."""
    yield from (project / case.source.file, project / TOLERANCES)
    if case.device is not None:
        yield from (project / path for path in table_paths(case.device))
    for computation in (case.subject, case.oracle):
        if computation.kind == "files":
            yield from (project / path for path in computation.spec.values())


def _named_by(case: Case, project: Path) -> Iterator[Path]:
    """Yield what texts in the options of inputs, and of subjects of other kinds, would be as files."""
    for computation in (case.subject, case.oracle):
        if computation.kind not in ("files", "python"):
            yield from paths_in(computation.spec, case.directory, project)
    yield from paths_in(list(case.inputs.values()), case.directory, project)


def paths_in(value: Any, directory: str, project: Path) -> Iterator[Path]:
    """Yield every text inside a value as a path relative to the suite."""
    if isinstance(value, str):
        yield project / directory / value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from paths_in(item, directory, project)


def _modules_of(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the modules that a case names, each with the folder from which it is looked for."""
    for computation in (case.subject, case.oracle):
        if computation.kind == "python":
            yield computation.spec.partition(":")[0], case.directory
    for analyzer in case.analyzers:
        yield entry_point(analyzer).module, case.directory


class _Search(NamedTuple):
    """What came of looking for a module: its files relative to the project, all paths tried, and packages asked for."""

    files: frozenset[str]
    paths: frozenset[Path]
    packages: frozenset[str]


@lru_cache(maxsize=1024)
def _modules(module: str, directory: str, project: Path) -> _Search:
    """Look for a module, the packages around it, what they import, and what they name."""
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
        for path in possible_files(name, folders if installed is None else (*folders, installed)):
            tried.add(path)
            if isfile(path):
                needed = needs(path)
                waiting += (_absolute(imported, path, folders, installed) for imported in needed.modules)
                tried.update(home / file for home in (path.parent, project) for file in needed.files)
                break
    files = frozenset[str]().union(*(_names(path, project) for path in tried))
    return _Search(files, frozenset(tried), frozenset(name.partition(".")[0] for name in done - {""}))


@lru_cache(maxsize=8192)
def _names(path: Path, project: Path) -> frozenset[str]:
    """Return the paths, relative to the project, whose change changes a file: its own, and where a link leads."""
    both = (normpath(path), realpath(path))
    inside = (Path(place) for place in both if Path(place).is_relative_to(project))
    return frozenset(place.relative_to(project).as_posix() for place in inside)


def _absolute(imported: Imported, path: Path, folders: tuple[Path, ...], installed: Path | None) -> str:
    """Return the dotted name of what a module imports, counted from the folder where the module was found."""
    if imported.level == 0:
        return imported.name
    home = path.parents[min(imported.level, len(path.parents)) - 1]
    roots = folders if installed is None else (installed, *folders)
    root = next((folder for folder in roots if home.is_relative_to(folder)), home)
    return ".".join(filter(None, (*home.relative_to(root).parts, imported.name)))
