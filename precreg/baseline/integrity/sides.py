"""Which criteria does each side of a comparison have, and what does the project permit?

The base is read from git's objects, HEAD from the working tree. baselines/allow.yaml lists permitted changes, case by
case, with a reason. No other module of this room reads files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import cache
from os.path import lexists, relpath
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline.integrity.code import COMPILED_SUFFIXES, ProjectCode
from precreg.baseline.integrity.criteria import CasePairs, IntegrityChange, ProjectSide, UnreadableFile, pair_cases
from precreg.baseline.store import (
    BASELINES_FOLDER,
    CASE_MARKER,
    BaselineKey,
    read_baseline_file,
    read_project_bytes,
    suite_of_file,
)
from precreg.errors import UserError, nearest
from precreg.storage import Source, expect_mapping, format_value, read_yaml, resolve_inside
from precreg.suite import expand_suite, read_foundation, read_suite, suite_files
from precreg.types import (
    BaselineEntry,
    BenchmarkReplaced,
    Case,
    Computation,
    FindingKind,
    Location,
    OracleCodeChanged,
    OracleFact,
    OracleFilesChanged,
    OraclePatched,
    RunFinding,
    UnusedAllowance,
)
from precreg.vcs import changed_files_since_commit, files_at_commit, paths_in

FILE = "baselines/allow.yaml"
_LIST = "allow"
_KEYS = ("case", "change", "reason")
# All kinds that can fail a run.
ALLOWABLE_KINDS = tuple(
    kind for kind in FindingKind if kind not in (FindingKind.CASE_INTRODUCED, FindingKind.ALLOWANCE_UNUSED)
)
# Kinds that only a run finds. A comparison of two commits cannot show whether a permission for them was needed.
COMPUTED_KINDS = frozenset({FindingKind.CREEP, FindingKind.COMBINED_LOSS})


class Allowance(Struct, frozen=True):
    """Hold one permission with its place in the file."""

    case: str
    kind: FindingKind
    reason: str
    source: Location
    # The base has the entry already: the change that it was for is merged.
    spent: bool = False

    def names(self, about: str) -> bool:
        """Return whether the entry is about a case or a file, by its name, its suite, or a pattern."""
        return about == self.case or about.startswith(f"{self.case}/") or fnmatchcase(about, self.case)


def read_allowances(project: Path) -> tuple[Allowance, ...]:
    """Return the entries of baselines/allow.yaml; none without the file, or if it is empty.

    Raises:
        UserError: bad-allowance, outside-project, and those of `read_yaml`.
    """
    path = project / FILE
    if not lexists(path):
        return ()
    # A link out of the project would let a file that nobody reviews permit changes.
    resolve_inside(project, FILE, file=FILE)
    source = read_yaml(path, FILE)
    if source.data is None:
        return ()
    expect_mapping(source, source.data)
    for key in source.data:
        if key != _LIST:
            raise source.error("bad-allowance", f"expected {_LIST}: alone but got {key}{nearest(key, (_LIST,))}", key)
    entries = source.data.get(_LIST)
    if not isinstance(entries, list):
        raise source.error("bad-allowance", f"expected a list under {_LIST}: but got {format_value(entries)}", _LIST)
    return tuple(_read_allowance(source, index, entry) for index, entry in enumerate(entries))


def _read_allowance(source: Source, index: int, entry: Any) -> Allowance:
    """Read one entry. Raises UserError (bad-allowance) if the case, the change or the reason is missing."""
    place = (_LIST, index)
    if not isinstance(entry, dict):
        raise source.error("bad-allowance", f"expected {', '.join(_KEYS)} but got {format_value(entry)}", *place)
    for key in (*_KEYS, *entry):
        if key not in _KEYS:
            message = f"expected one of {', '.join(_KEYS)} but got {key}{nearest(key, _KEYS)}"
            raise source.error("bad-allowance", message, *place, key)
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise source.error(
                "bad-allowance", f"expected a text but got {key}={format_value(entry.get(key))}", *place, key
            )
    if entry["change"] not in ALLOWABLE_KINDS:
        known = [str(kind) for kind in ALLOWABLE_KINDS]
        message = f"expected the kind of a finding but got change={entry['change']}{nearest(entry['change'], known)}"
        raise source.error("bad-allowance", message, *place, "change")
    return Allowance(entry["case"], FindingKind(entry["change"]), entry["reason"], source.where(*place))


def mark_spent(now: Iterable[Allowance], base: Iterable[Allowance]) -> tuple[Allowance, ...]:
    """Mark the entries that the base has too: they permit nothing more, whatever their patterns match now."""
    # An entry for another change needs another reason, so equal text means the entry of an earlier merge request.
    before = {(entry.case, entry.kind, entry.reason) for entry in base}
    return tuple(replace(entry, spent=(entry.case, entry.kind, entry.reason) in before) for entry in now)


def allowed_reason(kind: FindingKind, about: str, allowances: Iterable[Allowance]) -> str | None:
    """Return the reason of the first entry that permits a change; None without one."""
    matching = (entry for entry in allowances if not entry.spent and entry.kind is kind)
    return next((entry.reason for entry in matching if entry.names(about)), None)


def add_allowance_reasons(project: Path, found: Sequence[RunFinding]) -> tuple[RunFinding, ...]:
    """Add to each finding of a run the reason for which the project permits it, if any.

    Raises:
        UserError: bad-allowance, if the file cannot be read.
    """
    allowances = read_allowances(project)
    return tuple(replace(one, allowed=allowed_reason(one.kind, one.about, allowances)) for one in found)


def find_unused_allowances(allowances: Iterable[Allowance], changes: Iterable[IntegrityChange]) -> list[RunFinding]:
    """Return a finding that fails nothing for each unused entry: it is spent, or matches no change."""
    found = list(changes)
    return [
        RunFinding(
            FindingKind.ALLOWANCE_UNUSED,
            FILE,
            source=entry.source,
            fails=False,
            fact=UnusedAllowance(entry.kind, entry.case, entry.spent),
        )
        for entry in allowances
        if entry.kind not in COMPUTED_KINDS
        and (entry.spent or not any(entry.kind is change.kind and entry.names(change.about) for change in found))
    ]


def find_merged_allowances(allowances: Iterable[Allowance]) -> list[RunFinding]:
    """Return the same as `find_unused_allowances` on a default branch, where every permitted change is merged."""
    return find_unused_allowances((replace(entry, spent=True) for entry in allowances), ())


_READ_SUFFIXES = (".py", *COMPILED_SUFFIXES, ".yaml", ".yml")
# Suites only check that these exist. Their contents may be gigabytes, and stay in git.
_ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors", ".bin")


class IntegritySides(Struct, frozen=True):
    """Hold a base and the project at HEAD, the pairs of their cases, and the permissions between them.

    `references` has, by the id of a case at HEAD, changes of its reference that its definition does not show.
    """

    base: ProjectSide
    head: ProjectSide
    pairs: CasePairs
    references: dict[str, OracleFact]
    allowances: tuple[Allowance, ...]


def read_sides(
    project: Path, commit: str, every: Iterable[Case], environ: Mapping[str, str] = os.environ
) -> IntegritySides:
    """Read the criteria of a commit and of the working tree. `every` are the cases of the working tree.

    Nothing of the commit is executed. Unreadable files of the commit become part of its side.

    Raises:
        UserError: no-git, bad-allowance, and those of reading the project's own suites and baselines.
    """
    # Only suites with other baseline bytes are decoded. Most changes touch few of them, and equal bytes need no look.
    with files_at_commit(project, commit, _is_read, _is_named) as then:
        before, unread = _read_cases(then, environ)
        suites = _differing_suites(then, project)
        accepted, damaged = _read_entries(then, suites)
        former, refused = _try_allowances(then)
        now = {case.id: case for case in every}
        pairs = pair_cases(before, now)
        references = _reference_changes(pairs, then, project, changed_files_since_commit(project, commit))
        base = ProjectSide(
            before,
            accepted,
            _count_entries(then),
            _allows_looser_thresholds(then),
            tuple(map(_describe_error, (*unread, *damaged, *refused))),
        )
    entries, problems = _read_entries(project, suites)
    if problems:
        raise problems[0]
    head = ProjectSide(now, entries, looser_thresholds=_allows_looser_thresholds(project))
    return IntegritySides(base, head, pairs, references, mark_spent(read_allowances(project), former))


def _describe_error(error: UserError) -> UnreadableFile:
    place = f"line {error.line}: " if error.line else ""
    return UnreadableFile(error.file or "suites/", f"{place}{error.message}")


def _is_read(path: str) -> bool:
    return path.endswith(_READ_SUFFIXES) or (path.startswith(f"{BASELINES_FOLDER}/") and path.endswith(".json"))


def _is_named(path: str) -> bool:
    """Return whether a file must exist because a suite may name it: recorded arrays, and files beside suites."""
    return path.startswith("suites/") or path.endswith(_ARRAY_SUFFIXES)


def _read_cases(folder: Path, environ: Mapping[str, str]) -> tuple[dict[str, Case], list[UserError]]:
    """Return the cases of a folder, and its unreadable suites."""
    # Without tolerances.yaml no suite can be read.
    try:
        foundation = read_foundation(folder, environ)
    except UserError as error:
        return {}, [error]
    cases: dict[str, Case] = {}
    unread: list[UserError] = []
    for path in suite_files(folder):
        try:
            cases |= {case.id: case for case in expand_suite(read_suite(path, folder, foundation), folder)}
        except UserError as error:
            unread.append(error)
    return cases, unread


def _allows_looser_thresholds(folder: Path) -> bool:
    try:
        return read_foundation(folder, {}).looser_thresholds
    except UserError:
        return False


def _count_entries(folder: Path) -> dict[str, int]:
    """Return the number of entries in each environment, over all readable files."""
    numbers = Counter[str]()
    for file in _baseline_files(folder):
        numbers[file.split("/", 2)[1]] += (_read_bytes(folder, file) or b"").count(CASE_MARKER)
    return dict(numbers)


def _differing_suites(then: Path, now: Path) -> set[str]:
    """Return the suites (tier/suite) with a baseline file whose bytes differ between the sides."""
    files = {file for folder in (then, now) for file in _baseline_files(folder)}
    return {suite_of_file(file) for file in files if _read_bytes(then, file) != _read_bytes(now, file)}


def _baseline_files(folder: Path) -> Iterator[str]:
    for path in (folder / BASELINES_FOLDER).glob("[!.]*/*/[!.]*.json"):
        yield path.relative_to(folder).as_posix()


def _read_bytes(folder: Path, file: str) -> bytes | None:
    try:
        return read_project_bytes(folder, file)
    except UserError:
        return None


def _read_entries(folder: Path, suites: Set[str]) -> tuple[dict[BaselineKey, BaselineEntry], list[UserError]]:
    """Return the entries of some suites in every environment, and the unreadable files."""
    entries: dict[BaselineKey, BaselineEntry] = {}
    unread: list[UserError] = []
    for file in sorted(_baseline_files(folder)):
        environment, suite = file.split("/", 2)[1], suite_of_file(file)
        if suite not in suites:
            continue
        try:
            found = read_baseline_file(folder, environment, suite)
        except UserError as error:
            unread.append(error)
        else:
            entries |= {BaselineKey(environment, f"{suite}/{name}"): entry for name, entry in found.items()}
    return entries, unread


def _try_allowances(folder: Path) -> tuple[Sequence[Allowance], list[UserError]]:
    try:
        return read_allowances(folder), []
    except UserError as error:
        return (), [error]


def _reference_changes(pairs: CasePairs, then: Path, now: Path, changed: set[str]) -> dict[str, OracleFact]:
    """Return changes behind the names in a case's definition, by the id of the case at HEAD: its files, or code.

    `changed` are the files of the project that differ from the base.
    """
    changes: dict[str, OracleFact] = {}
    # Modules are parsed only if one changed: most merge requests change suites or code, and seldom references.
    code = _CodeOfBoth(ProjectCode(then, changed), ProjectCode(now, changed))
    modules = any(path.endswith((".py", *COMPILED_SUFFIXES)) for path in changed)
    for before, case in pairs.judged if changed else ():
        files = sorted(changed.intersection((*code.files(case), *_files_behind(case, now))))
        if files:
            changes[case.id] = OracleFilesChanged(case.role, tuple(files))
        elif modules and (fact := code.change(before, case)):
            changes[case.id] = fact
        elif replaced := _benchmark_change(before, case, code, changed, now):
            changes[case.id] = replaced
    return changes


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
    files = sorted(changed.intersection((*behind, *_files_of(new, case, project))))
    if files:
        return OracleFilesChanged("benchmark", tuple(files))
    is_other = new.kind == "python" and code.differs(new.spec, before.directory, case.directory)
    return OracleCodeChanged("benchmark", new.spec) if is_other else None


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
        return self._files(computation.spec, directory) if computation.kind == "python" else frozenset()

    def differs(self, target: str, former: str, directory: str) -> bool:
        """Return whether the code of a function differs between the sides."""
        return self._differs(target, former, directory)

    def change(self, before: Case, case: Case) -> OracleCodeChanged | OraclePatched | None:
        """Return that the code of a reference changed, or which attributes its subject newly sets; else None."""
        folders = before.directory, case.directory
        if case.oracle.kind == before.oracle.kind == "python" and self._differs(case.oracle.spec, *folders):
            return OracleCodeChanged(case.role, case.oracle.spec)
        if case.subject.kind == before.subject.kind == "python" and (new := self._patched(case.subject.spec, *folders)):
            return OraclePatched(case.role, tuple(sorted(new)))
        return None

    def _is_other(self, target: str, former: str, directory: str) -> bool:
        return self.then.of(target, former) != self.now.of(target, directory)

    def _new_patches(self, target: str, former: str, directory: str) -> frozenset[str]:
        return self.now.patches(target, directory) - self.then.patches(target, former)


def _files_behind(case: Case, project: Path) -> Iterator[str]:
    """Yield the files, relative to the project, of a case's reference, golden or device by its definition."""
    if case.device is not None:
        from precreg.arithmetic.devices import device_table_paths

        yield from device_table_paths(case.device)
    yield from _files_of(case.oracle, case, project)
    yield from _paths_named_in(case.params, case, project)


def _files_of(computation: Computation, case: Case, project: Path) -> Iterator[str]:
    """Yield the recorded files of a computation, or the paths that its options could mean."""
    if computation.kind == "files":
        yield from computation.spec.values()
    elif computation.kind != "python":
        yield from _paths_named_in(computation.spec, case, project)


def _paths_named_in(value: Any, case: Case, project: Path) -> Iterator[str]:
    """Yield texts as paths relative to the project, from the suite's folder and from the root."""
    for home in (case.directory, ""):
        yield from (relpath(path, project) for path in paths_in(value, home, project))
