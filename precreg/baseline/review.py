"""How do proposals become baselines?

A person compares proposed figures with accepted ones, and accepts or rejects them for a reason. Nothing here happens by
itself, and nothing writes baselines in CI.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple, overload

from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline.entry import succeed_entry
from precreg.baseline.environment_review import forget_seen
from precreg.baseline.environments import (
    accept_environment_facts,
    all_environment_facts,
    environment_difference,
)
from precreg.baseline.origin import WaitingProposals
from precreg.baseline.proposal import select_proposals
from precreg.baseline.proposal_file import (
    Proposal,
    ProposalFacts,
    Proposals,
    pending_proposals,
    replace_proposals,
    replaced_since,
)
from precreg.baseline.store import (
    BaselineKey,
    Baselines,
    lock_baselines,
    refuse_in_ci,
    store_entries,
)
from precreg.errors import UserError
from precreg.measure import METRICS, mean_metrics, mean_over_seeds, metric_named, metric_ratio
from precreg.suite import match_names
from precreg.tolerance import DEFAULT_GROWTHS
from precreg.types import (
    STATISTIC,
    BaselineEntry,
    BaselineOutput,
    EnvironmentDifference,
    MetricDescription,
    Reason,
    is_test_defined,
)

# Cases that an error names: enough to recognize the suite.
MAX_NAMED = 5
ChangeDirection = Literal["better", "worse", "same", "new", "gone"]
# The ratio of a mean, in either direction, from which accepting it requires confirming reruns.
MIN_RELEVANT_RATIO = 1 + DEFAULT_GROWTHS[STATISTIC]


class MetricChange(NamedTuple):
    """Hold one metric's mean over the common seeds, before and after; None if it is undefined or absent."""

    output: str
    metric: str
    old: float | None
    new: float | None
    # The mean of the other version in a paired run: the change up to it comes from the environment, the rest from code.
    paired: float | None = None
    described: tuple[MetricDescription, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return the new figure divided by the old one; None where a ratio has no meaning."""
        return metric_ratio(metric_named(self.metric, self.described), self.new, self.old)

    @property
    def kind(self) -> ChangeDirection:
        """Return the direction of the change."""
        if self.old is None or self.new is None:
            return "same" if self.old == self.new else "new" if self.old is None else "gone"
        metric = metric_named(self.metric, self.described)
        # A bias may have either sign, and is better the nearer it is to zero.
        old, new = (abs(self.old), abs(self.new)) if metric.scale == "signed" else (self.old, self.new)
        if old == new:
            return "same"
        return "better" if (new < old) == (metric.better == "lower") else "worse"

    @property
    def is_relevant(self) -> bool:
        """Return whether a mean changed so much that reruns must exclude noise before it is accepted."""
        if self.metric not in mean_metrics() or self.kind not in ("better", "worse"):
            return False
        return self.ratio is None or not 1 / MIN_RELEVANT_RATIO <= self.ratio <= MIN_RELEVANT_RATIO


class ProposalChange(Struct, frozen=True, dict=True):
    """Hold the effect of accepting one proposal: the present entry, if any, and the new one.

    `read` returns the proposal, which first results of thousands of cases do not need: their facts are enough.
    """

    place: BaselineKey
    facts: ProposalFacts
    old: BaselineEntry | None
    read: Callable[[], Proposal]
    # The difference between the environments of the two entries; None for one, or if both gave the same bits.
    environment_change: EnvironmentDifference | None = None
    # The code or the definition of the case changed since the run.
    outdated: bool = False

    @cached_property
    def proposal(self) -> Proposal:
        """Return the proposal."""
        return self.read()

    @cached_property
    def new(self) -> BaselineEntry:
        """Return the new entry."""
        return succeed_entry(self.proposal.entry, self.old)

    @property
    def metrics(self) -> tuple[MetricChange, ...]:
        """Return the change of each metric, computed anew."""
        return tuple(compare_metrics(self.old, self.proposal.entry, self.proposal.paired))

    @property
    def verdict(self) -> Reason:
        """Return the reason of the proposal's verdict."""
        return self.facts.verdict

    @property
    def known_bad(self) -> bool:
        """Return whether the proposal has a wrong result, which is accepted as known bad alone."""
        return self.facts.is_wrong

    @property
    def needs_rerun(self) -> bool:
        """Return whether acceptance requires confirming reruns: an outdated proposal, or a loss or gain.

        A loss or gain is over an entry of the same definition.
        """
        return self.outdated or self.moved

    @property
    def moved(self) -> bool:
        """Return whether the figures are worse or better than the figures of an entry of the same definition."""
        # Later runs are compared with this entry, so it must not be a lucky or an unlucky run. Without an entry of the
        # same definition, the case has neither lost nor gained.
        if self.old is None or self.old.definition != self.facts.definition:
            return False
        moved = any(metric.is_relevant for metric in self.metrics)
        return moved or self.verdict in (Reason.REGRESSED, Reason.IMPROVED)


class ProposalChanges(Sequence[ProposalChange]):
    """Hold the changes of many proposals, each computed when it is read."""

    def __init__(self, ids: Sequence[str], make: Callable[[str], ProposalChange]) -> None:
        self.ids, self._make = ids, make

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> ProposalChange: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ProposalChange]: ...
    def __getitem__(self, index: int | slice) -> ProposalChange | Sequence[ProposalChange]:
        if isinstance(index, slice):
            return ProposalChanges(self.ids[index], self._make)
        return self._make(self.ids[index])


