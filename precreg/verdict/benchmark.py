"""Which of two results is nearer to their reference, and did one regress against the other?

The benchmark is the result of a second implementation, or of the code before a change. Its entry has the role of a
baseline of the same environment, so that the rule of baselines judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from msgspec.structs import replace

from precreg.measure import METRICS, mean_metrics, metric_ratio
from precreg.types import (
    AverageRatio,
    BaselineEntry,
    BenchmarkDifference,
    Comparison,
    ExactnessGained,
    ExactnessLost,
    Finding,
    MetricGrew,
    MetricImproved,
    Nearer,
    OtherDtype,
    RatioMoved,
    Reason,
    Role,
    SmallOutputGrew,
    Tolerance,
    Verdict,
)
from precreg.verdict.judge import Policy, judge_pair, verdict_of
from precreg.verdict.limits import broken_bounds, unmeasurable_findings
from precreg.verdict.regression import find_improvements, find_regressions, gather_evidence
from precreg.verdict.statistics import error_ratios

# The findings of the rule for regressions that name their judge.
_JUDGED = ExactnessLost | ExactnessGained | RatioMoved | MetricGrew | MetricImproved | SmallOutputGrew


def judge_pair_by_benchmark(
    comparison: Comparison, tolerance: Tolerance, role: Role, entry: BaselineEntry | None, *, problem: str, alpha: float
) -> Verdict:
    """Judge one pair of stored arrays by its tolerance and by the benchmark's entry, at the error level `alpha`.

    Without an entry the verdict is an error whose message is `problem`, unless a bound is broken.
    """
    if [*unmeasurable_findings(comparison, role)]:
        return judge_pair(comparison, tolerance, role)
    broken = [*broken_bounds(comparison, tolerance)]
    if entry is None:
        found = [*broken, Finding(Reason.BENCHMARK_ERROR, problem)]
    else:
        found = [*broken, *_changes(comparison, tolerance, role, entry, alpha, improved=not broken)]
    if not found:
        return judge_pair(comparison, tolerance, role)
    return verdict_of([_of_pair(finding) for finding in found], Policy(), comparison.described)


def _changes(
    comparison: Comparison, tolerance: Tolerance, role: Role, entry: BaselineEntry, alpha: float, *, improved: bool
) -> Iterator[Finding]:
    """Yield the losses against the benchmark, or the improvements if `improved` and without a loss."""
    other = entry.outputs[comparison.output].dtype
    # Errors in ULP of two dtypes have different units, and a narrower dtype is not a regression of the arithmetic.
    if other != comparison.dtype:
        yield Finding(Reason.DTYPE_MISMATCH, rule="hard", fact=OtherDtype(other, comparison.dtype, "benchmark"))
        return
    evidence = gather_evidence([comparison], entry, tolerance, role, same_environment=True, alpha=alpha)
    losses = [*find_regressions(evidence)]
    yield from losses
    if improved and not losses:
        yield from find_improvements(evidence)


def _of_pair(finding: Finding) -> Finding:
    """Return a finding on a single output, with the benchmark as its judge."""
    fact = finding.fact
    if isinstance(fact, _JUDGED):
        fact = replace(fact, judge="benchmark")
    return replace(finding, output="", seed=None, fact=fact)


def benchmark_difference(
    comparison: Comparison, benchmark: Comparison, entry: BaselineEntry, *, same_bits: bool
) -> BenchmarkDifference | None:
    """Compare the average errors of an output with the benchmark's; None if one side has no errors to compare.

    `entry` is made of the benchmark. A difference counts if the confidence interval of a ratio excludes 1.
    """
    errors = (comparison.metrics.get("mean_abs_error"), benchmark.metrics.get("mean_abs_error"))
    if None in errors:
        return None
    ratios = [] if same_bits else [*_average_ratios(comparison, benchmark, entry)]
    nearer: Nearer
    if same_bits or not any(errors):
        nearer = "same_bits" if same_bits else "none"
    elif not all(errors):
        nearer = "actual" if errors[0] == 0 else "benchmark"
    else:
        nearer = _nearer(ratios)
    return BenchmarkDifference(nearer, tuple(ratios))


def _average_ratios(comparison: Comparison, benchmark: Comparison, entry: BaselineEntry) -> Iterator[AverageRatio]:
    """Yield the ratio of each average error, the mean absolute error first."""
    accepted = entry.outputs[comparison.output]
    known = {
        ratio.metric: ratio
        for ratio in error_ratios([comparison], accepted, entry.groups.get(comparison.output, ()))
        # The ratio of a bias is its growth in units of the mean error, and that of rms_ulp is of a typical group:
        # neither is the ratio of the two figures that stand beside it.
        if ratio.metric in mean_metrics()
    }
    for name in dict.fromkeys(("mean_abs_error", *known)):
        current, other = comparison.metrics[name], benchmark.metrics[name]
        # Errors in ULP of two dtypes have different units.
        if comparison.dtype != benchmark.dtype and METRICS[name].family != "absolute":
            continue
        if (found := known.get(name)) is None:
            yield AverageRatio(name, current, other, metric_ratio(METRICS[name], current, other))
        else:
            yield AverageRatio(name, current, other, *map(_finite, (found.ratio, found.lower, found.upper)))


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None


def _nearer(ratios: list[AverageRatio]) -> Nearer:
    """Return the side that the intervals show to be nearer: one of both, neither, or each by another average."""
    known = [ratio for ratio in ratios if ratio.lower is not None]
    if not known:
        return "unknown"
    better = any(ratio.upper is not None and ratio.upper < 1 for ratio in known)
    worse = any(ratio.lower is not None and ratio.lower > 1 for ratio in known)
    if better and worse:
        return "mixed"
    return "actual" if better else "benchmark" if worse else "none"
