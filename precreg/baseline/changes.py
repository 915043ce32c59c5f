"""Which accepted figures differ between two states of the baselines?

A state is the working tree, a commit, or the working tree after waiting proposals were accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

from precreg.baseline.review import MetricChange, ProposalChange, compare_metrics
from precreg.baseline.store import BaselineKey, read_all_entries
from precreg.baseline.suite_file import BASELINES_FOLDER
from precreg.measure import mean_metrics
from precreg.suite import select_names
from precreg.types import BaselineEntry
from precreg.vcs import files_at_commit, review_base

# The kinds of changes, the worst first. "bits" has other bits and equal figures, and "removed" has no figures any more.
ChangeKind = Literal["worse", "removed", "redefined", "new", "better", "bits"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("worse", "removed", "redefined", "new", "better", "bits")


class BaselineChange(NamedTuple):
    """Hold the kind of the change of one case, and the metric that changed most.

    `main` is the largest loss, or the largest gain without one; None without any. `reason` is that of the accepted
    entry, or the verdict of a proposal.
    """

    place: BaselineKey
    kind: ChangeKind
    main: MetricChange | None
    reason: str

    @property
    def size(self) -> tuple[int, float]:
        """Return a key that sorts the worst change first."""
        return CHANGE_KINDS.index(self.kind), -inf if self.main is None else -_size(self.main)


def change_of_entries(
    place: BaselineKey,
    old: BaselineEntry | None,
    new: BaselineEntry | None,
    metrics: Iterable[MetricChange],
    reason: str,
) -> BaselineChange:
    """Return the change between two entries of one case; an entry with a worse mean is worse, whatever else improved.

    `metrics` are the changes of its metrics, which are read only if both entries exist.
    """
    main = _main(metrics) if old is not None and new is not None else None
    return BaselineChange(place, _kind(old, new, main), main, reason)


def _kind(old: BaselineEntry | None, new: BaselineEntry | None, main: MetricChange | None) -> ChangeKind:
    if old is None or new is None:
        return "new" if old is None else "removed"
    if old.definition != new.definition:
        return "redefined"
    return "bits" if main is None else "worse" if main.kind in ("worse", "gone") else "better"


def _main(metrics: Iterable[MetricChange]) -> MetricChange | None:
    """Return the metric that changed most. A mean that moved precedes every maximum, which one element decides."""
    moved = [metric for metric in metrics if metric.kind not in ("same", "new")]
    means = mean_metrics()
    return max(moved, key=lambda metric: (metric.metric in means, _size(metric)), default=None)


def _size(metric: MetricChange) -> float:
    """Return the ratio of a loss, above 1, or the negative inverse ratio of a gain."""
    if metric.kind == "gone":
        return inf
    ratio = metric.ratio
    # An error that was 0 has no ratio.
    grown = max(ratio, 1 / ratio) if ratio else inf
    return grown if metric.kind == "worse" else -1 / grown


def changes_since(project: Path, revision: str, patterns: Sequence[str] = ()) -> tuple[str, list[BaselineChange]]:
    """Return the commit that a revision names, and the changes of the working tree's baselines since then.

    Entries with the bits and figures that they had are no change, whatever their reason, date or environments. Without
    patterns, return those of all cases.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base, unknown-case, and those of unreadable baselines.
    """
    commit = review_base(project, revision)
    with files_at_commit(project, commit, _is_baseline, _is_nothing) as then:
        before = read_all_entries(then)
    after = read_all_entries(project)
    chosen = select_names(sorted({place.id for place in (*before, *after)}), patterns, noun="baseline")
    found = _compare({place: before[place] for place in before if place.id in chosen}, after, chosen)
    return commit, sort_changes(found)


def _is_baseline(path: str) -> bool:
    return path.startswith(f"{BASELINES_FOLDER}/")


def _is_nothing(_path: str) -> bool:
    return False


def _compare(
    before: Mapping[BaselineKey, BaselineEntry], after: Mapping[BaselineKey, BaselineEntry], chosen: Iterable[str]
) -> Iterator[BaselineChange]:
    ids = {*chosen}
    for place in sorted({*before, *after}):
        old, new = before.get(place), after.get(place)
        if place.id not in ids or (old and new and _same_values(old, new)):
            continue
        metrics = () if new is None else compare_metrics(old, new)
        yield change_of_entries(place, old, new, metrics, "" if new is None else new.reason)


def _same_values(old: BaselineEntry, new: BaselineEntry) -> bool:
    values = [(each.definition, each.inputs, each.outputs, each.known) for each in (old, new)]
    return values[0] == values[1]


def changes_of_proposals(proposals: Iterable[ProposalChange]) -> list[BaselineChange]:
    """Return the changes that accepting proposals would make, the worst first."""
    return sort_changes(map(change_of_acceptance, proposals))


def change_of_acceptance(proposal: ProposalChange) -> BaselineChange:
    """Return the change that accepting one proposal would make."""
    # Of thousands of new cases, reading the entries would take most of the time: there is nothing to compare them with.
    if proposal.old is None:
        return BaselineChange(proposal.place, "new", None, proposal.verdict)
    return change_of_entries(proposal.place, proposal.old, proposal.new, proposal.metrics, proposal.verdict)


def sort_changes(changes: Iterable[BaselineChange]) -> list[BaselineChange]:
    """Return changes in the order of a review: losses first, each kind from the largest to the smallest."""
    return sorted(changes, key=lambda change: (*change.size, change.place))
