"""Did one output regress against its baseline, or improve?

Three rules judge. Hard rules need no measure: exactness or a match with the golden is lost. The statistic judges
averages by the noise of the output itself: the p-value of a loss must be below the case's error level, and its lower
confidence bound above the minimum relevant change. Thresholds limit the growth of maxima and of other metrics
(verdict/limits.py). In another environment the same code may truly be worse, so a loss must exceed that, too.
docs/verdicts.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf, log2

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic import FORMATS
from precreg.measure import METRICS, metric_named
from precreg.types import RULES, STATISTIC, BaselineEntry, Comparison, Finding, Reason, Role, Tolerance, format_distinct
from precreg.verdict.limits import (
    ROUNDING_FLOOR_ULP,
    growth_findings,
    metric_growth,
    rounding_floor,
    seed_means,
    ulps_in_metric_unit,
)
from precreg.verdict.statistics import (
    INTERVAL_ALPHA,
    MATCH_MEASURE,
    MIN_SAMPLES,
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

# Another processor or numpy has its own order of sums and its own elementary functions. Measured on one CPU with and
# without vector instructions: whole operators in float32 are up to 1.35 times worse; an elementary function alone is as
# good as its library, up to 2.1 times worse, and never by half an ULP (docs/verdicts.md, "Another environment").
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
    # The baseline and the run have the same fingerprint, so other bits come from other code alone.
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
    lost = [*_exactness_lost(output), *_match_ratio_lost(output)]
    yield from lost
    yield from (_finding(output, ratio, Reason.REGRESSED) for ratio in output.ratios if _is_worse(output, ratio))
    grown = growth_findings(output.comparisons, output.entry.outputs[output.output], output.tolerance, output.role)
    improved = find_improvement(output) is not None
    for found in grown:
        # The message of an improvement names a maximum that rose meanwhile. After a hard rule, growth adds nothing.
        maximum = metric_named(found.metric, output.comparisons[0].described).maximum
        excused = maximum and (improved or _is_environment_maximum(output, found))
        if not (lost or excused):
            yield found


def _is_environment_maximum(output: OutputEvidence, found: Finding) -> bool:
    """Return whether another environment explains a maximum that grew beyond its threshold."""
    allowed = other_environment_maximum_factor(output.comparisons[0].dtype) * (found.limit or 0.0)
    return not output.same_environment and found.ratio is not None and found.ratio <= allowed


def find_improvement(output: OutputEvidence) -> Finding | None:
    """Return the finding that the mean |d| improved beyond noise and the minimum relevant change, or became 0."""
    current, baseline = output.seed_means("mean_abs_error")
    if current == 0 and baseline is not None and baseline > 0 and not _is_rounding(output, "mean_abs_error"):
        message = f"the output is exact at every seed, and was not: mean_abs_error is 0 and was {baseline:.4g}"
        return _hard_finding(output, Reason.IMPROVED, "mean_abs_error", message, current, baseline)
    for ratio in output.ratios:
        if ratio.metric == "mean_abs_error" and _is_better(output, ratio):
            found = _finding(output, ratio, Reason.IMPROVED)
            return replace(found, message=found.message + _larger_maximum(output))
    return None


def _is_worse(output: OutputEvidence, ratio: ErrorRatio) -> bool:
    is_relevant = ratio.lower > 1 + output.min_relevant_growth(ratio.metric)
    is_significant = ratio.ratio > 1 and ratio.p_value < output.alpha
    return is_relevant and is_significant and not _is_explained(output, ratio.metric)


def _is_better(output: OutputEvidence, ratio: ErrorRatio) -> bool:
    is_relevant = ratio.upper * (1 + output.min_relevant_growth(ratio.metric)) < 1
    return is_relevant and ratio.p_value < output.alpha and not _is_explained(output, ratio.metric)


def min_relevant_growth(tolerance: Tolerance, metric: str, dtype: str, *, same_environment: bool) -> float:
    """Return the growth of an average that is not yet relevant."""
    minimum = tolerance.regression[STATISTIC]
    if metric == "bias":
        minimum = max(MIN_RELEVANT_BIAS_GROWTH, minimum)
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
    significant = t_half_width(ratio.standard_error, ratio.units, output.alpha)
    half_width = t_half_width(ratio.standard_error, ratio.units, INTERVAL_ALPHA / TESTS_PER_OUTPUT)
    min_ratio = 1 + output.min_relevant_growth(ratio.metric)
    return max(ratio_from_log(significant), min_ratio * ratio_from_log(half_width))


def _finding(output: OutputEvidence, ratio: ErrorRatio, reason: Reason) -> Finding:
    current, baseline = output.seed_means(ratio.metric)
    explained = smallest_significant_ratio(output, ratio)
    min_ratio = 1 + output.min_relevant_growth(ratio.metric)
    return Finding(
        reason,
        _describe_ratio(ratio, current, baseline, explained, min_ratio),
        output.output,
        ratio.metric,
        current=current,
        baseline=baseline,
        ratio=ratio.ratio,
        limit=min_ratio,
        rule="statistic",
        lower=ratio.lower,
        upper=ratio.upper,
        floor=explained,
    )


def _describe_ratio(
    ratio: ErrorRatio, current: float | None, baseline: float | None, explained: float, min_ratio: float
) -> str:
    figures = (
        "" if current is None or baseline is None else f"{' against '.join(format_distinct([current, baseline]))}; "
    )
    noise_is = f"noise {'explains' if explained < inf else 'may be'} {_times(explained, ratio.ratio, 3)} times"
    if ratio.metric == "bias":
        grew = f"grew by {ratio.ratio - 1:.3g} of the mean |d|"
        return f"bias {grew} ({figures}{ratio.lower - 1:.3g} to {ratio.upper - 1:.3g})"
    scale = " in the scale of each element" if METRICS[ratio.metric].unit != "value" else ""
    is_times = f"{ratio.metric} is {_times(ratio.ratio, explained, 4)} times the baseline's{scale}"
    return f"{is_times} ({figures}{_interval(ratio, min_ratio)}; {noise_is})"


def _times(ratio: float, other: float, digits: int) -> str:
    """Format a ratio with the digits that distinguish it from 1 and from the other one."""
    return format_distinct([ratio, other, 1.0], digits)[0]


def _interval(ratio: ErrorRatio, min_ratio: float) -> str:
    """Format the bounds of a ratio with the digits that distinguish them from 1 and the minimum relevant ratio."""
    lower, upper = (format_distinct([bound, min_ratio, 1.0], 3)[0] for bound in (ratio.lower, ratio.upper))
    return f"between {lower} and {upper}"


def _exactness_lost(output: OutputEvidence) -> Iterator[Finding]:
    """Yield a finding if an output was exact at every seed and now has errors beyond another environment's rounding."""
    metric = "mean_abs_error"
    current, baseline = output.seed_means(metric)
    if baseline == 0 and current is not None and current > 0 and not _is_rounding(output, metric):
        message = f"the output was exact at every seed, and is not: mean_abs_error was 0 and is {current:.4g}"
        yield _hard_finding(output, Reason.REGRESSED, metric, message, current, baseline)


