"""By how much did errors change from one accepted value to the next? As paired.py, of two baselines' group sums.

A baseline keeps no number of pairs: of the logarithms, which need it, all elements of a group are taken to be finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, log

from precreg.measure import kept_groups
from precreg.types.records import AxisSums, BaselineEntry, BaselineOutput
from precreg.verdict.statistics.paired import Change, of_samples
from precreg.verdict.statistics.sample import MEANS, Measure, Sample, total

Reach = dict[str, dict[str, float]]
"""By output and metric, the distance in logarithms of a ratio from its bounds."""


DIGITS = 4
"""Significant digits of a distance, which is an estimate."""


def step(former: BaselineEntry, entry: BaselineEntry) -> Iterator[Change]:
    """Yield the change of each average of errors from one entry of a case to the next, where there are enough samples.

    Only as many seeds are compared as both have.
    """
    for name, output in entry.outputs.items():
        before = former.outputs.get(name)
        if before is None or (before.dtype, before.shape) != (output.dtype, output.shape):
            continue
        for measure in MEANS:
            samples = _samples(measure, (before, former.groups.get(name, [])), (output, entry.groups.get(name, [])))
            change = of_samples(name, measure, samples)
            if change is not None:
                yield change


def reaches(former: BaselineEntry, entry: BaselineEntry) -> Reach:
    """Return by output and metric how far, in logarithms, the bounds of a step are from it, where that is known."""
    found: Reach = {}
    for change in step(former, entry):
        if change.ratio > 0 and isfinite(change.upper):
            reach = log(change.upper / change.ratio)
            found.setdefault(change.output, {})[change.metric] = float(f"{reach:.{DIGITS}g}")
    return found


_Kept = tuple[BaselineOutput, list[AxisSums]]


def _samples(measure: Measure, former: _Kept, entry: _Kept) -> Iterator[Sample]:
    seeds = min(len(former[0].digests), len(entry[0].digests))
    then, now = ({(sums.axis, sums.joined): sums for sums in groups} for _, groups in (former, entry))
    for key in then:
        if key in now:
            yield from _along(measure, then[key], now[key], entry[0].shape, seeds)
    if seeds > 1:
        yield from _by_seed(measure, former[0], entry[0], seeds)


def _along(measure: Measure, then: AxisSums, now: AxisSums, shape: tuple[int, ...], seeds: int) -> Iterator[Sample]:
    sample = Sample(then.axis, [], [], [], [])
    sizes = kept_groups.sizes(shape, then)
    for seed in range(seeds):
        current, baseline = (kept_groups.read(sums, seed, measure.sums) for sums in (now, then))
        absolute = kept_groups.read(then, seed, "absolute")
        if current is None or baseline is None or absolute is None or not len(current) == len(baseline) == len(sizes):
            return
        sample.current.extend(current)
        sample.baseline.extend(baseline)
        sample.n.extend(sizes)
        sample.absolute.extend(absolute)
    if len(sample.n) > 1:
        yield sample


def _by_seed(measure: Measure, former: BaselineOutput, entry: BaselineOutput, seeds: int) -> Iterator[Sample]:
    values = (former.metrics.get(measure.metric, []), entry.metrics.get(measure.metric, []))
    then, now = ([total(value, measure, 1) for value in metric[:seeds] if value is not None] for metric in values)
    if len(then) == len(now) == seeds:
        yield Sample(None, now, then, [1] * seeds, then)