def change_of_proposal(
    baselines: Baselines, id: str, proposals: Proposals, environment: str | None = None
) -> ProposalChange:
    """Return the effect of accepting one of some proposals, stored under `environment` if given."""
    facts = proposals.facts(id)
    place = BaselineKey(environment or facts.environment, id)
    old = _entry_to_replace(baselines, place, facts)
    return ProposalChange(place, facts, old, partial(proposals.__getitem__, id))


def _entry_to_replace(baselines: Baselines, place: BaselineKey, proposal: ProposalFacts) -> BaselineEntry | None:
    target = place.environment
    found = baselines.lookup(place.id, tuple(dict.fromkeys((target, proposal.judged_against or target))))
    return None if found is None else found.entry


def compare_metrics(
    old: BaselineEntry | None, new: BaselineEntry, paired: BaselineEntry | None = None
) -> Iterator[MetricChange]:
    """Yield each metric of two entries, in the order of METRICS; `paired` is of the other version in a paired run."""
    before: Mapping[str, BaselineOutput] = {} if old is None else old.outputs
    of_analyzers = {each.name: each for entry in (old, new) if entry for each in entry.described}
    for name in {**before, **new.outputs}:
        # With fewer seeds now, only the common ones are comparable: other seeds draw other inputs.
        seeds = min(len(output.digests) for output in (before.get(name), new.outputs.get(name)) if output is not None)
        sides = before.get(name), new.outputs.get(name), None if paired is None else paired.outputs.get(name)
        present = set[str]().union(*(side.metrics for side in sides if side is not None))
        for metric in filter(present.__contains__, (*METRICS, *of_analyzers)):
            described = (of_analyzers[metric],) if metric in of_analyzers else ()
            accepted, proposed, beside = (_mean(side, metric, seeds) for side in sides)
            change = MetricChange(name, metric, accepted, proposed, beside, described)
            if (change.old, change.new) != (None, None):
                yield change


def _mean(output: BaselineOutput | None, metric: str, seeds: int) -> float | None:
    return None if output is None else mean_over_seeds(output.metrics.get(metric, [])[:seeds])


# Runs before anything is stored. Returns the confirmation text by case id, or raises.
ConfirmChanges = Callable[[Sequence[ProposalChange]], Mapping[str, str]]


def diff_proposals(
    project: Path,
    patterns: Sequence[str] = (),
    environment: str | None = None,
    waiting: WaitingProposals | None = None,
    known: Collection[str] = (),
) -> ProposalChanges:
    """Return the effects of accepting the matching proposals; without patterns, of all.

    `environment` overrides where the proposals would be stored. `waiting` are the proposals by origin; without it, all
    belong here. `known` are the ids of the suites' cases.

    Raises:
        UserError: no-proposal, for a pattern without a match.
    """
    waiting, baselines = waiting or WaitingProposals(pending_proposals(project)), Baselines(project)
    chosen = select_proposals(waiting.here, patterns, known) if patterns else list(waiting.here)
    facts = all_environment_facts(project)

    def make(id: str) -> ProposalChange:
        change = change_of_proposal(baselines, id, waiting.here, environment)
        return replace(change, environment_change=_environment_change(change, facts), outdated=id in waiting.outdated)

    return ProposalChanges(chosen, make)


def _environment_change(change: ProposalChange, known: Mapping[str, Mapping[str, str]]) -> EnvironmentDifference | None:
    if change.old is None or change.old.fingerprint == change.proposal.same_as:
        return None
    return environment_difference(change.old.fingerprint, change.facts.fingerprint, known)


