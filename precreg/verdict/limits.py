"""Can an output be measured, and does it keep the limits of its tolerance?

Three kinds of findings need no statistic. An output that is missing, empty, misshapen or wrongly not finite fails,
whatever its tolerance. A bound limits a metric at each seed. A threshold limits the growth of a metric's mean over the
seeds against the baseline (0.1 is 10 %). Growth within the rounding of the output dtype does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log2
from statistics import fmean

from msgspec.structs import replace

from precreg.measure import mean_over_seeds, metric_named, metric_ratio
from precreg.types import (
    RULES,
    BaselineEntry,
    BaselineOutput,
    Bound,
    Comparison,
    Finding,
    Metric,
    MetricDescription,
    Outcome,
    Positions,
    Reason,
    Role,
    Tolerance,
    format_distinct,
)

# Thresholds apply only if all seeds together measured at least this many finite pairs. The mean of fewer, such as a
# loss or an accuracy, may jump with the rounding of one element.
MIN_ELEMENTS = 16

# Growth of a mean below this many ULP of the output dtype is rounding: CPUs differ by that much in libm alone.
ROUNDING_FLOOR_ULP = 0.05

# The same for maxima, which are extreme values: one element that rounds the other way moves them by a whole ULP.
ROUNDING_FLOOR_MAX_ULP = 1.0


def structural_findings(outcome: Outcome, role: Role, entry: BaselineEntry | None) -> Iterator[Finding]:
    """Yield the findings that make measurements meaningless, whatever the tolerance: nothing passes by absence."""
    for name in outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, f"the subject gave no output {name!r}, which the {role} has", name)
    if not outcome.comparisons and not outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, "nothing was compared: neither side gave an output")
    for comparison in outcome.comparisons:
        yield from unmeasurable_findings(comparison, role)
    if entry is not None:
        yield from _against_baseline(outcome, entry)


def unmeasurable_findings(comparison: Comparison, role: Role) -> Iterator[Finding]:
    """Yield the findings that make one pair meaningless: shape, dtype, NaN and infinities, no finite element."""
    name, seed, counts = comparison.output, comparison.seed, comparison.counts
    if comparison.shape != comparison.reference_shape:
        message = f"expected shape {_shape(comparison.reference_shape)} but got shape={_shape(comparison.shape)}"
        yield _hard(Reason.SHAPE_MISMATCH, message, name, seed=seed)
        return
    # A reference is computed in higher precision, so only a golden has the dtype of the output.
    if role == "golden" and comparison.dtype != comparison.reference_dtype:
        message = f"expected the golden's dtype {comparison.reference_dtype} but got dtype={comparison.dtype}"
        yield _hard(Reason.DTYPE_MISMATCH, message, name, seed=seed)
    mismatched = counts.get("nan_mismatched", 0) + counts.get("inf_mismatched", 0)
    if mismatched:
        message = f"{mismatched} of {counts['n']} elements differ in NaN or infinity{_first(comparison.non_finite)}"
        found = _hard(Reason.NON_FINITE_MISMATCH, message, name, seed=seed)
        yield replace(found, current=mismatched, limit=0)
    elif not counts.get("n", 0):
        yield _hard(Reason.EMPTY, f"shape {_shape(comparison.shape)} has no element", name, seed=seed)
    elif not counts.get("finite", 0):
        yield _hard(Reason.EMPTY, "not one pair of elements is finite, so nothing was measured", name, seed=seed)


def _against_baseline(outcome: Outcome, entry: BaselineEntry) -> Iterator[Finding]:
    current = {comparison.output: comparison for comparison in outcome.comparisons}
    for name, accepted in entry.outputs.items():
        if name not in current and name not in outcome.missing:
            yield _hard(Reason.MISSING_OUTPUT, f"the baseline has an output {name!r} that is gone", name)
        elif name in current and current[name].dtype != accepted.dtype:
            message = f"expected the baseline's dtype {accepted.dtype} but got dtype={current[name].dtype}"
            yield _hard(Reason.DTYPE_MISMATCH, message, name)
        elif name in current and current[name].shape != accepted.shape:
            message = f"expected the baseline's shape {_shape(accepted.shape)} but got {_shape(current[name].shape)}"
            yield _hard(Reason.SHAPE_MISMATCH, message, name)


def _hard(reason: Reason, message: str, output: str = "", *, seed: int | None = None) -> Finding:
    return Finding(reason, message, output, seed=seed, rule="hard")


def _first(positions: Positions | None) -> str:
    if positions is None or not positions.index:
        return ""
    return f", first at {positions.index[0]}: actual {positions.actual[0]}, reference {positions.reference[0]}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def broken_bounds(comparison: Comparison, tolerance: Tolerance) -> Iterator[Finding]:
    """Yield every bound that one output at one seed breaks; a bound on an undefined metric is broken.

    If each alternative of a tolerance has a broken bound, one finding names them all.
    """
    for bound in _broken(comparison, tolerance.bounds):
        message = f"{_fact(comparison, bound)} ({_origin(bound)}){_closeness([bound], tolerance)}"
        yield _broken_bound(comparison, bound, message)
    branches = [[*_broken(comparison, alternative)] for alternative in tolerance.alternatives]
    if branches and all(branches):
        yield _no_alternative(comparison, tolerance, branches)


def satisfies_bound(bound: Bound, value: float, described: Iterable[MetricDescription]) -> bool:
    """Return whether a value keeps a bound: at most the limit, or at least if higher is better; NaN never does.

    `described` are the analyzers' metrics of the comparison.
    """
    metric = metric_named(bound.metric, described)
    if metric.better == "higher":
        return value >= bound.limit
    # A bias is as bad as it is large, whatever its sign.
    return (abs(value) if metric.scale == "signed" else value) <= bound.limit


def _broken(comparison: Comparison, bounds: Sequence[Bound]) -> Iterator[Bound]:
    for bound in bounds:
        current = comparison.metrics.get(bound.metric)
        if current is None or not satisfies_bound(bound, current, comparison.described):
            yield bound


def _no_alternative(comparison: Comparison, tolerance: Tolerance, branches: list[list[Bound]]) -> Finding:
    """Return the finding that names the broken bounds of each alternative; the numbers are the first bound's."""
    facts = "; or ".join(", and ".join(_fact(comparison, bound) for bound in branch) for branch in branches)
    first = branches[0][0]
    closeness = _closeness([bound for branch in branches for bound in branch], tolerance)
    message = f"none of {len(branches)} alternatives holds: {facts} ({_origin(first)}){closeness}"
    return _broken_bound(comparison, first, message)


