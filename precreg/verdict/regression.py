"""Did one output regress against its baseline, or improve?

Three rules judge. Hard rules need no measure: exactness or a match with the golden is lost. The statistic judges
averages by the noise of the output itself: the p-value of a loss must be below the case's error level, and its lower
confidence bound above the minimum relevant change. Thresholds limit the growth of maxima and of other metrics
(verdict/limits.py). In another environment the same code may truly be worse, so a loss must exceed that, too.
docs/regression-statistics.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log2
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic import FORMATS
from precreg.measure import METRICS, metric_named
from precreg.types import (
    GAIN,
    STATISTIC,
    BaselineEntry,
    Comparison,
    ExactnessGained,
    ExactnessLost,
    Finding,
    FindingFact,
    LargestRatio,
    MatchesLost,
    RatioMoved,
    Reason,
    Role,
    RoundingLost,
    Tolerance,
    UnjudgedOutputs,
    growth_key,
)
from precreg.verdict.limits import (
    ROUNDING_FLOOR_ULP,
    gain_findings,
    growth_findings,
    heavy_tail_findings,
    maximum_findings,
    metric_growth,
    rounding_floor,
    seed_means,
    small_output_findings,
    ulps_in_metric_unit,
)
from precreg.verdict.recorded_figures import has_figures_alone, moved_figures
from precreg.verdict.statistics import (
    INTERVAL_ALPHA,
    MATCH_MEASURE,
    RARE_TESTS,
    TESTS_PER_OUTPUT,
    ErrorRatio,
    error_ratio_of_runs,
    error_ratios,
    ratio_from_log,
    t_half_width,
)

# Probability that a change of every case, with no case worse or better, has any of them reported as such by noise.
RUN_ALPHA = 0.1

# The error level counts at least this many baselines, so that a young project's first cases do not move it.
MIN_BASELINES = 32

# Growth of the bias, in units of the mean |d|, that is not yet relevant.
MIN_RELEVANT_BIAS_GROWTH = 0.2

# Growth of an average that few elements make, and that groups judge, which is not yet relevant. A change that costs 3 %
# of rms_ulp and less than 2 % of all other averages is harmless by docs/detection-method.md, "Labels".
MIN_RELEVANT_GROUP_GROWTH = 0.05

# A share of correctly rounded elements that is lost without a report.
MIN_ROUNDING_LOSS = 0.01

# Another processor or numpy has its own order of sums and its own elementary functions. Measured on one CPU with and
# without vector instructions: whole operators in float32 are up to 1.35 times worse; an elementary function alone is as
# good as its library, up to 2.1 times worse, and never by half an ULP (docs/regression-statistics.md).
# Rounding to a narrow output hides most of that, hence two widths of formats.

# Significant bits of the widest narrow format, which is float16.
MAX_NARROW_PRECISION = 11

# Growth of an average that is not yet relevant in another environment; in wide formats above the measured 1.35 times.
OTHER_ENVIRONMENT_GROWTH = {"narrow": 0.1, "wide": 0.5}

# Growth of an average, in ULP of the output dtype, that another environment explains.
OTHER_ENVIRONMENT_ULP = {"narrow": ROUNDING_FLOOR_ULP, "wide": 0.5}

# Factor on the ratio that a threshold allows to a maximum, in another environment.
OTHER_ENVIRONMENT_MAXIMUM_FACTOR = {"narrow": 1.0, "wide": 2.0}


def other_environment_growth(dtype: str) -> float:
    """Return the growth of an average that is not yet relevant in another environment."""
    return OTHER_ENVIRONMENT_GROWTH[_width(dtype)]


def other_environment_ulp(metric: str, dtype: str) -> float:
    """Return the growth of an average, in ULP of the output dtype, that another environment explains."""
    width = _width(dtype)
    return OTHER_ENVIRONMENT_ULP[width] * (METRICS[metric].environment_factor if width == "wide" else 1)


def other_environment_maximum_factor(dtype: str) -> float:
    """Return the factor on the allowed ratio of a maximum in another environment."""
    return OTHER_ENVIRONMENT_MAXIMUM_FACTOR[_width(dtype)]


def _width(dtype: str) -> str:
    number_format = FORMATS.get(dtype)
    return "narrow" if number_format is not None and number_format.precision <= MAX_NARROW_PRECISION else "wide"


def case_alpha(baselines: int) -> float:
    """Return the error level of a case: RUN_ALPHA over the number of baselines (Bonferroni)."""
    # Rounded up to a power of two, so that another case moves no verdict unless it doubles their number.
    return RUN_ALPHA / 2.0 ** ceil(log2(max(baselines, MIN_BASELINES)))


class OutputEvidence(Struct, frozen=True):
    """One output with its baseline: the comparisons of the seeds that both have, and the ratios of its averages."""

    comparisons: tuple[Comparison, ...]
    entry: BaselineEntry
    tolerance: Tolerance
    role: Role
    # The baseline knows the environment of the run, so other bits come from other code alone.
    same_environment: bool
    # The error level of one test.
    alpha: float
    ratios: tuple[ErrorRatio, ...]

    @property
    def output(self) -> str:
        """Return the name of the output."""
        return self.comparisons[0].output

    def seed_means(self, metric: str) -> tuple[float | None, float | None]:
        """Return the metric's mean over the seeds now and in the baseline."""
        return seed_means(self.comparisons, self.entry.outputs[self.output], metric)

    def min_relevant_gain(self, metric: str) -> float:
        """Return the improvement of an average, as a growth the other way round, that is not yet relevant."""
        own = self.tolerance.directions.get(growth_key(STATISTIC, GAIN))
        if own is None:
            return self.min_relevant_growth(metric)
        return own if self.same_environment else max(own, other_environment_growth(self.comparisons[0].dtype))

    def min_relevant_growth(self, metric: str) -> float:
        """Return the growth of an average that is not yet relevant."""
        dtype = self.comparisons[0].dtype
        return min_relevant_growth(self.tolerance, metric, dtype, same_environment=self.same_environment)


