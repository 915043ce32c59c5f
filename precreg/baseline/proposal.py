"""Which results of runs could become baselines?

A run proposes entries in .precreg/proposals/<tier>/<suite>.json, and the environments in which it saw the bits of
present entries again in .precreg/seen.json. A person accepts both, and later runs are stricter there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.baseline.environments import propose_environment_facts
from precreg.baseline.proposal_file import (
    Proposal,
    pending_proposals,
    replace_proposals,
    require_place,
    unreadable_proposals,
)
from precreg.baseline.store import delete_file, lock_baselines, write_file
from precreg.baseline.suite_file import baseline_file, read_project_bytes, suite_of_case
from precreg.baseline.text import parse_baseline, render_baseline
from precreg.errors import UserError
from precreg.storage import WORKING_FOLDER, DataError, convert_data, unpack_struct
from precreg.suite import list_names, select_names
from precreg.types import (
    Baseline,
    BaselineEntry,
    Case,
    CaseResult,
    Environment,
    Finding,
    GitState,
    NotRegressed,
    Outcome,
    Reason,
    Status,
)
from precreg.vcs import code_digests

DEFAULT_ENVIRONMENT = "generic"
_S = TypeVar("_S", bound=msgspec.Struct)


def update_proposals(
    project: Path,
    results: Iterable[CaseResult],
    environment: Environment,
    git: GitState | None,
    environment_level: str | None = None,
    gone: Iterable[str] = (),
    cases: Iterable[Case] = (),
) -> list[str]:
    """Update the pending proposals after a run, and return the ids that it proposes.

    A result replaces the proposal of its case, or removes it if there is nothing to accept. A case without a verdict
    keeps its proposal. `environment_level` is the environment to store entries in; by default that of the old baseline,
    or generic. Proposals of the ids in `gone`, which no suite has, are removed. So it is with the environments in which
    bits were seen again. `cases` are those of the results: their proposals then know the files behind them.

    Raises:
        UserError: locked, not-writable, outside-project, unreadable-proposals or future-schema.
    """
    results = tuple(results)
    commit = "" if git is None else git.commit + ("-dirty" if git.dirty else "")
    proposable = [each for each in results if _has_verdict(each) and _is_proposable(each)]
    for target, suite in {(_target(each, environment_level), suite_of_case(each.id)) for each in proposable}:
        baseline_file(target, suite)  # refuses an environment that could not be stored, before anything is written
    proposed = sorted(each.id for each in proposable)
    # Without any, nothing is locked or written, so that a run works on a read-only disk.
    if proposed or pending_proposals(project):
        ids = {*proposed}
        codes = code_digests([case for case in cases if case.id in ids], project)
        with lock_baselines(project):
            # Suite by suite: the entries of 100,000 cases take 500 MB.
            for group in _by_suite(results, gone):
                changes = {
                    id: None if result is None else _proposal(result, environment, commit, environment_level)
                    for id, result in group.items()
                }
                replace_proposals(project, _with_origin(changes, git, codes))
            if proposed:
                propose_environment_facts(project, *_environments(results, ids, environment))
    _update_seen(project, results, environment, set(gone))
    return proposed


def _has_verdict(result: CaseResult) -> bool:
    return result.verdict.status not in (Status.ERROR, Status.SKIPPED)


def _by_suite(results: Iterable[CaseResult], gone: Iterable[str]) -> Iterator[dict[str, CaseResult | None]]:
    """Yield the ids whose proposals may change, suite by suite: with the result of the case, and None without one."""
    found: defaultdict[str, dict[str, CaseResult | None]] = defaultdict(dict)
    for id in gone:
        found[suite_of_case(id)][id] = None
    for result in results:
        if _has_verdict(result):
            found[suite_of_case(result.id)][result.id] = result
    for suite in sorted(found):
        yield found[suite]


def _environments(results: Iterable[CaseResult], ids: Set[str], environment: Environment) -> list[Environment]:
    """Return the environments in which some cases of a run computed, each once, and the run's own."""
    every = (environment.of_case(each.outcome.execution) for each in results if each.id in ids)
    return [*{each.fingerprint: each for each in (environment, *every)}.values()]


def is_proposed(result: CaseResult) -> bool:
    """Return whether a person may accept a result: it is acceptable, and its baseline is its own."""
    return result.acceptable and result.baseline_id in ("", result.id)


def _is_proposed_as_known_bad(result: CaseResult) -> bool:
    """Return whether a person may accept a wrong result as it is, and its baseline is its own."""
    return result.wrong_state is not None and result.baseline_id in ("", result.id)


