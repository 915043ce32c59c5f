"""Promoting what runs propose: a person compares it with what was accepted, and accepts or rejects it for a reason.

Nothing here happens by itself, and nothing that writes baselines happens in CI. Every step writes the new place of an
entry before it clears the old one: killed in between, the entry stands in both, and the same command finishes the work.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from precreg.baseline import environments
from precreg.baseline.proposal import Proposal, pending, replace_proposals
from precreg.baseline.store import Baselines, Place, entries
from precreg.baseline.write import locked, put, remove
from precreg.ci import in_ci
from precreg.errors import UserError, nearest
from precreg.measure.metrics import METRICS, described, mean_over_seeds, ratio
from precreg.metric import learn
from precreg.records import BaselineEntry, BaselineOutput, is_handwritten
from precreg.types import Reason

Kind = Literal["better", "worse", "same", "new", "gone"]


class MetricChange(NamedTuple):
    """One metric's mean over the seeds that both have, before and after; None where it is undefined or absent."""

    output: str
    metric: str
    old: float | None
    new: float | None

    @property
    def ratio(self) -> float | None:
        """Return how many times the old figure the new one is; None where that has no meaning."""
        return ratio(self.metric, self.new, self.old)

    @property
    def kind(self) -> Kind:
        """Tell which way it went; a bias is the better the nearer it is to zero."""
        if self.old is None or self.new is None:
            return "same" if self.old == self.new else "new" if self.old is None else "gone"
        old, new = (abs(self.old), abs(self.new)) if self.metric == "bias" else (self.old, self.new)
        if old == new:
            return "same"
        return "better" if (new < old) == (described(self.metric).better == "lower") else "worse"


class Change(NamedTuple):
    """What accepting one proposal would do: the entry it was judged against, if any, and the one to be stored."""

    place: Place
    verdict: Reason
    old: BaselineEntry | None
    new: BaselineEntry
    metrics: tuple[MetricChange, ...]


class Pruned(NamedTuple):
    """Entries removed because no case is called so, and those moved to the new name of their case."""

    removed: tuple[Place, ...]
    renamed: dict[Place, Place]


def diff(project: Path, patterns: Sequence[str] = ()) -> list[Change]:
    """Return what accepting the proposals that match would change; without patterns, all of them.

    Raises:
        UserError: no-proposal, for a pattern that matches none.
    """
    proposals, baselines = pending(project), Baselines(project)
    chosen = select(proposals, patterns) if patterns else list(proposals)
    return [_change(baselines, id, proposals[id]) for id in chosen]


