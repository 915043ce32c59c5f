"""Did it get worse? The first rule for regressions: growth of seed means beyond a threshold and beyond rounding.

A metric has regressed when its mean over the seeds exceeds the baseline's by more than its threshold (0.1 is 10 %)
and by more than the rounding floor of the output dtype. A case that is held against a golden regresses with any loss
of match ratio, too, and by growth of means but not of maxima. Where fewer than MIN_ELEMENTS elements were measured a
mean says nothing, and bounds alone decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from statistics import fmean

from precreg.measure.metrics import described, mean_over_seeds, ratio
from precreg.records import BaselineOutput
from precreg.types import Comparison, Finding, Reason, Role, Tolerance

MIN_ELEMENTS = 16
"""Elements over all seeds below which growth of a mean is not judged (scalars such as a loss or an accuracy)."""

FLOOR_ULP = 0.05
"""Growth of a mean below this many ULP of the output dtype is rounding: CPUs differ by that much in libm alone."""

FLOOR_MAX_ULP = 1.0
"""The same for maxima, which are extreme values."""

_MAXIMA = frozenset({"max_abs_error", "max_rel_error", "mare", "max_ulp"})

_NOT_OF_GOLDENS = _MAXIMA | {"match_ratio"}
"""A golden that was met exactly makes every maximum grow from 0; its match ratio is judged more strictly."""


def growth_findings(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, tolerance: Tolerance, role: Role
) -> Iterator[Finding]:
    """Yield every metric of one output that became worse; comparisons are of that output, in order of seeds.

    Only as many seeds are judged as both sides have.
    """
    seeds = min(len(comparisons), len(accepted.digests))
    pairs = comparisons[:seeds]
    if role == "golden":
        yield from _match_ratio_lost(pairs, accepted)
    if not enough(pairs):
        return
    for metric, threshold in tolerance.regression.items():
        if role == "golden" and metric in _NOT_OF_GOLDENS:
            continue
        current, baseline = means(pairs, accepted, metric)
        if current is None or baseline is None:
            continue
        growth = worsening(metric, current, baseline)
        if growth > _allowed(metric, baseline, threshold) and growth > floor(pairs, metric):
            yield _regressed(pairs[0].output, metric, current, baseline, threshold)


def worsening(metric: str, current: float, baseline: float) -> float:
    """Return by how much a metric became worse, in its own unit; negative where it became better.

    A bias is as bad as it is large, whatever its sign.
    """
    if metric == "bias":
        return abs(current) - abs(baseline)
    return baseline - current if described(metric).better == "higher" else current - baseline


def _allowed(metric: str, baseline: float, threshold: float) -> float:
    """Return the growth that a threshold allows; on a logarithm a ratio is a difference."""
    return log2(1 + threshold) if described(metric).unit == "log2 ULP" else threshold * abs(baseline)


def improved(comparisons: Sequence[Comparison], accepted: BaselineOutput, tolerance: Tolerance) -> Finding | None:
    """Return the finding that the mean absolute error fell by more than its threshold and the rounding floor."""
    pairs = comparisons[: len(accepted.digests)]
    metric = "mean_abs_error"
    current, baseline = means(pairs, accepted, metric)
    threshold = tolerance.regression.get(metric)
    if current is None or baseline is None or threshold is None or not enough(pairs):
        return None
    if baseline > current * (1 + threshold) and baseline - current > floor(pairs, metric):
        message = f"mean_abs_error fell from {baseline:.4g} to {current:.4g}"
        factor = ratio(metric, current, baseline)
        return Finding(Reason.IMPROVED, message, pairs[0].output, metric, None, current, baseline, factor)
    return None


def means(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, metric: str
) -> tuple[float | None, float | None]:
    """Return the metric's mean over the seeds now and in the baseline; None where a seed leaves it undefined."""
    now = [comparison.metrics.get(metric) for comparison in comparisons]
    then = accepted.metrics.get(metric, [])[: len(comparisons)]
    return mean_over_seeds(now), mean_over_seeds(then)


def floor(comparisons: Sequence[Comparison], metric: str) -> float:
    """Return the growth of a metric, in its own unit, that rounding to the output dtype explains."""
    ulps = FLOOR_MAX_ULP if metric in _MAXIMA else FLOOR_ULP
    scale = fmean(comparison.metrics.get("ulp_scale", 0.0) for comparison in comparisons)
    magnitude = fmean(comparison.metrics.get("mean_magnitude", 0.0) for comparison in comparisons)
    unit = described(metric).unit
    sizes = {"ULP": 1.0, "log2 ULP": 1.0, "value": scale, "value^2": scale**2}
    if unit in sizes:
        return ulps * sizes[unit]
    of_a_ratio = "rel_error" in metric or metric in ("mere", "mare")
    return ulps * scale / magnitude if of_a_ratio and magnitude else 0.0


def enough(comparisons: Sequence[Comparison]) -> bool:
    """Tell whether the seeds together measured enough elements for a mean to mean something."""
    return sum(comparison.counts.get("finite", 0) for comparison in comparisons) >= MIN_ELEMENTS


def _match_ratio_lost(pairs: Sequence[Comparison], accepted: BaselineOutput) -> Iterator[Finding]:
    current, baseline = means(pairs, accepted, "match_ratio")
    if current is not None and baseline is not None and current < baseline:
        message = f"match_ratio against the golden fell from {baseline:.7g} to {current:.7g}; any loss counts"
        yield _finding(pairs[0].output, "match_ratio", message, current, baseline, 0.0)


def _regressed(output: str, metric: str, current: float, baseline: float, threshold: float) -> Finding:
    factor = ratio(metric, current, baseline)
    if factor is None:
        message = f"{metric} was {baseline:.4g} and is {current:.4g}"
    else:
        allowed = allowed_ratio(metric, threshold)
        message = (
            f"{metric} is {factor:.3g} times the baseline's "
            f"({current:.4g} against {baseline:.4g}, allowed {allowed:.3g} times)"
        )
    return _finding(output, metric, message, current, baseline, threshold)


def _finding(output: str, metric: str, message: str, current: float, baseline: float, threshold: float) -> Finding:
    return Finding(
        Reason.REGRESSED,
        message,
        output,
        metric,
        current=current,
        baseline=baseline,
        ratio=ratio(metric, current, baseline),
        limit=allowed_ratio(metric, threshold),
    )


def allowed_ratio(metric: str, threshold: float) -> float:
    """Return the ratio to the baseline that a threshold allows: the largest, or the smallest where more is better."""
    return 1 - threshold if described(metric).better == "higher" else 1 + threshold