def _broken_bound(comparison: Comparison, bound: Bound, message: str) -> Finding:
    current = comparison.metrics.get(bound.metric)
    return Finding(
        Reason.OUT_OF_TOLERANCE,
        message,
        comparison.output,
        bound.metric,
        comparison.seed,
        current=current,
        limit=bound.limit,
        ratio=_severity(comparison, bound),
        source=bound.source,
        rule="bound",
    )


def _fact(comparison: Comparison, bound: Bound) -> str:
    current = comparison.metrics.get(bound.metric)
    metric = metric_named(bound.metric, comparison.described)
    unknown = "needs a benchmark" if metric.needs_benchmark else "is not defined on this data"
    got = unknown if current is None else f"is {current:.7g}"
    relation = "at least" if metric.better == "higher" else "at most"
    return f"{bound.metric} {got}, and must be {relation} {bound.limit:.7g}"


def _origin(bound: Bound) -> str:
    return f"{bound.layer}, {bound.source}"


def _closeness(bounds: Sequence[Bound], tolerance: Tolerance) -> str:
    if all(bound.metric != "match_ratio" for bound in bounds):
        return ""
    rtol, atol = tolerance.rtol, tolerance.atol
    return f" at rtol={rtol.limit:g} ({rtol.source}), atol={atol.limit:g} ({atol.source})"