def gather_evidence(
    comparisons: Sequence[Comparison],
    entry: BaselineEntry,
    tolerance: Tolerance,
    role: Role,
    *,
    same_environment: bool,
    alpha: float,
) -> OutputEvidence:
    """Compare one output, whose comparisons are in order of seeds, with its baseline; `alpha` is the case's."""
    accepted = entry.outputs[comparisons[0].output]
    pairs = tuple(comparisons[: len(accepted.digests)])
    ratios: tuple[ErrorRatio, ...] = ()
    if STATISTIC in tolerance.regression:
        ratios = error_ratios(pairs, accepted, entry.groups.get(pairs[0].output, ()))
    # All tests of all outputs share the case's error level (Bonferroni).
    test_alpha = alpha / (TESTS_PER_OUTPUT * len(entry.outputs))
    return OutputEvidence(pairs, entry, tolerance, role, same_environment, test_alpha, ratios)


def find_regressions(output: OutputEvidence) -> Iterator[Finding]:
    """Yield the findings of all three rules by which an output regressed."""
    if has_figures_alone(output.comparisons):
        yield from _moved_figures(output, improved=False)
        return
    lost = [*_exactness_lost(output), *_match_ratio_lost(output)]
    yield from lost
    yield from (_finding(output, ratio, Reason.REGRESSED) for ratio in output.ratios if _is_worse(output, ratio))
    if not lost and output.same_environment and STATISTIC in output.tolerance.regression:
        yield from _grown_beyond_noise(output)
    grown = [*_grown_maxima(output), *_grown_metrics(output)]
    improved = _mean_error_improved(output)
    for found in grown:
        # The fact of an improvement has a maximum that rose meanwhile. After a hard rule, growth adds nothing.
        maximum = metric_named(found.metric, output.comparisons[0].described).maximum
        excused = maximum and (improved or _is_environment_maximum(output, found))
        if not (lost or excused):
            yield found


def _moved_figures(output: OutputEvidence, *, improved: bool) -> Iterator[Finding]:
    (row,) = output.comparisons
    return moved_figures(row, output.entry.outputs[output.output], output.tolerance, improved=improved)


def _mean_error_improved(output: OutputEvidence) -> bool:
    return any(ratio.metric == "mean_abs_error" and _is_better(output, ratio) for ratio in output.ratios)


def _grown_beyond_noise(output: OutputEvidence) -> Iterator[Finding]:
    """Yield averages that the statistic does not judge, and that grew more than noise of any kind explains."""
    accepted = output.entry.outputs[output.output]
    small = [*small_output_findings(output.comparisons, accepted)]
    yield from small
    by_statistic = any(ratio.metric == "mean_ulp" and _is_worse(output, ratio) for ratio in output.ratios)
    if not small and not by_statistic and not _mean_error_improved(output):
        yield from heavy_tail_findings(output.comparisons, accepted)


def _grown_metrics(output: OutputEvidence) -> Iterator[Finding]:
    return growth_findings(output.comparisons, output.entry.outputs[output.output], output.tolerance, output.role)


def _grown_maxima(output: OutputEvidence) -> Iterator[Finding]:
    """Yield maxima that grew at many seeds; a golden that was met exactly makes every maximum grow from 0."""
    if output.same_environment and output.role != "golden" and STATISTIC in output.tolerance.regression:
        accepted, growth = output.entry.outputs[output.output], output.min_relevant_growth("rms_ulp")
        yield from maximum_findings(output.comparisons, accepted, output.alpha / RARE_TESTS, growth)


