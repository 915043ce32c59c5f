"""Which criteria does each side of a comparison have, and what does the project permit?

The base is read from git's objects, HEAD from the working tree. baselines/allow.yaml lists permitted changes, case by
case, with a reason. No other module of this room reads files.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from os.path import lexists
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline.counts import CASE_MARKER
from precreg.baseline.integrity.code import COMPILED_SUFFIXES
from precreg.baseline.integrity.criteria import CasePairs, IntegrityChange, ProjectSide, UnreadableFile, pair_cases
from precreg.baseline.integrity.oracles import OracleChanges, built_libraries, oracle_changes
from precreg.baseline.store import BaselineKey
from precreg.baseline.suite_file import (
    BASELINES_FOLDER,
    read_baseline_file,
    read_project_bytes,
    suite_of_file,
    sums_file,
)
from precreg.baseline.sums import SUMS_SUFFIX
from precreg.errors import UserError, nearest
from precreg.storage import (
    ARRAY_SUFFIXES,
    MSPROBE_FILE,
    Source,
    expect_mapping,
    format_value,
    path_beside_suite,
    read_regular_file,
    read_yaml,
    resolve_inside,
)
from precreg.subject import touches
from precreg.suite import Suite, expand_suite, read_foundation, read_suite, suite_files
from precreg.types import (
    BaselineEntry,
    Case,
    FindingKind,
    Location,
    RunFinding,
    UnusedAllowance,
)
from precreg.vcs import changed_files_since_commit, files_at_commit

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


# The rows of a table are cases.
_TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
_READ_SUFFIXES = (".py", *COMPILED_SUFFIXES, ".yaml", ".yml", *_TABLE_SUFFIXES)
# Suites only check that these exist. Their contents may be gigabytes, and stay in git.
_ARRAY_SUFFIXES = (*ARRAY_SUFFIXES, MSPROBE_FILE)


class IntegritySides(Struct, frozen=True):
    """Hold a base and the project at HEAD, the pairs of their cases, and the permissions between them."""

    base: ProjectSide
    head: ProjectSide
    pairs: CasePairs
    references: OracleChanges
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
        before, unread = _read_cases(then, environ, project)
        suites = _differing_suites(then, project)
        accepted, damaged = _read_entries(then, suites)
        former, refused = _try_allowances(then)
        now = {case.id: case for case in every}
        pairs = pair_cases(before, now)
        changed = changed_files_since_commit(project, commit)
        opened = _opened_files(then, project, changed | built_libraries(project, changed))
        references = oracle_changes(pairs, then, project, changed, opened)
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
    accepted = path.startswith(f"{BASELINES_FOLDER}/") and path.endswith((".json", SUMS_SUFFIX))
    return accepted or path.endswith(_READ_SUFFIXES)


def _is_named(path: str) -> bool:
    """Return whether a file must exist because a suite may name it: recorded arrays, and files beside suites."""
    return path.startswith("suites/") or path.endswith(_ARRAY_SUFFIXES)


def _read_cases(folder: Path, environ: Mapping[str, str], project: Path) -> tuple[dict[str, Case], list[UserError]]:
    """Return the cases of a commit's folder, and its unreadable suites."""
    # Without tolerances.yaml no suite can be read.
    try:
        foundation = read_foundation(folder, environ)
    except UserError as error:
        return {}, [error]
    cases: dict[str, Case] = {}
    unread: list[UserError] = []
    for path in suite_files(folder):
        try:
            # Sources of builds may be anywhere: in a submodule, or made by a job. The definition has their paths alone.
            suite = replace(read_suite(path, folder, foundation), has_files=False)
            _borrow_table(suite, folder, project)
            cases |= {case.id: case for case in expand_suite(suite, folder)}
        except UserError as error:
            unread.append(error)
    return cases, unread


def _borrow_table(suite: Suite, folder: Path, project: Path) -> None:
    """Copy the project's table if the commit has none: a job writes tables that git does not have.

    The criteria of the commit then apply to the rows of today.
    """
    if suite.file.table is None:
        return
    table = path_beside_suite(folder, suite.directory, suite.file.table.file, suite.source.where("table", "file"))
    if not (folder / table).exists() and (project / table).is_file():
        (folder / table).parent.mkdir(parents=True, exist_ok=True)
        (folder / table).write_bytes(read_regular_file(resolve_inside(project, table)))


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
    pairs = {file: (file, sums_file(file)) for file in files}
    return {
        suite_of_file(file)
        for file, both in pairs.items()
        if any(_read_bytes(then, each) != _read_bytes(now, each) for each in both)
    }


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


# The line of a baseline's entry that lists the files of its oracle, as baseline/text.py writes it.
_FILES_LINE = re.compile(rb'^      "oracle_files": (\[.*\]),?$', re.MULTILINE)


def _opened_files(then: Path, now: Path, changed: Set[str]) -> dict[str, tuple[str, ...]]:
    """Return the changed files that an oracle opened when its baseline was accepted, by the id of the baseline.

    Each environment of both sides counts.
    """
    found: dict[str, set[str]] = {}
    for folder in (then, now) if changed else ():
        for file in _baseline_files(folder):
            text = _read_bytes(folder, file) or b""
            # Most files name none of the changed ones, and need not be decoded.
            if any(touches(_decode_files(line), changed) for line in set(_FILES_LINE.findall(text))):
                for place, entry in _entries_of(folder, file):
                    found.setdefault(place.id, set()).update(touches(entry.oracle_files, changed))
    return {id: tuple(sorted(files)) for id, files in found.items()}


def _decode_files(line: bytes) -> list[str]:
    try:
        return msgspec.json.decode(line, type=list[str])
    except msgspec.DecodeError:
        return []


def _entries_of(folder: Path, file: str) -> Iterator[tuple[BaselineKey, BaselineEntry]]:
    """Yield the entries of a file; none if it cannot be read, which is reported where its entries are compared."""
    environment, suite = file.split("/", 2)[1], suite_of_file(file)
    try:
        found = read_baseline_file(folder, environment, suite)
    except UserError:
        return
    yield from ((BaselineKey(environment, f"{suite}/{name}"), entry) for name, entry in found.items())
