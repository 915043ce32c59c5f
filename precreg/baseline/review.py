"""What accepting a proposal would change: what was accepted before, what would be, and each metric before and after.

Promoting what runs propose: a person compares it with what was accepted, and accepts or rejects it for a reason.

Nothing here happens by itself, and nothing that writes baselines happens in CI. Every step writes the new place of an
entry before it clears the old one: killed in between, the entry stands in both, and the same command finishes the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from precreg.baseline.entry import succeed_entry
from precreg.baseline.environments import (
    PROPOSED_ENVIRONMENTS_FILE,
    accept_environment_facts,
    describe_entry_environments,
    prune_environment_facts,
    read_environment_facts,
)
from precreg.baseline.proposal import Proposal, pending_proposals, replace_proposals
from precreg.baseline.store import (
    BaselineKey,
    Baselines,
    lock_baselines,
    read_all_entries,
    remove_entries,
    store_entries,
)
from precreg.environment import in_ci
from precreg.errors import UserError, nearest
from precreg.measure import METRICS, mean_metrics, mean_over_seeds, metric_named, metric_ratio
from precreg.tolerance import DEFAULT_GROWTHS
from precreg.types import (
    STATISTIC,
    BaselineEntry,
    BaselineOutput,
    MetricDescription,
    Reason,
    is_test_defined,
)

ChangeDirection = Literal["better", "worse", "same", "new", "gone"]


MIN_RELEVANT_RATIO = 1 + DEFAULT_GROWTHS[STATISTIC]
"""The ratio of a mean, either way, from which accepting it asks for confirming reruns."""


class MetricChange(NamedTuple):
    """One metric's mean over the seeds that both have, before and after; None where it is undefined or absent.

    `paired` is what the other version of a paired run gave here: up to it the environment's change, from it the code's.
    """

    output: str
    metric: str
    old: float | None
    new: float | None
    paired: float | None = None
    described: tuple[MetricDescription, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return how many times the old figure the new one is; None where that has no meaning."""
        return metric_ratio(metric_named(self.metric, self.described), self.new, self.old)

    @property
    def kind(self) -> ChangeDirection:
        """Tell which way it went; a bias is the better the nearer it is to zero."""
        if self.old is None or self.new is None:
            return "same" if self.old == self.new else "new" if self.old is None else "gone"
        metric = metric_named(self.metric, self.described)
        old, new = (abs(self.old), abs(self.new)) if metric.scale == "signed" else (self.old, self.new)
        if old == new:
            return "same"
        return "better" if (new < old) == (metric.better == "lower") else "worse"

    @property
    def material(self) -> bool:
        """Tell whether a mean moved by so much that chance should be ruled out before it is accepted."""
        if self.metric not in mean_metrics() or self.kind not in ("better", "worse"):
            return False
        return self.ratio is None or not 1 / MIN_RELEVANT_RATIO <= self.ratio <= MIN_RELEVANT_RATIO


class ProposalChange(NamedTuple):
    """What accepting one proposal would do: the entry it was judged against, if any, and the one to be stored.

    `surroundings` says what is different between the environments of the two; empty if they are of one fingerprint.
    """

    place: BaselineKey
    proposal: Proposal
    old: BaselineEntry | None
    new: BaselineEntry
    metrics: tuple[MetricChange, ...]
    surroundings: str = ""

    @property
    def verdict(self) -> Reason:
        """Return the reason of the verdict that the proposal came with."""
        return self.proposal.verdict

    @property
    def to_confirm(self) -> bool:
        """Tell whether it is accepted only if reruns confirm it: a loss, or a gain, over what the same case had.

        A lucky or an unlucky run is none that others should be held against. What has no baseline of its definition
        has neither gained nor lost.
        """
        if self.old is None or self.old.definition != self.new.definition:
            return False
        moved = any(metric.material for metric in self.metrics)
        return moved or self.verdict in (Reason.REGRESSED, Reason.IMPROVED)


def change_of_proposal(
    baselines: Baselines, id: str, proposal: Proposal, environment: str | None = None
) -> ProposalChange:
    """Return what accepting one proposal would do, stored under `environment` where it is given."""
    target = environment or proposal.environment
    found = baselines.lookup(id, (target, proposal.judged_against or target))
    old = None if found is None else found.entry
    metrics = tuple(_metric_changes(old, proposal.entry, proposal.paired))
    return ProposalChange(BaselineKey(target, id), proposal, old, succeed_entry(proposal.entry, old), metrics)


