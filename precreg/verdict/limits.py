"""Can an output be measured, and does it keep the limits of its tolerance?

Three kinds of findings need no statistic. An output that is missing, empty, misshapen or wrongly not finite fails,
whatever its tolerance. A bound limits a metric at each seed. A threshold limits the growth of a metric's mean over the
seeds against the baseline (0.1 is 10 %). Growth within the rounding of the output dtype does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log2, prod
from statistics import fmean

from msgspec.structs import replace

from precreg.measure import METRICS, mean_over_seeds, metric_named, metric_ratio, ratio_denominator
from precreg.types import (
    GAIN,
    GROWTH_DOWN,
    GROWTH_UP,
    RULES,
    AbsentOutput,
    BaselineEntry,
    BaselineOutput,
    Bound,
    BrokenBound,
    BrokenLimit,
    Comparison,
    Finding,
    FindingFact,
    FirstElement,
    MaximaGrew,
    Metric,
    MetricDescription,
    MetricGrew,
    MetricImproved,
    NoAlternative,
    NoElement,
    NoFinitePair,
    NonFiniteElements,
    NothingCompared,
    OtherDtype,
    OtherShape,
    Outcome,
    Positions,
    Reason,
    Role,
    SmallOutputGrew,
    Tolerance,
    UncheckedBounds,
    growth_key,
    split_growth_key,
)
from precreg.verdict.recorded_figures import is_row_gone, unusable_figures
from precreg.verdict.statistics import SEED_MAXIMA

# Thresholds apply only if all seeds together measured at least this many finite pairs. The mean of fewer, such as a
# loss or an accuracy, may jump with the rounding of one element.
MIN_ELEMENTS = 16

# Outputs of fewer elements, such as a loss or a norm, have no groups, and a few seeds are no sample. They fail if the
# mean error in ULP, or in the output's unit, grew to so many times the baseline's, by the number of seeds; the last one
# is for more seeds. If the errors of both sides are independent and normal, noise alone grows so with a probability of
# 0.2 % (ratio of two sums of half-normal values; docs/regression-rule.md, "Small outputs").
SMALL_OUTPUT_METRICS = ("mean_abs_error", "mean_ulp")
SMALL_OUTPUT_RATIOS = (320.0, 24.0, 10.0, 6.5, 5.0)

# An error of half an ULP is what correct rounding leaves, and a smaller one of a few elements is luck.
CORRECT_ROUNDING_ULP = 0.5

# A mean error in ULP that grew to so many times the baseline's has regressed, whatever its confidence interval. Errors
# in ULP grow as 1/|reference| near zero, and the ratio of two independent normal errors of one element exceeds k with a
# probability of 2 / (pi k), here 6e-6.
HEAVY_TAIL_RATIO = 1e5

# Growth of a mean below this many ULP of the output dtype is rounding: CPUs differ by that much in libm alone.
ROUNDING_FLOOR_ULP = 0.05

# The same for maxima, which are extreme values: one element that rounds the other way moves them by a whole ULP.
ROUNDING_FLOOR_MAX_ULP = 1.0


def structural_findings(
    outcome: Outcome, role: Role, entry: BaselineEntry | None, *, empty_passes: bool = False
) -> Iterator[Finding]:
    """Yield the findings that make measurements meaningless, whatever the tolerance: nothing passes by absence.

    `empty_passes` is the case's: the golden wants outputs without a finite element.
    """
    for name in outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, AbsentOutput(role), name)
    if not outcome.comparisons and not outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, NothingCompared())
    for comparison in outcome.comparisons:
        found = unmeasurable_findings(comparison, role)
        yield from (each for each in found if not (empty_passes and each.reason is Reason.EMPTY))
    if entry is not None:
        yield from _against_baseline(outcome, entry)


def unmeasurable_findings(comparison: Comparison, role: Role) -> Iterator[Finding]:
    """Yield the findings that make one pair meaningless: shape, dtype, NaN and infinities, no finite element."""
    name, seed, counts = comparison.output, comparison.seed, comparison.counts
    if comparison.figures is not None:
        yield from unusable_figures(comparison)
        return
    if comparison.shape != comparison.reference_shape:
        shapes = OtherShape(comparison.reference_shape, comparison.shape, "oracle")
        yield _hard(Reason.SHAPE_MISMATCH, shapes, name, seed=seed)
        return
    # A reference is computed in higher precision, so only a golden has the dtype of the output.
    if role == "golden" and comparison.dtype != comparison.reference_dtype:
        dtypes = OtherDtype(comparison.reference_dtype, comparison.dtype, "golden")
        yield _hard(Reason.DTYPE_MISMATCH, dtypes, name, seed=seed)
    mismatched = counts.get("nan_mismatched", 0) + counts.get("inf_mismatched", 0)
    if mismatched:
        elements = NonFiniteElements(mismatched, counts["n"], _first(comparison.non_finite))
        found = _hard(Reason.NON_FINITE_MISMATCH, elements, name, seed=seed)
        yield replace(found, current=mismatched, limit=0)
    elif not counts.get("n", 0):
        yield _hard(Reason.EMPTY, NoElement(comparison.shape), name, seed=seed)
    elif not counts.get("finite", 0):
        yield _hard(Reason.EMPTY, NoFinitePair(), name, seed=seed)


def _against_baseline(outcome: Outcome, entry: BaselineEntry) -> Iterator[Finding]:
    current = {comparison.output: comparison for comparison in outcome.comparisons}
    for name, accepted in entry.outputs.items():
        if name not in current and name not in outcome.missing:
            yield _hard(Reason.MISSING_OUTPUT, AbsentOutput("baseline"), name)
        elif name in current and is_row_gone(current[name]):
            continue
        elif name in current and current[name].dtype != accepted.dtype:
            yield _hard(Reason.DTYPE_MISMATCH, OtherDtype(accepted.dtype, current[name].dtype, "baseline"), name)
        elif name in current and current[name].shape != accepted.shape:
            yield _hard(Reason.SHAPE_MISMATCH, OtherShape(accepted.shape, current[name].shape, "baseline"), name)


def _hard(reason: Reason, fact: FindingFact, output: str = "", *, seed: int | None = None) -> Finding:
    return Finding(reason, output=output, seed=seed, rule="hard", fact=fact)


def _first(positions: Positions | None) -> FirstElement | None:
    if positions is None or not positions.index:
        return None
    return FirstElement(positions.index[0], positions.actual[0], positions.reference[0])


def broken_bounds(comparison: Comparison, tolerance: Tolerance) -> Iterator[Finding]:
    """Yield every bound that one output at one seed breaks; a bound on an undefined metric is broken.

    If each alternative of a tolerance has a broken bound, one finding names them all.
    """
    for bound in _broken(comparison, tolerance.bounds):
        fact = BrokenBound(_broken_limit(comparison, bound), bound.layer, _closeness([bound], tolerance))
        yield _broken_bound(comparison, bound, fact)
    branches = [[*_broken(comparison, alternative)] for alternative in tolerance.alternatives]
    if branches and all(branches):
        yield _no_alternative(comparison, tolerance, branches)


def unchecked_bounds(comparison: Comparison, tolerance: Tolerance) -> UncheckedBounds | None:
    """Return the bounds whose metrics a table lacks; None if all are checked."""
    if comparison.figures is None:
        return None
    every = (*tolerance.bounds, *(bound for branch in tolerance.alternatives for bound in branch))
    left = [bound for bound in every if bound.metric not in comparison.figures.metrics]
    if not left:
        return None
    return UncheckedBounds(tuple(bound.metric for bound in left), left[0].source, comparison.figures.file)


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
        # A shared layer may bound metrics that a table lacks; a warning of the run counts these (`unchecked_bounds`).
        if comparison.figures is not None and bound.metric not in comparison.figures.metrics:
            continue
        current = comparison.metrics.get(bound.metric)
        if current is None or not satisfies_bound(bound, current, comparison.described):
            yield bound


def _no_alternative(comparison: Comparison, tolerance: Tolerance, branches: list[list[Bound]]) -> Finding:
    """Return the finding that names the broken bounds of each alternative; the numbers are the first bound's."""
    broken = tuple(tuple(_broken_limit(comparison, bound) for bound in branch) for branch in branches)
    first = branches[0][0]
    closeness = _closeness([bound for branch in branches for bound in branch], tolerance)
    return _broken_bound(comparison, first, NoAlternative(broken, first.layer, closeness))


