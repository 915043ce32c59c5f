"""What is kept of one case when it is accepted: digests, metrics seed by seed, group sums, a sketch of the errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import isfinite

import msgspec

from precreg.measure import kept_groups
from precreg.measure.histogram import merge
from precreg.measure.kept_groups import WAYS
from precreg.measure.metrics import kept
from precreg.types.records import AxisSums, BaselineEntry, BaselineOutput
from precreg.types.types import Comparison, Histogram, Outcome

SKETCH_BYTES = 3 * 1024
"""The longest sketch: with the group sums, indentation and keys, a case has at most 8 KiB that nobody reads."""


GROUPS_BYTES = 5 * 1024 - 64
"""The longest group sums."""


_COARSEST = 2**14
"""Bins are numbered below this, so that wider ones change nothing."""


def entry_from(outcome: Outcome, fingerprint: str, commit: str) -> BaselineEntry:
    """Return what a baseline keeps of an outcome; reason, author and date stay empty until someone accepts it."""
    ordered = sorted(outcome.comparisons, key=lambda comparison: (comparison.output, comparison.seed))
    outputs = {name: list(seeds) for name, seeds in groupby(ordered, lambda comparison: comparison.output)}
    return BaselineEntry(
        definition=outcome.definition,
        inputs=list(outcome.execution.inputs),
        reason="",
        author="",
        date="",
        commit=commit,
        fingerprint=fingerprint,
        duration_s=outcome.execution.duration_s,
        outputs={name: _output(seeds, outcome.execution.outputs[name]) for name, seeds in outputs.items()},
        sketch=sketch(outputs),
        groups=groups(outputs),
        described=list(dict.fromkeys(metric for comparison in ordered for metric in comparison.described)),
    )


def sketch(outputs: Mapping[str, Sequence[Comparison]]) -> dict[str, Histogram]:
    """Return each output's errors over all seeds, neighbouring bins joined until the line is short enough.

    A case with so many outputs that one bin for each is too much has no sketch.
    """
    merged = {
        name: merge(comparison.histogram for comparison in seeds if comparison.histogram is not None)
        for name, seeds in outputs.items()
    }
    width = 1
    while len(msgspec.json.encode(merged)) > SKETCH_BYTES:
        if width == _COARSEST:
            return {}
        width *= 2
        merged = {name: _coarser(histogram, width) for name, histogram in merged.items()}
    return merged


def groups(outputs: Mapping[str, Sequence[Comparison]]) -> dict[str, list[AxisSums]]:
    """Return each output's group sums, groups joined and axes left out until the line is short enough.

    A case with so many outputs and seeds that this is not enough has none: seeds are its sample.
    """
    for joined, axes in WAYS:
        found = {name: kept_groups.kept(seeds, joined, axes) for name, seeds in outputs.items()}
        long = {name: axes for name, axes in found.items() if axes}
        if len(msgspec.json.encode(long)) <= GROUPS_BYTES:
            return long
    return {}


def _output(seeds: Sequence[Comparison], digests: Sequence[str]) -> BaselineOutput:
    metrics = {
        metric: [_number(comparison.metrics.get(metric)) for comparison in seeds] for metric in kept(seeds[0].described)
    }
    return BaselineOutput(seeds[0].dtype, seeds[0].shape, list(digests), metrics)


def _number(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(value)


def _coarser(histogram: Histogram, width: int) -> Histogram:
    """Join bins into groups of `width`, each under the number of its lowest."""
    counts = Counter[int]()
    for bin, count in zip(histogram.bins, histogram.counts, strict=True):
        counts[bin // width * width] += count
    return Histogram(histogram.zeros, list(counts), list(counts.values()))
