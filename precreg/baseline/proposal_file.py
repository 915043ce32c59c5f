"""Which proposals wait for a person, and how are they stored?

Each suite has a file, .precreg/proposals/<tier>/<suite>.json. In memory, proposals of 100,000 cases are packed bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, TypeVar

import msgspec

from precreg.baseline.store import delete_file, write_file
from precreg.baseline.suite_file import baseline_file, check_entry, read_project_bytes, suite_of_case
from precreg.baseline.text import member_names, parse_baseline, render_baseline
from precreg.errors import UserError
from precreg.storage import WORKING_FOLDER, DataError, StructPacker, convert_data, pause_gc
from precreg.types import BaselineEntry, Finding, Reason

PROPOSALS_SCHEMA = "precreg-proposals/3"
PROPOSALS_FOLDER = f"{WORKING_FOLDER}/proposals"
_T = TypeVar("_T")


class Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold a proposed entry with its verdict, its target environment, and the environment of its baseline.

    `message` is the verdict's, and `findings` are its evidence, worst first. `paired` is the result of the other
    version in a paired run, with metrics only.
    """

    verdict: Reason
    environment: str
    judged_against: str | None
    entry: BaselineEntry
    message: str = ""
    findings: list[Finding] = msgspec.field(default_factory=list)
    paired: BaselineEntry | None = None
    # The fingerprint of the stored baseline if it was accepted or seen in the environment of the proposal.
    same_as: str = ""
    # The branch of the run, empty for a detached HEAD; None outside a repository, and in files of earlier versions.
    branch: str | None = None
    # The digest of the files behind the case as they were run, committed or not; empty if it is not known.
    code: str = ""


class ProposalFacts(NamedTuple):
    """Hold the members of a proposal by which commands sort and count many of them."""

    verdict: Reason
    is_wrong: bool
    branch: str | None
    code: str
    definition: str
    commit: str
    fingerprint: str
    environment: str
    judged_against: str | None


class _ReadFile(NamedTuple):
    """Hold the digest of a file of proposals, and the number of its proposals."""

    digest: bytes
    number: int