def _broken_bound(comparison: Comparison, bound: Bound, fact: BrokenBound | NoAlternative) -> Finding:
    return Finding(
        Reason.OUT_OF_TOLERANCE,
        output=comparison.output,
        metric=bound.metric,
        seed=comparison.seed,
        current=comparison.metrics.get(bound.metric),
        limit=bound.limit,
        ratio=_severity(comparison, bound),
        source=bound.source,
        rule="bound",
        fact=fact,
    )


def _broken_limit(comparison: Comparison, bound: Bound) -> BrokenLimit:
    current = comparison.metrics.get(bound.metric)
    metric = metric_named(bound.metric, comparison.described)
    limit = BrokenLimit(bound.metric, bound.limit, current, metric.better == "higher")
    if not metric.needs_benchmark:
        return limit
    if comparison.benchmark is None:
        return replace(limit, lacks_benchmark=current is None)
    error = comparison.benchmark.get(metric.ratio_of)
    denominator = ratio_denominator(metric, comparison.dtype, comparison.benchmark)
    floor = denominator if denominator != error else None
    return replace(limit, error=comparison.metrics.get(metric.ratio_of), benchmark_error=error, floor=floor)


def _closeness(bounds: Sequence[Bound], tolerance: Tolerance) -> tuple[Bound, ...]:
    """Return rtol and atol if one of the bounds is on the matches that they count."""
    return (tolerance.rtol, tolerance.atol) if any(bound.metric == "match_ratio" for bound in bounds) else ()


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
    for name in growth_metrics(tolerance):
        metric = metric_named(name, comparisons[0].described)
        # A golden that was met exactly makes every maximum grow from 0, and a hard rule judges its match ratio more
        # strictly.
        if role == "golden" and (metric.maximum or name == "match_ratio"):
            continue
        current, baseline = seed_means(comparisons, accepted, name)
        if current is None or baseline is None:
            continue
        threshold = _growth_threshold(tolerance, metric, current - baseline)
        if threshold is None:
            continue
        if exceeds_growth(comparisons, metric, current, baseline, threshold):
            yield grown_finding(comparisons[0].output, metric, current, baseline, threshold)


