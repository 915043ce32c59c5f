"""Reading the two sides, the only part of this room that touches files: a commit as git stores it, and the project."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any

from msgspec import Struct

from precreg import vcs
from precreg.arithmetic.devices.read import table_paths
from precreg.baseline.integrity.allowances import Allowance, read_allowances, with_spent
from precreg.baseline.integrity.code import COMPILED, Code
from precreg.baseline.integrity.side import Pairs, Side, Unreadable, paired
from precreg.baseline.store import A_CASE, FOLDER, Place, read_bytes, read_suite, suite_in
from precreg.errors import UserError
from precreg.suite import load
from precreg.suite.expand import expand
from precreg.types.records import BaselineEntry
from precreg.types.types import Case
from precreg.vcs.files import paths_in

_READ = (".py", *COMPILED, ".yaml", ".yml")

_ARRAYS = (".npy", ".npz", ".safetensors", ".bin")


class Sides(Struct, frozen=True):
    """A base and the project as it is, the pairs of their cases, and what is allowed between them.

    `references` says, by the id of a case at HEAD, what changed of its reference that no definition tells.
    """

    base: Side
    head: Side
    pairs: Pairs
    references: dict[str, str]
    allowances: tuple[Allowance, ...]


def read_sides(project: Path, commit: str, every: Iterable[Case], environ: Mapping[str, str] = os.environ) -> Sides:
    """Read what a commit, and the project as it stands, say about how the project is judged. `every` are its cases.

    Nothing of the commit is run. Raises UserError: no-git, bad-allowance, and what reading suites and baselines does,
    for the project's own; what the commit has that cannot be read is told in its side.
    """
    with vcs.files_at(project, commit, _is_read, _is_named) as then:
        before, unread = _cases(then, environ)
        suites = _differing(then, project)
        accepted, damaged = _accepted(then, suites)
        former, refused = _allowances(then)
        now = {case.id: case for case in every}
        pairs = paired(before, now)
        references = _references(pairs, then, project, vcs.differing(project, commit))
        base = Side(before, accepted, _numbers(then), _looser(then), tuple(map(_told, (*unread, *damaged, *refused))))
    entries, problems = _accepted(project, suites)
    if problems:
        raise problems[0]
    head = Side(now, entries, looser_thresholds=_looser(project))
    return Sides(base, head, pairs, references, with_spent(read_allowances(project), former))


def _told(error: UserError) -> Unreadable:
    place = f"line {error.line}: " if error.line else ""
    return Unreadable(error.file or "suites/", f"{place}{error.message}")


def _is_read(path: str) -> bool:
    return path.endswith(_READ) or (path.startswith(f"{FOLDER}/") and path.endswith(".json"))


def _is_named(path: str) -> bool:
    """Tell whether a file has to be there, because a suite may name it: recorded arrays, and whatever is beside it."""
    return path.startswith("suites/") or path.endswith(_ARRAYS)


def _cases(folder: Path, environ: Mapping[str, str]) -> tuple[dict[str, Case], list[UserError]]:
    """Return the cases of a folder, and the suites that cannot be read; without tolerances.yaml nothing can be."""
    try:
        foundation = load.read_foundation(folder, environ)
    except UserError as error:
        return {}, [error]
    cases: dict[str, Case] = {}
    unread: list[UserError] = []
    for path in load.suite_files(folder):
        try:
            cases |= {case.id: case for case in expand(load.read_suite(path, folder, foundation), folder)}
        except UserError as error:
            unread.append(error)
    return cases, unread


def _looser(folder: Path) -> bool:
    try:
        return load.read_foundation(folder, {}).looser_thresholds
    except UserError:
        return False


def _numbers(folder: Path) -> dict[str, int]:
    """Return how many entries each environment has, of the files that can be read."""
    numbers = Counter[str]()
    for file in _baseline_files(folder):
        numbers[file.split("/", 2)[1]] += (_bytes(folder, file) or b"").count(A_CASE)
    return dict(numbers)


def _differing(then: Path, now: Path) -> set[str]:
    """Return the suites (tier/suite) of which a file of baselines is not the same, byte by byte, on both sides."""
    files = {file for folder in (then, now) for file in _baseline_files(folder)}
    return {suite_in(file) for file in files if _bytes(then, file) != _bytes(now, file)}


def _baseline_files(folder: Path) -> Iterator[str]:
    for path in (folder / FOLDER).glob("[!.]*/*/[!.]*.json"):
        yield path.relative_to(folder).as_posix()


def _bytes(folder: Path, file: str) -> bytes | None:
    try:
        return read_bytes(folder, file)
    except UserError:
        return None


def _accepted(folder: Path, suites: Set[str]) -> tuple[dict[Place, BaselineEntry], list[UserError]]:
    """Return what was accepted of some suites in every environment, and the files that cannot be read."""
    entries: dict[Place, BaselineEntry] = {}
    unread: list[UserError] = []
    for file in sorted(_baseline_files(folder)):
        environment, suite = file.split("/", 2)[1], suite_in(file)
        if suite not in suites:
            continue
        try:
            found = read_suite(folder, environment, suite)
        except UserError as error:
            unread.append(error)
        else:
            entries |= {Place(environment, f"{suite}/{name}"): entry for name, entry in found.items()}
    return entries, unread


def _allowances(folder: Path) -> tuple[Sequence[Allowance], list[UserError]]:
    try:
        return read_allowances(folder), []
    except UserError as error:
        return (), [error]


def _references(pairs: Pairs, then: Path, now: Path, changed: set[str]) -> dict[str, str]:
    """Return what changed behind the names of a case's definition, by the id of the case at HEAD: its files, or code.

    `changed` are the files of the project that are not as the base has them.
    """
    told: dict[str, str] = {}
    code = _BothCodes(Code(then, changed), Code(now, changed))
    modules = any(path.endswith((".py", *COMPILED)) for path in changed)
    for before, case in pairs.judged if changed else ():
        files = sorted(changed.intersection((*code.files(case), *_files_behind(case, now))))
        if files:
            told[case.id] = f"what it is held against changed: {', '.join(files)}"
        elif modules and (text := code.change(before, case)):
            told[case.id] = text
    return told


class _BothCodes:
    """The code of both sides; what many cases have in common is looked at once."""

    def __init__(self, then: Code, now: Code) -> None:
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
        yield from table_paths(case.device)
    if case.oracle.kind == "files":
        yield from case.oracle.spec.values()
    elif case.oracle.kind != "python":
        yield from _named_in(case.oracle.spec, case, project)
    yield from _named_in(case.params, case, project)


def _named_in(value: Any, case: Case, project: Path) -> Iterator[str]:
    """Yield what texts would be as files, from the suite's folder or from the root."""
    for home in (case.directory, ""):
        yield from (relpath(path, project) for path in paths_in(value, home, project))
