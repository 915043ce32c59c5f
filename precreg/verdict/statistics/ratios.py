"""By how much did errors change, and how certain is that?

The change is a ratio of averages of errors, estimated from group sums of two sides: a run and its baseline, two
accepted entries of a case, or a baseline and itself. Errors inside one output are correlated, so groups of elements
along one axis, seed by seed, are the sample, and not elements.

The standard error is the smaller of two. The paired one compares each group of the run with the same group of the
baseline. It is small if few elements changed, or all by one factor. The one of fresh inputs compares two independent
draws of the baseline's own errors. It is small if many elements share the run's errors and not the baseline's.
docs/regression-statistics.md derives both.

Few elements may make an average, such as errors in ULP near zero. Its interval then spans several powers of two, and
the mean of the logarithms of the ratios of single groups is tested, too: the ratio of a typical group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import exp, inf, isfinite, log, sqrt
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure import METRICS, ZERO, group_counts, group_sizes, join_groups, mean_metrics, read_group_sums
from precreg.types import AxisSums, BaselineEntry, BaselineOutput, Comparison
from precreg.verdict.statistics.uncertainty import (
    MIN_SAMPLES,
    StandardError,
    jackknife,
    largest_standard_error,
    mean_with_error,
    t_half_width,
    t_sf,
)


class Measure(NamedTuple):
    """An average of errors: its metric, the group sums that make it, and the power of their ratio."""

    metric: str
    sums: str
    power: float = 1.0


# The judged averages: the first two are in the scale of the output, the others in the scale of each element. Neither
# scale alone is enough: a few elements near zero fill the mean ULP, and small elements do not show in the output's.
MEAN_MEASURES = tuple(Measure(name, METRICS[name].sums, METRICS[name].power) for name in mean_metrics())
MEASURES = (
    *MEAN_MEASURES,
    *(Measure(m.name, m.sums, m.power) for m in METRICS.values() if m.by_groups),
    *(Measure(m.name, m.sums, m.power) for m in METRICS.values() if m.sums and m.scale == "signed"),
)

# Also judges a golden case whose runs need not repeat. In any other golden case each lost match is a regression, and
# needs no statistic.
MATCH_MEASURE = Measure("match_ratio", "")

# Maxima are tested by the seeds that exceed all of the baseline's (verdict/limits.py).
SEED_MAXIMA = ("max_abs_error", "max_ulp")

# Tests that seldom apply: averages that are no logarithms by the ratios of groups in place of their own, and maxima.
RARE_TESTS = sum(METRICS[measure.metric].scale == "linear" for measure in MEAN_MEASURES) + len(SEED_MAXIMA)

# Each average is tested with its paired error, and the stable ones with the error of fresh inputs, too. Few elements
# make the others, so a baseline may have drawn too few of those to show the spread of fresh inputs. The rare tests
# share the level of one, so that they cost the others little.
TESTS_PER_OUTPUT = len(MEASURES) + sum(METRICS[measure.metric].stable for measure in MEASURES) + 1

# Half-width of the logarithm of a ratio beyond which its average has a heavy tail, and groups judge it: a factor of 2
# in either direction (benchmarks/detection.py, operators that constants are chosen on).
HEAVY_TAIL_HALF_WIDTH = log(2)

# A group whose errors grew from 0, or by more, counts as this many powers of two, so that no single one decides.
MAX_GROUP_DOUBLINGS = 20

# Probability that any confidence bound of an output is on the wrong side, over all its tests. So a change that is worse
# by less than the minimum relevant change fails with at most 1 % (docs/regression-statistics.md, "The statistic").
INTERVAL_ALPHA = 0.01

# e^709 is the largest power that float64 has; a ratio beyond e^700 is reported as infinite.
MAX_LOG_RATIO = 700.0

# Half-widths are stored in baselines and are estimates themselves, so four digits lose nothing.
HALF_WIDTH_DIGITS = 4


class Sample(NamedTuple):
    """Group sums of two sides, with one element per seed and group along one axis; with axis None, one per seed.

    `n` counts the finite pairs of each. `absolute` are the baseline's sums of |d|, the unit of a bias.
    """

    axis: int | None
    current: list[float]
    baseline: list[float]
    n: list[int]
    absolute: list[float]


def run_samples(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> Iterator[Sample]:
    """Yield the samples of a run and its baseline: along each axis that the baseline keeps, and seed by seed."""
    found = [
        _join_seeds(kept.axis, (_run_groups(kept, measure, seed, each) for seed, each in enumerate(current)))
        for kept in groups
    ]
    # Runs that need not repeat are compared by error_ratio_of_runs, which sees more of their spread than seeds show.
    if not (groups and current[0].runs):
        found.append(sample_by_seed(measure, current, accepted))
    yield from (sample for sample in found if sample is not None and len(sample.n) > 1)


def step_samples(measure: Measure, former: BaselineEntry, entry: BaselineEntry, output: str) -> Iterator[Sample]:
    """Yield the samples of two accepted entries of a case, over the seeds that both have.

    A baseline keeps no number of pairs, so all elements count as finite. Only the averages of logarithms depend on it.
    """
    before, after = former.outputs[output], entry.outputs[output]
    seeds = range(min(len(before.digests), len(after.digests)))
    then, now = ({(kept.axis, kept.joined): kept for kept in each.groups.get(output, [])} for each in (former, entry))
    for key in (key for key in then if key in now):
        sample = _join_seeds(key[0], (_kept_groups(now[key], then[key], measure, seed, after.shape) for seed in seeds))
        if sample is not None and len(sample.n) > 1:
            yield sample
    if len(seeds) > 1:
        pairs = ((_of_seed(after, measure.metric, seed), _of_seed(before, measure.metric, seed)) for seed in seeds)
        by_seed = _join_seeds(None, (_unit(measure, current, old, old, 1) for current, old in pairs))
        if by_seed is not None:
            yield by_seed


def baseline_samples(
    measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], seeds: int
) -> Iterator[Sample]:
    """Yield the baseline's sums along each axis that it keeps, paired with themselves, for errors of fresh inputs."""
    for kept in groups:
        read = (_kept_groups(kept, kept, measure, seed, accepted.shape, measure.sums) for seed in range(seeds))
        sample = _join_seeds(kept.axis, read)
        if sample is not None and sample.n:
            yield sample


