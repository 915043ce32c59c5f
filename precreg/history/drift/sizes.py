"""Is a series of sizes worse at its end than before?

The size of a metric is 0 at best and larger if worse. So one set of rules fits errors, shares and logarithms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby, pairwise
from math import copysign, exp, exp2, expm1, inf, log, log2
from statistics import median, median_high
from typing import NamedTuple

from precreg.history.drift.record import DriftKind, DriftSettings, NoiseFact
from precreg.measure import METRICS
from precreg.types import Metric
from precreg.verdict.statistics import (
    OFFSET_SIGMAS,
    ORDER_ALPHA,
    best_ramp,
    best_step,
    correlation_factor,
    find_segments,
    growth_factor,
    has_worsened,
    is_too_noisy,
    lag_correlation,
    late_growth,
    noise_sigma,
    order_p_value,
    running_median,
    small_sample_factor,
    step_fits,
)

# The shipped threshold of max_abs_error. Harmless changes of the order of summation move maxima by up to 2.5.
MIN_RELEVANT_MAXIMUM_RATIO = 4.0
# float64 holds 2^1023 at most. The limit leaves room for a factor on both sides.
MAX_LOG2 = 1000.0
# exp of a larger place on the logarithmic axis overflows.
MAX_LOG = log(sys.float_info.max)
# The median of 5 noisy runs ignores two outliers. `confirm` above 3 needs more runs (latest_runs).
MEDIAN_RUNS = 5
# With at most 8 levels any change of an exact series counts. Beyond them the series shows the usual size of its
# changes. Code that moves by a few percent at each commit then raises no alarm.
MIN_LEVEL_CHANGES = 8
# A step of an exact series by more than this is reported at its first run. Harmless changes of code move errors by
# less, and noise on a coarse grid does, too (benchmarks/drift_study.py).
LARGE_STEP = 1.5
# With more levels than MIN_LEVEL_CHANGES a large step exceeds this power of the usual change.
USUAL_CHANGES = 3
# So many equal values in a row come from code that repeats, not from noise on a coarse grid. The most frequent of two
# values comes up 10 times in a row in 1 of 512 random rows.
MIN_EQUAL_RUNS = 10
# With fewer values a straight line fits as well as a step.
MIN_LINE_VALUES = 5


def drift_means() -> tuple[str, ...]:
    """Return the means over all elements in which the monitor finds drift."""
    return tuple(m.name for m in METRICS.values() if m.judged and _is_stable_mean(m))


def _is_stable_mean(metric: Metric) -> bool:
    # Few references near 0 decide a mean of relative errors. With normal references and redrawn errors of one size it
    # moves by more than 4 times in 0.5 % (100,000 elements) to 1.6 % (100 elements) of 1,000 pairs.
    return metric.aggregate == "mean" and metric.family != "relative"


def drift_maxima() -> tuple[str, ...]:
    """Return the metrics that drift only by a wide factor, maxima first."""
    # One element decides a maximum, and a bias near 0 is a difference of large sums. So both vary far more than means.
    others = [metric for metric in METRICS.values() if metric.judged and not _is_stable_mean(metric)]
    return tuple(metric.name for metric in sorted(others, key=lambda metric: not metric.maximum))


def metric_order(metric: str) -> tuple[int, str]:
    """Return the rank of a metric among metrics with the same finding: means, maxima, then analyzers' metrics."""
    ranks = _ranks(tuple(METRICS))
    return ranks.get(metric, len(ranks)), metric


@cache
def _ranks(_names: tuple[str, ...]) -> dict[str, int]:
    # Sorting the metrics of 100,000 outputs asks for a million ranks. The names are the key: an entry may be added.
    return {metric: rank for rank, metric in enumerate((*drift_means(), *drift_maxima()))}


def metric_size(metric: Metric, value: float) -> float:
    """Return the size of a value: 1 - value if more is better, 2^value of a logarithm, otherwise |value|."""
    return _size_function(metric)(value)


def metric_sizes(metric: Metric, values: Iterable[float]) -> list[float]:
    """Return the sizes of the values of a metric."""
    return list(map(_size_function(metric), values))


def _size_function(metric: Metric) -> Callable[[float], float]:
    if metric.better == "higher":
        return _size_of_share
    return _size_of_logarithm if metric.scale == "log2" else abs


def _size_of_share(value: float) -> float:
    # An analyzer's metric may exceed 1, and a negative size has no logarithm.
    return max(1 - value, 0.0)


def _size_of_logarithm(value: float) -> float:
    # A ratio of logarithms has no meaning: 2^value gives back the ULP, whose ratios do.
    return exp2(min(max(value, -MAX_LOG2), MAX_LOG2))


def size_ratio(now: float, before: float) -> float:
    """Return how many times larger a size is: 1 from 0 to 0, infinity from 0 to anything else."""
    if before == 0:
        # From no error to any error is a loss of every ratio, so it exceeds each materiality.
        return 1.0 if now == 0 else inf
    return now / before


