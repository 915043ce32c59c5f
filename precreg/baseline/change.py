"""What accepting a proposal would change: what was accepted before, what would be, and each metric before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from precreg.baseline.accepted import succeed
from precreg.baseline.proposal import Proposal
from precreg.baseline.store import Baselines, Place
from precreg.measure.metrics import MEANS, METRICS, described, mean_over_seeds, ratio
from precreg.tolerance.pyramid import GROWTHS
from precreg.types.metric import learn
from precreg.types.records import BaselineEntry, BaselineOutput
from precreg.types.types import STATISTIC, Reason

Kind = Literal["better", "worse", "same", "new", "gone"]


MATERIAL = 1 + GROWTHS[STATISTIC]
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

    @property
    def material(self) -> bool:
        """Tell whether a mean moved by so much that chance should be ruled out before it is accepted."""
        if self.metric not in MEANS or self.kind not in ("better", "worse"):
            return False
        return self.ratio is None or not 1 / MATERIAL <= self.ratio <= MATERIAL


class Change(NamedTuple):
    """What accepting one proposal would do: the entry it was judged against, if any, and the one to be stored.

    `surroundings` says what is different between the environments of the two; empty if they are of one fingerprint.
    """

    place: Place
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


def change_of(baselines: Baselines, id: str, proposal: Proposal, environment: str | None = None) -> Change:
    """Return what accepting one proposal would do, stored under `environment` where it is given."""
    target = environment or proposal.environment
    found = baselines.lookup(id, (target, proposal.judged_against or target))
    old = None if found is None else found.entry
    for entry in filter(None, (old, proposal.entry)):
        learn(entry.described)
    metrics = tuple(_metric_changes(old, proposal.entry, proposal.paired))
    return Change(Place(target, id), proposal, old, succeed(proposal.entry, old), metrics)


def _metric_changes(
    old: BaselineEntry | None, new: BaselineEntry, paired: BaselineEntry | None
) -> Iterator[MetricChange]:
    before: Mapping[str, BaselineOutput] = {} if old is None else old.outputs
    of_analyzers = dict.fromkeys(metric.name for entry in (old, new) if entry for metric in entry.described)
    for name in {**before, **new.outputs}:
        seeds = min(len(output.digests) for output in (before.get(name), new.outputs.get(name)) if output is not None)
        sides = before.get(name), new.outputs.get(name), None if paired is None else paired.outputs.get(name)
        for metric in (*METRICS, *of_analyzers):
            change = MetricChange(name, metric, *(_mean(side, metric, seeds) for side in sides))
            if (change.old, change.new) != (None, None):
                yield change


def _mean(output: BaselineOutput | None, metric: str, seeds: int) -> float | None:
    return None if output is None else mean_over_seeds(output.metrics.get(metric, [])[:seeds])
