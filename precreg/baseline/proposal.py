"""What a run found and nobody has accepted yet: .precreg/proposals/<tier>/<suite>.json. A run writes nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.baseline.environments import propose_environment_facts
from precreg.baseline.store import (
    baseline_file,
    decode_entry,
    delete_file,
    lock_baselines,
    read_project_bytes,
    suite_of_case,
    write_file,
)
from precreg.baseline.text import parse_baseline, render_baseline
from precreg.errors import UserError
from precreg.storage import WORKING_FOLDER
from precreg.types import BaselineEntry, CaseResult, Environment, Finding, GitState, Reason, Status

PROPOSALS_SCHEMA = "precreg-proposals/3"

PROPOSALS_FOLDER = f"{WORKING_FOLDER}/proposals"

DEFAULT_ENVIRONMENT = "generic"


class Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry that waits: the verdict it came with, where it would be stored, and where its baseline was found.

    `message` is the verdict's, and `findings` are what it was made from, worst first. `paired` is what the other
    version gave in a paired run, with figures alone.
    """

    verdict: Reason
    environment: str
    judged_against: str | None
    entry: BaselineEntry
    message: str = ""
    findings: list[Finding] = msgspec.field(default_factory=list)
    paired: BaselineEntry | None = None


def update_proposals(
    project: Path,
    results: Iterable[CaseResult],
    environment: Environment,
    git: GitState | None,
    level: str | None = None,
    gone: Iterable[str] = (),
) -> list[str]:
    """Bring the pending proposals up to date with a run, and return the ids that it proposes.

    A result replaces what waited for its case, with nothing where there is nothing to accept; a case that could not
    be judged, or was not run, keeps its proposal. `level` names the environment to store entries in; without it
    that is where the old baseline was found, or the generic one. `gone` are ids that no suite has any more, whose
    proposals are dropped.

    Raises:
        UserError: locked, not-writable, outside-project, unreadable-proposals or future-schema.
    """
    commit = "" if git is None else git.commit + ("-dirty" if git.dirty else "")
    answers = dict.fromkeys(gone) | {
        result.id: _proposal(result, environment, commit, level)
        for result in results
        if result.verdict.status not in (Status.ERROR, Status.SKIPPED)
    }
    proposed = sorted(id for id, proposal in answers.items() if proposal is not None)
    if proposed or pending_proposals(project):  # otherwise there is nothing to write, and a read-only disk will do
        with lock_baselines(project):
            replace_proposals(project, answers)
            if proposed:
                propose_environment_facts(project, environment)
    return proposed


def pending_proposals(project: Path) -> dict[str, Proposal]:
    """Return every proposal by case id, sorted. Raises UserError (unreadable-proposals, future-schema)."""
    found: dict[str, Proposal] = {}
    for path in sorted((project / PROPOSALS_FOLDER).glob("*/[!.]*.json")):
        suite = f"{path.parent.name}/{path.stem}"
        found |= {f"{suite}/{name}": proposal for name, proposal in _read_suite(project, suite).items()}
    return found


def replace_proposals(project: Path, answers: Mapping[str, Proposal | None]) -> None:
    """Set the proposals of some cases, by id; None removes. The caller holds the lock."""
    for suite in sorted({suite_of_case(id) for id in answers}):
        before = _read_suite(project, suite)
        after: dict[str, Proposal | None] = {**before}
        after |= {id.removeprefix(f"{suite}/"): answer for id, answer in answers.items() if suite_of_case(id) == suite}
        cases = {name: proposal for name, proposal in after.items() if proposal is not None}
        if cases == before:
            continue
        if cases:
            write_file(project, _file(suite), render_baseline(_header(suite), cases))
        else:
            delete_file(project, _file(suite))


def is_proposed(result: CaseResult) -> bool:
    """Tell whether a person may accept a result: it could be its own baseline, and it borrows no other case's."""
    return result.acceptable and result.baseline_id in ("", result.id)


def _proposal(result: CaseResult, environment: Environment, commit: str, level: str | None) -> Proposal | None:
    if not is_proposed(result):
        return None
    found = None if result.stored is None else result.stored.environment
    target = level or found or DEFAULT_ENVIRONMENT
    baseline_file(target, suite_of_case(result.id))
    entry = entry_from(result.outcome, environment.fingerprint, commit)
    verdict = result.verdict
    evidence = [*map(_storable, verdict.findings)]
    return Proposal(verdict.reason, target, found, entry, verdict.message, evidence, _of_pair(result))


def _of_pair(result: CaseResult) -> BaselineEntry | None:
    """Return the figures of the other version that judged a result; None of a result that was judged by no other."""
    if result.baseline is None or result.baseline is result.stored:
        return None
    return replace(result.baseline.entry, sketch={}, groups={})


def _storable(finding: Finding) -> Finding:
    """Leave out the numbers that JSON has none for: infinities and NaN."""
    numbers = {name: value for name in finding.__struct_fields__ if isinstance(value := getattr(finding, name), float)}
    return replace(finding, **{name: None for name, value in numbers.items() if not isfinite(value)})


def _read_suite(project: Path, suite: str) -> dict[str, Proposal]:
    file = _file(suite)
    try:
        data = read_project_bytes(project, file)
        return {} if data is None else parse_baseline(data, file, _header(suite), _proposal_of)
    except UserError as problem:
        if problem.slug == "future-schema":
            raise
        raise UserError("unreadable-proposals", problem.message, file=problem.file, line=problem.line) from problem


def _proposal_of(value: Any) -> Proposal:
    proposal = msgspec.convert(value, Proposal)
    decode_entry(value["entry"])
    if proposal.paired is not None:
        decode_entry(value["paired"])
    return proposal


def _header(suite: str) -> dict[str, str]:
    return {"schema": PROPOSALS_SCHEMA, "suite": suite}


def _file(suite: str) -> str:
    return f"{PROPOSALS_FOLDER}/{suite}.json"
