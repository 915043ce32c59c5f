"""Which files does a case depend on?

A change selects the cases that depend on it. A case depends on its suite, the files that the suite's `depends` matches,
suites/tolerances.yaml, the table of its device, files of inputs and recorded outputs, the modules of subject,
reference, golden and benchmark, and those of their installed kinds and of analyzers. The modules add the project
modules that they import, files that they name in a text, relative to themselves or to the project, and the libraries
that those link. No code of the project is executed. An installed kind declares what its specifications name, and a
case of a kind without a declaration depends on every file.

Missing files count as well. If an import looks for a file in vain, adding the file changes the case; and the removal of
a module changes the cases that used it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from os.path import isfile, islink, normpath, realpath
from pathlib import Path, PurePosixPath
from time import time_ns
from typing import Any, NamedTuple

from precreg.measure import analyzer_target
from precreg.storage import (
    DEVICES_FOLDER,
    MSPROBE_FILE,
    MSPROBE_FOLDER,
    SETTLED_NS,
    FileTrail,
    ImportedName,
    files_matching,
    files_named,
    find_package_origin,
    fixed_folder,
    libraries_linked,
    libraries_loaded,
    make_scratch_folder,
    names_imported,
    parse_module,
    pause_gc,
    relative_import_folder,
    replace_file,
    telling_nodes,
)
from precreg.subject import (
    BUILT_IN_SUBJECTS,
    Dependencies,
    declared_dependencies,
    dependencies_entry_point,
    has_recorded_objects,
    recorded_paths,
    subject_entry_point,
    target_of,
)
from precreg.suite import (
    Suite,
    expand_suite,
    folders_searched,
    load_suites,
    node_test_folders,
    possible_files,
    search_path,
)
from precreg.suite.inputs import PYTHON_KEY
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case, Computation
from precreg.vcs.dependency_index import (
    INDEX_FILE,
    LIBRARY_VARIABLE,
    can_affect_cases,
    can_be_claimed,
    index_conditions,
    installed_from,
    kind_providers,
    matches_any,
)

COMPILED_MODULE_SUFFIXES = (".so", ".pyd")


class ModuleNeeds(NamedTuple):
    """Hold the imports of a module, and its texts that look like files."""

    modules: tuple[ImportedName, ...]
    files: tuple[str, ...]


@lru_cache(maxsize=1024)
def read_module_needs(path: Path) -> ModuleNeeds:
    """Return the needs of a module, at any depth of its code; none of a module that Python cannot parse."""
    # A compiled module has no text; its libraries are found apart.
    tree = None if path.suffix in COMPILED_MODULE_SUFFIXES else parse_module(path.read_bytes())
    modules: list[ImportedName] = []
    files: list[str] = []
    for node in telling_nodes(tree) if tree is not None else ():
        modules += names_imported(node)
        files += (file.as_posix() for file in files_named(node) if can_affect_cases(file.name))
        files += (file.as_posix() for file in libraries_loaded(node))
    return ModuleNeeds(tuple(modules), tuple(files))


def affected_cases(cases: Sequence[Case], changed: Set[str], project: Path) -> list[Case]:
    """Return the cases that depend on a changed file, or whose baseline changed; paths are relative to the project.

    Raises UserError (bad-dependencies) for an installed kind whose declaration fails.
    """
    # The entries of a suite and their sums are two files, which differ in their suffix.
    files = (PurePosixPath(path).with_suffix("").parts for path in changed if path.startswith("baselines/"))
    accepted = {parts[2:] for parts in files}
    keys = _needs_keys(cases)
    affected: dict[object, bool] = {}
    for key, case in zip(keys, cases, strict=True):
        if key not in affected:
            affected[key] = _is_affected(case, changed, project)
    named = zip(keys, cases, strict=True)
    return [case for key, case in named if (case.tier, case.suite) in accepted or affected[key]]


def dependencies_key(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases with the same dependencies, of cases that are kept as long as the key.

    Rows of a matrix share their specifications and inputs, so the ids of these stand for their content.
    """
    specs = tuple((each.kind, id(each.spec)) for each in _computations(case))
    return (case.source.file, case.directory, case.device, case.analyzers, case.depends, specs, id(case.inputs))


