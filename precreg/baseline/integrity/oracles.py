"""Which changes lie behind the name of a reference or golden, between a base and HEAD?

The text of its code, the files that it names, and the files that it was seen to open. Nothing is executed here, so
these are candidates: its results decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any

from msgspec import Struct

from precreg.baseline.integrity.code import COMPILED_SUFFIXES, ProjectCode
from precreg.baseline.integrity.criteria import CasePairs, is_redefined
from precreg.storage import pattern_matches
from precreg.subject import declared_dependencies, recorded_paths, target_of
from precreg.types import (
    BenchmarkReplaced,
    Case,
    ComparedOracleFact,
    Computation,
    OracleCodeChanged,
    OracleFact,
    OracleFilesChanged,
    OraclePatched,
)
from precreg.vcs import paths_in, run_git


class OracleChanges(Struct, frozen=True):
    """Hold changes of oracles that no definition shows, by the id of the case at HEAD.

    Results decide about those in `visible`, whose code or files changed, and in `recorded`, whose oracle opened a
    changed file when its baseline was accepted: the oracle may give the same bits as before. They say nothing about
    `lasting` ones: other devices, benchmarks, and what a subject alters. `changed` are the files of the project that
    differ from the base.
    """

    visible: dict[str, ComparedOracleFact]
    recorded: dict[str, ComparedOracleFact]
    lasting: dict[str, OracleFact]
    changed: frozenset[str] = frozenset()

    @property
    def every(self) -> dict[str, OracleFact]:
        """Return one change for each case, as its text has it: no result is known."""
        return self.lasting | self.visible


def oracle_changes(
    pairs: CasePairs, then: Path, now: Path, changed: set[str], opened: Mapping[str, Sequence[str]]
) -> OracleChanges:
    """Return changes behind the names in a case's definition: of its files, its code, or what its subject alters.

    `changed` are the files of the project that differ from the base; `opened` has those of them that the oracle of a
    baseline is known to open, by its id.
    """
    visible: dict[str, ComparedOracleFact] = {}
    recorded: dict[str, ComparedOracleFact] = {}
    lasting: dict[str, OracleFact] = {}
    # Modules are parsed only if one changed: most merge requests change suites or code, and seldom references.
    code = _CodeOfBoth(ProjectCode(then, changed), ProjectCode(now, changed))
    modules = any(path.endswith((".py", *COMPILED_SUFFIXES)) for path in changed)
    for before, case in pairs.judged if changed else ():
        if is_redefined(before, case):
            continue
        files = sorted(changed.intersection((*code.files(case), *_files_behind(case, now, changed))))
        seen = {*opened.get(before.baseline_id, ()), *opened.get(case.baseline_id, ())}
        if files:
            visible[case.id] = OracleFilesChanged(case.role, tuple(files))
        elif modules and (fact := code.change(before, case)):
            visible[case.id] = fact
        elif seen:
            recorded[case.id] = OracleFilesChanged(case.role, tuple(sorted(seen)))
        if tables := sorted(changed.intersection(_device_files(case))):
            lasting[case.id] = OracleFilesChanged(case.role, tuple(tables))
        elif modules and (patched := code.patch(before, case)):
            lasting[case.id] = patched
        elif replaced := _benchmark_change(before, case, code, changed, now):
            lasting[case.id] = replaced
    return OracleChanges(visible, recorded, lasting, frozenset(changed | built_libraries(now, changed)))


# Suffixes of files that compilers and builds read or write.
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".cuh", ".f", ".f90", ".rs", ".go", ".pyx", ".pxd", ".s")
_BUILD_FILES = ("Makefile", "CMakeLists.txt", ".cmake", "meson.build", "setup.py", "pyproject.toml", "Cargo.toml")
_LIBRARIES = ("*.so", "*.so.*", "*.dylib", "*.dll", "*.pyd")


def built_libraries(project: Path, changed: Set[str]) -> frozenset[str]:
    """Return the libraries that git ignores, if a source or a build file changed: they may have been built anew."""
    if not any(path.lower().endswith(_SOURCES) or path.endswith(_BUILD_FILES) for path in changed):
        return frozenset()
    ignored = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *_LIBRARIES)
    return frozenset(run_git(project, *ignored).stdout.split("\0")) - {""}


def _benchmark_change(
    before: Case, case: Case, code: _CodeOfBoth, changed: set[str], project: Path
) -> BenchmarkReplaced | OracleFilesChanged | OracleCodeChanged | None:
    """Return how a benchmark changed; without one, bounds on ratios are broken, and nothing is looser."""
    old, new = before.benchmark, case.benchmark
    if old is None or new is None:
        return None
    if old != new:
        return BenchmarkReplaced(f"{old.kind} {old.spec}", f"{new.kind} {new.spec}")
    behind = code.files_of(new, case.directory)
    files = sorted(changed.intersection((*behind, *_files_of(new, case, project, changed))))
    if files:
        return OracleFilesChanged("benchmark", tuple(files))
    target = target_of(new)
    is_other = target is not None and code.differs(target, before.directory, case.directory)
    return OracleCodeChanged("benchmark", target) if target is not None and is_other else None


class _CodeOfBoth:
    """Compare the code of both sides; code that several cases share is compared once."""

    def __init__(self, then: ProjectCode, now: ProjectCode) -> None:
        self.then, self.now = then, now
        self._files = cache(now.files)
        self._differs, self._patched = cache(self._is_other), cache(self._new_patches)

    def files(self, case: Case) -> frozenset[str]:
        """Return the files that the code of a reference names."""
        return self.files_of(case.oracle, case.directory)

    def files_of(self, computation: Computation, directory: str) -> frozenset[str]:
        """Return the files that the code of a computation names."""
        target = target_of(computation)
        return frozenset() if target is None else self._files(target, directory)

    def differs(self, target: str, former: str, directory: str) -> bool:
        """Return whether the code of a function differs between the sides."""
        return self._differs(target, former, directory)

    def change(self, before: Case, case: Case) -> OracleCodeChanged | None:
        """Return that the code of a reference changed."""
        target = target_of(case.oracle)
        both = target is not None and target_of(before.oracle) is not None
        if target is not None and both and self._differs(target, before.directory, case.directory):
            return OracleCodeChanged(case.role, target)
        return None

    def patch(self, before: Case, case: Case) -> OraclePatched | None:
        """Return which attributes the subject of a case newly sets."""
        target = target_of(case.subject)
        both = target is not None and target_of(before.subject) is not None
        if target is not None and both and (new := self._patched(target, before.directory, case.directory)):
            return OraclePatched(case.role, tuple(sorted(new)))
        return None

    def _is_other(self, target: str, former: str, directory: str) -> bool:
        return self.then.of(target, former) != self.now.of(target, directory)

    def _new_patches(self, target: str, former: str, directory: str) -> frozenset[str]:
        return self.now.patches(target, directory) - self.then.patches(target, former)


def _files_behind(case: Case, project: Path, changed: Set[str]) -> Iterator[str]:
    """Yield the files, relative to the project, of a case's reference or golden by its definition."""
    yield from _files_of(case.oracle, case, project, changed)
    yield from _paths_named_in(case.params, case, project)


