"""What is kept of one case when it is accepted: digests, metrics seed by seed, group sums, a sketch of the errors.

What was accepted of a case before its present baseline: kept with the entry, and never longer than can be read.

Kept are the last ones; and, of those with the definition that the case has now, the first, and for each output and
metric the smallest. So nothing that creep is told by is ever thinned out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import hypot, isfinite

import msgspec
from msgspec.structs import replace

from precreg.measure import (
    GROUP_LAYOUTS,
    keep_group_sums,
    mean_metrics,
    mean_over_seeds,
    merge_histograms,
    metrics_to_keep,
)
from precreg.types import AcceptedValue, AxisSums, BaselineEntry, BaselineOutput, Comparison, Histogram, Outcome
from precreg.verdict.statistics import LogHalfWidths, half_widths

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
        sketch=error_sketches(outputs),
        groups=output_group_sums(outputs),
        described=list(outcome.described),
    )


def error_sketches(outputs: Mapping[str, Sequence[Comparison]]) -> dict[str, Histogram]:
    """Return each output's errors over all seeds, neighbouring bins joined until the line is short enough.

    A case with so many outputs that one bin for each is too much has no sketch.
    """
    merged = {
        name: merge_histograms(comparison.histogram for comparison in seeds if comparison.histogram is not None)
        for name, seeds in outputs.items()
    }
    width = 1
    while len(msgspec.json.encode(merged)) > SKETCH_BYTES:
        if width == _COARSEST:
            return {}
        width *= 2
        merged = {name: _coarser(histogram, width) for name, histogram in merged.items()}
    return merged


def output_group_sums(outputs: Mapping[str, Sequence[Comparison]]) -> dict[str, list[AxisSums]]:
    """Return each output's group sums, groups joined and axes left out until the line is short enough.

    A case with so many outputs and seeds that this is not enough has none: seeds are its sample.
    """
    for joined, axes in GROUP_LAYOUTS:
        found = {name: keep_group_sums(seeds, joined, axes) for name, seeds in outputs.items()}
        long = {name: axes for name, axes in found.items() if axes}
        if len(msgspec.json.encode(long)) <= GROUPS_BYTES:
            return long
    return {}


def _output(seeds: Sequence[Comparison], digests: Sequence[str]) -> BaselineOutput:
    metrics = {
        metric: [_number(comparison.metrics.get(metric)) for comparison in seeds]
        for metric in metrics_to_keep(seeds[0].described)
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


MAX_ACCEPTED_VALUES = 30
"""How many values are kept for being the last ones."""


def succeed_entry(entry: BaselineEntry, former: BaselineEntry | None) -> BaselineEntry:
    """Return the entry with the past of the one whose place it takes, which becomes the last of it.

    An entry that takes its own place, as where accepting was interrupted, has had no other since.
    """
    if former is None:
        return entry
    if _same_value(entry, former):
        return replace(entry, accepted=former.accepted, reach=former.reach)
    reach = half_widths(former, entry) if former.definition == entry.definition else {}
    return replace(
        entry, accepted=thin_values([*former.accepted, accepted_value(former)], entry.definition), reach=reach
    )


def accepted_value(entry: BaselineEntry) -> AcceptedValue:
    """Return what is kept of an entry when another takes its place."""
    means = {
        name: {metric: output.metrics[metric] for metric in mean_metrics() if metric in output.metrics}
        for name, output in entry.outputs.items()
    }
    return AcceptedValue(
        date=entry.date,
        author=entry.author,
        commit=entry.commit,
        reason=entry.reason,
        definition=entry.definition,
        means=means,
        reach=entry.reach,
        confirmation=entry.confirmation,
    )


def accepted_values(entry: BaselineEntry) -> tuple[AcceptedValue, ...]:
    """Return every accepted value that is kept, oldest first; the last one is the entry itself."""
    return (*entry.accepted, accepted_value(entry))


def thin_values(values: Sequence[AcceptedValue], definition: str) -> list[AcceptedValue]:
    """Keep the last values; of those of the definition the first, too, and the smallest of each output and metric.

    What is kept is as sure of its ratio to the value before it as all steps together are that led there.
    """
    last = range(max(0, len(values) - MAX_ACCEPTED_VALUES), len(values))
    alike = [index for index, value in enumerate(values) if value.definition == definition]
    kept = sorted({*last, *alike[:1], *_smallest(values, alike)})
    return [_in_one(values[former + 1 : index + 1]) for former, index in pairwise([-1, *kept])]


def is_continuation(entry: BaselineEntry, former: BaselineEntry) -> bool:
    """Tell whether the past of an entry is what accepting makes of a former one's: nothing of it left out or altered.

    Up to LAST values may have been accepted since. An entry that has the former's figures is the same value still.
    """
    values = accepted_values(former)
    for since in range(min(len(entry.accepted), MAX_ACCEPTED_VALUES) + 1):
        recent = entry.accepted[len(entry.accepted) - since :]
        if _told(thin_values([*values, *recent], entry.definition)) == _told(entry.accepted):
            return True
    return entry.accepted == former.accepted and entry.reach == former.reach and entry.outputs == former.outputs


def _told(values: Sequence[AcceptedValue]) -> list[AcceptedValue]:
    """Leave out how sure the ratios are, which several steps that became one tell in rounded sums."""
    return [replace(value, reach={}) for value in values]


def _in_one(values: Sequence[AcceptedValue]) -> AcceptedValue:
    """Return the last of several values, of which it alone is kept."""
    reach = combine_half_widths([value.reach for value in values])
    return replace(values[-1], reach=reach, steps=sum(value.steps for value in values))


def combine_half_widths(reaches: Sequence[LogHalfWidths]) -> LogHalfWidths:
    """Return how sure the product of several steps is, where that is known of each: independent errors add in squares.

    Of one step it is what it was.
    """
    if len(reaches) == 1:
        return reaches[0]
    found: LogHalfWidths = {}
    for output, metrics in reaches[0].items():
        for metric in metrics:
            known = [reach[output][metric] for reach in reaches if metric in reach.get(output, {})]
            if len(known) == len(reaches):
                found.setdefault(output, {})[metric] = hypot(*known)
    return found


def _smallest(values: Sequence[AcceptedValue], alike: Sequence[int]) -> Iterator[int]:
    """Yield the index of the smallest value of each output and metric, the first of several that are equal."""
    smallest: dict[tuple[str, str], tuple[float, int]] = {}
    for index in alike:
        for output, means in values[index].means.items():
            for metric, seeds in means.items():
                mean = mean_over_seeds(seeds)
                if mean is not None:
                    smallest[output, metric] = min((mean, index), smallest.get((output, metric), (mean, index)))
    yield from (index for _, index in smallest.values())


def _same_value(entry: BaselineEntry, former: BaselineEntry) -> bool:
    without = {"accepted": [], "reach": {}, "date": "", "confirmation": ""}
    return replace(entry, **without) == replace(former, **without)
