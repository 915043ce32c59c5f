"""Did it get worse? The first rule for regressions: growth of seed means beyond a threshold and beyond rounding.

A metric has regressed when its mean over the seeds exceeds the baseline's by more than its threshold (0.1 is 10 %)
and by more than the rounding floor of the output dtype. A case that is held against a golden regresses with any loss
of match ratio. Where fewer than MIN_ELEMENTS elements were measured a mean says nothing, and bounds alone decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from precreg.types import BaselineOutput, Comparison, Finding, Reason, Role, Tolerance

MIN_ELEMENTS = 16
"""Elements over all seeds below which growth of a mean is not judged (scalars such as a loss or an accuracy)."""

FLOOR_ULP = 0.05
"""Growth of a mean below this many ULP of the output dtype is rounding: CPUs differ by that much in libm alone."""

FLOOR_MAX_ULP = 1.0
"""The same for maxima, which are extreme values."""

_ULP_METRICS = frozenset({"mean_ulp", "max_ulp", "mean_log2_ulp"})
_RELATIVE_METRICS = frozenset(
    {"mean_rel_error", "max_rel_error", "mere", "mare"} | {f"p{share}_rel_error" for share in (50, 90, 95, 99)}
)


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
        return
    if not enough(pairs):
        return
    for metric, threshold in tolerance.regression.items():
        current, baseline = means(pairs, accepted, metric)
        if current is None or baseline is None:
            continue
        growth = current - baseline
        if growth > threshold * baseline and growth > floor(pairs, metric):
            yield _regressed(pairs[0].output, metric, current, baseline, threshold)


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
        return Finding(Reason.IMPROVED, message, pairs[0].output, metric, None, current, baseline, current / baseline)
    return None


def means(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, metric: str
) -> tuple[float | None, float | None]:
    """Return the metric's mean over the seeds now and in the baseline; None where a seed leaves it undefined."""
    now = [comparison.metrics.get(metric) for comparison in comparisons]
    then = accepted.metrics.get(metric, [])[: len(comparisons)]
    return _mean(now), _mean(then)


def floor(comparisons: Sequence[Comparison], metric: str) -> float:
    """Return the growth of a metric, in its own unit, that rounding to the output dtype explains."""
    share = FLOOR_MAX_ULP if metric.startswith("max") or metric == "mare" else FLOOR_ULP
    if metric in _ULP_METRICS:
        return share
    scale = fmean(comparison.metrics.get("ulp_scale", 0.0) for comparison in comparisons)
    if metric in _RELATIVE_METRICS:
        magnitude = fmean(comparison.metrics.get("mean_magnitude", 0.0) for comparison in comparisons)
        return share * scale / magnitude if magnitude else 0.0
    return share * scale * (scale if metric == "mse" else 1.0)


def enough(comparisons: Sequence[Comparison]) -> bool:
    """Tell whether the seeds together measured enough elements for a mean to mean something."""
    return sum(comparison.counts.get("finite", 0) for comparison in comparisons) >= MIN_ELEMENTS


def _match_ratio_lost(pairs: Sequence[Comparison], accepted: BaselineOutput) -> Iterator[Finding]:
    current, baseline = means(pairs, accepted, "match_ratio")
    if current is None or baseline is None or current >= baseline:
        return
    message = f"match_ratio against the golden fell from {baseline:.7g} to {current:.7g}; any loss counts"
    ratio = (1 - current) / (1 - baseline) if baseline < 1 else None
    yield Finding(
        Reason.REGRESSED, message, pairs[0].output, "match_ratio", None, current, baseline, ratio, limit=baseline
    )


def _regressed(output: str, metric: str, current: float, baseline: float, threshold: float) -> Finding:
    if baseline == 0:
        message = f"{metric} was 0 and is {current:.4g}"
        return Finding(Reason.REGRESSED, message, output, metric, None, current, baseline, None, 1 + threshold)
    ratio = current / baseline
    message = (
        f"{metric} is {ratio:.3g} times the baseline's "
        f"({current:.4g} against {baseline:.4g}, allowed {1 + threshold:.3g} times)"
    )
    return Finding(Reason.REGRESSED, message, output, metric, None, current, baseline, ratio, 1 + threshold)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if values and len(known) == len(values) else None