def _device_files(case: Case) -> Iterator[str]:
    if case.device is not None:
        from precreg.arithmetic.devices import device_table_paths

        yield from device_table_paths(case.device)


def _files_of(computation: Computation, case: Case, project: Path, changed: Set[str]) -> Iterator[str]:
    """Yield the recorded files of a computation, or the paths that its options could mean, and declared ones."""
    if computation.kind == "files":
        yield from recorded_paths(computation.spec)
    elif computation.kind not in ("python", "table"):
        yield from _paths_named_in(computation.spec, case, project)
        yield from _declared_files(computation, case, project, changed)


def _declared_files(computation: Computation, case: Case, project: Path, changed: Set[str]) -> Iterator[str]:
    """Yield the changed files that a kind declares for a computation. Raises UserError: bad-dependencies."""
    declared = declared_dependencies(computation.kind, computation.spec, project / case.directory)
    files = () if declared is None else declared.files
    patterns = [relpath(project / case.directory / file, project) for file in files]
    # The changed paths and not the folders: a file that was removed counts, too.
    yield from (path for path in changed if any(pattern_matches(pattern, path) for pattern in patterns))


def _paths_named_in(value: Any, case: Case, project: Path) -> Iterator[str]:
    """Yield texts as paths relative to the project, from the suite's folder and from the root."""
    for home in (case.directory, ""):
        yield from (relpath(path, project) for path in paths_in(value, home, project))