def _metric_changes(
    old: BaselineEntry | None, new: BaselineEntry, paired: BaselineEntry | None
) -> Iterator[MetricChange]:
    before: Mapping[str, BaselineOutput] = {} if old is None else old.outputs
    of_analyzers = {each.name: each for entry in (old, new) if entry for each in entry.described}
    for name in {**before, **new.outputs}:
        seeds = min(len(output.digests) for output in (before.get(name), new.outputs.get(name)) if output is not None)
        sides = before.get(name), new.outputs.get(name), None if paired is None else paired.outputs.get(name)
        for metric in (*METRICS, *of_analyzers):
            described = (of_analyzers[metric],) if metric in of_analyzers else ()
            accepted, proposed, beside = (_mean(side, metric, seeds) for side in sides)
            change = MetricChange(name, metric, accepted, proposed, beside, described)
            if (change.old, change.new) != (None, None):
                yield change


def _mean(output: BaselineOutput | None, metric: str, seeds: int) -> float | None:
    return None if output is None else mean_over_seeds(output.metrics.get(metric, [])[:seeds])


ConfirmChanges = Callable[[Sequence[ProposalChange]], Mapping[str, str]]
"""What is asked before anything is stored: it returns, by case id, how a change was confirmed, or raises."""


class PruneResult(NamedTuple):
    """Entries removed because no case is called so, and those moved to the new name of their case."""

    removed: tuple[BaselineKey, ...]
    renamed: dict[BaselineKey, BaselineKey]


def diff_proposals(project: Path, patterns: Sequence[str] = (), environment: str | None = None) -> list[ProposalChange]:
    """Return what accepting the proposals that match would change; without patterns, all of them.

    `environment` overrides where the proposals would be stored.

    Raises:
        UserError: no-proposal, for a pattern that matches none.
    """
    proposals, baselines = pending_proposals(project), Baselines(project)
    chosen = select_proposals(proposals, patterns) if patterns else list(proposals)
    known = read_environment_facts(project, PROPOSED_ENVIRONMENTS_FILE) | read_environment_facts(project)
    changes = (change_of_proposal(baselines, id, proposals[id], environment) for id in chosen)
    return [
        change._replace(surroundings=describe_entry_environments(change.old, change.new, known)) for change in changes
    ]


def confirm_nothing(_changes: Sequence[ProposalChange]) -> dict[str, str]:
    """Confirm nothing."""
    return {}


def accept_proposals(
    project: Path,
    patterns: Sequence[str],
    *,
    known: Collection[str],
    reason: str,
    author: str,
    date: str,
    environment: str | None = None,
    confirm: ConfirmChanges = confirm_nothing,
    environ: Mapping[str, str] = os.environ,
) -> dict[BaselineKey, BaselineEntry]:
    """Store the proposals that match as baselines, and return them. `known` are the ids of the suites' cases.

    `author` is "Name <mail>", `date` YYYY-MM-DD; `environment` overrides where the proposals would be stored.
    `confirm` is given what would change, before anything is locked: what it returns by case id is kept with the entry.

    Raises:
        UserError: accept-in-ci, missing-reason, no-proposal, unknown-case for a proposal of a case that no suite
            has any more, locked, not-writable, outside-project, or a file that cannot be read; and what `confirm`
            raises; before anything is written, but for a disk that fails half-way, when the same command finishes
            later.
    """
    refuse_in_ci(environ)
    if not reason.strip():
        raise UserError("missing-reason", f"expected why the new figures are right but got reason={reason!r}")
    changes = _acceptable(project, patterns, known, environment)
    confirmed = confirm(changes)
    with lock_baselines(project):
        require_unchanged(changes, pending_proposals(project))
        baselines = Baselines(project)  # read anew: another process may have accepted something meanwhile
        accepted: dict[BaselineKey, BaselineEntry] = {}
        for place, proposal, *_ in changes:
            signed = replace(
                proposal.entry,
                reason=reason.strip(),
                author=author,
                date=date,
                confirmation=confirmed.get(place.id, ""),
            )
            accepted[place] = succeed_entry(signed, change_of_proposal(baselines, place.id, proposal, environment).old)
        accept_environment_facts(project, {entry.fingerprint for entry in accepted.values()})
        store_entries(project, accepted)
        replace_proposals(project, dict.fromkeys(change.place.id for change in changes))
    return accepted