def _severity(comparison: Comparison, bound: Bound) -> float | None:
    current = comparison.metrics.get(bound.metric)
    higher = metric_named(bound.metric, comparison.described).better == "higher"
    # A lost share of matches, or any error beyond a limit of 0, has no ratio to its limit.
    if current is None or higher or bound.limit <= 0:
        return None
    return current / bound.limit


def growth_findings(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, tolerance: Tolerance, role: Role
) -> Iterator[Finding]:
    """Yield every metric of one output that grew beyond its threshold.

    `comparisons` are the output's, one for each seed that both sides have.
    """
    if sum(comparison.counts.get("finite", 0) for comparison in comparisons) < MIN_ELEMENTS:
        return
    for name, threshold in tolerance.regression.items():
        metric = metric_named(name, comparisons[0].described)
        # A golden that was met exactly makes every maximum grow from 0, and a hard rule judges its match ratio more
        # strictly.
        if name in RULES or (role == "golden" and (metric.maximum or name == "match_ratio")):
            continue
        current, baseline = seed_means(comparisons, accepted, name)
        if current is None or baseline is None:
            continue
        growth = metric_growth(metric, current, baseline)
        if growth > _allowed_growth(metric, baseline, threshold) and growth > rounding_floor(comparisons, metric):
            yield _grown(comparisons[0].output, metric, current, baseline, threshold)


def metric_growth(metric: Metric, current: float, baseline: float) -> float:
    """Return by how much a metric regressed, in its own unit; negative if it improved.

    A bias is as bad as it is large, whatever its sign.
    """
    if metric.scale == "signed":
        return abs(current) - abs(baseline)
    return baseline - current if metric.better == "higher" else current - baseline


def _allowed_growth(metric: Metric, baseline: float, threshold: float) -> float:
    # On a logarithm a ratio is a difference.
    return log2(1 + threshold) if metric.scale == "log2" else threshold * abs(baseline)


def seed_means(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, metric: str
) -> tuple[float | None, float | None]:
    """Return the metric's mean over the seeds now and in the baseline; None if a seed leaves it undefined."""
    now = [comparison.metrics.get(metric) for comparison in comparisons]
    then = accepted.metrics.get(metric, [])[: len(comparisons)]
    return mean_over_seeds(now), mean_over_seeds(then)


def rounding_floor(comparisons: Sequence[Comparison], metric: Metric) -> float:
    """Return the growth of a metric, in its own unit, that rounding to the output dtype explains."""
    return ulps_in_metric_unit(comparisons, metric, ROUNDING_FLOOR_MAX_ULP if metric.maximum else ROUNDING_FLOOR_ULP)


def ulps_in_metric_unit(comparisons: Sequence[Comparison], metric: Metric, ulps: float) -> float:
    """Return so many ULP of the output dtype in the unit of a metric; 0 for a metric without a size, such as a share.

    docs/verdicts.md has the table of units.
    """
    scale = fmean(comparison.metrics.get("ulp_scale", 0.0) for comparison in comparisons)
    magnitude = fmean(comparison.metrics.get("mean_magnitude", 0.0) for comparison in comparisons)
    sizes = {"ULP": 1.0, "log2 ULP": 1.0, "value": scale, "value^2": scale**2}
    if metric.unit in sizes:
        return ulps * sizes[metric.unit]
    return ulps * scale / magnitude if metric.is_relative_ratio and magnitude else 0.0


def _grown(output: str, metric: Metric, current: float, baseline: float, threshold: float) -> Finding:
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
    """Return the ratio to the baseline that a threshold allows: the largest, or the smallest if higher is better."""
    return 1 - threshold if metric.better == "higher" else 1 + threshold