def drift_min_ratio(metric: Metric, materiality: float) -> float:
    """Return the smallest relevant ratio of a change; an analyzer's metric may be a maximum."""
    return materiality if _is_stable_mean(metric) else max(materiality, MIN_RELEVANT_MAXIMUM_RATIO)


def value_of_size(metric: Metric, of_size: float) -> float:
    """Return the value that has a size: the inverse of `size`, without the sign of a bias."""
    if metric.better == "higher":
        return 1 - of_size
    return log2(max(of_size, exp2(-MAX_LOG2))) if metric.scale == "log2" else of_size


class SizeAxis(NamedTuple):
    """Map sizes to an axis for statistics: their logarithms, or their shares of the largest size."""

    place: Callable[[float], float]
    size: Callable[[float], float]
    is_logarithmic: bool


def size_axis(sizes: Sequence[float]) -> SizeAxis:
    """Return the logarithmic axis if all sizes are above 0, otherwise the axis of shares."""
    # Errors vary by factors, so their noise is even on the logarithmic axis. Size 0 has no logarithm.
    if min(sizes) > 0:
        return SizeAxis(log, _exp, True)
    # Shares of the largest keep the squares of large errors within float64.
    largest = max(sizes) or 1.0
    return SizeAxis(lambda size: size / largest, lambda place: place * largest, False)


def _exp(place: float) -> float:
    """Return e^place, at most the largest float64, because a fitted line may end beyond it."""
    return exp(min(place, MAX_LOG))


class FoundWorsening(NamedTuple):
    """Hold a worsening of sizes: its kind, the place of the first worse size, the levels, and the growth per run."""

    kind: DriftKind
    at: int
    before: float
    now: float
    a_run: float | None = None


def worse_than_before(
    sizes: Sequence[float], least: float, settings: DriftSettings, *, exact: bool
) -> FoundWorsening | None:
    """Find a step or a slope to a level that lasts and is more than `least` times the earlier level."""
    latest = sizes[-settings.confirm :] if exact else [present_level(sizes, settings.confirm, exact=False)]
    # Two runs of an exact series are a level, and each level of a noisy one needs `confirm` runs. The cheap comparison
    # with the smallest size ends the check of most series before any test runs.
    fewest = min(settings.confirm, 2) if exact else settings.confirm
    if len(sizes) < fewest + settings.confirm or min(latest) <= least * min(sizes):
        return None
    step = latest_large_step(sizes[: len(sizes) - settings.confirm + 1], least) if exact else None
    if step is not None and min(latest) > max(LARGE_STEP, least) * step.before:
        return step._replace(now=sizes[-1])
    axis = size_axis(sizes)
    values = [axis.place(size) for size in sizes]
    if not (_unusual(values) if exact else _significant(values, settings.confirm)):
        return None
    better = axis.place(min(latest) / least) if min(latest) else -inf
    # A slope first: a line that fits better than any step explains the series by one change per run.
    shapes = (_ended_slope(values, axis, log(least)), _ramp(values, axis), _step(values, axis, better, fewest))
    material = (
        found
        for found in shapes
        if found is not None
        and axis.place(found.before) < better
        and (not exact or is_in_order(sizes, found.before, least))
    )
    return next((found._replace(now=latest[-1]) for found in material), None)


def latest_large_step(sizes: Sequence[float], least: float) -> FoundWorsening | None:
    """Find the latest lasting step of an exact series by more than LARGE_STEP; None without one."""
    factor = max(LARGE_STEP, least)
    if len(levels := [size for size, _ in groupby(sizes)]) > MIN_LEVEL_CHANGES and min(levels) > 0:
        # Code whose error moves by factors at each change shows the usual size of its changes.
        factor = max(factor, median(max(a / b, b / a) for a, b in pairwise(levels)) ** USUAL_CHANGES)
    lowest = inf
    for at in range(len(sizes) - 1, 0, -1):
        lowest = min(lowest, sizes[at])
        # Most runs are no step from the run before, and need no median.
        if factor * sizes[at - 1] >= lowest:
            continue
        # Losing a gain of one or two runs is not a loss: the median of the runs before is the level.
        before = max(sizes[at - 1], median_high(sizes[max(0, at - MEDIAN_RUNS) : at]))
        if 0 < factor * before < lowest:
            return FoundWorsening("step", at, before, sizes[-1])
    return None


def is_in_order(sizes: Sequence[float], before: float, least: float) -> bool:
    """Return True if noise on a coarse grid does not explain that an exact series is worse than `before` at its end."""
    # Values that repeat need not be exact: 1.0, 1.1, 0.9, 1.0 is noise. Its steps are small, and come back.
    # A level is the exponential of a logarithm: its rounding does not make a step of exactly LARGE_STEP a larger one.
    if 0 < LARGE_STEP * before * (1 + 1e-9) < sizes[-1] or sizes[-MIN_EQUAL_RUNS:] == [sizes[-1]] * MIN_EQUAL_RUNS:
        return True
    return order_p_value([size > least * before for size in sizes]) <= ORDER_ALPHA


