"""Which metrics a drift is looked for in, and the size of each: a number that is 0 at best and larger when worse.

Is a row of sizes worse at its end than it was before? Exactly where it repeats itself, else by statistics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from math import copysign, exp, exp2, expm1, inf, log, log2
from statistics import median
from typing import NamedTuple

from precreg.history.drift.record import DriftKind, DriftSettings
from precreg.measure import METRICS
from precreg.types import Metric
from precreg.verdict.statistics import (
    OFFSET_SIGMAS,
    best_ramp,
    best_step,
    correlation_factor,
    has_jump,
    has_shift,
    has_trend,
    noise_sigma,
    running_median,
    small_sample_factor,
    step_fits,
)

MIN_RELEVANT_MAXIMUM_RATIO = 4.0
"""As the shipped threshold of max_abs_error: harmless changes of the order of summation move maxima by up to 2.5."""


MAX_LOG2 = 1000.0
"""Beyond it, or below its negative, 2^value is no float."""


MAX_LOG = log(sys.float_info.max)
"""Of a place on the logarithmic axis."""


def drift_means() -> tuple[str, ...]:
    """Return the means over all elements in which the monitor finds drift."""
    return tuple(m.name for m in METRICS.values() if m.judged and m.aggregate == "mean")


def drift_maxima() -> tuple[str, ...]:
    """Return the metrics that drift only by a wide factor.

    One element decides a maximum, and a bias near 0 is a difference of large sums.
    """
    others = [metric for metric in METRICS.values() if metric.judged and metric.aggregate != "mean"]
    return tuple(metric.name for metric in sorted(others, key=lambda metric: not metric.maximum))


def metric_order(metric: str) -> tuple[int, str]:
    """Return the rank of a metric among several with the same finding: means, maxima, then those of analyzers."""
    names = (*drift_means(), *drift_maxima())
    return (names.index(metric) if metric in names else len(names)), metric


def metric_size(metric: Metric, value: float) -> float:
    """Return the size of an error: 1 - value where more is better, |value| of a bias, 2^value of a logarithm."""
    if metric.better == "higher":
        return max(1 - value, 0.0)
    if metric.scale == "log2":
        return exp2(min(max(value, -MAX_LOG2), MAX_LOG2))
    return abs(value)


def size_ratio(now: float, before: float) -> float:
    """Return how many times larger a size is: 1 from 0 to 0, infinity from 0 to anything else."""
    if before == 0:
        return 1.0 if now == 0 else inf
    return now / before


def drift_min_ratio(metric: Metric, materiality: float) -> float:
    """Return the smallest relevant ratio of a change; an analyzer's metric may be a maximum."""
    return materiality if metric.aggregate == "mean" else max(materiality, MIN_RELEVANT_MAXIMUM_RATIO)


def value_of_size(metric: Metric, of_size: float) -> float:
    """Return the value that has a size: the inverse of `size`, without the sign of a bias."""
    if metric.better == "higher":
        return 1 - of_size
    return log2(max(of_size, exp2(-MAX_LOG2))) if metric.scale == "log2" else of_size


class SizeAxis(NamedTuple):
    """Where sizes stand for statistics: on a logarithmic axis, on which noise is even, or as shares of the largest."""

    place: Callable[[float], float]
    size: Callable[[float], float]
    is_logarithmic: bool


def size_axis(sizes: Sequence[float]) -> SizeAxis:
    """Return the logarithmic axis where all sizes are above 0, else one on which no square overflows."""
    if min(sizes) > 0:
        return SizeAxis(log, _exp, True)
    largest = max(sizes) or 1.0
    return SizeAxis(lambda size: size / largest, lambda place: place * largest, False)


def _exp(place: float) -> float:
    """Return e^place, at most the largest float: a line that was fitted may end beyond it."""
    return exp(min(place, MAX_LOG))


MEDIAN_RUNS = 5
"""Noisy runs of which the median is the present level; more where a change must last for more than half of them."""