def _is_environment_maximum(output: OutputEvidence, found: Finding) -> bool:
    """Return whether another environment explains a maximum that grew beyond its threshold."""
    allowed = other_environment_maximum_factor(output.comparisons[0].dtype) * (found.limit or 0.0)
    return not output.same_environment and found.ratio is not None and found.ratio <= allowed


def find_improvement(output: OutputEvidence) -> Finding | None:
    """Return the finding that an average improved beyond noise and the minimum relevant change, or that errors ended.

    If several improved, the mean |d| is reported, or else the one that improved most.
    """
    current, baseline = output.seed_means("mean_abs_error")
    if current == 0 and baseline is not None and baseline > 0 and not _is_rounding(output, "mean_abs_error"):
        return _hard_finding(output, Reason.IMPROVED, "mean_abs_error", ExactnessGained(), current, baseline)
    better = [ratio for ratio in output.ratios if _is_better(output, ratio)]
    if not better:
        return None
    best = min(better, key=lambda ratio: (ratio.metric != "mean_abs_error", ratio.ratio))
    limit = 1 + output.min_relevant_gain(best.metric)
    return replace(_finding(output, best, Reason.IMPROVED), limit=limit, fact=_with_larger_maximum(output, best))


def find_improvements(output: OutputEvidence) -> Iterator[Finding]:
    """Yield the improvement by the statistic, or to exactness, and those by thresholds for gains."""
    if has_figures_alone(output.comparisons):
        yield from _moved_figures(output, improved=True)
        return
    found = find_improvement(output)
    if found is not None:
        yield found
    yield from gain_findings(output.comparisons, output.entry.outputs[output.output], output.tolerance)


def _is_worse(output: OutputEvidence, ratio: ErrorRatio) -> bool:
    is_relevant = ratio.lower > 1 + output.min_relevant_growth(ratio.metric)
    is_significant = ratio.ratio > 1 and ratio.p_value < output.alpha / _tests_of(ratio)
    return is_relevant and is_significant and not _is_explained(output, ratio.metric)


def _is_better(output: OutputEvidence, ratio: ErrorRatio) -> bool:
    is_relevant = ratio.upper * (1 + output.min_relevant_gain(ratio.metric)) < 1
    return is_relevant and ratio.p_value < output.alpha / _tests_of(ratio) and not _is_explained(output, ratio.metric)


def _tests_of(ratio: ErrorRatio) -> int:
    """Return the number of tests that share the level of this one."""
    return RARE_TESTS if ratio.typical and not METRICS[ratio.metric].by_groups else 1


def min_relevant_growth(tolerance: Tolerance, metric: str, dtype: str, *, same_environment: bool) -> float:
    """Return the growth of an average that is not yet relevant."""
    minimum = tolerance.regression[STATISTIC]
    if METRICS[metric].scale == "signed":
        minimum = max(MIN_RELEVANT_BIAS_GROWTH, minimum)
    elif METRICS[metric].by_groups:
        minimum = max(MIN_RELEVANT_GROUP_GROWTH, minimum)
    return minimum if same_environment else max(minimum, other_environment_growth(dtype))


def _is_explained(output: OutputEvidence, metric: str) -> bool:
    """Return whether another environment alone explains a change; in the same one only other code does."""
    comparisons = output.comparisons
    return not output.same_environment and _is_within(
        output,
        metric,
        ulps_in_metric_unit(comparisons, METRICS[metric], other_environment_ulp(metric, comparisons[0].dtype)),
    )


def _is_rounding(output: OutputEvidence, metric: str) -> bool:
    """Return whether another environment's rounding explains that an output is, or is not, exact."""
    return not output.same_environment and _is_within(
        output, metric, rounding_floor(output.comparisons, METRICS[metric])
    )


def _is_within(output: OutputEvidence, metric: str, growth: float) -> bool:
    current, baseline = output.seed_means(metric)
    return (
        current is not None
        and baseline is not None
        and abs(metric_growth(METRICS[metric], current, baseline)) <= growth
    )


def smallest_significant_ratio(output: OutputEvidence, ratio: ErrorRatio) -> float:
    """Return the smallest ratio that would be a regression, given the standard error of this one."""
    # The estimate must exceed its own noise, and its lower bound the minimum relevant change.
    tests = _tests_of(ratio)
    significant = t_half_width(ratio.standard_error, ratio.units, output.alpha / tests)
    half_width = t_half_width(ratio.standard_error, ratio.units, INTERVAL_ALPHA / TESTS_PER_OUTPUT / tests)
    min_ratio = 1 + output.min_relevant_growth(ratio.metric)
    return max(ratio_from_log(significant), min_ratio * ratio_from_log(half_width))