def _is_proposable(result: CaseResult) -> bool:
    return is_proposed(result) or _is_proposed_as_known_bad(result)


def _target(result: CaseResult, environment_level: str | None) -> str:
    """Return the environment in which the proposal of a result would be stored."""
    return environment_level or (None if result.stored is None else result.stored.environment) or DEFAULT_ENVIRONMENT


def _proposal(
    result: CaseResult, environment: Environment, commit: str, environment_level: str | None
) -> Proposal | None:
    if not _is_proposable(result):
        return None
    found = None if result.stored is None else result.stored.environment
    here = environment.of_case(result.outcome.execution)
    entry = replace(
        entry_from(result.outcome, here.fingerprint, commit, here.facts.get("cpu", "")),
        known=None if result.acceptable else result.wrong_state,
    )
    verdict = result.verdict
    evidence = [*map(_without_infinities, verdict.findings)]
    same_as = result.stored.entry.fingerprint if result.stored and here.has_seen(result.stored.entry) else ""
    target = _target(result, environment_level)
    return Proposal(verdict.reason, target, found, entry, verdict.message, evidence, _paired_entry(result), same_as)


def _with_origin(
    changes: Mapping[str, Proposal | None], git: GitState | None, codes: Mapping[str, str]
) -> dict[str, Proposal | None]:
    """Return proposals with the branch of the run, and a digest of the files that were run, from `codes` by id."""
    branch = None if git is None else git.branch
    return {
        id: None if proposal is None else replace(proposal, branch=branch, code=codes.get(id, ""))
        for id, proposal in changes.items()
    }


def _paired_entry(result: CaseResult) -> BaselineEntry | None:
    """Return the entry of the other version that judged a result in a paired run; None for all other results."""
    if result.baseline is None or result.baseline is result.stored:
        return None
    # Sketches and group sums serve judging. A review shows the metrics alone.
    return unpack_struct(replace(result.baseline.entry, sketch={}, groups={}))


def _without_infinities(finding: Finding) -> Finding:
    """Replace infinities and NaN, which JSON cannot store, by None; in the facts of a passed case, too."""
    fact = finding.fact
    if isinstance(fact, NotRegressed) and fact.largest is not None:
        fact = replace(fact, largest=_with_finite_figures(fact.largest))
    return replace(_with_finite_figures(finding), fact=fact)


def _with_finite_figures(value: _S) -> _S:
    numbers = {name: each for name in value.__struct_fields__ if isinstance(each := getattr(value, name), float)}
    return replace(value, **{name: None for name, number in numbers.items() if not isfinite(number)})


SEEN_FILE = f"{WORKING_FOLDER}/seen.json"
_SEEN_HEADER = {"schema": "precreg-seen/1"}