def exceeds_growth(
    comparisons: Sequence[Comparison], metric: Metric, current: float, baseline: float, threshold: float
) -> bool:
    """Return whether a metric grew beyond a threshold, and beyond rounding to the output dtype."""
    growth = metric_growth(metric, current, baseline)
    return growth > _allowed_growth(metric, baseline, threshold) and growth > rounding_floor(comparisons, metric)


def growth_metrics(tolerance: Tolerance) -> list[str]:
    """Return the metrics with a threshold on their growth, of either direction."""
    directed = (name for name, way in map(split_growth_key, tolerance.directions) if way != GAIN)
    return [name for name in dict.fromkeys((*tolerance.regression, *directed)) if name not in RULES]


def _growth_threshold(tolerance: Tolerance, metric: Metric, change: float) -> float | None:
    """Return the allowed growth of a metric whose value changed so; None if this direction has none."""
    way = GROWTH_UP if change > 0 else GROWTH_DOWN
    return tolerance.directions.get(growth_key(metric.name, way), tolerance.regression.get(metric.name))


def gain_findings(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, tolerance: Tolerance
) -> Iterator[Finding]:
    """Yield every metric of one output that improved beyond its threshold for gains.

    `comparisons` are the output's, one for each seed that both sides have.
    """
    if sum(comparison.counts.get("finite", 0) for comparison in comparisons) < MIN_ELEMENTS:
        return
    for key, threshold in tolerance.directions.items():
        name, way = split_growth_key(key)
        current, baseline = seed_means(comparisons, accepted, name)
        if way != GAIN or name in RULES or current is None or baseline is None:
            continue
        metric = metric_named(name, comparisons[0].described)
        # As the statistic judges: better by so many times, which is worse by so many times the other way round.
        smaller = baseline if metric.better == "higher" else current
        gain = -metric_growth(metric, current, baseline)
        if gain > _allowed_growth(metric, smaller, threshold) and gain > rounding_floor(comparisons, metric):
            found = grown_finding(comparisons[0].output, metric, current, baseline, threshold)
            limit = 1 + threshold if metric.better == "higher" else 1 / (1 + threshold)
            yield replace(found, reason=Reason.IMPROVED, limit=limit, fact=MetricImproved())