def _needs_keys(cases: Iterable[Case]) -> list[object]:
    """Return a key of each case by content: more cases have equal keys, but a key takes longer."""
    known: dict[object, object] = {}
    keys = []
    for case in cases:
        if (same := dependencies_key(case)) not in known:
            # Its last two members are ids; the content takes their place.
            known[same] = (*same[:-2], *_named_content(case))
        keys.append(known[same])
    return keys


def _named_content(case: Case) -> tuple[object, ...]:
    """Return the specifications of a case, and the texts and functions of its inputs: numbers name no file."""
    specs = tuple((each.kind, json.dumps(each.spec)) for each in _computations(case))
    functions = frozenset(each[PYTHON_KEY]["function"] for each in case.inputs.values() if PYTHON_KEY in each)
    return specs, frozenset(texts_in([*case.inputs.values()])), functions


def _distinct(cases: Sequence[Case]) -> list[Case]:
    """Return a case of each group with the same dependencies."""
    return [*dict(zip(_needs_keys(cases), cases, strict=True)).values()]


def _is_affected(case: Case, changed: Set[str], project: Path) -> bool:
    if not changed.isdisjoint(case_dependencies(case, project)):
        return True
    patterns = _patterns(case, project)
    if patterns and any(matches_any(patterns, path) for path in changed):
        return True
    return has_unknown_dependencies(case, project) and any(map(can_affect_cases, changed))


def unclaimed_files(cases: Sequence[Case], changed: Set[str], project: Path) -> list[str]:
    """Return the changed files that no case is known to depend on, sorted; without baselines and reports."""
    left = set(filter(can_be_claimed, changed))
    if not left:
        return []
    every = _distinct(cases)
    left.difference_update(*(case_dependencies(case, project) for case in every))
    patterns = frozenset().union(*(_patterns(case, project) for case in every))
    return sorted(path for path in left if not matches_any(patterns, path))


def case_dependencies(case: Case, project: Path) -> frozenset[str]:
    """Return the files that the case depends on, relative to the project, including missing ones."""
    named = (path for path in _named_by(case, project) if isfile(path))
    with_libraries = frozenset[Path]().union(*(_with_libraries(path, project) for path in named))
    own = (_spellings(path, project) for path in (*_own_files(case, project), *with_libraries))
    matched = (_files_matching(pattern, project) for pattern in _patterns(case, project))
    searched = (_search(*each, project).files for each in _modules_of(case, project))
    return frozenset[str]().union(*own, *matched, *searched)


def dependency_paths(case: Case, project: Path) -> frozenset[Path]:
    """Return every path at which a dependency was searched, existing or not, with its links unresolved."""
    own = (*_own_files(case, project), *_named_by(case, project))
    declared = (path for each in _declarations(case, project) for path in _declaring_files(each, case, project))
    libraries = frozenset[Path]().union(*(_with_libraries(path, project) for path in own))
    searched = (_search(*each, project).paths for each in _modules_of(case, project))
    return frozenset(own).union(declared, libraries, *searched)


def dependency_packages(cases: Iterable[Case], project: Path) -> frozenset[str]:
    """Return the top-level names of packages that were searched, without the standard library."""
    searches = {searched for case in cases for searched in _modules_of(case, project)}
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
            yield from (project / path for path in recorded_paths(computation.spec))
        elif computation.kind == "table" and "file" in computation.spec:
            yield project / computation.spec["file"]


def _computations(case: Case) -> Iterator[Computation]:
    yield from (case.subject, case.oracle)
    if case.benchmark is not None:
        yield case.benchmark


