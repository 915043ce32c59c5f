"""Which metrics can drift, how large are their values, and did the latest sizes of a series become worse?

The size of a value is 0 at best, and larger for a worse value. A deterministic series is judged by exact comparison,
any other series by statistics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from math import copysign, exp, exp2, expm1, inf, log, log2
from statistics import median
from typing import NamedTuple

from precreg.history.drift.record import DriftKind, DriftSettings
from precreg.measure import METRICS, metric_named
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

# Means over all elements vary little from run to run, so small drifts are visible in them.
DRIFT_MEANS = ("mean_abs_error", "rms_error", "mean_ulp", "mean_log2_ulp", "match_ratio", "equal_share")
# One element decides a maximum, and a bias near 0 is the difference of large sums. Both need a larger ratio.
DRIFT_MAXIMA = ("max_abs_error", "max_ulp", "bias")
DRIFT_METRICS = DRIFT_MEANS + DRIFT_MAXIMA
# The shipped threshold of max_abs_error is the same ratio. Harmless changes of the order of summation grow maxima up to
# 2.5 times.
MIN_RELEVANT_MAXIMUM_RATIO = 4.0
# 2^value is a normal float64 for -1000 <= value <= 1000, with a margin to 2^-1022 and 2^1024.
MAX_LOG2 = 1000.0
# exp() overflows beyond this place on the logarithmic axis.
MAX_LOG = log(sys.float_info.max)
# benchmarks/drift_study.py measures the power and the false alarms of the next three constants together.
# The level of a noisy series is the median of this many runs, or of more if `confirm` needs more than half of them.
MEDIAN_RUNS = 5
# A repeating series with more changes of level than this shows the usual size of its changes. Then a further change
# must also exceed these.
MIN_LEVEL_CHANGES = 8
# With fewer values, a straight line and a step fit about equally well.
MIN_LINE_VALUES = 5


def is_drift_metric(metric: str) -> bool:
    """Return True if drift is judged in a metric.

    An analyzer's metric counts if its best value is known: 0 for "lower", and 1 for a share.
    """
    if metric in METRICS:
        return metric in DRIFT_METRICS
    return metric_named(metric).better == "lower" or metric_named(metric).unit == "1"


def metric_order(metric: str) -> tuple[int, str]:
    """Return the sort key of a metric among several metrics with the same finding. Analyzers' metrics come last."""
    return (DRIFT_METRICS.index(metric) if metric in DRIFT_METRICS else len(DRIFT_METRICS)), metric


def metric_size(metric: str, value: float) -> float:
    """Return the size of a value: 1 - value if higher is better, 2^value for log2 ULP, otherwise |value|."""
    if metric_named(metric).better == "higher":
        return max(1 - value, 0.0)
    if metric_named(metric).unit == "log2 ULP":
        return exp2(min(max(value, -MAX_LOG2), MAX_LOG2))
    return abs(value)


def size_ratio(now: float, before: float) -> float:
    """Return now / before; 1 from 0 to 0, infinity from 0 to a larger size."""
    if before == 0:
        return 1.0 if now == 0 else inf
    return now / before


def drift_min_ratio(metric: str, materiality: float) -> float:
    """Return the minimum relevant ratio of a metric's sizes."""
    # An analyzer's metric may be a maximum, so it needs the larger ratio.
    return materiality if metric in DRIFT_MEANS else max(materiality, MIN_RELEVANT_MAXIMUM_RATIO)


def value_of_size(metric: str, of_size: float) -> float:
    """Return the value of a size: the inverse of `metric_size`, without the sign of a bias."""
    if metric_named(metric).better == "higher":
        return 1 - of_size
    return log2(max(of_size, exp2(-MAX_LOG2))) if metric_named(metric).unit == "log2 ULP" else of_size


class SizeAxis(NamedTuple):
    """Map sizes to places on an axis for statistics, and back.

    Noise has the same spread everywhere on a logarithmic axis. The other axis has shares of the largest size.
    """

    place: Callable[[float], float]
    size: Callable[[float], float]
    is_logarithmic: bool


def size_axis(sizes: Sequence[float]) -> SizeAxis:
    """Return the logarithmic axis if all sizes are above 0, otherwise the axis of shares."""
    if min(sizes) > 0:
        return SizeAxis(log, _exp, True)
    largest = max(sizes) or 1.0  # statistics square the places: shares of at most 1 cannot overflow
    return SizeAxis(lambda size: size / largest, lambda place: place * largest, False)


