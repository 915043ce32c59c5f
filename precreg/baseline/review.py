"""Promoting what runs propose: a person compares it with what was accepted, and accepts or rejects it for a reason.

Nothing here happens by itself, and nothing that writes baselines happens in CI. Every step writes the new place of an
entry before it clears the old one: killed in between, the entry stands in both, and the same command finishes the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import environments
from precreg.baseline.accepted import succeed
from precreg.baseline.change import Change, change_of
from precreg.baseline.proposal import Proposal, pending, replace_proposals
from precreg.baseline.store import Baselines, Place, entries
from precreg.baseline.write import locked, put, remove
from precreg.environment.ci import in_ci
from precreg.errors import UserError, nearest
from precreg.types.records import BaselineEntry, is_handwritten

Confirm = Callable[[Sequence[Change]], Mapping[str, str]]
"""What is asked before anything is stored: it returns, by case id, how a change was confirmed, or raises."""


class Pruned(NamedTuple):
    """Entries removed because no case is called so, and those moved to the new name of their case."""

    removed: tuple[Place, ...]
    renamed: dict[Place, Place]


def diff(project: Path, patterns: Sequence[str] = (), environment: str | None = None) -> list[Change]:
    """Return what accepting the proposals that match would change; without patterns, all of them.

    `environment` overrides where the proposals would be stored.

    Raises:
        UserError: no-proposal, for a pattern that matches none.
    """
    proposals, baselines = pending(project), Baselines(project)
    chosen = select(proposals, patterns) if patterns else list(proposals)
    known = environments.facts(project, environments.PROPOSED) | environments.facts(project)
    changes = (change_of(baselines, id, proposals[id], environment) for id in chosen)
    return [change._replace(surroundings=environments.between(change.old, change.new, known)) for change in changes]


def unconfirmed(_changes: Sequence[Change]) -> dict[str, str]:
    """Confirm nothing."""
    return {}


def accept(
    project: Path,
    patterns: Sequence[str],
    *,
    known: Collection[str],
    reason: str,
    author: str,
    date: str,
    environment: str | None = None,
    confirm: Confirm = unconfirmed,
    environ: Mapping[str, str] = os.environ,
) -> dict[Place, BaselineEntry]:
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
    with locked(project):
        require_unchanged(changes, pending(project))
        baselines = Baselines(project)  # read anew: another process may have accepted something meanwhile
        accepted: dict[Place, BaselineEntry] = {}
        for place, proposal, *_ in changes:
            signed = replace(
                proposal.entry,
                reason=reason.strip(),
                author=author,
                date=date,
                confirmation=confirmed.get(place.id, ""),
            )
            accepted[place] = succeed(signed, change_of(baselines, place.id, proposal, environment).old)
        environments.accept(project, {entry.fingerprint for entry in accepted.values()})
        put(project, accepted)
        replace_proposals(project, dict.fromkeys(change.place.id for change in changes))
    return accepted


def _acceptable(
    project: Path, patterns: Sequence[str], known: Collection[str], environment: str | None
) -> list[Change]:
    proposals, baselines = pending(project), Baselines(project)
    chosen = select(proposals, patterns)
    _require_known({id: proposals[id] for id in chosen}, known)
    return [change_of(baselines, id, proposals[id], environment) for id in chosen]


def require_unchanged(changes: Sequence[Change], proposals: Mapping[str, Proposal]) -> None:
    """Refuse what nobody looked at, or no rerun confirmed: a run has replaced it. Raises UserError (no-proposal)."""
    for change in changes:
        if proposals.get(change.place.id) != change.proposal:
            message = f"expected the proposal of {change.place.id} that was looked at, but it was replaced meanwhile"
            raise UserError("no-proposal", message)


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
    refuse_in_ci(environ)
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


def refuse_in_ci(environ: Mapping[str, str]) -> None:
    """Raise UserError (accept-in-ci) where no person is there."""
    if in_ci(environ):
        message = f"expected a person's own machine but got CI={environ['CI']}: CI never writes baselines"
        raise UserError("accept-in-ci", message)


def _require_known(chosen: Mapping[str, Proposal], known: Collection[str]) -> None:
    """Refuse what nobody defines any more. A hand-written test need not be known: its proposal says who defines it."""
    gone = [id for id in chosen if id not in known and not is_handwritten(chosen[id].entry.definition)]
    if gone:
        message = f"expected cases that a suite has but got {', '.join(gone)}; precreg baseline reject drops proposals"
        raise UserError("unknown-case", message)


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
