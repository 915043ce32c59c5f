"""Which files does a case depend on?

A change selects the cases that depend on it. A case depends on its suite, suites/tolerances.yaml, the table of its
device, files of inputs and recorded outputs, the modules of subject, reference, golden and benchmark, and those of
their installed kinds and of analyzers. The modules add the project modules that they import, and files that they name
in a text, relative to themselves or to the project. Nothing is executed.

Missing files count as well. If an import looks for a file in vain, adding the file changes the case; and the removal of
a module changes the cases that used it.
"""

from __future__ import annotations

import ast
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from os.path import isfile, normpath, realpath
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from precreg.measure import analyzer_entry_point
from precreg.storage import (
    ImportedName,
    files_named,
    make_scratch_folder,
    names_imported,
    parse_module,
    relative_import_folder,
    replace_file,
)
from precreg.subject import BUILT_IN_SUBJECTS, subject_entry_point
from precreg.suite import Suite, expand_suite, folders_searched, load_suites, possible_files, search_path
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case, Computation
from precreg.vcs.dependency_index import (
    INDEX_FILE,
    SETTLED_NS,
    FileSignature,
    can_affect_cases,
    file_signature,
    find_package_origin,
    folder_identity,
    index_conditions,
)

_SITE = {"site-packages", "dist-packages"}
# Linux follows as many links on the way to one file.
_MAX_LINKS = 40
# Hashing a larger file may take longer than the run of its case.
_LARGE_FILE = 64 << 20


class ModuleNeeds(NamedTuple):
    """Hold the imports of a module, and its texts that look like files."""

    modules: tuple[ImportedName, ...]
    files: tuple[str, ...]


@lru_cache(maxsize=1024)
def read_module_needs(path: Path) -> ModuleNeeds:
    """Return the needs of a module, at any depth of its code; none of a module that Python cannot parse."""
    tree = parse_module(path.read_bytes())
    modules: list[ImportedName] = []
    files: list[str] = []
    for node in ast.walk(tree) if tree is not None else ():
        modules += names_imported(node)
        files += (file.as_posix() for file in files_named(node) if can_affect_cases(file.name))
    return ModuleNeeds(tuple(modules), tuple(files))


def installed_from(top: str, project: Path) -> Path | None:
    """Return the folder of the project from which an installed package is imported, such as src/; usually None."""
    found = None if top in sys.stdlib_module_names else find_package_origin(top)
    if found is None:
        return None
    home = Path(found.folders[0]).parent if found.folders else Path(found.file or "/").parent
    inside = home.is_relative_to(project) and _SITE.isdisjoint(home.parts)
    return home if inside else None


def affected_cases(cases: Sequence[Case], changed: Set[str], project: Path) -> list[Case]:
    """Return the cases that depend on a changed file, or whose baseline changed; paths are relative to the project."""
    accepted = {path.partition("/")[2].partition("/")[2] for path in changed if path.startswith("baselines/")}
    return [
        case
        for case in cases
        if f"{case.tier}/{case.suite}.json" in accepted or not changed.isdisjoint(case_dependencies(case, project))
    ]


def case_dependencies(case: Case, project: Path) -> frozenset[str]:
    """Return the files that the case depends on, relative to the project, including missing ones."""
    named = (path for path in _named_by(case, project) if isfile(path))
    own = (_spellings(path, project) for path in (*_own_files(case, project), *named))
    return frozenset().union(*own, *(_search(*searched, project).files for searched in _modules_of(case)))


def code_digests(cases: Iterable[Case], project: Path) -> dict[str, str]:
    """Return, by the id of each case, a digest of the files that it depends on, apart from its suite and tolerances.

    The digest of a case's definition stands for its suite.
    """
    found: dict[str, str] = {}
    known: dict[str, str] = {}
    for case in cases:
        digest = sha256()
        for path in sorted(case_dependencies(case, project) - {case.source.file, TOLERANCES_FILE}):
            if path not in known:
                known[path] = _content_digest(project / path)
            digest.update(f"{path}\0{known[path]}\n".encode(errors="surrogateescape"))
        found[case.id] = digest.hexdigest()[:16]
    return found


