"""What a change is estimated from: group sums of a run beside those of a baseline, along an axis or seed by seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from precreg.measure import kept_groups
from precreg.types.records import AxisSums, BaselineOutput
from precreg.types.types import Comparison

LEAST = 5
"""Samples below which no statistic is claimed."""


class Measure(NamedTuple):
    """An average of errors: the metric it is, the group sums it is made of, and the power of their ratio."""

    metric: str
    sums: str
    power: float = 1.0


MEANS = (
    Measure("mean_abs_error", "absolute"),
    Measure("rms_error", "squared", 0.5),
    Measure("mean_ulp", "ulps"),
    Measure("mean_log2_ulp", "logs"),
)
"""The averages that are judged: the first two in the scale of the output, the others in that of each element."""


BIAS = Measure("bias", "signed")


MEASURES = (*MEANS, BIAS)


MATCHES = Measure("match_ratio", "")
"""What a golden is judged by, beside them, where runs need not repeat: of any other case a loss needs no statistic."""


class Sample(NamedTuple):
    """Group sums of a run and of a baseline, one entry per seed and group along one axis; `axis` None: per seed.

    `n` counts the finite pairs of each. `absolute` are the baseline's sums of |d|.
    """

    axis: int | None
    current: list[float]
    baseline: list[float]
    n: list[int]
    absolute: list[float]


def samples(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> Iterator[Sample]:
    """Yield the sums of a measure along each axis that the baseline keeps, and seed by seed.

    Where runs need not repeat they are a sample of their own, which sees more than seeds do.
    """
    every = [_along(kept, measure, current) for kept in groups]
    if not (groups and current[0].runs):
        every.append(by_seed(measure, current, accepted))
    yield from (sample for sample in every if sample is not None and len(sample.n) > 1)


def _along(kept: AxisSums, measure: Measure, current: Sequence[Comparison]) -> Sample | None:
    sample = Sample(kept.axis, [], [], [], [])
    for seed, comparison in enumerate(current):
        if len(comparison.groups) <= kept.axis:
            return None
        groups = comparison.groups[kept.axis]
        now = kept_groups.join(getattr(groups, measure.sums), kept.joined)
        then = kept_groups.read(kept, seed, measure.sums)
        absolute = kept_groups.read(kept, seed, "absolute")
        counts = kept_groups.counts(groups, kept.joined)
        if then is None or absolute is None or not len(now) == len(then) == len(counts):
            return None
        known = [number for number in now if number is not None]
        if len(known) < len(now):
            return None
        sample.current.extend(known)
        sample.baseline.extend(then)
        sample.n.extend(counts)
        sample.absolute.extend(absolute)
    return sample


def by_seed(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return the sums of each seed, made from its averages; None where one is undefined."""
    sample = Sample(None, [], [], [], [])
    for seed, comparison in enumerate(current):
        pairs = comparison.counts.get("finite", 0)
        now = comparison.metrics.get(measure.metric)
        then, absolute = (_of_seed(accepted, name, seed) for name in (measure.metric, "mean_abs_error"))
        if now is None or then is None or absolute is None:
            return None
        sample.current.append(total(now, measure, pairs))
        sample.baseline.append(total(then, measure, pairs))
        sample.n.append(pairs)
        sample.absolute.append(absolute * pairs)
    return sample


def by_run(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return each run of each seed, beside the baseline's mean over its runs of that seed."""
    sample = Sample(None, [], [], [], [])
    for seed, comparison in enumerate(current):
        then, absolute = (_of_seed(accepted, name, seed) for name in (measure.metric, "mean_abs_error"))
        for run in comparison.runs:
            now = run.get(measure.metric)
            if now is None or then is None or absolute is None:
                return None
            sample.current.append(total(now, measure, 1))
            sample.baseline.append(total(then, measure, 1))
            sample.n.append(1)
            sample.absolute.append(absolute)
    return sample


def total(mean: float, measure: Measure, n: int) -> float:
    """Return the sum that an average over n pairs is made of; infinite, as a square may be, beyond float64."""
    try:
        return float(mean ** (1 / measure.power)) * n
    except OverflowError:
        return inf


def _of_seed(accepted: BaselineOutput, metric: str, seed: int) -> float | None:
    values = accepted.metrics.get(metric, [])
    return values[seed] if seed < len(values) else None
