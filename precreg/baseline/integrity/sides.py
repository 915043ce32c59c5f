"""baselines/allow.yaml: what a merge request says it changes about how it is judged, case by case, and why.

Reading the two sides, the only part of this room that touches files: a commit as git stores it, and the project.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import cache
from os.path import relpath
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
from precreg.types import BaselineEntry, Case, FindingKind, Location, RunFinding
from precreg.vcs import changed_files_since_commit, files_at_commit, paths_in

FILE = "baselines/allow.yaml"


_LIST = "allow"

_KEYS = ("case", "change", "reason")


ALLOWABLE_KINDS = tuple(
    kind for kind in FindingKind if kind not in (FindingKind.CASE_INTRODUCED, FindingKind.ALLOWANCE_UNUSED)
)
"""What may be named: all that binds."""


COMPUTED_KINDS = frozenset({FindingKind.CREEP, FindingKind.COMBINED_LOSS})
"""What only a run finds, with or without a base: two commits do not tell whether it was needed."""


class Allowance(Struct, frozen=True):
    """One entry with its place. `spent` ones stood in the base already: what they were for is merged."""

    case: str
    kind: FindingKind
    reason: str
    source: Location
    spent: bool = False

    def names(self, about: str) -> bool:
        """Tell whether the entry is about a case or a file: it is called so, in a suite that is, or matches."""
        return about == self.case or about.startswith(f"{self.case}/") or fnmatchcase(about, self.case)


def read_allowances(project: Path) -> tuple[Allowance, ...]:
    """Return the entries of baselines/allow.yaml; none where there is no such file, or it is empty.

    Raises UserError: bad-allowance, outside-project, and what reading YAML does.
    """
    path = project / FILE
    if not path.exists():
        return ()
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
    return tuple(_allowance(source, index, entry) for index, entry in enumerate(entries))


def _allowance(source: Source, index: int, entry: Any) -> Allowance:
    """Read one entry. Raises UserError (bad-allowance) for one that does not say which case, what, or why."""
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
    """Mark the entries that stood in the base: they allow nothing more, whatever their patterns match today."""
    before = {(entry.case, entry.kind, entry.reason) for entry in base}
    return tuple(replace(entry, spent=(entry.case, entry.kind, entry.reason) in before) for entry in now)


def allowed_reason(kind: FindingKind, about: str, allowances: Iterable[Allowance]) -> str | None:
    """Return the reason why something is allowed: that of the first entry of its kind that names it."""
    matching = (entry for entry in allowances if not entry.spent and entry.kind is kind)
    return next((entry.reason for entry in matching if entry.names(about)), None)


def add_allowance_reasons(project: Path, found: Sequence[RunFinding]) -> tuple[RunFinding, ...]:
    """Give each finding of a run the reason why the project allows it, if it does.

    Raises UserError (bad-allowance) where there is a finding, and the file cannot be read.
    """
    allowances = read_allowances(project) if found else ()
    return tuple(replace(one, allowed=allowed_reason(one.kind, one.about, allowances)) for one in found)


def find_unused_allowances(allowances: Iterable[Allowance], changes: Iterable[IntegrityChange]) -> list[RunFinding]:
    """Return a finding, which does not bind, on each entry that nothing needs: it is spent, or matches nothing."""
    found = list(changes)
    return [
        RunFinding(FindingKind.ALLOWANCE_UNUSED, FILE, _why(entry), source=entry.source, fails=False)
        for entry in allowances
        if entry.kind not in COMPUTED_KINDS
        and (entry.spent or not any(entry.kind is change.kind and entry.names(change.about) for change in found))
    ]


def find_merged_allowances(allowances: Iterable[Allowance]) -> list[RunFinding]:
    """Return what `unused` does for a default branch, where no entry is needed: what it was for is merged."""
    return find_unused_allowances((replace(entry, spent=True) for entry in allowances), ())


def _why(entry: Allowance) -> str:
    named = f"{entry.kind} of {entry.case}"
    if entry.spent:
        return f"{named} is merged: the entry allows nothing any more, remove it"
    return f"{named} is allowed, and nothing needs that: remove the entry"


_READ = (".py", *COMPILED_SUFFIXES, ".yaml", ".yml")

_ARRAYS = (".npy", ".npz", ".safetensors", ".bin")


class IntegritySides(Struct, frozen=True):
    """A base and the project as it is, the pairs of their cases, and what is allowed between them.

    `references` says, by the id of a case at HEAD, what changed of its reference that no definition tells.
    """

    base: ProjectSide
    head: ProjectSide
    pairs: CasePairs
    references: dict[str, str]
    allowances: tuple[Allowance, ...]


def read_sides(
    project: Path, commit: str, every: Iterable[Case], environ: Mapping[str, str] = os.environ
) -> IntegritySides:
    """Read what a commit, and the project as it stands, say about how the project is judged. `every` are its cases.

    Nothing of the commit is run. Raises UserError: no-git, bad-allowance, and what reading suites and baselines does,
    for the project's own; what the commit has that cannot be read is told in its side.
    """
    with files_at_commit(project, commit, _is_read, _is_named) as then:
        before, unread = _cases(then, environ)
        suites = _differing(then, project)
        accepted, damaged = _accepted(then, suites)
        former, refused = _allowances(then)
        now = {case.id: case for case in every}
        pairs = pair_cases(before, now)
        references = _references(pairs, then, project, changed_files_since_commit(project, commit))
        base = ProjectSide(
            before, accepted, _numbers(then), _looser(then), tuple(map(_told, (*unread, *damaged, *refused)))
        )
    entries, problems = _accepted(project, suites)
    if problems:
        raise problems[0]
    head = ProjectSide(now, entries, looser_thresholds=_looser(project))
    return IntegritySides(base, head, pairs, references, mark_spent(read_allowances(project), former))


def _told(error: UserError) -> UnreadableFile:
    place = f"line {error.line}: " if error.line else ""
    return UnreadableFile(error.file or "suites/", f"{place}{error.message}")


def _is_read(path: str) -> bool:
    return path.endswith(_READ) or (path.startswith(f"{BASELINES_FOLDER}/") and path.endswith(".json"))


def _is_named(path: str) -> bool:
    """Tell whether a file has to be there, because a suite may name it: recorded arrays, and whatever is beside it."""
    return path.startswith("suites/") or path.endswith(_ARRAYS)


def _cases(folder: Path, environ: Mapping[str, str]) -> tuple[dict[str, Case], list[UserError]]:
    """Return the cases of a folder, and the suites that cannot be read; without tolerances.yaml nothing can be."""
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


def _looser(folder: Path) -> bool:
    try:
        return read_foundation(folder, {}).looser_thresholds
    except UserError:
        return False


def _numbers(folder: Path) -> dict[str, int]:
    """Return how many entries each environment has, of the files that can be read."""
    numbers = Counter[str]()
    for file in _baseline_files(folder):
        numbers[file.split("/", 2)[1]] += (_bytes(folder, file) or b"").count(CASE_MARKER)
    return dict(numbers)


def _differing(then: Path, now: Path) -> set[str]:
    """Return the suites (tier/suite) of which a file of baselines is not the same, byte by byte, on both sides."""
    files = {file for folder in (then, now) for file in _baseline_files(folder)}
    return {suite_of_file(file) for file in files if _bytes(then, file) != _bytes(now, file)}


def _baseline_files(folder: Path) -> Iterator[str]:
    for path in (folder / BASELINES_FOLDER).glob("[!.]*/*/[!.]*.json"):
        yield path.relative_to(folder).as_posix()


def _bytes(folder: Path, file: str) -> bytes | None:
    try:
        return read_project_bytes(folder, file)
    except UserError:
        return None


def _accepted(folder: Path, suites: Set[str]) -> tuple[dict[BaselineKey, BaselineEntry], list[UserError]]:
    """Return what was accepted of some suites in every environment, and the files that cannot be read."""
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


def _allowances(folder: Path) -> tuple[Sequence[Allowance], list[UserError]]:
    try:
        return read_allowances(folder), []
    except UserError as error:
        return (), [error]


def _references(pairs: CasePairs, then: Path, now: Path, changed: set[str]) -> dict[str, str]:
    """Return what changed behind the names of a case's definition, by the id of the case at HEAD: its files, or code.

    `changed` are the files of the project that are not as the base has them.
    """
    told: dict[str, str] = {}
    code = _BothCodes(ProjectCode(then, changed), ProjectCode(now, changed))
    modules = any(path.endswith((".py", *COMPILED_SUFFIXES)) for path in changed)
    for before, case in pairs.judged if changed else ():
        files = sorted(changed.intersection((*code.files(case), *_files_behind(case, now))))
        if files:
            told[case.id] = f"what it is held against changed: {', '.join(files)}"
        elif modules and (text := code.change(before, case)):
            told[case.id] = text
    return told


class _BothCodes:
    """The code of both sides; what many cases have in common is looked at once."""

    def __init__(self, then: ProjectCode, now: ProjectCode) -> None:
        self.then, self.now = then, now
        self._files = cache(now.files)
        self._differs, self._patched = cache(self._is_other), cache(self._new_patches)

    def files(self, case: Case) -> frozenset[str]:
        """Return the files that the code of a reference names."""
        return self._files(case.oracle.spec, case.directory) if case.oracle.kind == "python" else frozenset()

    def change(self, before: Case, case: Case) -> str:
        """Say how the code of a reference changed, or what its subject began to patch; empty if neither."""
        folders = before.directory, case.directory
        if case.oracle.kind == before.oracle.kind == "python" and self._differs(case.oracle.spec, *folders):
            return f"the code of its {case.role} {case.oracle.spec} changed"
        if case.subject.kind == before.subject.kind == "python" and (new := self._patched(case.subject.spec, *folders)):
            return f"its subject alters what its {case.role} may use: {', '.join(sorted(new))}"
        return ""

    def _is_other(self, target: str, former: str, directory: str) -> bool:
        return self.then.of(target, former) != self.now.of(target, directory)

    def _new_patches(self, target: str, former: str, directory: str) -> frozenset[str]:
        return self.now.patches(target, directory) - self.then.patches(target, former)


def _files_behind(case: Case, project: Path) -> Iterator[str]:
    """Yield the files, relative to the project, that a definition says its reference, golden or device is made of."""
    if case.device is not None:
        from precreg.arithmetic.devices import device_table_paths

        yield from device_table_paths(case.device)
    if case.oracle.kind == "files":
        yield from case.oracle.spec.values()
    elif case.oracle.kind != "python":
        yield from _named_in(case.oracle.spec, case, project)
    yield from _named_in(case.params, case, project)


def _named_in(value: Any, case: Case, project: Path) -> Iterator[str]:
    """Yield what texts would be as files, from the suite's folder or from the root."""
    for home in (case.directory, ""):
        yield from (relpath(path, project) for path in paths_in(value, home, project))
