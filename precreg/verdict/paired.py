"""By how much did errors change? A pure function of two sets of group sums, with what is not known of it.

Errors inside one output are correlated, so groups of elements, and not elements, are the sample: the groups along one
axis, seed by seed, those of the baseline paired with those of the run. The change is a ratio of averages; its standard
error is the jackknife's, leaving out one group at a time (Efron, The Jackknife, the Bootstrap and Other Resampling
Plans, 1982, chapter 3), along the axis where it is largest: where errors are shared along another axis, groups that cut
it see too little of their spread. docs/verdicts.md derives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp, inf, isfinite, log, sqrt
from typing import NamedTuple

from msgspec import Struct

from precreg.measure import kept_groups
from precreg.records import AxisSums, BaselineOutput
from precreg.types import Comparison
from precreg.verdict.student import quantile, tail

LEAST = 5
"""Samples below which no statistic is claimed."""

DOUBT = 0.01
"""The chance that one of the bounds of a case's changes is on the wrong side of the truth."""


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


class Change(Struct, frozen=True):
    """How many times the baseline's an average of errors is, and the bounds of that, each wrong with DOUBT at most.

    `error` is the standard error of the logarithm of `ratio`, from so many `units` along `axis` (None: seeds), and
    `chance` the probability that noise alone changes as much, in the same direction. The growth of a bias is told in
    units of the baseline's mean |d|: a ratio of 1.1 says that it grew by a tenth of that.
    """

    output: str
    metric: str
    ratio: float
    lower: float
    upper: float
    error: float
    units: int
    axis: int | None
    chance: float


def changes(current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]) -> tuple[Change, ...]:
    """Return the change of each average of one output, as far as there are enough samples for it.

    `current` are comparisons of that output in order of seeds, as many as both sides have; `groups` are what the
    baseline keeps of it.
    """
    found = (_change(measure, current, accepted, groups) for measure in MEASURES)
    return tuple(change for change in found if change is not None)


def _change(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> Change | None:
    found = of_samples(current[0].output, measure, samples(measure, current, accepted, groups))
    if found is None or not current[0].runs:
        return found
    by_chance = of_runs(measure, current, accepted)
    return None if by_chance is None else max((found, by_chance), key=lambda each: each.upper)


def of_runs(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Change | None:
    """Return the change of what need not repeat, as its seeds or runs tell of it; None below LEAST of them.

    All groups of a run may share what chance did to it, so that they do not show it. Seeds do, as both sides drew
    theirs by chance. Where they are too few, runs do; those of the baseline are taken to spread as the current ones.
    """
    enough = len(current) >= LEAST
    sample = _by_seed(measure, current, accepted) if enough else _by_run(measure, current, accepted)
    if sample is None or len(sample.n) < LEAST:
        return None
    estimate = jackknife(sample, _STATISTICS.get(measure.metric, _log_ratio), measure.power)
    if estimate is None:
        return None
    error = estimate[1] * (1 if enough else sqrt(2))
    return change(current[0].output, measure.metric, estimate[0], error, len(sample.n), None)


def of_samples(output: str, measure: Measure, samples: Iterable[Sample]) -> Change | None:
    """Return the change that samples along several axes tell of, by the one that knows least; None below LEAST."""
    statistic = _STATISTICS.get(measure.metric, _log_ratio)
    known = [(jackknife(sample, statistic, measure.power), sample) for sample in samples if len(sample.n) >= LEAST]
    estimates = [(*estimate, sample) for estimate, sample in known if estimate is not None]
    if not known or len(estimates) < len(known):
        return None
    value, error, sample = max(estimates, key=lambda estimate: estimate[1])
    return change(output, measure.metric, value, error, len(sample.n), sample.axis)


def change(output: str, metric: str, value: float, error: float, units: int, axis: int | None) -> Change:
    """Return the change that a logarithm of a ratio and its standard error tell of."""
    reach = quantile(DOUBT / len(MEASURES), units - 1) * error
    deviations = abs(value) / error if error else inf if value else 0.0
    bounds = (_exp(value), _exp(value - reach), _exp(value + reach))
    return Change(output, metric, *bounds, error, units, axis, tail(deviations, units - 1))


def _exp(value: float) -> float:
    return exp(value) if value < 700 else inf


Statistic = Callable[[float, float, int, float], float | None]
"""Of the sums of the run, of the baseline, the pairs, and the baseline's |d|: the logarithm of a ratio, or None."""


def _log_ratio(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return log(current / baseline) if current > 0 and baseline > 0 and isfinite(current / baseline) else None


def _log_of_logs(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return (current - baseline) / n * log(2) if n else None


def _growth_of_bias(current: float, baseline: float, n: int, absolute: float) -> float | None:
    """Return by how much the size of the bias grew, in units of the mean |d|, as the logarithm of 1 more."""
    growth = (abs(current) - abs(baseline)) / absolute if absolute else inf
    return log(1 + growth) if growth > -1 and isfinite(growth) else None


def _fewer_matches(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return (baseline - current) / n if n else None


_STATISTICS: dict[str, Statistic] = {
    "mean_log2_ulp": _log_of_logs,
    "bias": _growth_of_bias,
    "match_ratio": _fewer_matches,
}


def jackknife(sample: Sample, statistic: Statistic, power: float) -> tuple[float, float] | None:
    """Return a statistic of all groups, and its standard error by leaving out each; None where it is not defined.

    Infinite where one group has all the errors: nothing is known of others like it.
    """
    totals = (sum(sample.current), sum(sample.baseline), sum(sample.n), sum(sample.absolute))
    value = statistic(*totals)
    if value is None:
        return None
    without = [
        statistic(totals[0] - current, totals[1] - baseline, totals[2] - n, totals[3] - absolute)
        for current, baseline, n, absolute in zip(*sample[1:], strict=True)
    ]
    known = [each for each in without if each is not None]
    units = len(without)
    if len(known) < units:
        return value * power, inf
    middle = sum(known) / units
    spread = sum((each - middle) ** 2 for each in known) * (units - 1) / units
    return value * power, sqrt(spread) * power


def samples(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> Iterator[Sample]:
    """Yield the sums of a measure along each axis that the baseline keeps; seed by seed where it keeps none."""
    along = [_along(kept, measure, current) for kept in groups] or [_by_seed(measure, current, accepted)]
    yield from (sample for sample in along if sample is not None)


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


def _by_seed(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    sample = Sample(None, [], [], [], [])
    for seed, comparison in enumerate(current):
        pairs = comparison.counts.get("finite", 0)
        now = comparison.metrics.get(measure.metric)
        then, absolute = (accepted.metrics.get(name, [])[seed] for name in (measure.metric, "mean_abs_error"))
        if now is None or then is None or absolute is None:
            return None
        power = 1 / measure.power
        sample.current.append(now**power * pairs)
        sample.baseline.append(then**power * pairs)
        sample.n.append(pairs)
        sample.absolute.append(absolute * pairs)
    return sample


def _by_run(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return each run of each seed, beside the baseline's mean over its runs of that seed."""
    sample = Sample(None, [], [], [], [])
    for seed, comparison in enumerate(current):
        then, absolute = (accepted.metrics.get(name, [])[seed] for name in (measure.metric, "mean_abs_error"))
        for run in comparison.runs:
            now = run.get(measure.metric)
            if now is None or then is None or absolute is None:
                return None
            sample.current.append(now ** (1 / measure.power))
            sample.baseline.append(then ** (1 / measure.power))
            sample.n.append(1)
            sample.absolute.append(absolute)
    return sample