def _acceptable(
    project: Path, patterns: Sequence[str], known: Collection[str], environment: str | None
) -> list[ProposalChange]:
    proposals, baselines = pending_proposals(project), Baselines(project)
    chosen = select_proposals(proposals, patterns)
    _require_known({id: proposals[id] for id in chosen}, known)
    return [change_of_proposal(baselines, id, proposals[id], environment) for id in chosen]


def require_unchanged(changes: Sequence[ProposalChange], proposals: Mapping[str, Proposal]) -> None:
    """Refuse what nobody looked at, or no rerun confirmed: a run has replaced it. Raises UserError (no-proposal)."""
    for change in changes:
        if proposals.get(change.place.id) != change.proposal:
            message = f"expected the proposal of {change.place.id} that was looked at, but it was replaced meanwhile"
            raise UserError("no-proposal", message)


def reject_proposals(project: Path, patterns: Sequence[str]) -> list[str]:
    """Drop the proposals that match, and return their ids. Raises UserError (no-proposal, locked, not-writable)."""
    with lock_baselines(project):
        chosen = select_proposals(pending_proposals(project), patterns)
        replace_proposals(project, dict.fromkeys(chosen))
    return chosen


def prune_baselines(project: Path, known: Mapping[str, str], *, environ: Mapping[str, str] = os.environ) -> PruneResult:
    """Remove the entries of cases that are gone, in every environment; a case that was renamed keeps its entry.

    `known` has the definition digest of every case of the project, by the id its baseline is looked up by.

    Raises:
        UserError: accept-in-ci, locked, not-writable, or a file that cannot be read.
    """
    refuse_in_ci(environ)
    with lock_baselines(project):
        accepted = read_all_entries(project)
        orphans = {
            place: entry
            for place, entry in accepted.items()
            if place.id not in known and not is_test_defined(entry.definition)
        }
        renamed = _renames(orphans, accepted, known)
        store_entries(project, {place: orphans[former] for former, place in renamed.items()})
        remove_entries(project, orphans)
        prune_environment_facts(project, {entry.fingerprint for entry in read_all_entries(project).values()})
    return PruneResult(tuple(place for place in orphans if place not in renamed), renamed)


def select_proposals(ids: Collection[str], patterns: Sequence[str]) -> list[str]:
    """Return the ids that are named, or that match a pattern (fnmatch) which is no id itself, in their order.

    Raises:
        UserError: no-proposal, for a pattern that matches none, and for no pattern at all.
    """
    if not patterns:
        raise UserError("no-proposal", "expected the name of a case, or a pattern, but got none")
    chosen: set[str] = set()
    for pattern in patterns:
        matching = {pattern} if pattern in ids else {id for id in ids if fnmatchcase(id, pattern)}
        if not matching:
            message = f"expected a case that has a proposal but got name={pattern}{nearest(pattern, ids)}"
            raise UserError("no-proposal", message)
        chosen |= matching
    return [id for id in ids if id in chosen]


def refuse_in_ci(environ: Mapping[str, str]) -> None:
    """Raise UserError (accept-in-ci) where no person is there."""
    if in_ci(environ):
        message = f"expected a person's own machine but got CI={environ['CI']}: CI never writes baselines"
        raise UserError("accept-in-ci", message)


def _require_known(chosen: Mapping[str, Proposal], known: Collection[str]) -> None:
    """Refuse what nobody defines any more. A hand-written test need not be known: its proposal says who defines it."""
    gone = [id for id in chosen if id not in known and not is_test_defined(chosen[id].entry.definition)]
    if gone:
        message = f"expected cases that a suite has but got {', '.join(gone)}; precreg baseline reject drops proposals"
        raise UserError("unknown-case", message)


def _renames(
    orphans: Mapping[BaselineKey, BaselineEntry], accepted: Collection[BaselineKey], known: Mapping[str, str]
) -> dict[BaselineKey, BaselineKey]:
    """Pair each orphan with a case of its definition that has no entry in its environment, the first by name."""
    renamed: dict[BaselineKey, BaselineKey] = {}
    for former, entry in orphans.items():
        namesakes = (BaselineKey(former.environment, id) for id in sorted(known) if known[id] == entry.definition)
        free = (place for place in namesakes if place not in accepted and place not in renamed.values())
        place = next(free, None)
        if place is not None:
            renamed[former] = place
    return renamed
