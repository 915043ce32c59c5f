"""Which results of runs could become baselines?

A run proposes entries in .precreg/proposals/<tier>/<suite>.json, and writes nothing else. A person accepts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.baseline.environments import propose_environment_facts
from precreg.baseline.store import (
    baseline_file,
    check_entry,
    delete_file,
    lock_baselines,
    read_project_bytes,
    suite_of_case,
    write_file,
)
from precreg.baseline.text import parse_baseline, render_baseline
from precreg.errors import UserError
from precreg.storage import WORKING_FOLDER, convert_data
from precreg.types import BaselineEntry, CaseResult, Environment, Finding, GitState, NotRegressed, Reason, Status

PROPOSALS_SCHEMA = "precreg-proposals/3"
PROPOSALS_FOLDER = f"{WORKING_FOLDER}/proposals"
DEFAULT_ENVIRONMENT = "generic"
_S = TypeVar("_S", bound=msgspec.Struct)


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


def update_proposals(
    project: Path,
    results: Iterable[CaseResult],
    environment: Environment,
    git: GitState | None,
    environment_level: str | None = None,
    gone: Iterable[str] = (),
) -> list[str]:
    """Update the pending proposals after a run, and return the ids that it proposes.

    A result replaces the proposal of its case, or removes it if there is nothing to accept. A case without a verdict
    keeps its proposal. `environment_level` is the environment to store entries in; by default that of the old baseline,
    or generic. Proposals of the ids in `gone`, which no suite has, are removed.

    Raises:
        UserError: locked, not-writable, outside-project, unreadable-proposals or future-schema.
    """
    commit = "" if git is None else git.commit + ("-dirty" if git.dirty else "")
    changes = dict.fromkeys(gone) | {
        result.id: _proposal(result, environment, commit, environment_level)
        for result in results
        if result.verdict.status not in (Status.ERROR, Status.SKIPPED)
    }
    proposed = sorted(id for id, proposal in changes.items() if proposal is not None)
    # Without any, nothing is locked or written, so that a run works on a read-only disk.
    if proposed or pending_proposals(project):
        with lock_baselines(project):
            replace_proposals(project, changes)
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


def replace_proposals(project: Path, changes: Mapping[str, Proposal | None]) -> None:
    """Set the proposals of some cases, by id; None removes one. The caller holds the lock."""
    for suite in sorted({suite_of_case(id) for id in changes}):
        before = _read_suite(project, suite)
        after: dict[str, Proposal | None] = {**before}
        after |= {id.removeprefix(f"{suite}/"): new for id, new in changes.items() if suite_of_case(id) == suite}
        cases = {name: proposal for name, proposal in after.items() if proposal is not None}
        if cases == before:
            continue
        if cases:
            write_file(project, _file(suite), render_baseline(_header(suite), cases))
        else:
            delete_file(project, _file(suite))


def is_proposed(result: CaseResult) -> bool:
    """Return whether a person may accept a result: it is acceptable, and its baseline is its own."""
    return result.acceptable and result.baseline_id in ("", result.id)


def _is_proposed_as_known_bad(result: CaseResult) -> bool:
    """Return whether a person may accept a wrong result as it is, and its baseline is its own."""
    return result.wrong_state is not None and result.baseline_id in ("", result.id)


def _proposal(
    result: CaseResult, environment: Environment, commit: str, environment_level: str | None
) -> Proposal | None:
    if not is_proposed(result) and not _is_proposed_as_known_bad(result):
        return None
    found = None if result.stored is None else result.stored.environment
    target = environment_level or found or DEFAULT_ENVIRONMENT
    baseline_file(target, suite_of_case(result.id))  # refuses an environment that could not be stored
    entry = replace(
        entry_from(result.outcome, environment.fingerprint, commit),
        known=None if result.acceptable else result.wrong_state,
    )
    verdict = result.verdict
    evidence = [*map(_without_infinities, verdict.findings)]
    return Proposal(verdict.reason, target, found, entry, verdict.message, evidence, _paired_entry(result))


def _paired_entry(result: CaseResult) -> BaselineEntry | None:
    """Return the entry of the other version that judged a result in a paired run; None for all other results."""
    if result.baseline is None or result.baseline is result.stored:
        return None
    # Sketches and group sums serve judging. A review shows the metrics alone.
    return replace(result.baseline.entry, sketch={}, groups={})


def _without_infinities(finding: Finding) -> Finding:
    """Replace infinities and NaN, which JSON cannot store, by None; in the facts of a passed case, too."""
    fact = finding.fact
    if isinstance(fact, NotRegressed) and fact.largest is not None:
        fact = replace(fact, largest=_with_finite_figures(fact.largest))
    return replace(_with_finite_figures(finding), fact=fact)


def _with_finite_figures(value: _S) -> _S:
    numbers = {name: each for name in value.__struct_fields__ if isinstance(each := getattr(value, name), float)}
    return replace(value, **{name: None for name, number in numbers.items() if not isfinite(number)})


def _read_suite(project: Path, suite: str) -> dict[str, Proposal]:
    file = _file(suite)
    try:
        data = read_project_bytes(project, file)
        return {} if data is None else parse_baseline(data, file, _header(suite), _decode_proposal)
    except UserError as problem:
        # Proposals are made again by a run, so advice about merge conflicts in baselines would mislead.
        if problem.slug == "future-schema":
            raise
        raise UserError("unreadable-proposals", problem.message, file=problem.file, line=problem.line) from problem


def _decode_proposal(value: Any) -> Proposal:
    proposal = convert_data(value, Proposal)
    check_entry(proposal.entry)
    if proposal.paired is not None:
        check_entry(proposal.paired)
    return proposal


def _header(suite: str) -> dict[str, str]:
    return {"schema": PROPOSALS_SCHEMA, "suite": suite}


def _file(suite: str) -> str:
    return f"{PROPOSALS_FOLDER}/{suite}.json"