class Proposals(Mapping[str, Proposal]):
    """Hold proposals by case id, sorted, as packed bytes. Reading one unpacks it anew; `facts` unpacks none.

    `files` are those that have them, by suite.
    """

    def __init__(self) -> None:
        self.files: dict[str, _ReadFile] = {}
        self._packer = StructPacker(Proposal)
        self._kept: dict[str, tuple[bytes, ProposalFacts]] = {}

    def __getitem__(self, id: str) -> Proposal:
        return self._packer.unpack(self._kept[id][0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, id: object) -> bool:
        return id in self._kept

    def facts(self, id: str) -> ProposalFacts:
        """Return the facts of one proposal."""
        return self._kept[id][1]

    def among(self, ids: Iterable[str]) -> Proposals:
        """Return the proposals of some ids."""
        found = Proposals()
        found.files, found._packer = self.files, self._packer
        found._kept = {id: self._kept[id] for id in ids}
        return found

    def add_suite(self, project: Path, suite: str) -> None:
        """Read the proposals of one suite. Raises UserError as `pending_proposals`."""

        def keep(value: Any) -> tuple[bytes, ProposalFacts]:
            proposal = _decode_proposal(value)
            return self._packer.pack(proposal), proposal_facts(proposal)

        data, found = _read_suite(project, suite, keep)
        self.files[suite] = _ReadFile(_digest(data), len(found))
        self._kept |= {f"{suite}/{name}": kept for name, kept in found.items()}


def proposal_facts(proposal: Proposal) -> ProposalFacts:
    """Return the facts of a proposal."""
    entry, branch = proposal.entry, proposal.branch and intern(proposal.branch)
    # Thousands of proposals share these texts.
    judged_against = proposal.judged_against and intern(proposal.judged_against)
    commit, fingerprint, environment = map(intern, (entry.commit, entry.fingerprint, proposal.environment))
    facts = (proposal.verdict, entry.known is not None, branch, intern(proposal.code), entry.definition)
    return ProposalFacts(*facts, commit, fingerprint, environment, judged_against)


def _digest(data: bytes | None) -> bytes:
    return sha256(data or b"").digest()


def pending_proposals(project: Path) -> Proposals:
    """Return every proposal by case id, sorted. Raises UserError (unreadable-proposals, future-schema)."""
    found = Proposals()
    for path in sorted((project / PROPOSALS_FOLDER).glob("*/[!.]*.json")):
        found.add_suite(project, f"{path.parent.name}/{path.stem}")
    return found


def replaced_since(project: Path, reviewed: Proposals, ids: Collection[str]) -> str | None:
    """Return the first of some ids whose proposal a run replaced after it was read, or None.

    Raises UserError as `pending_proposals`.
    """
    now, same = Proposals(), set()
    for suite in dict.fromkeys(map(suite_of_case, ids)):
        # Equal bytes of a file have the same proposals, and need no second reading.
        read = reviewed.files.get(suite)
        if read is not None and read.digest == _digest(_suite_bytes(project, suite)):
            same.add(suite)
        else:
            now.add_suite(project, suite)
    return next((id for id in ids if suite_of_case(id) not in same and now.get(id) != reviewed[id]), None)


def replace_proposals(project: Path, changes: Mapping[str, Proposal | None], reviewed: Proposals | None = None) -> None:
    """Set the proposals of some cases, by id; None removes one. The caller holds the lock.

    `reviewed` are proposals that were read before. A file that still has these alone is not parsed again.
    """
    by_suite: dict[str, dict[str, Proposal | None]] = {}
    for id, new in changes.items():
        suite = suite_of_case(id)
        by_suite.setdefault(suite, {})[id.removeprefix(f"{suite}/")] = new
    for suite in sorted(by_suite):
        if _clears_all(project, suite, by_suite[suite], reviewed or Proposals()):
            delete_file(project, _file(suite))
            continue
        before = _read_suite(project, suite, _decode_proposal)[1]
        after: dict[str, Proposal | None] = {**before, **by_suite[suite]}
        cases = {name: proposal for name, proposal in after.items() if proposal is not None}
        if cases == before:
            continue
        if cases:
            write_file(project, _file(suite), render_baseline(_header(suite), cases))
        else:
            delete_file(project, _file(suite))


def _clears_all(project: Path, suite: str, changes: Mapping[str, Proposal | None], reviewed: Proposals) -> bool:
    """Return whether no proposal of a suite stays, which the names alone show."""
    if any(new is not None for new in changes.values()):
        return False
    data, read = _suite_bytes(project, suite), reviewed.files.get(suite)
    # Equal bytes have the same names, so their number shows that each of them is among the changes.
    if read == (_digest(data), len(changes)) and all(f"{suite}/{name}" in reviewed for name in changes):
        return True
    try:
        return data is not None and member_names(data, _file(suite), _header(suite)) <= changes.keys()
    except UserError as problem:
        raise unreadable_proposals(problem) from problem


def _read_suite(project: Path, suite: str, decode: Callable[[Any], _T]) -> tuple[bytes | None, dict[str, _T]]:
    """Return the content of a suite's file, and what `decode` makes of its proposals, by name."""
    file = _file(suite)
    try:
        data = _suite_bytes(project, suite)
        # Of 100,000 proposals, the search for garbage takes more time than the decoding.
        with pause_gc():
            return data, {} if data is None else parse_baseline(data, file, _header(suite), decode)
    except UserError as problem:
        raise unreadable_proposals(problem) from problem


def _suite_bytes(project: Path, suite: str) -> bytes | None:
    try:
        return read_project_bytes(project, _file(suite))
    except UserError as problem:
        raise unreadable_proposals(problem) from problem


def unreadable_proposals(problem: UserError) -> UserError:
    """Return the error about a file of proposals that was read as one of baselines."""
    # Proposals are made again by a run, so advice about merge conflicts in baselines would mislead.
    if problem.slug == "future-schema":
        return problem
    return UserError("unreadable-proposals", problem.message, file=problem.file, line=problem.line)


def _decode_proposal(value: Any) -> Proposal:
    proposal = convert_data(value, Proposal)
    for label in filter(None, (proposal.environment, proposal.judged_against)):
        require_place(label, "unit/suite")
    check_entry(proposal.entry)
    if proposal.paired is not None:
        check_entry(proposal.paired)
    return proposal


def require_place(label: str, suite: str) -> None:
    """Refuse names that no baseline file can have. Raises DataError."""
    try:
        baseline_file(label, suite)
    except UserError as problem:
        raise DataError("bad-value", problem.message) from None


def _header(suite: str) -> dict[str, str]:
    return {"schema": PROPOSALS_SCHEMA, "suite": suite}


def _file(suite: str) -> str:
    return f"{PROPOSALS_FOLDER}/{suite}.json"