def confirm_nothing(_changes: Sequence[ProposalChange]) -> dict[str, str]:
    """Confirm no change."""
    return {}


# Sees the entry of a case id whenever it is made of its proposal, which may be more than once.
CheckEntry = Callable[[str, BaselineEntry], None]


def check_nothing(_id: str, _entry: BaselineEntry) -> None:
    """Check no entry."""


def accept_proposals(
    project: Path,
    patterns: Sequence[str],
    *,
    known: Collection[str],
    reason: str,
    author: str,
    date: str,
    environment: str | None = None,
    known_bad: str | None = None,
    confirm: ConfirmChanges = confirm_nothing,
    check: CheckEntry = check_nothing,
    waiting: WaitingProposals | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AcceptedEntries:
    """Store the matching proposals as baselines, and return them. `known` are the ids of the suites' cases.

    Proposals of other cases are left out. `waiting` are the proposals by origin; without it, all belong here.
    `author` is "Name <mail>", `date` YYYY-MM-DD; `environment` overrides where the proposals would be stored.
    `known_bad` is the reason to accept wrong results, which then match alone; it replaces an empty `reason`. `confirm`
    receives the changes before anything is locked, and its result by case id is stored. `check` receives the entries.

    Raises:
        UserError: accept-in-ci, missing-reason, no-proposal, known-bad, unknown-case, locked, not-writable,
            outside-project, or an unreadable file. Also exceptions of `confirm`.
    """
    refuse_in_ci(environ)
    reason = _checked_reason(reason, known_bad)
    waiting = waiting or WaitingProposals(pending_proposals(project))
    changes = _acceptable_changes(project, waiting, patterns, known, environment, as_known_bad=known_bad is not None)
    confirmed = confirm(changes)
    with lock_baselines(project):
        _require_not_replaced(project, waiting.here, changes.ids)
        # Reruns take minutes, in which another process may have accepted a proposal. So baselines are read again.
        baselines, proposals = Baselines(project), waiting.here

        def entry_of(place: BaselineKey) -> BaselineEntry:
            signed = _signed(proposals[place.id].entry, reason, author, date, confirmed.get(place.id, ""), known_bad)
            return succeed_entry(signed, _entry_to_replace(baselines, place, proposals.facts(place.id)))

        places = [BaselineKey(environment or proposals.facts(id).environment, id) for id in changes.ids]
        accepted = AcceptedEntries(places, entry_of, confirmed, check)
        _store_accepted(project, accepted, proposals)
    return accepted


class AcceptedEntries(Mapping[BaselineKey, BaselineEntry]):
    """Hold the entries that an acceptance stored, each made of its proposal when it is read.

    `confirmed` has the confirmations by case id, as the entries have them. `check` receives each entry that is made.
    """

    def __init__(
        self,
        places: Sequence[BaselineKey],
        make: Callable[[BaselineKey], BaselineEntry],
        confirmed: Mapping[str, str],
        check: CheckEntry,
    ) -> None:
        self._places, self._make, self.confirmed, self._check = dict.fromkeys(places), make, confirmed, check

    def __getitem__(self, place: BaselineKey) -> BaselineEntry:
        if place not in self._places:
            raise KeyError(place)
        entry = self._make(place)
        self._check(place.id, entry)
        return entry

    def __iter__(self) -> Iterator[BaselineKey]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _store_accepted(project: Path, accepted: Mapping[BaselineKey, BaselineEntry], proposals: Proposals) -> None:
    """Store entries, and clear their proposals. The caller holds the lock."""
    ids = [place.id for place in accepted]
    # Each step writes the new place before it clears the old one. After a kill in between, an entry is in both places,
    # and the same command finishes the work.
    accept_environment_facts(project, {proposals.facts(id).fingerprint for id in ids})
    store_entries(project, accepted)
    replace_proposals(project, dict.fromkeys(ids), proposals)
    forget_seen(project, ids)


def _signed(
    entry: BaselineEntry, reason: str, author: str, date: str, confirmation: str, known_bad: str | None
) -> BaselineEntry:
    """Return a proposed entry with its reason, author and date; a wrong result gets the reason of its own."""
    state = entry.known and replace(entry.known, reason=(known_bad or "").strip())
    return replace(entry, reason=reason, author=author, date=date, confirmation=confirmation, known=state)


def _checked_reason(reason: str, known_bad: str | None) -> str:
    """Return the reason of the entries. Raises UserError (missing-reason)."""
    found = reason.strip() or (known_bad or "").strip()
    if not found or (known_bad is not None and not known_bad.strip()):
        expected = "why the new figures are right" if known_bad is None else "why the figures stay wrong"
        got = f"reason={reason!r}" if known_bad is None else f"known={known_bad!r}"
        raise UserError("missing-reason", f"expected {expected} but got {got}")
    return found


def _acceptable_changes(
    project: Path,
    waiting: WaitingProposals,
    patterns: Sequence[str],
    known: Collection[str],
    environment: str | None,
    *,
    as_known_bad: bool,
) -> ProposalChanges:
    proposals, baselines = waiting.here, Baselines(project)
    kept = _without_gone(proposals, patterns, known, waiting)
    found = _select_kind(kept, patterns, known, as_known_bad=as_known_bad)

    def make(id: str) -> ProposalChange:
        return replace(change_of_proposal(baselines, id, proposals, environment), outdated=id in waiting.outdated)

    return ProposalChanges(found, make)


def _select_kind(
    proposals: Proposals, patterns: Sequence[str], known: Collection[str], *, as_known_bad: bool
) -> list[str]:
    """Return the matching ids among the proposals of wrong results, or among the others.

    Raises UserError (known-bad) for a pattern that only proposals of the other kind match, and as `select_proposals`.
    """
    # A dict, because a list of 100,000 ids takes a minute to search for each of them.
    of_kind = {id: None for id in proposals if proposals.facts(id).is_wrong == as_known_bad}
    for pattern in patterns:
        matching = match_names(proposals, [pattern], known)
        other = next((id for id in proposals if id in matching and id not in of_kind), None)
        if other is not None and matching.isdisjoint(of_kind.keys()):
            verdict = proposals.facts(other).verdict
            # A wrong result may have improved, so the reason of the verdict alone would confuse.
            expected, state = (
                ("a wrong result", "right") if as_known_bad else ("a result within its tolerance", "wrong")
            )
            raise UserError("known-bad", f"expected {expected} but got {other}, which is {state} ({verdict})")
    chosen = {*select_proposals(proposals, patterns, known)}
    return [id for id in of_kind if id in chosen]


def require_unchanged(changes: Sequence[ProposalChange], proposals: Mapping[str, Proposal]) -> None:
    """Refuse proposals that a run replaced after they were reviewed or confirmed. Raises UserError (no-proposal)."""
    for change in changes:
        if proposals.get(change.place.id) != change.proposal:
            raise _replaced_error(change.place.id)


def _require_not_replaced(project: Path, reviewed: Proposals, ids: Collection[str]) -> None:
    """Do as `require_unchanged` with the proposals of the disk, whose files mostly stay. The caller holds the lock."""
    replaced = replaced_since(project, reviewed, ids)
    if replaced is not None:
        raise _replaced_error(replaced)


def _replaced_error(id: str) -> UserError:
    message = f"expected the proposal of {id} as it was reviewed, but a run replaced it meanwhile"
    return UserError("no-proposal", message)


def reject_proposals(
    project: Path, patterns: Sequence[str], within: Collection[str] | None = None, known: Collection[str] = ()
) -> list[str]:
    """Remove the matching proposals, and return their ids. If `within` is given, only its ids match.

    `known` are the ids of the suites' cases.

    Raises:
        UserError: no-proposal, locked, not-writable.
    """
    with lock_baselines(project):
        pending = pending_proposals(project)
        chosen = select_proposals([id for id in pending if within is None or id in within], patterns, known)
        replace_proposals(project, dict.fromkeys(chosen), pending)
    return chosen


def _without_gone(
    proposals: Proposals, patterns: Sequence[str], known: Collection[str], waiting: WaitingProposals
) -> Proposals:
    """Return the proposals of cases that a suite defines.

    Raises:
        UserError: unknown-case, for a pattern that only other proposals match; no-proposal, if none does.
    """
    # No suite has test-defined cases; their proposals show that a test defines them.
    kept = proposals.among(id for id in proposals if id in known or is_test_defined(proposals.facts(id).definition))
    gone = {id for id in proposals if id not in kept} | waiting.gone.keys()
    for pattern in patterns:
        # Cases that are gone never block the acceptance of the others.
        if match_names(kept, [pattern], known):
            continue
        # Without a match, the error names the nearest.
        matching = match_names(gone, [pattern], known) or select_proposals(proposals, [pattern], known)
        if matching:
            named = ", ".join(sorted(matching)[:MAX_NAMED])
            message = f"expected cases that a suite has but got {named}; precreg baseline prune drops their proposals"
            raise UserError("unknown-case", message)
    return kept
