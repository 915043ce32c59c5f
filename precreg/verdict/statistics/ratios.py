"""By how much did errors change? A pure function of two sets of group sums, with what is not known of it.

The change is a ratio of averages. What it may be off by is told in two ways, and the smaller one is taken. Paired: each
group of the run beside the same of the baseline, which knows most where few elements changed, or all by one factor.
Redrawn: what two independent draws of the baseline's own errors would differ by, which knows most where a run's errors
are shared by many elements, and the baseline's are not. docs/verdicts.md derives both.

By how much did errors change from one accepted value to the next? As paired.py, of two baselines' group sums.

A baseline keeps no number of pairs: of the logarithms, which need it, all elements of a group are taken to be finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp, inf, isfinite, log, sqrt

from msgspec import Struct

from precreg.measure import METRICS, group_sizes, read_group_sums
from precreg.types import AxisSums, BaselineEntry, BaselineOutput, Comparison
from precreg.verdict.statistics.distributions import t_quantile, t_sf
from precreg.verdict.statistics.samples import (
    MEAN_MEASURES,
    MEASURES,
    MIN_SAMPLES,
    Measure,
    Sample,
    StandardError,
    fresh_inputs_error,
    largest_standard_error,
    paired_log_ratio,
    sample_by_run,
    sample_by_seed,
    samples,
    sum_from_mean,
)

INTERVAL_ALPHA = 0.01
"""The chance that one of the bounds of a case's changes is on the wrong side of the truth."""


MAX_LOG_RATIO = 700.0
"""The largest logarithm of a ratio that is told."""


# How often one output is tested: each average is paired, and the stable ones are compared with fresh inputs, too.
# For the others, the baseline may have drawn too few large errors to show how they vary.
TESTS_PER_OUTPUT = len(MEASURES) + sum(METRICS[measure.metric].stable for measure in MEASURES)


class ErrorRatio(Struct, frozen=True):
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


def error_ratios(
    current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> tuple[ErrorRatio, ...]:
    """Return the change of each average of one output, as far as there are enough samples for it.

    `current` are comparisons of that output in order of seeds, as many as both sides have; `groups` are what the
    baseline keeps of it.
    """
    found = (_change(measure, current, accepted, groups) for measure in MEASURES)
    return tuple(change for change in found if change is not None)


def _change(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> ErrorRatio | None:
    found = error_ratio_of_samples(current[0].output, measure, samples(measure, current, accepted, groups))
    if found is None or not current[0].runs:
        return found
    by_chance = error_ratio_of_runs(measure, current, accepted)
    return None if by_chance is None else max((found, by_chance), key=lambda each: each.upper)


def error_ratio_of_runs(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> ErrorRatio | None:
    """Return the change of what need not repeat, as its seeds or runs tell of it; None below LEAST of them.

    All groups of a run may share what chance did to it, so that they do not show it. Seeds do, as both sides drew
    theirs by chance. Where they are too few, runs do; those of the baseline are taken to spread as the current ones.
    """
    enough = len(current) >= MIN_SAMPLES
    sample = sample_by_seed(measure, current, accepted) if enough else sample_by_run(measure, current, accepted)
    if sample is None or len(sample.n) < MIN_SAMPLES:
        return None
    estimate = paired_log_ratio(sample, measure)
    if estimate is None:
        return None
    value, spread = estimate
    error = spread.error * (1 if enough else sqrt(2))
    return make_error_ratio(current[0].output, measure.metric, value, spread._replace(error=error, axis=None))


def error_ratio_of_samples(output: str, measure: Measure, samples: Iterable[Sample]) -> ErrorRatio | None:
    """Return the change that samples along several axes tell of; None below LEAST, or where one is not defined."""
    known = list(samples)
    estimates = [estimate for sample in known if (estimate := paired_log_ratio(sample, measure)) is not None]
    if max((len(sample.n) for sample in known), default=0) < MIN_SAMPLES or len(estimates) < len(known):
        return None
    spread = largest_standard_error([each for _, each in estimates])
    value = next(value for value, each in estimates if each is spread)
    again = known if METRICS[measure.metric].stable else []
    own = [each for sample in again if (each := fresh_inputs_error(sample, measure)) is not None]
    return make_error_ratio(
        output, measure.metric, value, min([spread, *([largest_standard_error(own)] if own else [])], key=_reach)
    )


def _reach(spread: StandardError) -> float:
    """Return how far the bounds of a change are from it."""
    return t_quantile(INTERVAL_ALPHA / TESTS_PER_OUTPUT, spread.units - 1) * spread.error


def make_error_ratio(output: str, metric: str, value: float, spread: StandardError) -> ErrorRatio:
    """Return the change that a logarithm of a ratio and its spread tell of."""
    reach = _reach(spread)
    deviations = abs(value) / spread.error if spread.error else inf if value else 0.0
    bounds = (ratio_from_log(value), ratio_from_log(value - reach), ratio_from_log(value + reach))
    return ErrorRatio(output, metric, *bounds, *spread, t_sf(deviations, spread.units - 1))


def ratio_from_log(logarithm: float) -> float:
    """Return the ratio that has a logarithm; infinite where float64 has none so large."""
    return exp(logarithm) if logarithm < MAX_LOG_RATIO else inf


LogHalfWidths = dict[str, dict[str, float]]
"""By output and metric, the distance in logarithms of a ratio from its bounds."""


HALF_WIDTH_DIGITS = 4
"""Significant digits of a distance, which is an estimate."""


def error_ratios_between(former: BaselineEntry, entry: BaselineEntry) -> Iterator[ErrorRatio]:
    """Yield the change of each average of errors from one entry of a case to the next, where there are enough samples.

    Only as many seeds are compared as both have.
    """
    for name, output in entry.outputs.items():
        before = former.outputs.get(name)
        if before is None or (before.dtype, before.shape) != (output.dtype, output.shape):
            continue
        for measure in MEAN_MEASURES:
            samples = _samples(measure, (before, former.groups.get(name, [])), (output, entry.groups.get(name, [])))
            change = error_ratio_of_samples(name, measure, samples)
            if change is not None:
                yield change


def half_widths(former: BaselineEntry, entry: BaselineEntry) -> LogHalfWidths:
    """Return by output and metric how far, in logarithms, the bounds of a step are from it, where that is known."""
    found: LogHalfWidths = {}
    for change in error_ratios_between(former, entry):
        if change.ratio > 0 and isfinite(change.upper):
            reach = log(change.upper / change.ratio)
            found.setdefault(change.output, {})[change.metric] = float(f"{reach:.{HALF_WIDTH_DIGITS}g}")
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
    sizes = group_sizes(shape, then)
    for seed in range(seeds):
        current, baseline = (read_group_sums(sums, seed, measure.sums) for sums in (now, then))
        absolute = read_group_sums(then, seed, "absolute")
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
    then, now = (
        [sum_from_mean(value, measure, 1) for value in metric[:seeds] if value is not None] for metric in values
    )
    if len(then) == len(now) == seeds:
        yield Sample(None, now, then, [1] * seeds, then)