def accept(
    project: Path,
    patterns: Sequence[str],
    *,
    known: Collection[str],
    reason: str,
    author: str,
    date: str,
    environment: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[Place, BaselineEntry]:
    """Store the proposals that match as baselines, and return them. `known` are the ids of the suites' cases.

    `author` is "Name <mail>", `date` YYYY-MM-DD; `environment` overrides where the proposals would be stored.

    Raises:
        UserError: accept-in-ci, missing-reason, no-proposal, unknown-case for a proposal of a case that no suite
            has any more, locked, not-writable, outside-project, or a file that cannot be read;
            before anything is written, but for a disk that fails half-way, when the same command finishes later.
    """
    _refuse_in_ci(environ)
    if not reason.strip():
        raise UserError("missing-reason", f"expected why the new figures are right but got reason={reason!r}")
    with locked(project):
        proposals = pending(project)
        chosen = select(proposals, patterns)
        _require_known({id: proposals[id] for id in chosen}, known)
        accepted = {
            Place(environment or proposals[id].environment, id): replace(
                proposals[id].entry, reason=reason.strip(), author=author, date=date
            )
            for id in chosen
        }
        environments.accept(project, {entry.fingerprint for entry in accepted.values()})
        put(project, accepted)
        replace_proposals(project, dict.fromkeys(chosen))
    return accepted


def reject(project: Path, patterns: Sequence[str]) -> list[str]:
    """Drop the proposals that match, and return their ids. Raises UserError (no-proposal, locked, not-writable)."""
    with locked(project):
        chosen = select(pending(project), patterns)
        replace_proposals(project, dict.fromkeys(chosen))
    return chosen


def prune(project: Path, known: Mapping[str, str], *, environ: Mapping[str, str] = os.environ) -> Pruned:
    """Remove the entries of cases that are gone, in every environment; a case that was renamed keeps its entry.

    `known` has the definition digest of every case of the project, by the id its baseline is looked up by.

    Raises:
        UserError: accept-in-ci, locked, not-writable, or a file that cannot be read.
    """
    _refuse_in_ci(environ)
    with locked(project):
        accepted = entries(project)
        orphans = {
            place: entry
            for place, entry in accepted.items()
            if place.id not in known and not is_handwritten(entry.definition)
        }
        renamed = _renames(orphans, accepted, known)
        put(project, {place: orphans[former] for former, place in renamed.items()})
        remove(project, orphans)
        environments.forget_others(project, {entry.fingerprint for entry in entries(project).values()})
    return Pruned(tuple(place for place in orphans if place not in renamed), renamed)


def select(ids: Collection[str], patterns: Sequence[str]) -> list[str]:
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


def _refuse_in_ci(environ: Mapping[str, str]) -> None:
    if in_ci(environ):
        message = f"expected a person's own machine but got CI={environ['CI']}: CI never writes baselines"
        raise UserError("accept-in-ci", message)


def _require_known(chosen: Mapping[str, Proposal], known: Collection[str]) -> None:
    """Refuse what nobody defines any more. A hand-written test need not be known: its proposal says who defines it."""
    gone = [id for id in chosen if id not in known and not is_handwritten(chosen[id].entry.definition)]
    if gone:
        message = f"expected cases that a suite has but got {', '.join(gone)}; precreg baseline reject drops proposals"
        raise UserError("unknown-case", message)


def _change(baselines: Baselines, id: str, proposal: Proposal) -> Change:
    levels = (proposal.environment, proposal.judged_against or proposal.environment)
    found = baselines.lookup(id, levels)
    old = None if found is None else found.entry
    for entry in filter(None, (old, proposal.entry)):
        learn(entry.described)
    metrics = tuple(_metric_changes(old, proposal.entry))
    return Change(Place(proposal.environment, id), proposal.verdict, old, proposal.entry, metrics)


def _metric_changes(old: BaselineEntry | None, new: BaselineEntry) -> Iterator[MetricChange]:
    before = {} if old is None else old.outputs
    of_analyzers = dict.fromkeys(metric.name for entry in (old, new) if entry for metric in entry.described)
    for name in {**before, **new.outputs}:
        seeds = min(len(output.digests) for output in (before.get(name), new.outputs.get(name)) if output is not None)
        for metric in (*METRICS, *of_analyzers):
            change = MetricChange(
                name, metric, _mean(before.get(name), metric, seeds), _mean(new.outputs.get(name), metric, seeds)
            )
            if (change.old, change.new) != (None, None):
                yield change


def _mean(output: BaselineOutput | None, metric: str, seeds: int) -> float | None:
    return None if output is None else mean_over_seeds(output.metrics.get(metric, [])[:seeds])


def _renames(
    orphans: Mapping[Place, BaselineEntry], accepted: Collection[Place], known: Mapping[str, str]
) -> dict[Place, Place]:
    """Pair each orphan with a case of its definition that has no entry in its environment, the first by name."""
    renamed: dict[Place, Place] = {}
    for former, entry in orphans.items():
        namesakes = (Place(former.environment, id) for id in sorted(known) if known[id] == entry.definition)
        free = (place for place in namesakes if place not in accepted and place not in renamed.values())
        place = next(free, None)
        if place is not None:
            renamed[former] = place
    return renamed