def _exp(place: float) -> float:
    """Return e^place, at most the largest float, because a fitted line may end beyond it."""
    return exp(min(place, MAX_LOG))


class FoundWorsening(NamedTuple):
    """Hold a worsening among sizes.

    `at` is the position of the first worse size. `before` and `now` are levels as sizes. `a_run` is the growth per run.
    """

    kind: DriftKind
    at: int
    before: float
    now: float
    a_run: float | None = None


def worse_than_before(
    sizes: Sequence[float], min_ratio: float, settings: DriftSettings, *, exact: bool
) -> FoundWorsening | None:
    """Return a step or a ramp to a lasting level more than `min_ratio` times the level before; None without one.

    `exact` selects the rules for a deterministic series.
    """
    # These checks are cheap and end the judgement of most series; the fits below take far longer.
    latest = sizes[-settings.confirm :] if exact else [present_level(sizes, settings.confirm, exact=False)]
    if len(sizes) < 2 * settings.confirm or min(latest) <= min_ratio * min(sizes):
        return None
    axis = size_axis(sizes)
    values = [axis.place(size) for size in sizes]
    if not (_is_unusual(values) if exact else _is_significant(values, settings.confirm)):
        return None
    better = axis.place(min(latest) / min_ratio) if min(latest) else -inf
    # A ramp is the better description wherever it fits better than a step, so it comes first.
    shapes = (_find_ramp(values, axis), _find_step(values, axis, better, settings.confirm))
    relevant_shapes = (found for found in shapes if found is not None and axis.place(found.before) < better)
    return next((found._replace(now=latest[-1]) for found in relevant_shapes), None)


def present_level(sizes: Sequence[float], confirm: int, *, exact: bool) -> float:
    """Return the present level: the last size, or the median of the latest sizes of a noisy series."""
    return sizes[-1] if exact else median(sizes[-latest_runs(confirm) :])


def latest_runs(confirm: int) -> int:
    """Return the number of latest runs in the median of a noisy series."""
    # The median of 2 n - 1 values exceeds a limit only if n of the values do.
    return max(MEDIAN_RUNS, 2 * confirm - 1)


def noise_beyond(sizes: Sequence[float], now: float, single: float) -> float:
    """Return the distance of the present level from a single size, as a multiple of the limit of noise.

    Above 1 the level is larger beyond the noise, below -1 smaller. Without noise the result is infinite, or 0 for equal
    sizes.
    """
    axis = size_axis([*sizes, single])
    values = [axis.place(size) for size in sizes]
    away = axis.place(now) - axis.place(single)
    explained = OFFSET_SIGMAS * small_sample_factor(len(values)) * noise_sigma(values)
    # The correction for correlated runs only raises the limit, so it is computed only if the result could change.
    if explained and abs(away) > explained:
        explained *= correlation_factor(values)
    return away / explained if explained else copysign(inf, away) if away else 0.0


def _is_unusual(levels: Sequence[float]) -> bool:
    """Return True if a repeating series exceeds its usual changes of level. With few changes, any change counts."""
    levels = [value for value, _ in groupby(levels)]
    return len(levels) <= MIN_LEVEL_CHANGES or has_shift(levels) or has_trend(levels) or has_jump(levels, 1)


def _is_significant(values: Sequence[float], confirm: int) -> bool:
    return has_shift(values) or has_trend(values) or has_jump(values, max(confirm, 2))


def _find_step(values: Sequence[float], axis: SizeAxis, better: float, confirm: int) -> FoundWorsening | None:
    """Return the best upward step from a level below `better`, with at least `confirm` values on each side."""
    upward = [step for step in step_fits(values, confirm) if step.before < min(step.after, better)]
    if not upward:
        return None
    step = min(upward, key=lambda step: step.misfit)
    return FoundWorsening("step", step.at, axis.size(step.before), axis.size(step.after))


def _find_ramp(values: Sequence[float], axis: SizeAxis) -> FoundWorsening | None:
    """Return a level followed by a rising line, if they fit better than any step."""
    if len(values) < MIN_LINE_VALUES:
        return None
    # A running median keeps single outliers from bending the line.
    calm = running_median(values)
    ramp, step = best_ramp(calm), best_step(calm)
    if ramp.slope <= 0 or ramp.misfit >= step.misfit or len(values) - ramp.at < MIN_LINE_VALUES:
        return None
    pace = expm1(min(ramp.slope, MAX_LOG)) if axis.is_logarithmic else None
    return FoundWorsening("creep", ramp.at + 1, max(axis.size(ramp.before), 0.0), axis.size(ramp.after), pace)