def _match_ratio_lost(output: OutputEvidence) -> Iterator[Finding]:
    current, baseline = output.seed_means("match_ratio")
    if output.role == "golden" and current is not None and baseline is not None and current < baseline:
        counts = "any loss counts"
        # Runs that need not repeat lose matches by luck, so a loss must be significant.
        if output.comparisons[0].runs:
            found = error_ratio_of_runs(MATCH_MEASURE, output.comparisons, output.entry.outputs[output.output])
            if found is None or found.p_value >= output.alpha:
                return
            counts = "more than runs differ by"
        message = f"match_ratio against the golden fell from {baseline:.7g} to {current:.7g}; {counts}"
        yield _hard_finding(output, Reason.REGRESSED, "match_ratio", message, current, baseline)


def _hard_finding(
    output: OutputEvidence, reason: Reason, metric: str, message: str, current: float, baseline: float
) -> Finding:
    times = current / baseline if baseline else None
    return Finding(reason, message, output.output, metric, None, current, baseline, times, 1.0, None, rule="hard")


def _larger_maximum(output: OutputEvidence) -> str:
    current, baseline = output.seed_means("max_abs_error")
    if current is None or baseline is None or current <= baseline:
        return ""
    times = f", {current / baseline:.3g} times" if baseline else ""
    return f"; its maximum rose from {baseline:.4g} to {current:.4g}{times}"


def describe_evidence(outputs: Sequence[OutputEvidence]) -> str:
    """Describe the evidence that no output regressed: the largest ratio, or why the statistic judged none."""
    ratios = [(ratio, output) for output in outputs for ratio in output.ratios if ratio.metric != "bias"]
    with_ratios = {output.output for _, output in ratios}
    unjudged: dict[str, list[str]] = {}
    for output in outputs:
        if output.output not in with_ratios:
            is_on = STATISTIC in output.tolerance.regression
            why = f"fewer than {MIN_SAMPLES} samples" if is_on else f"{STATISTIC} is off"
            unjudged.setdefault(why, []).append(output.output)
    if unjudged:
        alone = "; ".join(f"{', '.join(names)}: {why}" for why, names in unjudged.items())
        has_thresholds = any(output.tolerance.regression.keys() - set(RULES) for output in outputs)
        return f"{alone}, so only {'bounds and thresholds' if has_thresholds else 'bounds'} apply"
    ratio, output = max(ratios, key=lambda pair: pair[0].upper)
    interval = _interval(ratio, 1 + output.min_relevant_growth(ratio.metric))
    times = f"{_times(ratio.ratio, 1.0, 4)} times the baseline's, {interval}"
    return f"no judged metric is worse: {output.output}: {ratio.metric} is {times}"