def _finding(output: OutputEvidence, ratio: ErrorRatio, reason: Reason) -> Finding:
    current, baseline = output.seed_means(ratio.metric)
    return Finding(
        reason,
        output=output.output,
        metric=ratio.metric,
        current=current,
        baseline=baseline,
        ratio=ratio.ratio,
        limit=1 + output.min_relevant_growth(ratio.metric),
        rule="statistic",
        lower=ratio.lower,
        upper=ratio.upper,
        floor=smallest_significant_ratio(output, ratio),
        fact=RatioMoved(typical=ratio.typical),
    )


def _exactness_lost(output: OutputEvidence) -> Iterator[Finding]:
    """Yield a finding if an output was exact at every seed and now has errors beyond another environment's rounding."""
    metric = "mean_abs_error"
    current, baseline = output.seed_means(metric)
    if baseline == 0 and current is not None and current > 0 and not _is_rounding(output, metric):
        yield _hard_finding(output, Reason.REGRESSED, metric, ExactnessLost(), current, baseline)


def _match_ratio_lost(output: OutputEvidence) -> Iterator[Finding]:
    current, baseline = output.seed_means("match_ratio")
    if output.role == "golden" and current is not None and baseline is not None and current < baseline:
        # Runs that need not repeat lose matches by luck, so a loss must be significant.
        tested = bool(output.comparisons[0].runs)
        if tested:
            found = error_ratio_of_runs(MATCH_MEASURE, output.comparisons, output.entry.outputs[output.output])
            if found is None or found.p_value >= output.alpha:
                return
        yield _hard_finding(output, Reason.REGRESSED, "match_ratio", MatchesLost(tested), current, baseline)


def _hard_finding(
    output: OutputEvidence, reason: Reason, metric: str, fact: FindingFact, current: float, baseline: float
) -> Finding:
    return Finding(
        reason,
        output=output.output,
        metric=metric,
        current=current,
        baseline=baseline,
        ratio=current / baseline if baseline else None,
        limit=1.0,
        rule="hard",
        fact=fact,
    )


def _with_larger_maximum(output: OutputEvidence, ratio: ErrorRatio) -> RatioMoved:
    """Return the fact of an improvement with the maximum error, if that rose meanwhile."""
    current, baseline = output.seed_means("max_abs_error")
    if current is None or baseline is None or current <= baseline:
        return RatioMoved(typical=ratio.typical)
    return RatioMoved(baseline, current, typical=ratio.typical)


def unjudged_outputs(outputs: Sequence[OutputEvidence]) -> tuple[UnjudgedOutputs, ...]:
    """Return the outputs whose errors have no ratio to the baseline's, by cause."""
    unjudged: dict[Literal["few_samples", "statistic_off", "figures_alone"], list[str]] = {}
    for output in outputs:
        if has_figures_alone(output.comparisons):
            unjudged.setdefault("figures_alone", []).append(output.output)
        elif not _error_ratios(output):
            is_on = STATISTIC in output.tolerance.regression
            unjudged.setdefault("few_samples" if is_on else "statistic_off", []).append(output.output)
    return tuple(UnjudgedOutputs(cause, tuple(names)) for cause, names in unjudged.items())


def rounding_losses(outputs: Sequence[OutputEvidence]) -> tuple[RoundingLost, ...]:
    """Return the outputs with fewer correctly rounded elements than the baseline at every seed."""
    found = []
    for output in outputs:
        now = [comparison.metrics.get("equal_share") for comparison in output.comparisons]
        then = output.entry.outputs[output.output].metrics.get("equal_share", [])[: len(now)]
        pairs = [(a, b) for a, b in zip(now, then, strict=False) if a is not None and b is not None]
        shares = output.seed_means("equal_share")
        if pairs and None not in shares and all(a < b for a, b in pairs):
            current, baseline = shares
            if current is not None and baseline is not None and baseline - current > MIN_ROUNDING_LOSS:
                found.append(RoundingLost(output.output, baseline, current, len(pairs), 0.5 ** len(pairs)))
    return tuple(found)


def largest_ratio(outputs: Sequence[OutputEvidence]) -> LargestRatio:
    """Return the ratio with the largest upper bound, the evidence that no output regressed; each output has ratios."""
    ratios = [(ratio, output) for output in outputs for ratio in _error_ratios(output)]
    ratio, output = max(ratios, key=lambda pair: pair[0].upper)
    min_ratio = 1 + output.min_relevant_growth(ratio.metric)
    return LargestRatio(output.output, ratio.metric, ratio.ratio, ratio.lower, ratio.upper, min_ratio)


def _error_ratios(output: OutputEvidence) -> list[ErrorRatio]:
    """Return the ratios of an output apart from the biases, whose growth is not a ratio."""
    return [ratio for ratio in output.ratios if METRICS[ratio.metric].scale != "signed"]