def _named_by(case: Case, project: Path) -> Iterator[Path]:
    """Yield the paths that texts in the options of inputs, and of subjects of other kinds, could mean."""
    for computation in _computations(case):
        if computation.kind not in ("files", "python", "table"):
            yield from paths_in(computation.spec, case.directory, project)
    yield from paths_in(list(case.inputs.values()), case.directory, project)


def paths_in(value: Any, directory: str, project: Path) -> Iterator[Path]:
    """Yield every text inside a value as a path relative to the suite."""
    folder = project / directory
    return (folder / text for text in texts_in(value))


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


def _modules_of(case: Case, project: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules that a case names, each with the folder where its search begins."""
    for computation in _computations(case):
        if (target := target_of(computation)) is not None:
            yield target.partition(":")[0], case.directory
        if computation.kind not in BUILT_IN_SUBJECTS:
            yield subject_entry_point(computation.kind).module, case.directory
            point = dependencies_entry_point(computation.kind)
            if point is not None:
                yield point.module, case.directory
    for mapping in case.inputs.values():
        if PYTHON_KEY in mapping:
            yield mapping[PYTHON_KEY]["function"].partition(":")[0], case.directory
    for analyzer in case.analyzers:
        yield analyzer_target(analyzer).partition(":")[0], case.directory
    for declared in _declarations(case, project):
        if declared is not None:
            yield from ((module, case.directory) for module in declared.modules)


def _patterns(case: Case, project: Path) -> frozenset[str]:
    """Return the paths and patterns of files that the suite names, and that installed kinds declare."""
    declared = (each.files for each in _declarations(case, project) if each is not None)
    places = (normpath(project / case.directory / file) for files in declared for file in files)
    recorded = (path for each in _computations(case) if each.kind == "files" for path in recorded_paths(each.spec))
    # The tensors of a dump are files of their own.
    dumps = (path.removesuffix(MSPROBE_FILE) for path in recorded if path.rpartition("/")[2] == MSPROBE_FILE)
    inside = (Path(place).relative_to(project).as_posix() for place in places if Path(place).is_relative_to(project))
    return frozenset(case.depends).union(inside, (f"{folder}{MSPROBE_FOLDER}/*" for folder in dumps))


def has_unknown_dependencies(case: Case, project: Path) -> bool:
    """Return whether a case has a kind of subject that declares nothing, or reads objects of a store."""
    return any(map(has_recorded_objects, _computations(case))) or None in _declarations(case, project)


def _declarations(case: Case, project: Path) -> list[Dependencies | None]:
    """Return the declarations of the kinds of a case, and None for each installed kind without one."""
    return [_declaration(each.kind, json.dumps(each.spec), project / case.directory) for each in _computations(case)]


# Rows of a matrix share their specifications, whose texts are keys: a specification itself may be a list or a dict.
@lru_cache(maxsize=1024)
def _declaration(kind: str, spec: str, folder: Path) -> Dependencies | None:
    return declared_dependencies(kind, json.loads(spec), folder)


def _declaring_files(declared: Dependencies | None, case: Case, project: Path) -> Iterator[Path]:
    """Yield the declared files, which the declaration may have read, and the files of the code that declares."""
    if declared is None:
        return
    yield from (project / case.directory / fixed_folder(file) for file in declared.files)
    kinds = {each.kind for each in _computations(case)} - BUILT_IN_SUBJECTS.keys()
    if not kinds:
        return
    points = (dependencies_entry_point(kind) or subject_entry_point(kind) for kind in kinds)
    packages = {point.module.partition(".")[0] for point in points}
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if name.partition(".")[0] in packages and origin is not None:
            yield Path(origin)


@lru_cache(maxsize=1024)
def _files_matching(pattern: str, project: Path) -> frozenset[str]:
    return frozenset(files_matching(project, pattern))


def _with_libraries(path: Path, project: Path) -> frozenset[Path]:
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
    return _search(module, directory, project).files


def forget_searches() -> None:
    """Forget the results of searches, so that files count as they are now."""
    for search in (read_module_needs, _declaration, _files_matching, _search, _find_module, _spellings, _real_folder):
        search.cache_clear()


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
        looked = _find_module(name, folders if installed is None else (*folders, installed))
        tried.update(looked.paths)
        for path in looked.found:
            needed = read_module_needs(path)
            waiting += (_absolute_name(imported, path, folders, installed) for imported in needed.modules)
            tried.update(home / file for home in (path.parent, project) for file in needed.files)
    tried.update(*(_with_libraries(path, project) for path in [*tried] if ".so" in path.name))
    files = frozenset[str]().union(*(_spellings(path, project) for path in tried))
    return _Search(files, frozenset(tried), frozenset(name.partition(".")[0] for name in done - {""}))


class _Looked(NamedTuple):
    """Hold the searched paths of a module, and its files."""

    paths: tuple[Path, ...]
    found: tuple[Path, ...]


# Most modules of a project are imported by several others.
@lru_cache(maxsize=8192)
def _find_module(name: str, folders: tuple[Path, ...]) -> _Looked:
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
    return _Looked(tuple(tried), tuple(found))


@lru_cache(maxsize=32768)
def _spellings(path: Path, project: Path) -> frozenset[str]:
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


@pause_gc()
def load_cases_and_index(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, and write the index of their dependencies. Raises UserError as `load_cases`."""
    began = time_ns()
    suites = load_suites(project, environ)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    write_index(project, suites, cases, began)
    return cases


def write_index(project: Path, suites: list[Suite], cases: list[Case], began_ns: int) -> None:
    """Write the index, unless a file that it covers changed just before `began_ns`, the start of reading, or later.

    A case with unknown dependencies depends on every file, so there is no index.
    """
    cases = _distinct(cases)
    # A project on a read-only disk works without an index.
    with suppress(OSError):
        if any(has_unknown_dependencies(case, project) for case in cases):
            return
        trail = _follow_dependencies(project, suites, cases)
        conditions = index_conditions(project)
        found = {path for path in conditions["suites"] if not path.startswith(f"{DEVICES_FOLDER}/")}
        read = {suite.source.file for suite in suites}
        if read != found - {TOLERANCES_FILE} or trail.newest() >= began_ns - SETTLED_NS:
            return
        index = {
            "conditions": conditions,
            "dependencies": sorted(frozenset().union(*(case_dependencies(case, project) for case in cases))),
            "patterns": sorted(frozenset[str]().union(*(_patterns(case, project) for case in cases))),
            "kinds": {kind: kind_providers(kind) for kind in sorted(_installed_kinds(cases))},
            "packages": {top: find_package_origin(top) for top in sorted(dependency_packages(cases, project))},
            "paths": trail.to_keep(),
        }
        make_scratch_folder((project / INDEX_FILE).parent)
        replace_file(project / INDEX_FILE, json.dumps(index).encode())


def _installed_kinds(cases: Iterable[Case]) -> set[str]:
    kinds = {each.kind for case in cases for each in _computations(case)}
    return kinds - BUILT_IN_SUBJECTS.keys()


def _follow_dependencies(project: Path, suites: list[Suite], cases: list[Case]) -> FileTrail:
    """Follow every path of a dependency; paths in suites are followed as they are written, with their links."""
    named = (
        path
        for suite in suites
        for value in (suite.file.subject, suite.file.reference, suite.file.golden, suite.file.benchmark)
        if isinstance(value, dict)
        for path in paths_in(value, suite.directory, project)
    )
    trail = FileTrail(str(project))
    for path in frozenset(named).union(*(dependency_paths(case, project) for case in cases)):
        trail.follow(str(path))
    for suite in suites:
        for folder in (*folders_searched(suite, project), *node_test_folders(suite, project)):
            trail.follow_and_list(folder)
    return trail