def small_output_ratio(seeds: int) -> float:
    """Return the ratio to the baseline beyond which an average of a small output has regressed."""
    return SMALL_OUTPUT_RATIOS[min(seeds, len(SMALL_OUTPUT_RATIOS)) - 1]


def small_output_findings(comparisons: Sequence[Comparison], accepted: BaselineOutput) -> Iterator[Finding]:
    """Yield the averages of an output of fewer than MIN_ELEMENTS elements that are many times the baseline's."""
    elements = prod(comparisons[0].shape)
    if elements >= MIN_ELEMENTS:
        return
    limit = small_output_ratio(len(comparisons))
    for name in SMALL_OUTPUT_METRICS:
        current, baseline = seed_means(comparisons, accepted, name)
        floor = ulps_in_metric_unit(comparisons, METRICS[name], CORRECT_ROUNDING_ULP)
        if current is not None and baseline is not None and current > limit * max(baseline, floor):
            found = grown_finding(comparisons[0].output, METRICS[name], current, baseline, limit - 1)
            yield replace(found, fact=SmallOutputGrew(elements, len(comparisons)))


def heavy_tail_findings(comparisons: Sequence[Comparison], accepted: BaselineOutput) -> Iterator[Finding]:
    """Yield the mean ULP if it grew beyond HEAVY_TAIL_RATIO: so few elements make it that no statistic judges it."""
    current, baseline = seed_means(comparisons, accepted, "mean_ulp")
    if (
        current is not None
        and baseline is not None
        and current > HEAVY_TAIL_RATIO * max(baseline, CORRECT_ROUNDING_ULP)
    ):
        yield grown_finding(comparisons[0].output, METRICS["mean_ulp"], current, baseline, HEAVY_TAIL_RATIO - 1)


def maximum_findings(
    comparisons: Sequence[Comparison], accepted: BaselineOutput, alpha: float, min_growth: float
) -> Iterator[Finding]:
    """Yield the maxima that exceed all of the baseline's at more seeds than noise explains.

    Under the hypothesis that neither side is worse, the two maxima of a seed may change places. Then the k largest
    maxima of all seeds come from the run with a probability of 2^-k at most, with equality if they are of k seeds.
    """
    for name in SEED_MAXIMA:
        current, baseline = seed_means(comparisons, accepted, name)
        now = [comparison.metrics.get(name) for comparison in comparisons]
        then = [value for value in accepted.metrics.get(name, [])[: len(comparisons)] if value is not None]
        if current is None or baseline is None or len(then) < len(now):
            continue
        limit = (1 + min_growth) * max(then)
        larger = sum(value is not None and value > limit for value in now)
        growth = current - baseline
        if 0.5**larger < alpha and growth > rounding_floor(comparisons, METRICS[name]):
            found = grown_finding(comparisons[0].output, METRICS[name], current, baseline, min_growth)
            yield replace(found, rule="statistic", fact=MaximaGrew(larger, len(now)))


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

    docs/regression-rule.md has the table of units.
    """
    scale = fmean(comparison.metrics.get("ulp_scale", 0.0) for comparison in comparisons)
    magnitude = fmean(comparison.metrics.get("mean_magnitude", 0.0) for comparison in comparisons)
    sizes = {"ULP": 1.0, "log2 ULP": 1.0, "value": scale, "value^2": scale**2}
    if metric.unit in sizes:
        return ulps * sizes[metric.unit]
    return ulps * scale / magnitude if metric.is_relative_ratio and magnitude else 0.0


def grown_finding(output: str, metric: Metric, current: float, baseline: float, threshold: float) -> Finding:
    """Return the finding of a metric that grew beyond a threshold."""
    return Finding(
        Reason.REGRESSED,
        output=output,
        metric=metric.name,
        current=current,
        baseline=baseline,
        ratio=metric_ratio(metric, current, baseline),
        limit=allowed_ratio(metric, threshold),
        rule="guard",
        fact=MetricGrew(),
    )


def allowed_ratio(metric: Metric, threshold: float) -> float:
    """Return the ratio to the baseline that a threshold allows: the largest, or the smallest if higher is better."""
    return 1 - threshold if metric.better == "higher" else 1 + threshold
