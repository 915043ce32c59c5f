"""What a change is estimated from: group sums of a run beside those of a baseline, along an axis or seed by seed.

How far may a change be from the truth? Standard errors of averages of errors, from the groups they are made of.

Errors inside one output are correlated, so groups of elements, and not elements, are the sample: those along one axis,
seed by seed. The standard error is the jackknife's, leaving out one group at a time (Efron, The Jackknife, the
Bootstrap and Other Resampling Plans, 1982, chapter 3), along the axis where it is largest: where errors are shared
along another axis, groups that cut it see too little of their spread. docs/verdicts.md derives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite, log, sqrt
from typing import NamedTuple

from precreg.measure import METRICS, group_counts, join_groups, mean_metrics, read_group_sums
from precreg.types import AxisSums, BaselineOutput, Comparison

MIN_SAMPLES = 5
"""Samples below which no statistic is claimed."""


class Measure(NamedTuple):
    """An average of errors: the metric it is, the group sums it is made of, and the power of their ratio."""

    metric: str
    sums: str
    power: float = 1.0


# The averages that are judged. Growth in the output's unit or in ULP is a ratio of sums.
MEAN_MEASURES = tuple(Measure(name, METRICS[name].sums, METRICS[name].power) for name in mean_metrics())
MEASURES = (
    *MEAN_MEASURES,
    *(Measure(m.name, m.sums, m.power) for m in METRICS.values() if m.judged and m.sums == "signed"),
)
# The criterion of a golden whose runs need not repeat. In any other golden a single lost match is a loss.
MATCH_MEASURE = Measure("match_ratio", "")


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
        every.append(sample_by_seed(measure, current, accepted))
    yield from (sample for sample in every if sample is not None and len(sample.n) > 1)


def _along(kept: AxisSums, measure: Measure, current: Sequence[Comparison]) -> Sample | None:
    sample = Sample(kept.axis, [], [], [], [])
    for seed, comparison in enumerate(current):
        if len(comparison.groups) <= kept.axis:
            return None
        groups = comparison.groups[kept.axis]
        now = join_groups(getattr(groups, measure.sums), kept.joined)
        then = read_group_sums(kept, seed, measure.sums)
        absolute = read_group_sums(kept, seed, "absolute")
        counts = group_counts(groups, kept.joined)
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


def sample_by_seed(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return the sums of each seed, made from its averages; None where one is undefined."""
    sample = Sample(None, [], [], [], [])
    for seed, comparison in enumerate(current):
        pairs = comparison.counts.get("finite", 0)
        now = comparison.metrics.get(measure.metric)
        then, absolute = (_of_seed(accepted, name, seed) for name in (measure.metric, "mean_abs_error"))
        if now is None or then is None or absolute is None:
            return None
        sample.current.append(sum_from_mean(now, measure, pairs))
        sample.baseline.append(sum_from_mean(then, measure, pairs))
        sample.n.append(pairs)
        sample.absolute.append(absolute * pairs)
    return sample


def sample_by_run(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return each run of each seed, beside the baseline's mean over its runs of that seed."""
    sample = Sample(None, [], [], [], [])
    for seed, comparison in enumerate(current):
        then, absolute = (_of_seed(accepted, name, seed) for name in (measure.metric, "mean_abs_error"))
        for run in comparison.runs:
            now = run.get(measure.metric)
            if now is None or then is None or absolute is None:
                return None
            sample.current.append(sum_from_mean(now, measure, 1))
            sample.baseline.append(sum_from_mean(then, measure, 1))
            sample.n.append(1)
            sample.absolute.append(absolute)
    return sample


def sum_from_mean(mean: float, measure: Measure, n: int) -> float:
    """Return the sum that an average over n pairs is made of; infinite, as a square may be, beyond float64."""
    try:
        return float(mean ** (1 / measure.power)) * n
    except OverflowError:
        return inf


def _of_seed(accepted: BaselineOutput, metric: str, seed: int) -> float | None:
    values = accepted.metrics.get(metric, [])
    return values[seed] if seed < len(values) else None


FEWER_SAMPLES_ERROR_FACTOR = 1.5
"""How many times larger the error of fewer than half as many units must be to be taken: it is itself known badly."""


FEW_SAMPLES_ERROR_FACTOR = 3.0
"""The same of fewer than LEAST units: three seeds that share no error differ so much once in a thousand times."""


class StandardError(NamedTuple):
    """A standard error of the logarithm of a ratio, from so many units along an axis (None: seeds)."""

    error: float
    units: int
    axis: int | None


def largest_standard_error(spreads: Sequence[StandardError]) -> StandardError:
    """Return the largest error of those with at least half as many units as any; of others where it clearly is more.

    Fewer than LEAST units count where theirs is plainly more than what the others come to.
    """
    enough = [spread for spread in spreads if spread.units >= MIN_SAMPLES]
    taken = _clearly_widest(enough or spreads)
    few = [
        spread
        for spread in spreads
        if spread.units < MIN_SAMPLES and spread.error > FEW_SAMPLES_ERROR_FACTOR * taken.error
    ]
    return max(few, default=taken, key=_size)


def _clearly_widest(spreads: Sequence[StandardError]) -> StandardError:
    most = max(spread.units for spread in spreads)
    well = max((spread for spread in spreads if 2 * spread.units >= most), key=_size)
    badly = [
        spread
        for spread in spreads
        if 2 * spread.units < most and spread.error > FEWER_SAMPLES_ERROR_FACTOR * well.error
    ]
    return max(badly, default=well, key=_size)


def _size(spread: StandardError) -> tuple[float, int]:
    return spread.error, spread.units


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


def _log_of_baseline(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return log(baseline / n) if baseline > 0 and n else None


def _logs_of_baseline(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return baseline / n * log(2) if n else None


# By the sums of a measure. The sums of logarithms are a logarithm already.
_OWN: dict[str, Statistic] = {
    "absolute": _log_of_baseline,
    "squared": _log_of_baseline,
    "ulps": _log_of_baseline,
    "logs": _logs_of_baseline,
}
_STATISTICS: dict[str, Statistic] = {"logs": _log_of_logs, "signed": _growth_of_bias, "": _fewer_matches}


def paired_log_ratio(sample: Sample, measure: Measure) -> tuple[float, StandardError] | None:
    """Return the logarithm of a measure's ratio and its error, each group of the run beside that of the baseline."""
    estimate = jackknife(sample, _STATISTICS.get(measure.sums, _log_ratio), measure.power)
    return None if estimate is None else (estimate[0], StandardError(estimate[1], len(sample.n), sample.axis))


def fresh_inputs_error(sample: Sample, measure: Measure) -> StandardError | None:
    """Return the error of a ratio of two draws of what the baseline drew: what it is where nothing has changed.

    None for what has no such ratio, as a bias, and where the baseline has no errors.
    """
    if measure.sums not in _OWN:
        return None
    estimate = jackknife(sample, _OWN[measure.sums], measure.power)
    return None if estimate is None else StandardError(sqrt(2) * estimate[1], len(sample.n), sample.axis)


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
    spread = sum((each - middle) * (each - middle) for each in known) * (units - 1) / units  # a power may overflow
    return value * power, sqrt(spread) * power
