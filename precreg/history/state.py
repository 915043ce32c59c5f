"""What is kept of one case at one run: the means over the seeds of the metrics that a baseline keeps, too."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec import Struct

from precreg.history.coding import DamagedError
from precreg.measure.metrics import kept as kept_metrics
from precreg.measure.metrics import mean_over_seeds
from precreg.types.metric import Metric, learn
from precreg.types.records import BaselineEntry, BaselineOutput, CaseResult, RunRecord
from precreg.types.types import Comparison, Reason, Status

Figures = dict[str, tuple[float | None, float | None]]
"""By metric: the mean over the seeds now, and that of the accepted baseline over the same seeds."""


class Kept(Struct, frozen=True, omit_defaults=True):
    """One case at one run. A case that failed has no outputs, and its reason says why.

    `described` are the metrics that analyzers measured.
    """

    definition: str
    reason: str
    outputs: dict[str, Figures]
    described: tuple[Metric, ...] = ()


class State(NamedTuple):
    """A Kept as JSON, and its digest, by which changes are found."""

    digest: bytes
    text: str

    @classmethod
    def of(cls, kept: Kept) -> State:
        """Encode; floats are the shortest text that reads back as the same float64."""
        text = msgspec.json.encode(kept).decode()
        return cls(digest_of(text), text)


def digest_of(text: str) -> bytes:
    """Return the digest of a state that was encoded."""
    return blake2b(text.encode(), digest_size=16).digest()


def decoded(text: str) -> Kept:
    """Read a state back. Raises DamagedError."""
    try:
        found = msgspec.json.decode(text, type=Kept)
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a case's figures cannot be read: {problem}") from None
    learn(found.described)
    return found


def states(record: RunRecord) -> dict[str, State]:
    """Return what is kept of each case that was run; one that was skipped was not."""
    ran = (result for result in record.results if result.verdict.status is not Status.SKIPPED)
    return {result.id: State.of(kept(result)) for result in ran}


def kept(result: CaseResult) -> Kept:
    """Return what a history keeps of a result."""
    entry = _comparable_entry(result)
    by_output: dict[str, list[Comparison]] = {}
    for comparison in result.outcome.comparisons:
        by_output.setdefault(comparison.output, []).append(comparison)
    figures = {
        output: _figures(comparisons, None if entry is None else entry.outputs.get(output))
        for output, comparisons in sorted(by_output.items())
    }
    described = dict.fromkeys(metric for comparison in result.outcome.comparisons for metric in comparison.described)
    return Kept(result.definition, result.verdict.reason, figures, tuple(described))


def _comparable_entry(result: CaseResult) -> BaselineEntry | None:
    """Return the accepted baseline, unless it is of another definition or of other inputs."""
    if result.stored is None:
        return None
    entry, drawn = result.stored.entry, list(result.outcome.execution.inputs)
    seeds = min(len(drawn), len(entry.inputs))
    borrowed = result.baseline_id not in ("", result.id)
    stale = any(finding.reason is Reason.STALE for finding in result.verdict.findings)
    other_definition = stale or (not borrowed and entry.definition != result.definition)
    return None if other_definition or drawn[:seeds] != entry.inputs[:seeds] else entry


def _figures(comparisons: Sequence[Comparison], accepted: BaselineOutput | None) -> Figures:
    seeds = len(comparisons) if accepted is None else min(len(comparisons), len(accepted.digests))
    then = {} if accepted is None else accepted.metrics
    found = {}
    for metric in kept_metrics(comparisons[0].described):
        value = mean_over_seeds([comparison.metrics.get(metric) for comparison in comparisons[:seeds]])
        mean = mean_over_seeds(then.get(metric, [])[:seeds])
        if value is not None or mean is not None:
            found[metric] = (value, mean)
    return found