def present_level(sizes: Sequence[float], confirm: int, *, exact: bool) -> float:
    """Return the present size: the last size of an exact series, the median of the last few of a noisy one."""
    return sizes[-1] if exact else median(sizes[-latest_runs(confirm) :])


def latest_runs(confirm: int) -> int:
    """Return the number of noisy runs whose median moves only after `confirm` worse runs."""
    # The median of 2 N - 1 values changes sides only if N of them do.
    return max(MEDIAN_RUNS, 2 * confirm - 1)


def noise_beyond(sizes: Sequence[float], now: float, single: float) -> float:
    """Return the distance of a noisy series' present level from a single value, in units of the noise limit.

    Above 1 the level is larger beyond noise, below -1 smaller. The distance is infinite without noise.
    """
    axis = size_axis([*sizes, single])
    values = [axis.place(size) for size in sizes]
    away = axis.place(now) - axis.place(single)
    explained = OFFSET_SIGMAS * small_sample_factor(len(values)) * noise_sigma(values)
    # The correlation only widens the limit, so it is estimated only if the excess is significant without it.
    if explained and abs(away) > explained:
        explained *= correlation_factor(values) * growth_factor(values)
    return away / explained if explained else copysign(inf, away) if away else 0.0


def _unusual(levels: Sequence[float]) -> bool:
    """Return True if an exact series is worse than its usual changes; with few changes any change counts."""
    # Each level counts once. Repeated runs of the same bits are no independent samples.
    levels = [value for value, _ in groupby(levels)]
    return len(levels) <= MIN_LEVEL_CHANGES or has_worsened(levels, 1)


def _significant(values: Sequence[float], confirm: int) -> bool:
    # One run of a noisy series is never enough, even with --confirm 1: an outlier would be drift.
    return has_worsened(values, max(confirm, 2))


def _step(values: Sequence[float], axis: SizeAxis, better: float, confirm: int) -> FoundWorsening | None:
    """Return the best step upward from a level below `better`, with `confirm` runs on either side; None without one."""
    upward = [step for step in step_fits(values, confirm) if step.before < min(step.after, better)]
    if not upward:
        return None
    # The misfit is a sum of absolute deviations, which an outlier moves less than a sum of squares.
    # Rounded, so that equal sums in another unit stay equal; the first of equals.
    step = min(upward, key=lambda step: round(step.misfit, 9))
    return FoundWorsening("step", step.at, axis.size(step.before), axis.size(step.after))


def _ended_slope(values: Sequence[float], axis: SizeAxis, min_change: float) -> FoundWorsening | None:
    """Return the slope that makes up most of the rise and has ended at a level; None without one."""
    slopes = [one for one in find_segments(values, min_change) if one.is_slope]
    steepest = max(slopes, key=lambda one: one.last - one.first, default=None)
    if steepest is None or steepest.end == len(values):
        return None
    if steepest.last - steepest.first < (values[-1] - min(values)) / 2:
        return None
    pace = (steepest.last - steepest.first) / (steepest.end - steepest.start - 1)
    growth = expm1(min(pace, MAX_LOG)) if axis.is_logarithmic else None
    before = max(axis.size(steepest.first), 0.0)
    return FoundWorsening("slope", steepest.start, before, axis.size(steepest.last), growth)


def is_hidden_by_noise(sizes: Sequence[float], least: float, settings: DriftSettings) -> NoiseFact | None:
    """Return the noise if it hides that noisy sizes are worse at their end; None if nothing is hidden."""
    if len(sizes) < 2 * settings.confirm or present_level(sizes, settings.confirm, exact=False) <= least * min(sizes):
        return None
    axis = size_axis(sizes)
    values = [axis.place(size) for size in sizes]
    if not is_too_noisy(values, max(settings.confirm, 2)):
        return None
    return NoiseFact(lag_correlation(values), late_growth(values))


def _ramp(values: Sequence[float], axis: SizeAxis) -> FoundWorsening | None:
    """Return a level with a rising line after it, if that fits better than any step; otherwise None."""
    if len(values) < MIN_LINE_VALUES:
        return None
    # A single outlier would bend the line, so the fits see the running median.
    calm = running_median(values)
    ramp, step = best_ramp(calm), best_step(calm)
    if ramp.slope <= 0 or ramp.misfit >= step.misfit or len(values) - ramp.at < MIN_LINE_VALUES:
        return None
    # Only on the logarithmic axis is the slope a constant growth per run.
    pace = expm1(min(ramp.slope, MAX_LOG)) if axis.is_logarithmic else None
    return FoundWorsening("slope", ramp.at + 1, max(axis.size(ramp.before), 0.0), axis.size(ramp.after), pace)