class SeenAgain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the fingerprints of environments that gave the bits of an entry, until a person accepts them.

    `environment` is the label of the entry, and `value` its `entry_value` at the time. An entry of an earlier version
    has no record of its oracle; `oracle` and `oracle_files` are those to add.
    """

    environment: str
    value: str
    seen: list[str] = msgspec.field(default_factory=list)
    oracle: list[str] = msgspec.field(default_factory=list)
    oracle_files: list[str] = msgspec.field(default_factory=list)


def entry_value(entry: BaselineEntry) -> str:
    """Return a digest of the bits of an entry and of their definition."""
    outputs = {name: output.digests for name, output in sorted(entry.outputs.items())}
    return sha256(repr((entry.definition, entry.inputs, outputs)).encode()).hexdigest()[:16]


def is_seen_again(result: CaseResult, environment: Environment) -> bool:
    """Return whether a result has the bits of its own baseline, and the baseline does not know this environment."""
    stored = result.stored
    return (
        result.verdict.reason is Reason.IDENTICAL
        and stored is not None
        and result.baseline_id in ("", result.id)
        and not is_proposed(result)
        and not environment.of_case(result.outcome.execution).has_seen(stored.entry)
        and _has_bits_of(stored.entry, result.outcome)
    )


def _has_bits_of(entry: BaselineEntry, outcome: Outcome) -> bool:
    # The other version of a paired run may have judged the result, and not this entry.
    seeds = len(entry.inputs)
    given = {name: list(digests[:seeds]) for name, digests in outcome.execution.outputs.items()}
    return (outcome.definition, list(outcome.execution.inputs[:seeds]), given) == (
        entry.definition,
        entry.inputs,
        {name: output.digests for name, output in entry.outputs.items()},
    )


def seen_again(project: Path) -> dict[str, SeenAgain]:
    """Return the environments that wait to be accepted, by case id. Raises UserError as `pending_proposals` does."""
    try:
        data, decode = read_project_bytes(project, SEEN_FILE), partial(convert_data, kind=SeenAgain)
        found = {} if data is None else parse_baseline(data, SEEN_FILE, _SEEN_HEADER, decode)
    except UserError as problem:
        raise unreadable_proposals(problem) from problem
    for id, waiting in found.items():
        try:
            if id.count("/") < 2:
                raise DataError("bad-value", f"expected the id of a case but got {id[:60]!r}")
            require_place(waiting.environment, suite_of_case(id))
        except DataError as mistake:
            raise UserError("unreadable-proposals", mistake.message, file=SEEN_FILE) from None
    return found


def replace_seen(project: Path, waiting: Mapping[str, SeenAgain]) -> None:
    """Set the environments that wait to be accepted, by case id. The caller holds the lock."""
    if waiting:
        write_file(project, SEEN_FILE, render_baseline(_SEEN_HEADER, waiting))
    else:
        delete_file(project, SEEN_FILE)


def _update_seen(project: Path, results: Iterable[CaseResult], environment: Environment, gone: Collection[str]) -> None:
    """Store the cases that have the bits of their baseline here, if it does not know this environment."""
    stored = {result.id: result.stored for result in results if result.stored is not None}
    found = {
        result.id: environment.of_case(result.outcome.execution).fingerprint
        for result in results
        if is_seen_again(result, environment)
    }
    records = {result.id: record for result in results if (record := _oracle_record(result, environment))}
    if not found and not records and not (project / SEEN_FILE).exists():
        return
    try:
        with lock_baselines(project):
            before = seen_again(project)
            # Cases that did not run keep theirs: earlier observations of an entry stay true.
            after = {id: waiting for id, waiting in before.items() if id not in gone and id not in stored}
            for id, baseline in stored.items():
                new = [found[id]] if id in found else []
                if (waiting := _still_new(before.get(id), baseline, new, records.get(id, {}))) is not None:
                    after[id] = waiting
            if after != before:
                replace_seen(project, after)
                propose_environment_facts(project, *_environments(results, found.keys(), environment))
    except UserError as problem:
        # The next run sees the bits again. Without other proposals a run needs no disk that it can write.
        if problem.slug != "not-writable":
            raise


def _oracle_record(result: CaseResult, environment: Environment) -> dict[str, list[str]]:
    """Return the record of its oracle that the entry of a result lacks, by the fields of the entry."""
    stored, execution = result.stored, result.outcome.execution
    if stored is None or result.baseline_id not in ("", result.id) or not _has_bits_of(stored.entry, result.outcome):
        return {}
    # Only worker processes note files, and another environment has digests of its own.
    files = [] if stored.entry.oracle_files else [*execution.oracle_files]
    here = environment.of_case(execution)
    lacks_digests = not stored.entry.oracle and here.has_accepted(stored.entry) and execution.oracle_files
    record = {"oracle": [*execution.oracle[: len(stored.entry.inputs)]] if lacks_digests else [], "oracle_files": files}
    return record if any(record.values()) else {}


def _still_new(
    before: SeenAgain | None, stored: Baseline, new: list[str], record: Mapping[str, list[str]]
) -> SeenAgain | None:
    """Return the environments that gave the bits of a stored entry and that it does not know; None without any.

    `record` is that of its oracle, if the entry lacks it.
    """
    now = SeenAgain(stored.environment, entry_value(stored.entry), new, **record)
    if before is not None and (before.environment, before.value) == (now.environment, now.value):
        now = replace(now, seen=[*before.seen, *new])
    unknown = {*now.seen} - {stored.entry.fingerprint, *stored.entry.seen}
    return replace(now, seen=sorted(unknown)) if unknown or record else None


def select_proposals(ids: Collection[str], patterns: Sequence[str], known: Collection[str] = ()) -> list[str]:
    """Return the ids of proposals that match a pattern, in their order; `known` are the ids of the suites' cases.

    Raises:
        UserError: no-proposal, for a pattern without a match, without any pattern, and without any proposal.
    """
    if not ids:
        matching = f" and matches {', '.join(patterns)}" if patterns else ""
        # No advice to run: a run proposes nothing again, if its results are those that were accepted.
        hint = "a result that equals its baseline needs none; precreg baseline list shows the accepted ones"
        raise UserError("no-proposal", f"expected a proposal that waits{matching} but there is none", hint=hint)
    if not patterns:
        raise UserError("no-proposal", f"expected the name of a case, or a pattern, but got none{list_names(ids)}")
    chosen = select_names(ids, patterns, noun="proposal", slug="no-proposal", known=known)
    return [id for id in ids if id in chosen]