def baseline_sample_by_seed(measure: Measure, means: Sequence[float], n: int) -> Sample:
    """Return the baseline's averages over n pairs, seed by seed, paired with themselves."""
    sums = [_sum_from_mean(mean, measure, n) for mean in means]
    return Sample(None, sums, sums, [n] * len(sums), sums)


def sample_by_seed(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return the sums of each seed, made from its averages; None if one is undefined."""
    units = ((seed, each.metrics, each.counts.get("finite", 0)) for seed, each in enumerate(current))
    return _paired_units(measure, units, accepted)


def sample_by_run(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Sample | None:
    """Return each run of each seed, paired with the baseline's mean over its runs of that seed."""
    units = ((seed, run, 1) for seed, each in enumerate(current) for run in each.runs)
    return _paired_units(measure, units, accepted)


def _paired_units(
    measure: Measure, units: Iterable[tuple[int, Mapping[str, float | None], int]], accepted: BaselineOutput
) -> Sample | None:
    """Join units of a seed, metrics and a number of pairs, each paired with the baseline's averages of that seed."""
    samples = []
    for seed, metrics, n in units:
        baseline, absolute = (_of_seed(accepted, name, seed) for name in (measure.metric, "mean_abs_error"))
        samples.append(_unit(measure, metrics.get(measure.metric), baseline, absolute, n))
    return _join_seeds(None, samples)


def _join_seeds(axis: int | None, seeds: Iterable[Sample | None]) -> Sample | None:
    """Join the samples of all seeds; None if one of them is not known."""
    joined = Sample(axis, [], [], [], [])
    for sample in seeds:
        if sample is None:
            return None
        joined.current.extend(sample.current)
        joined.baseline.extend(sample.baseline)
        joined.n.extend(sample.n)
        joined.absolute.extend(sample.absolute)
    return joined


def _run_groups(kept: AxisSums, measure: Measure, seed: int, comparison: Comparison) -> Sample | None:
    """Return the groups of one seed of a run, joined as the baseline keeps them."""
    if len(comparison.groups) <= kept.axis:
        return None
    groups = comparison.groups[kept.axis]
    joined = join_groups(getattr(groups, measure.sums), kept.joined)
    current = [number for number in joined if number is not None]
    if len(current) < len(joined):
        return None
    baseline, absolute = (read_group_sums(kept, seed, name) for name in (measure.sums, "absolute"))
    return _groups(kept.axis, current, baseline, group_counts(groups, kept.joined), absolute)


def _kept_groups(
    now: AxisSums, then: AxisSums, measure: Measure, seed: int, shape: tuple[int, ...], absolute: str = "absolute"
) -> Sample | None:
    """Return the groups of one seed of two baselines that keep them in the same way."""
    current, baseline = (read_group_sums(kept, seed, measure.sums) for kept in (now, then))
    return _groups(then.axis, current, baseline, group_sizes(shape, then), read_group_sums(then, seed, absolute))


def _groups(
    axis: int, current: list[float] | None, baseline: list[float] | None, n: list[int], absolute: list[float] | None
) -> Sample | None:
    if current is None or baseline is None or absolute is None or not len(current) == len(baseline) == len(n):
        return None
    return Sample(axis, current, baseline, n, absolute)


def _unit(
    measure: Measure, current: float | None, baseline: float | None, mean_abs_error: float | None, n: int
) -> Sample | None:
    """Return a sample of one unit from its averages over n pairs; None if one is undefined."""
    if current is None or baseline is None or mean_abs_error is None:
        return None
    sums = [_sum_from_mean(mean, measure, n) for mean in (current, baseline)]
    return Sample(None, sums[:1], sums[1:], [n], [mean_abs_error * n])


def _sum_from_mean(mean: float, measure: Measure, n: int) -> float:
    """Return the sum that an average over n pairs is made of; infinite if float64 has none so large."""
    try:
        return float(mean ** (1 / measure.power)) * n
    except OverflowError:  # the square of an RMS error above 1e154
        return inf


def _of_seed(accepted: BaselineOutput, metric: str, seed: int) -> float | None:
    values = accepted.metrics.get(metric, [])
    return values[seed] if seed < len(values) else None


# The logarithm of a ratio, or None if it is not defined. Its arguments are the sums of the run and of the baseline, the
# number of pairs, and the baseline's sum of |d|.
SumsStatistic = Callable[[float, float, int, float], float | None]


def _log_ratio(current: float, baseline: float, n: int, absolute: float) -> float | None:
    # A quotient of positive sums may still be 0 or infinite, or NaN for two infinite ones.
    ratio = current / baseline if baseline > 0 else 0.0
    return log(ratio) if 0 < ratio < inf else None


def _log_of_logs(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return (current - baseline) / n * log(2) if n else None


def _growth_of_bias(current: float, baseline: float, n: int, absolute: float) -> float | None:
    """Return log(1 + g) for the growth g of the size of the bias, in units of the mean |d|."""
    # The bias itself may be near 0, and a ratio of two such numbers says nothing.
    growth = (abs(current) - abs(baseline)) / absolute if absolute else inf
    return log(1 + growth) if growth > -1 and isfinite(growth) else None


def _fewer_matches(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return (baseline - current) / n if n else None


def _log_of_baseline(current: float, baseline: float, n: int, absolute: float) -> float | None:
    mean = baseline / n if n else 0.0
    return log(mean) if mean > 0 else None


def _logs_of_baseline(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return baseline / n * log(2) if n else None


# By the sums of a measure. The sums of logarithms are a logarithm already.
_PAIRED_STATISTICS: dict[str, SumsStatistic] = {
    "logs": _log_of_logs,
    "signed": _growth_of_bias,
    "outward": _growth_of_bias,
    "": _fewer_matches,
}
_BASELINE_STATISTICS: dict[str, SumsStatistic] = {
    "absolute": _log_of_baseline,
    "squared": _log_of_baseline,
    "ulps": _log_of_baseline,
    "squared_ulps": _log_of_baseline,
    "logs": _logs_of_baseline,
}


def paired_log_ratio(sample: Sample, measure: Measure) -> tuple[float, StandardError] | None:
    """Return the logarithm of a measure's ratio, and its standard error from pairs of groups."""
    estimate = jackknife(sample[1:], _PAIRED_STATISTICS.get(measure.sums, _log_ratio), measure.power)
    return None if estimate is None else (estimate[0], StandardError(estimate[1], len(sample.n), sample.axis))


def fresh_inputs_error(sample: Sample, measure: Measure) -> StandardError | None:
    """Return the standard error of the logarithm of a ratio of two independent draws of the baseline's errors.

    None for a bias, which has no such ratio, and for a baseline without errors.
    """
    if measure.sums not in _BASELINE_STATISTICS:
        return None
    estimate = jackknife(sample[1:], _BASELINE_STATISTICS[measure.sums], measure.power)
    # The variances of two independent draws add.
    return None if estimate is None else StandardError(sqrt(2) * estimate[1], len(sample.n), sample.axis)


class ErrorRatio(Struct, frozen=True):
    """The ratio of an average of errors to the baseline's, with one-sided bounds at INTERVAL_ALPHA over all tests.

    `standard_error` belongs to the logarithm of `ratio`, from `units` samples along `axis` (None: seeds). `p_value` is
    the probability that noise alone changes as much in the same direction. The ratio of a bias is 1 + its growth in
    units of the baseline's mean |d|.
    """

    output: str
    metric: str
    ratio: float
    lower: float
    upper: float
    standard_error: float
    units: int
    axis: int | None
    p_value: float
    # The ratio of a typical group, because the average itself has a heavy tail.
    typical: bool = False


def error_ratios(
    current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> tuple[ErrorRatio, ...]:
    """Return the ratio of each average of one output that has enough samples.

    `current` are the comparisons of that output in order of seeds, as many as both sides have; `groups` are the group
    sums that the baseline keeps of it.
    """
    found = (_error_ratio(measure, current, accepted, groups) for measure in MEASURES)
    return tuple(ratio for ratio in found if ratio is not None)


def _error_ratio(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> ErrorRatio | None:
    samples = [*run_samples(measure, current, accepted, groups)]
    found = error_ratio_of_samples(current[0].output, measure, samples)
    if found is None or not current[0].runs:
        return found and _average_or_typical(found, measure, samples)
    # All groups of one run may share its nondeterminism, so groups alone cannot show that spread.
    of_runs = error_ratio_of_runs(measure, current, accepted)
    return None if of_runs is None else max((found, of_runs), key=lambda each: each.upper)


def error_ratio_of_runs(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> ErrorRatio | None:
    """Return the ratio of a case whose runs need not repeat, from its seeds or runs; None below MIN_SAMPLES of them."""
    enough_seeds = len(current) >= MIN_SAMPLES
    sample = sample_by_seed(measure, current, accepted) if enough_seeds else sample_by_run(measure, current, accepted)
    if sample is None or len(sample.n) < MIN_SAMPLES:
        return None
    estimate = paired_log_ratio(sample, measure)
    if estimate is None:
        return None
    value, spread = estimate
    # Seeds of both sides vary at random. Runs of this side are compared with a mean that the baseline keeps; the
    # baseline's own runs are taken to spread as much, so the variance doubles.
    error = spread.error * (1 if enough_seeds else sqrt(2))
    return make_error_ratio(current[0].output, measure.metric, value, spread._replace(error=error, axis=None))


def error_ratio_of_samples(output: str, measure: Measure, samples: Iterable[Sample]) -> ErrorRatio | None:
    """Return the ratio that samples along several axes give; None below MIN_SAMPLES, or if one is not defined."""
    known = list(samples)
    estimates = [estimate for sample in known if (estimate := paired_log_ratio(sample, measure)) is not None]
    if max((len(sample.n) for sample in known), default=0) < MIN_SAMPLES or len(estimates) < len(known):
        return None
    spread = largest_standard_error([each for _, each in estimates])
    value = next(value for value, each in estimates if each is spread)
    if METRICS[measure.metric].stable:
        fresh = [each for sample in known if (each := fresh_inputs_error(sample, measure)) is not None]
        if fresh:
            # Either error is valid if the errors did not change, so the test may use the one that sees more.
            spread = min(spread, largest_standard_error(fresh), key=_half_width)
    return make_error_ratio(output, measure.metric, value, spread)


def _average_or_typical(found: ErrorRatio, measure: Measure, samples: Sequence[Sample]) -> ErrorRatio:
    """Return the ratio of a typical group if it is the stronger evidence, or if only groups may judge the metric."""
    typical = _typical_ratio(found, measure, samples)
    if typical is None:
        return found
    # Both are tested, each with its share of the level.
    is_stronger = typical.p_value * RARE_TESTS < found.p_value
    return typical if is_stronger or METRICS[measure.metric].by_groups else found


def _typical_ratio(found: ErrorRatio, measure: Measure, samples: Sequence[Sample]) -> ErrorRatio | None:
    """Return the ratio of a typical group for an average with a heavy tail; None for any other average."""
    metric = METRICS[measure.metric]
    heavy = metric.by_groups or not found.ratio * exp(HEAVY_TAIL_HALF_WIDTH) > found.upper
    if not heavy or metric.scale != "linear":
        return None
    logs = [[*_group_log_ratios(sample, measure)] for sample in samples]
    # The errors of a few groups say nothing about others.
    changed = min(sum(value != 0 for value in each) for each in logs if len(each) >= MIN_SAMPLES)
    if changed < MIN_SAMPLES:
        return None
    estimates = [mean_with_error(each) for each in logs]
    errors = [StandardError(each[1], len(of.n), of.axis) for each, of in zip(estimates, samples, strict=True)]
    spread = largest_standard_error(errors)
    value = next(each[0] for each, error in zip(estimates, errors, strict=True) if error is spread)
    tests = TESTS_PER_OUTPUT * (1 if metric.by_groups else RARE_TESTS)
    ratio = make_error_ratio(found.output, found.metric, value, spread, tests)
    # The signs of similar groups agree with this probability under H0.
    return replace(ratio, p_value=max(ratio.p_value, 0.5**changed), typical=True)


def _group_log_ratios(sample: Sample, measure: Measure) -> Iterator[float]:
    largest = MAX_GROUP_DOUBLINGS * log(2)
    # Baselines round sums to a part of the largest, so smaller sums count as unchanged.
    unknown = max(sample.baseline) / ZERO
    for current, baseline in zip(sample.current, sample.baseline, strict=True):
        logarithm = log((current + unknown) / (baseline + unknown))
        yield measure.power * min(max(logarithm, -largest), largest)


def _half_width(spread: StandardError, tests: int = TESTS_PER_OUTPUT) -> float:
    """Return the distance of the bounds of a logarithm from its estimate."""
    return t_half_width(spread.error, spread.units, INTERVAL_ALPHA / tests)


def make_error_ratio(
    output: str, metric: str, value: float, spread: StandardError, tests: int = TESTS_PER_OUTPUT
) -> ErrorRatio:
    """Return the ratio whose logarithm is `value`, with bounds at INTERVAL_ALPHA / tests, by Student's t."""
    half_width = _half_width(spread, tests)
    deviations = abs(value) / spread.error if spread.error else inf if value else 0.0
    bounds = (ratio_from_log(value), ratio_from_log(value - half_width), ratio_from_log(value + half_width))
    return ErrorRatio(output, metric, *bounds, *spread, t_sf(deviations, spread.units - 1))


def ratio_from_log(logarithm: float) -> float:
    """Return the ratio that has a logarithm, or infinity beyond MAX_LOG_RATIO."""
    return exp(logarithm) if logarithm < MAX_LOG_RATIO else inf


# By output and metric, the distance of the bounds of a ratio from it, in logarithms.
LogHalfWidths = dict[str, dict[str, float]]


def error_ratios_between(former: BaselineEntry, entry: BaselineEntry) -> Iterator[ErrorRatio]:
    """Yield the ratio of each average of errors from one entry of a case to the next that has enough samples."""
    for name, output in entry.outputs.items():
        before = former.outputs.get(name)
        if before is None or (before.dtype, before.shape) != (output.dtype, output.shape):
            continue
        for measure in MEAN_MEASURES:
            ratio = error_ratio_of_samples(name, measure, step_samples(measure, former, entry, name))
            if ratio is not None:
                yield ratio


def half_widths(former: BaselineEntry, entry: BaselineEntry) -> LogHalfWidths:
    """Return the known half-widths of the steps from one entry to the next, by output and metric."""
    found: LogHalfWidths = {}
    for ratio in error_ratios_between(former, entry):
        if ratio.ratio > 0 and isfinite(ratio.upper):
            half_width = log(ratio.upper / ratio.ratio)
            found.setdefault(ratio.output, {})[ratio.metric] = float(f"{half_width:.{HALF_WIDTH_DIGITS}g}")
    return found
