"""In which environments were accepted bits seen again, and which of them does a reviewer accept?"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline.environments import (
    accept_environment_facts,
    all_environment_facts,
    environment_difference,
)
from precreg.baseline.proposal import SeenAgain, entry_value, replace_seen, seen_again, select_proposals
from precreg.baseline.store import (
    BaselineKey,
    Baselines,
    lock_baselines,
    refuse_in_ci,
    store_entries,
)
from precreg.errors import UserError
from precreg.types import (
    BaselineEntry,
    EnvironmentDifference,
)


class AcceptedEnvironments(NamedTuple):
    """Hold the entries that changed, and the ids whose entry was replaced since the run.

    Those of `recorded` know no other environment: they only got the record of their oracle.
    """

    entries: dict[BaselineKey, BaselineEntry]
    outdated: tuple[str, ...]
    recorded: frozenset[BaselineKey] = frozenset()


def accept_environments(
    project: Path, patterns: Sequence[str] = (), *, environ: Mapping[str, str] = os.environ
) -> AcceptedEnvironments:
    """Store in baselines the environments in which runs saw their bits again; without patterns, for all cases.

    Later runs there are judged as strictly as where the baseline was accepted, so nothing else is needed: no reason,
    and no reruns.

    Raises:
        UserError: accept-in-ci, no-proposal, locked, not-writable, outside-project, or an unreadable file.
    """
    refuse_in_ci(environ)
    with lock_baselines(project):
        waiting, baselines = seen_again(project), Baselines(project)
        chosen = _select_seen(waiting, patterns)
        found = {id: baselines.lookup(id, (waiting[id].environment,)) for id in chosen}
        entries = {
            BaselineKey(each.environment, id): _with_seen(each.entry, waiting[id])
            for id, each in found.items()
            if each is not None and entry_value(each.entry) == waiting[id].value
        }
        accept_environment_facts(project, {fingerprint for id in chosen for fingerprint in waiting[id].seen})
        store_entries(project, entries)
        forget_seen(project, chosen)
    stored = {place.id for place in entries}
    recorded = frozenset(place for place in entries if not waiting[place.id].seen)
    return AcceptedEnvironments(entries, tuple(id for id in chosen if id not in stored), recorded)


def _with_seen(entry: BaselineEntry, waiting: SeenAgain) -> BaselineEntry:
    """Return an entry with the environments that gave its bits, and with the record of its oracle if it has none."""
    return replace(
        entry,
        seen=sorted({*entry.seen, *waiting.seen}),
        oracle=entry.oracle or waiting.oracle,
        oracle_files=entry.oracle_files or waiting.oracle_files,
    )


def reject_environments(project: Path, patterns: Sequence[str] = ()) -> list[str]:
    """Forget in which environments bits were seen again, and return the ids; the next run there sees them again."""
    with lock_baselines(project):
        chosen = _select_seen(seen_again(project), patterns)
        forget_seen(project, chosen)
    return chosen


def forget_seen(project: Path, ids: Collection[str]) -> None:
    """Forget the environments that wait to be stored for some cases. The caller holds the lock."""
    before = seen_again(project)
    after = {id: waiting for id, waiting in before.items() if id not in ids}
    if after != before:
        replace_seen(project, after)


def _select_seen(waiting: Collection[str], patterns: Sequence[str]) -> list[str]:
    if not waiting:
        raise UserError("no-proposal", "expected bits that a run saw again in another environment but none did")
    return select_proposals(waiting, patterns or ["*"])


class SeenEnvironment(NamedTuple):
    """Hold one environment that gave the bits of baselines again: its fingerprint, the cases, and its differences.

    The differences are from the environments in which those baselines were accepted.
    """

    fingerprint: str
    ids: tuple[str, ...]
    differences: tuple[EnvironmentDifference, ...]


def diff_environments(project: Path) -> list[SeenEnvironment]:
    """Return the environments that wait to be stored in baselines, by fingerprint."""
    waiting, baselines, known = seen_again(project), Baselines(project), all_environment_facts(project)
    ids: dict[str, list[str]] = {}
    differences: dict[str, dict[EnvironmentDifference, None]] = {}
    for id, each in waiting.items():
        stored = baselines.lookup(id, (each.environment,))
        if stored is None:
            continue
        for fingerprint in each.seen:
            ids.setdefault(fingerprint, []).append(id)
            found = environment_difference(stored.entry.fingerprint, fingerprint, known)
            if found is not None:
                differences.setdefault(fingerprint, {})[found] = None
    return [SeenEnvironment(each, tuple(ids[each]), tuple(differences.get(each, ()))) for each in sorted(ids)]
