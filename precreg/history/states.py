"""Which figures of a run does a history store?

For each case: the means over the seeds of the metrics that a baseline stores too.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from precreg.history.packing import KeptCase, KeptFigures
from precreg.history.rows import DamagedError
from precreg.measure import mean_over_seeds
from precreg.measure import metrics_to_keep as kept_metrics
from precreg.types import BaselineEntry, BaselineOutput, CaseResult, Comparison, Reason, RunRecord, Status


class CaseState(NamedTuple):
    """Hold a KeptCase as JSON with its digest. Different digests mean a change of state."""

    # `latest` stores digests and not texts: 16 bytes a case, which every run reads.
    digest: bytes
    text: str

    @classmethod
    def of(cls, kept: KeptCase) -> CaseState:
        """Encode a case. A float becomes the shortest text that reads back as the same float64."""
        text = msgspec.json.encode(kept).decode()
        return cls(state_digest(text), text)


def state_digest(text: str) -> bytes:
    """Return the digest of an encoded state: 16 bytes of BLAKE2b."""
    return blake2b(text.encode(), digest_size=16).digest()


def decode_state(text: str) -> KeptCase:
    """Decode a state, and register the metrics of its analyzers. Raises DamagedError."""
    try:
        return msgspec.json.decode(text, type=KeptCase)
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a case's figures cannot be read: {problem}") from None


def case_states(record: RunRecord) -> dict[str, CaseState]:
    """Return the state of each case that a run ran, by id. Skipped cases did not run."""
    ran = (result for result in record.results if result.verdict.status is not Status.SKIPPED)
    return {result.id: CaseState.of(keep_case(result)) for result in ran}


def keep_case(result: CaseResult) -> KeptCase:
    """Return the figures of a result that a history stores."""
    entry = _comparable_entry(result)
    by_output: dict[str, list[Comparison]] = {}
    for comparison in result.outcome.comparisons:
        by_output.setdefault(comparison.output, []).append(comparison)
    figures = {
        output: _compute_means(comparisons, None if entry is None else entry.outputs.get(output))
        for output, comparisons in sorted(by_output.items())
    }
    return KeptCase(result.definition, result.verdict.reason, figures, result.outcome.described)


def _comparable_entry(result: CaseResult) -> BaselineEntry | None:
    """Return the accepted baseline; None if its definition or inputs differ from the result's."""
    if result.stored is None:
        return None
    entry, drawn = result.stored.entry, list(result.outcome.execution.inputs)
    seeds = min(len(drawn), len(entry.inputs))
    # A borrowed baseline has the definition of another case by intent, so only the STALE finding counts for it.
    borrowed = result.baseline_id not in ("", result.id)
    stale = any(finding.reason is Reason.STALE for finding in result.verdict.findings)
    other_definition = stale or (not borrowed and entry.definition != result.definition)
    return None if other_definition or drawn[:seeds] != entry.inputs[:seeds] else entry


def _compute_means(comparisons: Sequence[Comparison], accepted: BaselineOutput | None) -> KeptFigures:
    # Two means are comparable only over the same seeds, and a case may have more seeds now than at acceptance.
    seeds = len(comparisons) if accepted is None else min(len(comparisons), len(accepted.digests))
    then = {} if accepted is None else accepted.metrics
    found = {}
    for metric in kept_metrics(comparisons[0].described):
        value = mean_over_seeds([comparison.metrics.get(metric) for comparison in comparisons[:seeds]])
        mean = mean_over_seeds(then.get(metric, [])[:seeds])
        if value is not None or mean is not None:
            found[metric] = (value, mean)
    return found