def _content_digest(path: Path) -> str:
    """Return a digest of a file's content; of a very large file, its size and time; empty without a regular file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return ""
        if status.st_size > _LARGE_FILE:
            return f"{status.st_size} {status.st_mtime_ns}"
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def dependency_paths(case: Case, project: Path) -> frozenset[Path]:
    """Return every path at which a dependency was searched, existing or not, with its links unresolved."""
    own = (*_own_files(case, project), *_named_by(case, project))
    return frozenset(own).union(*(_search(*searched, project).paths for searched in _modules_of(case)))


def dependency_packages(cases: Iterable[Case], project: Path) -> frozenset[str]:
    """Return the top-level names of packages that were searched, without the standard library."""
    searches = {searched for case in cases for searched in _modules_of(case)}
    packages = frozenset[str]().union(*(_search(*searched, project).packages for searched in searches))
    return packages - sys.stdlib_module_names


def _own_files(case: Case, project: Path) -> Iterator[Path]:
    """Yield the suite, the tolerances, the table of the device, and recorded outputs, existing or not."""
    yield from (project / case.source.file, project / TOLERANCES_FILE)
    if case.device is not None:
        from precreg.arithmetic.devices import device_table_paths

        yield from (project / path for path in device_table_paths(case.device))
    for computation in _computations(case):
        if computation.kind == "files":
            yield from (project / path for path in computation.spec.values())


def _computations(case: Case) -> Iterator[Computation]:
    yield from (case.subject, case.oracle)
    if case.benchmark is not None:
        yield case.benchmark


def _named_by(case: Case, project: Path) -> Iterator[Path]:
    """Yield the paths that texts in the options of inputs, and of subjects of other kinds, could mean."""
    for computation in _computations(case):
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
    """Yield the modules that a case names, each with the folder where its search begins."""
    for computation in _computations(case):
        if computation.kind == "python":
            yield computation.spec.partition(":")[0], case.directory
        elif computation.kind not in BUILT_IN_SUBJECTS:
            yield subject_entry_point(computation.kind).module, case.directory
    for analyzer in case.analyzers:
        yield analyzer_entry_point(analyzer).module, case.directory


class _Search(NamedTuple):
    """Hold the result of a search for a module: files relative to the project, paths tried, and package names."""

    files: frozenset[str]
    paths: frozenset[Path]
    packages: frozenset[str]


@lru_cache(maxsize=1024)
def _search(module: str, directory: str, project: Path) -> _Search:
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
        for path in possible_files(name, folders if installed is None else (*folders, installed)):
            tried.add(path)
            if isfile(path):
                needed = read_module_needs(path)
                waiting += (_absolute_name(imported, path, folders, installed) for imported in needed.modules)
                tried.update(home / file for home in (path.parent, project) for file in needed.files)
                break
    files = frozenset[str]().union(*(_spellings(path, project) for path in tried))
    return _Search(files, frozenset(tried), frozenset(name.partition(".")[0] for name in done - {""}))


@lru_cache(maxsize=8192)
def _spellings(path: Path, project: Path) -> frozenset[str]:
    """Return the paths of a file relative to the project: its own, and the target of its links."""
    both = (normpath(path), realpath(path))
    inside = (Path(place) for place in both if Path(place).is_relative_to(project))
    return frozenset(place.relative_to(project).as_posix() for place in inside)


def _absolute_name(imported: ImportedName, path: Path, folders: tuple[Path, ...], installed: Path | None) -> str:
    """Return the dotted name of an import, from the folder in which the importing module was found."""
    if imported.level == 0:
        return imported.name
    home = relative_import_folder(path, imported.level)
    roots = folders if installed is None else (installed, *folders)
    root = next((folder for folder in roots if home.is_relative_to(folder)), home)
    return ".".join(filter(None, (*home.relative_to(root).parts, imported.name)))


def load_cases_and_index(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, and write the index of their dependencies. Raises UserError as `load_cases`."""
    began = time_ns()
    suites = load_suites(project, environ)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    write_index(project, suites, cases, began)
    return cases


def write_index(project: Path, suites: list[Suite], cases: list[Case], began_ns: int) -> None:
    """Write the index, unless a file that it covers changed just before `began_ns`, the start of reading, or later."""
    # A project on a read-only disk works without an index.
    with suppress(OSError):
        trail = _follow_dependencies(project, suites, cases)
        conditions = index_conditions(project)
        read = {TOLERANCES_FILE, *(suite.source.file for suite in suites)}
        if read != {TOLERANCES_FILE, *conditions["suites"]} or trail.newest() >= began_ns - SETTLED_NS:
            return
        index = {
            "conditions": conditions,
            "dependencies": sorted(frozenset().union(*(case_dependencies(case, project) for case in cases))),
            "packages": {top: find_package_origin(top) for top in sorted(dependency_packages(cases, project))},
            "paths": trail.to_keep(),
        }
        make_scratch_folder((project / INDEX_FILE).parent)
        replace_file(project / INDEX_FILE, json.dumps(index).encode())


def _follow_dependencies(project: Path, suites: list[Suite], cases: list[Case]) -> _Trail:
    """Follow every path of a dependency; paths in suites are followed as they are written, with their links."""
    named = (
        path
        for suite in suites
        for value in (suite.file.subject, suite.file.reference, suite.file.golden, suite.file.benchmark)
        if isinstance(value, dict)
        for path in paths_in(value, suite.directory, project)
    )
    trail = _Trail(str(project))
    for path in frozenset(named).union(*(dependency_paths(case, project) for case in cases)):
        trail.follow(str(path))
    for suite in suites:
        for folder in folders_searched(suite, project):
            trail.follow_and_list(folder)
    return trail


class _Trail:
    """Record everything on the way to paths, by absolute path: files, folders, links with targets, missing files."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[str, FileSignature | None] = {root: file_signature(root)}
        self.listed: set[str] = set()

    def follow(self, path: str) -> str:
        """Record each step of a path up to the first missing one, and return the last step."""
        inside = path.startswith(f"{self.root}/")
        here = self.root if inside else "/"
        waiting = path[len(self.root) if inside else 0 :].split("/")[::-1]
        links = 0
        while waiting:
            here = os.path.normpath(os.path.join(here, waiting.pop()))
            found = self._look(here)
            if found is None or links > _MAX_LINKS:
                break
            if stat.S_ISLNK(found[0]):
                links += 1
                waiting += os.readlink(here).split("/")[::-1]
                here = "/" if os.readlink(here).startswith("/") else os.path.dirname(here)
        return here

    def follow_and_list(self, folder: str) -> None:
        """Record a folder together with the names in it."""
        self.listed.add(self.follow(folder))

    def newest(self) -> int:
        """Return the time of the last change in ns; a folder changes with the names in it."""
        return max(max(found[3:]) for found in self.seen.values() if found is not None)

    def to_keep(self) -> dict[str, FileSignature | None]:
        """Return signatures by path, relative to the project for paths inside it."""
        # Files come and go in folders that were only passed, so their own times do not count.
        return {
            path.removeprefix(f"{self.root}/"): found
            if found is None or path in self.listed
            else folder_identity(found)
            for path, found in self.seen.items()
            if path != self.root or path in self.listed
        }

    def _look(self, path: str) -> FileSignature | None:
        if path not in self.seen:
            self.seen[path] = file_signature(path)
        return self.seen[path]
