"""Which proposals and baselines belong to the present code?

A baseline belongs to its case, also if the case is renamed. A proposal knows the commit and the branch of its run, and
a digest of the files behind its case. So it stays valid when somebody commits, amends or rebases, or moves the changes
to a new branch. On another branch it waits, and is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from precreg.baseline.environments import prune_environment_facts
from precreg.baseline.proposal_file import Proposal, ProposalFacts, Proposals, pending_proposals, replace_proposals
from precreg.baseline.store import (
    BaselineKey,
    lock_baselines,
    read_all_entries,
    refuse_in_ci,
    remove_entries,
    store_entries,
)
from precreg.errors import UserError
from precreg.types import BaselineEntry, Case, GitState, is_test_defined
from precreg.vcs import code_digests, git_state, run_git


class WaitingProposals(Struct, frozen=True):
    """Hold the proposals of a project by case id: those that can be accepted here, and the others.

    `elsewhere` are from runs on another branch, and `gone` of cases that no suite has. The code or the definition of
    the cases in `outdated`, which are among `here`, changed since their run.
    """

    here: Proposals
    elsewhere: Proposals = field(default_factory=Proposals)
    gone: Proposals = field(default_factory=Proposals)
    outdated: frozenset[str] = frozenset()


def sort_proposals(project: Path, cases: Mapping[str, Case]) -> WaitingProposals:
    """Return the proposals of a project by whether they belong to its present code. `cases` has all cases by id.

    Raises UserError as `pending_proposals` does.
    """
    waiting = pending_proposals(project)
    codes = code_digests([cases[id] for id in waiting if id in cases], project) if waiting else {}
    same = {id for id in codes if _is_same(waiting.facts(id), cases[id], codes[id])}
    branch = _Branch(project)
    here: list[str] = []
    elsewhere: list[str] = []
    gone: list[str] = []
    for id in waiting:
        facts = waiting.facts(id)
        if id not in same and not branch.has(facts):
            elsewhere.append(id)
        elif id not in cases and not is_test_defined(facts.definition):
            gone.append(id)
        else:
            here.append(id)
    outdated = (id for id in here if id in cases and _is_outdated(waiting.facts(id), cases[id], codes[id]))
    return WaitingProposals(waiting.among(here), waiting.among(elsewhere), waiting.among(gone), frozenset(outdated))


def _is_same(facts: ProposalFacts, case: Case, code: str) -> bool:
    """Return whether a case is known to be as it was run."""
    return facts.code == code and facts.definition == case.definition


def _is_outdated(facts: ProposalFacts, case: Case, code: str) -> bool:
    """Return whether a case is known to have changed since its run."""
    return facts.definition != case.definition or facts.code not in ("", code)


class _Branch:
    """Find the proposals of the present branch, with one call of git for each commit."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._state = _state(project)
        self._ancestors: dict[str, bool] = {}

    def has(self, proposal: ProposalFacts) -> bool:
        """Return whether a run on this branch, or on an unknown one, made a proposal."""
        if proposal.branch is None or self._state is None:
            return True
        if proposal.branch and self._state.branch:
            # Amending and rebasing replace commits, so the name of the branch counts.
            return proposal.branch == self._state.branch
        # A detached HEAD has no name: there a proposal belongs to its commit and all that follow.
        commit = proposal.commit.removesuffix("-dirty")
        if commit not in self._ancestors:
            done = run_git(self._project, "merge-base", "--is-ancestor", "--end-of-options", commit, "HEAD")
            self._ancestors[commit] = done.returncode == 0
        return self._ancestors[commit]


def _state(project: Path) -> GitState | None:
    try:
        return git_state(project)
    except UserError:
        return None


def drop_proposals(project: Path, waiting: WaitingProposals) -> dict[str, Proposal]:
    """Remove the proposals of other branches and of cases that are gone, and return them.

    Raises UserError as `lock_baselines` and `pending_proposals` do.
    """
    with lock_baselines(project):
        now = pending_proposals(project)
        # A run may have replaced some of them since they were sorted.
        found = {
            id: each for part in (waiting.elsewhere, waiting.gone) for id, each in part.items() if now.get(id) == each
        }
        replace_proposals(project, dict.fromkeys(found))
    return found


class PruneResult(NamedTuple):
    """Hold the entries removed because their case is gone, and the entries moved to the new name of their case."""

    removed: tuple[BaselineKey, ...]
    renamed: dict[BaselineKey, BaselineKey]


def prune_baselines(project: Path, known: Mapping[str, str], *, environ: Mapping[str, str] = os.environ) -> PruneResult:
    """Remove the entries of missing cases in every environment; a renamed case keeps its entry.

    `known` has the definition digest of every case of the project, by the id under which its baseline is looked up.

    Raises:
        UserError: accept-in-ci, locked, not-writable, or an unreadable file.
    """
    refuse_in_ci(environ)
    with lock_baselines(project):
        accepted = read_all_entries(project)
        orphans = {
            place: entry
            for place, entry in accepted.items()
            if place.id not in known and not is_test_defined(entry.definition)
        }
        renamed = _pair_renamed(orphans, accepted, known)
        # New names first: a kill in between leaves an entry under both names, and never under none.
        store_entries(project, {place: orphans[former] for former, place in renamed.items()})
        remove_entries(project, orphans)
        entries = read_all_entries(project).values()
        prune_environment_facts(project, {id for entry in entries for id in (entry.fingerprint, *entry.seen)})
    return PruneResult(tuple(place for place in orphans if place not in renamed), renamed)


def _pair_renamed(
    orphans: Mapping[BaselineKey, BaselineEntry], accepted: Collection[BaselineKey], known: Mapping[str, str]
) -> dict[BaselineKey, BaselineKey]:
    """Pair each orphan with the first case of its definition that has no entry in its environment."""
    renamed: dict[BaselineKey, BaselineKey] = {}
    for former, entry in orphans.items():
        namesakes = (BaselineKey(former.environment, id) for id in sorted(known) if known[id] == entry.definition)
        free = (place for place in namesakes if place not in accepted and place not in renamed.values())
        place = next(free, None)
        if place is not None:
            renamed[former] = place
    return renamed
