"""The plain rule: a metric's mean over the seeds grew beyond a threshold that someone set, and beyond rounding.

A metric has grown when its mean over the seeds exceeds the baseline's by more than its threshold (0.1 is 10 %) and by
more than the rounding floor of the output dtype. A guard on a maximum is such a rule with a wide threshold; any average
can have one in the tolerance pyramid. Where fewer than MIN_ELEMENTS elements were measured, bounds alone decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from statistics import fmean

from precreg.measure import mean_over_seeds, metric_named, metric_ratio
from precreg.types import RULES, BaselineOutput, Comparison, Finding, Metric, Reason, Role, Tolerance, format_distinct

MIN_ELEMENTS = 16
"""Elements over all seeds below which growth of a mean is not judged (scalars such as a loss or an accuracy)."""


ROUNDING_FLOOR_ULP = 0.05
"""Growth of a mean below this many ULP of the output dtype is rounding: CPUs differ by that much in libm alone."""


ROUNDING_FLOOR_MAX_ULP = 1.0
"""The same for maxima, which are extreme values."""


def growth_findings(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, tolerance: Tolerance, role: Role
) -> Iterator[Finding]:
    """Yield every metric of one output that grew beyond its threshold; comparisons are of that output, by seed.

    There are as many comparisons as both sides have seeds. Of a golden that was met exactly every maximum grows from
    0, and its match ratio is judged more strictly elsewhere.
    """
    if not has_enough_elements(comparisons):
        return
    for name, threshold in tolerance.regression.items():
        metric = metric_named(name, comparisons[0].described)
        if name in RULES or (role == "golden" and (metric.maximum or name == "match_ratio")):
            continue
        current, baseline = seed_means(comparisons, accepted, name)
        if current is None or baseline is None:
            continue
        growth = metric_growth(metric, current, baseline)
        if growth > _allowed(metric, baseline, threshold) and growth > rounding_floor(comparisons, metric):
            yield _regressed(comparisons[0].output, metric, current, baseline, threshold)


def metric_growth(metric: Metric, current: float, baseline: float) -> float:
    """Return by how much a metric became worse, in its own unit; negative where it became better.

    A bias is as bad as it is large, whatever its sign.
    """
    if metric.scale == "signed":
        return abs(current) - abs(baseline)
    return baseline - current if metric.better == "higher" else current - baseline


def _allowed(metric: Metric, baseline: float, threshold: float) -> float:
    """Return the growth that a threshold allows; on a logarithm a ratio is a difference."""
    return log2(1 + threshold) if metric.scale == "log2" else threshold * abs(baseline)


def seed_means(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, metric: str
) -> tuple[float | None, float | None]:
    """Return the metric's mean over the seeds now and in the baseline; None where a seed leaves it undefined."""
    now = [comparison.metrics.get(metric) for comparison in comparisons]
    then = accepted.metrics.get(metric, [])[: len(comparisons)]
    return mean_over_seeds(now), mean_over_seeds(then)


def rounding_floor(comparisons: Sequence[Comparison], metric: Metric) -> float:
    """Return the growth of a metric, in its own unit, that rounding to the output dtype explains."""
    return ulps_in_metric_unit(comparisons, metric, ROUNDING_FLOOR_MAX_ULP if metric.maximum else ROUNDING_FLOOR_ULP)


def ulps_in_metric_unit(comparisons: Sequence[Comparison], metric: Metric, ulps: float) -> float:
    """Return so many ULP of the output dtype in the unit of a metric; 0 for what has no size, as a share."""
    scale = fmean(comparison.metrics.get("ulp_scale", 0.0) for comparison in comparisons)
    magnitude = fmean(comparison.metrics.get("mean_magnitude", 0.0) for comparison in comparisons)
    sizes = {"ULP": 1.0, "log2 ULP": 1.0, "value": scale, "value^2": scale**2}
    if metric.unit in sizes:
        return ulps * sizes[metric.unit]
    return ulps * scale / magnitude if metric.is_relative_ratio and magnitude else 0.0


def has_enough_elements(comparisons: Sequence[Comparison]) -> bool:
    """Tell whether the seeds together measured enough elements for a mean to mean something."""
    return sum(comparison.counts.get("finite", 0) for comparison in comparisons) >= MIN_ELEMENTS


def _regressed(output: str, metric: Metric, current: float, baseline: float, threshold: float) -> Finding:
    factor = metric_ratio(metric, current, baseline)
    if factor is None:
        message = f"{metric.name} was {baseline:.4g} and is {current:.4g}"
    else:
        times, allowed, _ = format_distinct([factor, allowed_ratio(metric, threshold), 1.0], 3)
        figures = " against ".join(format_distinct([current, baseline]))
        message = f"{metric.name} is {times} times the baseline's ({figures}, allowed {allowed} times)"
    return Finding(
        Reason.REGRESSED,
        message,
        output,
        metric.name,
        current=current,
        baseline=baseline,
        ratio=factor,
        limit=allowed_ratio(metric, threshold),
        rule="guard",
    )


def allowed_ratio(metric: Metric, threshold: float) -> float:
    """Return the ratio to the baseline that a threshold allows: the largest, or the smallest where more is better."""
    return 1 - threshold if metric.better == "higher" else 1 + threshold