MIN_LEVEL_CHANGES = 8
"""Changes of level from which a repeating series tells how far its changes usually go, and is judged by that too."""


MIN_LINE_VALUES = 5
"""Values that a straight line needs to be told from a step."""


class FoundWorsening(NamedTuple):
    """A worsening among sizes: its kind, the place of the first worse one, the levels, and the growth per run."""

    kind: DriftKind
    at: int
    before: float
    now: float
    a_run: float | None = None


def worse_than_before(
    sizes: Sequence[float], least: float, settings: DriftSettings, *, exact: bool
) -> FoundWorsening | None:
    """Find a step or a creep to a level that lasts and is more than `least` times the one before."""
    latest = sizes[-settings.confirm :] if exact else [present_level(sizes, settings.confirm, exact=False)]
    if len(sizes) < 2 * settings.confirm or min(latest) <= least * min(sizes):
        return None
    axis = size_axis(sizes)
    values = [axis.place(size) for size in sizes]
    if not (_unusual(values) if exact else _significant(values, settings.confirm)):
        return None
    better = axis.place(min(latest) / least) if min(latest) else -inf
    shapes = (_creep(values, axis), _step(values, axis, better, settings.confirm))
    material = (found for found in shapes if found is not None and axis.place(found.before) < better)
    return next((found._replace(now=latest[-1]) for found in material), None)


def present_level(sizes: Sequence[float], confirm: int, *, exact: bool) -> float:
    """Return the present size: the last one, or of a noisy row the median of the last few."""
    return sizes[-1] if exact else median(sizes[-latest_runs(confirm) :])


def latest_runs(confirm: int) -> int:
    """Return of how many noisy runs the median is exceeded only if `confirm` of them exceed it."""
    return max(MEDIAN_RUNS, 2 * confirm - 1)


def noise_beyond(sizes: Sequence[float], now: float, single: float) -> float:
    """Return how far the present level of a noisy row is from a single value, in units of what noise explains.

    Above 1 it is larger by more than the noise, below -1 smaller. Infinite where there is no noise.
    """
    axis = size_axis([*sizes, single])
    values = [axis.place(size) for size in sizes]
    away = axis.place(now) - axis.place(single)
    explained = OFFSET_SIGMAS * small_sample_factor(len(values)) * noise_sigma(values)
    if explained and abs(away) > explained:
        explained *= correlation_factor(values)
    return away / explained if explained else copysign(inf, away) if away else 0.0


def _unusual(levels: Sequence[float]) -> bool:
    """Tell whether a repeating series is worse than its usual changes: with few changes, any change counts."""
    levels = [value for value, _ in groupby(levels)]
    return len(levels) <= MIN_LEVEL_CHANGES or has_shift(levels) or has_trend(levels) or has_jump(levels, 1)


def _significant(values: Sequence[float], confirm: int) -> bool:
    return has_shift(values) or has_trend(values) or has_jump(values, max(confirm, 2))


def _step(values: Sequence[float], axis: SizeAxis, better: float, confirm: int) -> FoundWorsening | None:
    """Return the best of the steps upward from below a value, both sides of which are confirmed."""
    upward = [step for step in step_fits(values, confirm) if step.before < min(step.after, better)]
    if not upward:
        return None
    step = min(upward, key=lambda step: step.misfit)
    return FoundWorsening("step", step.at, axis.size(step.before), axis.size(step.after))


def _creep(values: Sequence[float], axis: SizeAxis) -> FoundWorsening | None:
    """Return a level and a line upward, where it fits better than any step."""
    if len(values) < MIN_LINE_VALUES:
        return None
    calm = running_median(values)
    ramp, step = best_ramp(calm), best_step(calm)
    if ramp.slope <= 0 or ramp.misfit >= step.misfit or len(values) - ramp.at < MIN_LINE_VALUES:
        return None
    pace = expm1(min(ramp.slope, MAX_LOG)) if axis.is_logarithmic else None
    return FoundWorsening("creep", ramp.at + 1, max(axis.size(ramp.before), 0.0), axis.size(ramp.after), pace)
