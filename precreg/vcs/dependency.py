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
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from os.path import isfile, normpath
from pathlib import Path, PurePosixPath
from typing import Any

from precreg.measure import analyzer_target
from precreg.storage import MSPROBE_FILE, MSPROBE_FOLDER, files_matching, fixed_folder
from precreg.subject import (
    BUILT_IN_SUBJECTS,
    Dependencies,
    declared_dependencies,
    dependencies_entry_point,
    has_recorded_objects,
    kind_named,
    recorded_paths,
    subject_entry_point,
    target_of,
)
from precreg.suite.inputs import PYTHON_KEY
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case, Computation
from precreg.vcs.dependency_index import can_affect_cases, can_be_claimed, matches_any
from precreg.vcs.module_search import forget_module_searches, search_module, spellings, with_libraries


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


def distinct_dependencies(cases: Sequence[Case]) -> list[Case]:
    """Return a case of each group with the same dependencies."""
    return [*dict(zip(_needs_keys(cases), cases, strict=True)).values()]


def _is_affected(case: Case, changed: Set[str], project: Path) -> bool:
    if not changed.isdisjoint(case_dependencies(case, project)):
        return True
    patterns = dependency_patterns(case, project)
    if patterns and any(matches_any(patterns, path) for path in changed):
        return True
    return has_unknown_dependencies(case, project) and any(map(can_affect_cases, changed))


def unclaimed_files(cases: Sequence[Case], changed: Set[str], project: Path) -> list[str]:
    """Return the changed files that no case is known to depend on, sorted; without baselines and reports."""
    left = set(filter(can_be_claimed, changed))
    if not left:
        return []
    every = distinct_dependencies(cases)
    left.difference_update(*(case_dependencies(case, project) for case in every))
    patterns = frozenset().union(*(dependency_patterns(case, project) for case in every))
    return sorted(path for path in left if not matches_any(patterns, path))


def case_dependencies(case: Case, project: Path) -> frozenset[str]:
    """Return the files that the case depends on, relative to the project, including missing ones."""
    named = filter(_is_file, _named_by(case, project))
    libraries = frozenset[Path]().union(*(with_libraries(path, project) for path in named))
    own = (spellings(path, project) for path in (*_own_files(case, project), *libraries))
    matched = (_files_matching(pattern, project) for pattern in dependency_patterns(case, project))
    searched = (search_module(*each, project).files for each in _modules_of(case, project))
    return frozenset[str]().union(*own, *matched, *searched)


def dependency_paths(case: Case, project: Path) -> frozenset[Path]:
    """Return every path at which a dependency was searched, existing or not, with its links unresolved."""
    own = (*_own_files(case, project), *_named_by(case, project))
    declared = (path for each in _declarations(case, project) for path in _declaring_files(each, case, project))
    libraries = frozenset[Path]().union(*(with_libraries(path, project) for path in own))
    searched = (search_module(*each, project).paths for each in _modules_of(case, project))
    return frozenset(own).union(declared, libraries, *searched)


def dependency_packages(cases: Iterable[Case], project: Path) -> frozenset[str]:
    """Return the top-level names of packages that were searched, without the standard library."""
    searches = {searched for case in cases for searched in _modules_of(case, project)}
    packages = frozenset[str]().union(*(search_module(*searched, project).packages for searched in searches))
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
    return (_path_of_text(folder, text) for text in texts_in(value))


# Inputs of all suites have the same few texts, and a run looks for the dependencies of each case three times. One path
# keeps its text and its hash.
@lru_cache(maxsize=8192)
def _path_of_text(folder: Path, text: str) -> Path:
    return folder / text


@lru_cache(maxsize=8192)
def _is_file(path: Path) -> bool:
    return isfile(path)


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


def installed_kinds(cases: Iterable[Case]) -> set[str]:
    """Return the kinds of the cases' subjects, references and benchmarks that other packages install."""
    kinds = {each.kind for case in cases for each in _computations(case)}
    return kinds - BUILT_IN_SUBJECTS.keys()


def dependency_patterns(case: Case, project: Path) -> frozenset[str]:
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
    return [
        _NOTHING
        if _declares_nothing(each.kind)
        else _declaration(each.kind, json.dumps(each.spec), project / case.directory)
        for each in _computations(case)
    ]


_NOTHING = Dependencies()


@lru_cache(maxsize=64)
def _declares_nothing(kind: str) -> bool:
    return kind in BUILT_IN_SUBJECTS and kind_named(kind).dependencies is None


# Rows of a matrix share their specifications, whose texts are keys: a specification itself may be a list or a dict.
@lru_cache(maxsize=1024)
def _declaration(kind: str, spec: str, folder: Path) -> Dependencies | None:
    return declared_dependencies(kind, json.loads(spec), folder)


def _declaring_files(declared: Dependencies | None, case: Case, project: Path) -> Iterator[Path]:
    """Yield the declared files, which the declaration may have read, and the files of the code that declares."""
    if declared is None:
        return
    yield from (project / case.directory / fixed_folder(file) for file in declared.files)
    kinds = installed_kinds([case])
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


def forget_searches() -> None:
    """Forget the results of searches, so that files count as they are now."""
    for search in (_declaration, _files_matching, _is_file):
        search.cache_clear()
    forget_module_searches()
