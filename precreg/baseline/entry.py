"""What does a baseline keep of a case?

An entry has digests, metrics seed by seed, group sums and a sketch of the errors. It also keeps earlier accepted
values: the latest, and of the present definition the first and the smallest of each output and metric. Those are all
that a cumulative loss is measured by, so the list stays short without losing any of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import hypot, isclose, isfinite
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from precreg.measure import (
    mean_metrics,
    mean_over_seeds,
    merge_histograms,
    metrics_to_keep,
)
from precreg.types import AcceptedValue, AxisSums, BaselineEntry, BaselineOutput, Comparison, Histogram, Outcome

if TYPE_CHECKING:
    from precreg.verdict.statistics import LogHalfWidths

# The longest sketch. With the group sums, indentation and keys, a case has at most 8 KiB that nobody reads.
SKETCH_BYTES = 3 * 1024
# The longest group sums.
GROUPS_BYTES = 5 * 1024 - 64
# Bins have numbers below this, so wider bins change nothing.
_COARSEST = 2**14


def entry_from(outcome: Outcome, fingerprint: str, commit: str, processor: str = "") -> BaselineEntry:
    """Return the entry for an outcome; reason, author and date stay empty until someone accepts it.

    `fingerprint` and `processor` are those of the environment that computed it.
    """
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
        outputs={name: _baseline_output(seeds, outcome.execution.outputs[name]) for name, seeds in outputs.items()},
        sketch=error_sketches(outputs),
        groups=output_group_sums(outputs),
        described=list(outcome.described),
        processor=processor,
        oracle=list(outcome.execution.oracle),
        oracle_files=list(outcome.execution.oracle_files),
    )


def error_sketches(outputs: Mapping[str, Sequence[Comparison]]) -> dict[str, Histogram]:
    """Return each output's errors over all seeds as a histogram, with bins joined until the text is short enough.

    A case with so many outputs that one bin each is still too long has no sketch.
    """
    merged = {
        name: merge_histograms(comparison.histogram for comparison in seeds if comparison.histogram is not None)
        for name, seeds in outputs.items()
    }
    # Joined bins lose resolution and no counts, so sketches of different widths still merge.
    width = 1
    while len(msgspec.json.encode(merged)) > SKETCH_BYTES:
        if width == _COARSEST:
            return {}
        width *= 2
        merged = {name: _join_bins(histogram, width) for name, histogram in merged.items()}
    return merged


def output_group_sums(outputs: Mapping[str, Sequence[Comparison]]) -> dict[str, list[AxisSums]]:
    """Return each output's group sums, with groups joined and axes left out until the text is short enough.

    A case with too many outputs and seeds has no group sums; its seeds are its sample.
    """
    # Late, because groups need numpy, and a review of proposals does not.
    from precreg.measure import GROUP_LAYOUTS, keep_group_sums

    for joined, axes, sums in GROUP_LAYOUTS:
        found = {name: keep_group_sums(seeds, joined, axes, sums) for name, seeds in outputs.items()}
        long = {name: axes for name, axes in found.items() if axes}
        if len(msgspec.json.encode(long)) <= GROUPS_BYTES:
            return long
    return {}


def _baseline_output(seeds: Sequence[Comparison], digests: Sequence[str]) -> BaselineOutput:
    metrics = {
        metric: [_finite_or_none(comparison.metrics.get(metric)) for comparison in seeds]
        for metric in metrics_to_keep(seeds[0].described)
    }
    return BaselineOutput(seeds[0].dtype, seeds[0].shape, list(digests), metrics)


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(value)


def _join_bins(histogram: Histogram, width: int) -> Histogram:
    """Join bins into groups of `width`, each numbered by its lowest bin."""
    counts = Counter[int]()
    for bin, count in zip(histogram.bins, histogram.counts, strict=True):
        counts[bin // width * width] += count
    return Histogram(histogram.zeros, list(counts), list(counts.values()))


# Latest accepted values that an entry keeps.
MAX_ACCEPTED_VALUES = 30


def succeed_entry(entry: BaselineEntry, former: BaselineEntry | None) -> BaselineEntry:
    """Return the entry with the accepted values of the entry that it replaces, and that one as the latest.

    An entry that replaces itself stays as it is, which happens when an interrupted acceptance is repeated.
    """
    if former is None:
        return entry
    if _same_value(entry, former):
        return replace(entry, accepted=former.accepted, reach=former.reach, seen=former.seen)
    if has_more_of_the_same(entry, former):
        # The run only measured more of it, so the time and the environments of the bits stay.
        seen = sorted({former.fingerprint, *former.seen} - {entry.fingerprint})
        entry = replace(entry, duration_s=former.duration_s, processor=former.processor, seen=seen)
    # Late, because statistics need numpy, and a review that accepts nothing does not.
    from precreg.verdict.statistics import half_widths

    # Only values of one definition have a ratio with a confidence interval.
    widths = half_widths(former, entry) if former.definition == entry.definition else {}
    values = thin_values([*former.accepted, accepted_value(former)], entry.definition)
    return replace(entry, accepted=values, reach=widths)


def has_more_of_the_same(entry: BaselineEntry, former: BaselineEntry) -> bool:
    """Return whether an entry has the bits and figures of a former one, with further seeds or further metrics."""
    seeds = len(former.inputs)
    return (
        entry.definition == former.definition
        and entry.inputs[:seeds] == former.inputs
        and entry.outputs.keys() == former.outputs.keys()
        and (entry.known, former.known) == (None, None)
        and all(each in entry.described for each in former.described)
        and all(_has_more_of(entry.outputs[name], output, seeds) for name, output in former.outputs.items())
        and (len(entry.inputs) > seeds or (entry.sketch, entry.groups) == (former.sketch, former.groups))
        and all(_goes_on(getattr(entry, name), getattr(former, name), seeds) for name in _others(entry))
    )


# Fields that `has_more_of_the_same` compares by rules of their own, and those that every acceptance sets anew.
_COMPARED = {"definition", "inputs", "outputs", "sketch", "groups", "described", "known"}
_SET_ANEW = {"reason", "author", "date", "commit", "confirmation", "fingerprint", "duration_s", "processor"}
# The files that an oracle's process opened depend on the cases that it ran before.
_SET_ANEW |= {"accepted", "reach", "seen", "oracle_files"}


def _others(entry: BaselineEntry) -> Iterator[str]:
    yield from (name for name in entry.__struct_fields__ if name not in _COMPARED | _SET_ANEW)


def _goes_on(value: Any, former: Any, seeds: int) -> bool:
    """Return whether a value is the former one, or has more seeds at the end of lists with one item a seed."""
    if isinstance(former, dict) and isinstance(value, dict):
        return value.keys() == former.keys() and all(_goes_on(value[name], former[name], seeds) for name in former)
    if isinstance(former, list) and isinstance(value, list) and len(former) in (0, seeds):
        # A field that an earlier version did not have is empty.
        return value[: len(former)] == former
    return bool(value == former)


def _has_more_of(output: BaselineOutput, former: BaselineOutput, seeds: int) -> bool:
    return (
        (output.dtype, output.shape, output.digests[:seeds]) == (former.dtype, former.shape, former.digests)
        and former.metrics.keys() <= output.metrics.keys()
        and all(output.metrics[metric][:seeds] == values for metric, values in former.metrics.items())
    )


def is_extension(entry: BaselineEntry, former: BaselineEntry) -> bool:
    """Return whether an entry is what accepting more of the same makes of a former one, and has none of it altered."""
    if not has_more_of_the_same(entry, former):
        return False
    made = succeed_entry(replace(entry, accepted=[], reach={}, seen=[]), former)
    return (entry.duration_s, entry.processor, entry.accepted) == (made.duration_s, made.processor, made.accepted) and (
        {former.fingerprint, *former.seen} <= {entry.fingerprint, *entry.seen} and _same_reach(entry.reach, made.reach)
    )


def _same_reach(one: LogHalfWidths, other: LogHalfWidths) -> bool:
    """Compare half-widths. Their last digits may differ between machines."""
    return one.keys() == other.keys() and all(
        one[name].keys() == other[name].keys()
        and all(isclose(one[name][metric], other[name][metric], rel_tol=1e-6) for metric in one[name])
        for name in one
    )


def accepted_value(entry: BaselineEntry) -> AcceptedValue:
    """Return the values that remain of an entry after another one replaces it."""
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
    """Return all kept accepted values, oldest first; the last one is the entry itself."""
    return (*entry.accepted, accepted_value(entry))


def thin_values(values: Sequence[AcceptedValue], definition: str) -> list[AcceptedValue]:
    """Keep the latest values, and of the definition the first and the smallest of each output and metric.

    A value that stays takes over the uncertainty of the steps that were left out before it.
    """
    last = range(max(0, len(values) - MAX_ACCEPTED_VALUES), len(values))
    same_definition = [index for index, value in enumerate(values) if value.definition == definition]
    kept = sorted({*last, *same_definition[:1], *_smallest(values, same_definition)})
    return [_join_steps(values[former + 1 : index + 1]) for former, index in pairwise([-1, *kept])]


def is_continuation(entry: BaselineEntry, former: BaselineEntry) -> bool:
    """Return whether an entry's accepted values follow from a former entry by accepting, with none removed or changed.

    Up to MAX_ACCEPTED_VALUES may have been accepted in between. An entry with equal figures is the same value.
    """
    values = accepted_values(former)
    # The number of values accepted since the former entry is unknown after thinning, so each possible one is tried.
    for since in range(min(len(entry.accepted), MAX_ACCEPTED_VALUES) + 1):
        recent = entry.accepted[len(entry.accepted) - since :]
        if _without_half_widths(thin_values([*values, *recent], entry.definition)) == _without_half_widths(
            entry.accepted
        ):
            return True
    return entry.accepted == former.accepted and entry.reach == former.reach and entry.outputs == former.outputs


def _without_half_widths(values: Sequence[AcceptedValue]) -> list[AcceptedValue]:
    """Remove the half-widths, which differ in their last digits if several steps were joined in another order."""
    return [replace(value, reach={}) for value in values]


def _join_steps(values: Sequence[AcceptedValue]) -> AcceptedValue:
    """Return the last of several values, with the uncertainty and the number of all their steps."""
    widths = combine_half_widths([value.reach for value in values])
    return replace(values[-1], reach=widths, steps=sum(value.steps for value in values))


def combine_half_widths(steps: Sequence[LogHalfWidths]) -> LogHalfWidths:
    """Return the half-widths of a product of several steps, where every step has one."""
    if len(steps) == 1:
        return steps[0]  # hypot would round it
    found: LogHalfWidths = {}
    for output, metrics in steps[0].items():
        for metric in metrics:
            known = [widths[output][metric] for widths in steps if metric in widths.get(output, {})]
            if len(known) == len(steps):
                # Logarithms of ratios add, and independent errors add in squares.
                found.setdefault(output, {})[metric] = hypot(*known)
    return found


def _smallest(values: Sequence[AcceptedValue], same_definition: Sequence[int]) -> Iterator[int]:
    """Yield the index of the smallest value of each output and metric, the first of equal ones."""
    smallest: dict[tuple[str, str], tuple[float, int]] = {}
    for index in same_definition:
        for output, means in values[index].means.items():
            for metric, seeds in means.items():
                mean = mean_over_seeds(seeds)
                if mean is not None:
                    smallest[output, metric] = min((mean, index), smallest.get((output, metric), (mean, index)))
    yield from (index for _, index in smallest.values())


def _same_value(entry: BaselineEntry, former: BaselineEntry) -> bool:
    # The same proposal accepted again has another date and confirmation, but the same value.
    without = {"accepted": [], "reach": {}, "date": "", "confirmation": "", "seen": []}
    without |= {"oracle": [], "oracle_files": []}
    return replace(entry, **without) == replace(former, **without)
