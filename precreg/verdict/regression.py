"""Did it get worse? What of one output is worse than its baseline, by a hard rule, by statistics, beyond a threshold.

Hard rules need no measure: exactness or a match with the golden is lost. Statistics judge averages by the noise that
the output itself has: a loss must be one that noise explains with a chance below the case's error level, and its lower
confidence bound must be a material ratio. Guards on maxima and thresholds of the pyramid are what verdict/growth.py
knows. docs/verdicts.md has the derivation.

What another environment explains: how much worse the same code may truly be on another processor or numpy.

It has its own order of sums and its own elementary functions. Measured, on one CPU with and without vector
instructions: whole operators in float32 are up to 1.35 times worse, and an elementary function alone is as good as its
library, up to 2.1 times worse and never by half an ULP. Rounding to a narrow output hides most of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf, log2

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic import FORMATS
from precreg.measure import METRICS, metric_named
from precreg.types import RULES, STATISTIC, BaselineEntry, Comparison, Finding, Reason, Role, Tolerance, format_distinct
from precreg.verdict.growth import (
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
    t_quantile,
)

MAX_NARROW_PRECISION = 11
"""The most significant bits of a format that hides most of what differs between environments."""


OTHER_ENVIRONMENT_GROWTH = {"narrow": 0.1, "wide": 0.5}
"""Growth of an average that is not yet material, in narrow formats and in others."""


OTHER_ENVIRONMENT_ULP = {"narrow": ROUNDING_FLOOR_ULP, "wide": 0.5}
"""Growth of an average, in ULP of the output dtype, that is none."""


OTHER_ENVIRONMENT_MAXIMUM_FACTOR = {"narrow": 1.0, "wide": 2.0}
"""How many times the ratio that a maximum is allowed in one environment it is allowed here."""


def other_environment_growth(dtype: str) -> float:
    """Return the growth of an average that is not yet material."""
    return OTHER_ENVIRONMENT_GROWTH[_width(dtype)]


def other_environment_ulp(metric: str, dtype: str) -> float:
    """Return the growth of an average, in ULP of the output dtype, that is none."""
    width = _width(dtype)
    return OTHER_ENVIRONMENT_ULP[width] * (METRICS[metric].environment_factor if width == "wide" else 1)


def other_environment_maximum_factor(dtype: str) -> float:
    """Return by how many times the allowed ratio of a maximum is larger."""
    return OTHER_ENVIRONMENT_MAXIMUM_FACTOR[_width(dtype)]


def _width(dtype: str) -> str:
    number_format = FORMATS.get(dtype)
    return "narrow" if number_format is not None and number_format.precision <= MAX_NARROW_PRECISION else "wide"


RUN_ALPHA = 0.1
"""The chance that a change of every case, none of them worse, has any of them called worse or better by noise."""


MIN_BASELINES = 32
"""Baselines that are counted at least, so that a young project's first cases do not move its error level."""


MIN_RELEVANT_BIAS_GROWTH = 0.2
"""Growth of the bias, in units of the mean |d|, that is not yet material."""


def case_alpha(baselines: int) -> float:
    """Return a case's error level: that of the run, over the number of baselines rounded up to a power of two.

    So another case moves no verdict, but for one that doubles their number.
    """
    return RUN_ALPHA / 2.0 ** ceil(log2(max(baselines, MIN_BASELINES)))


class OutputEvidence(Struct, frozen=True):
    """One output held against its baseline: comparisons of the seeds that both have, and what changed in them.

    `alike` tells that baseline and run have the same fingerprint, so that other bits come of other code alone. `level`
    is the chance at which one change of this output is called no noise.
    """

    comparisons: tuple[Comparison, ...]
    entry: BaselineEntry
    tolerance: Tolerance
    role: Role
    alike: bool
    level: float
    changes: tuple[ErrorRatio, ...]

    @property
    def output(self) -> str:
        """The name of the output."""
        return self.comparisons[0].output


def gather_evidence(
    comparisons: Sequence[Comparison],
    entry: BaselineEntry,
    tolerance: Tolerance,
    role: Role,
    *,
    alike: bool,
    level: float,
) -> OutputEvidence:
    """Hold the comparisons of one output, in order of seeds, against its baseline; `level` is the case's."""
    accepted = entry.outputs[comparisons[0].output]
    pairs = tuple(comparisons[: len(accepted.digests)])
    found: tuple[ErrorRatio, ...] = ()
    if STATISTIC in tolerance.regression:
        found = error_ratios(pairs, accepted, entry.groups.get(pairs[0].output, ()))
    share = level / (TESTS_PER_OUTPUT * len(entry.outputs))
    return OutputEvidence(pairs, entry, tolerance, role, alike, share, found)


def find_regressions(output: OutputEvidence) -> Iterator[Finding]:
    """Yield what makes an output worse than its baseline."""
    lost = [*_exactness_lost(output), *_match_ratio_lost(output)]
    yield from lost
    yield from (_finding(output, change, Reason.REGRESSED) for change in output.changes if _is_worse(output, change))
    grown = growth_findings(output.comparisons, output.entry.outputs[output.output], output.tolerance, output.role)
    better = find_improvement(output) is not None
    for found in grown:
        maximum = metric_named(found.metric, output.comparisons[0].described).maximum
        excused = maximum and (better or _is_maximum_elsewhere(output, found))
        if not (lost or excused):
            yield found


def _is_maximum_elsewhere(output: OutputEvidence, found: Finding) -> bool:
    """Tell whether another environment explains a maximum that grew beyond its threshold."""
    allowed = other_environment_maximum_factor(output.comparisons[0].dtype) * (found.limit or 0.0)
    return not output.alike and found.ratio is not None and found.ratio <= allowed


def find_improvement(output: OutputEvidence) -> Finding | None:
    """Return the finding that the mean |d| fell materially, beyond noise; a maximum that rose meanwhile is told.

    An output that became exact at every seed needs no statistic for it.
    """
    current, baseline = seed_means(output.comparisons, output.entry.outputs[output.output], "mean_abs_error")
    if current == 0 and baseline is not None and baseline > 0 and not _is_rounding(output, "mean_abs_error"):
        message = f"the output is exact at every seed, and was not: mean_abs_error is 0 and was {baseline:.4g}"
        return _by_a_hard_rule(output, Reason.IMPROVED, "mean_abs_error", message, current, baseline)
    for change in output.changes:
        if change.metric == "mean_abs_error" and _is_better(output, change):
            found = _finding(output, change, Reason.IMPROVED)
            return replace(found, message=found.message + _larger_maximum(output))
    return None


def _is_worse(output: OutputEvidence, change: ErrorRatio) -> bool:
    material = change.lower > 1 + _material(output, change.metric)
    return material and change.ratio > 1 and change.chance < output.level and not _is_explained(output, change.metric)


def _is_better(output: OutputEvidence, change: ErrorRatio) -> bool:
    material = change.upper * (1 + _material(output, change.metric)) < 1
    return material and change.chance < output.level and not _is_explained(output, change.metric)


def _material(output: OutputEvidence, metric: str) -> float:
    return min_relevant_growth(output.tolerance, metric, output.comparisons[0].dtype, alike=output.alike)


def min_relevant_growth(tolerance: Tolerance, metric: str, dtype: str, *, alike: bool) -> float:
    """Return the growth of an average that is not yet material: on another fingerprint, what that explains."""
    least = tolerance.regression[STATISTIC]
    if metric == "bias":
        least = max(MIN_RELEVANT_BIAS_GROWTH, least)
    return least if alike else max(least, other_environment_growth(dtype))


def _is_explained(output: OutputEvidence, metric: str) -> bool:
    """Tell whether another environment alone explains a change; within one environment other code is to blame."""
    comparisons = output.comparisons
    return not output.alike and _is_within(
        output,
        metric,
        ulps_in_metric_unit(comparisons, METRICS[metric], other_environment_ulp(metric, comparisons[0].dtype)),
    )


def _is_rounding(output: OutputEvidence, metric: str) -> bool:
    """Tell whether another environment's rounding explains that an output is, or is not, exact."""
    return not output.alike and _is_within(output, metric, rounding_floor(output.comparisons, METRICS[metric]))


def _is_within(output: OutputEvidence, metric: str, growth: float) -> bool:
    current, baseline = seed_means(output.comparisons, output.entry.outputs[output.output], metric)
    return (
        current is not None
        and baseline is not None
        and abs(metric_growth(METRICS[metric], current, baseline)) <= growth
    )


def smallest_significant_ratio(output: OutputEvidence, change: ErrorRatio) -> float:
    """Return the smallest ratio that would be called worse, given the spread of this change."""
    freedom = change.units - 1
    significant = t_quantile(output.level, freedom) * change.error
    doubt = t_quantile(INTERVAL_ALPHA / TESTS_PER_OUTPUT, freedom) * change.error
    return max(ratio_from_log(significant), (1 + _material(output, change.metric)) * ratio_from_log(doubt))


def _finding(output: OutputEvidence, change: ErrorRatio, reason: Reason) -> Finding:
    current, baseline = seed_means(output.comparisons, output.entry.outputs[output.output], change.metric)
    explained = smallest_significant_ratio(output, change)
    return Finding(
        reason,
        _sentence(change, current, baseline, explained, 1 + _material(output, change.metric)),
        output.output,
        change.metric,
        current=current,
        baseline=baseline,
        ratio=change.ratio,
        limit=1 + _material(output, change.metric),
        rule="statistic",
        lower=change.lower,
        upper=change.upper,
        floor=explained,
    )


def _sentence(
    change: ErrorRatio, current: float | None, baseline: float | None, explained: float, material: float
) -> str:
    figures = (
        "" if current is None or baseline is None else f"{' against '.join(format_distinct([current, baseline]))}; "
    )
    noise_is = f"noise {'explains' if explained < inf else 'may be'} {_times(explained, change.ratio, 3)} times"
    if change.metric == "bias":
        grew = f"grew by {change.ratio - 1:.3g} of the mean |d|"
        return f"bias {grew} ({figures}{change.lower - 1:.3g} to {change.upper - 1:.3g})"
    scale = " in the scale of each element" if METRICS[change.metric].unit != "value" else ""
    is_times = f"{change.metric} is {_times(change.ratio, explained, 4)} times the baseline's{scale}"
    return f"{is_times} ({figures}{_interval(change, material)}; {noise_is})"


def _times(ratio: float, beside: float, digits: int) -> str:
    """Write a ratio; one that is not 1, nor the one beside it, never looks like it."""
    return format_distinct([ratio, beside, 1.0], digits)[0]


def _interval(change: ErrorRatio, material: float) -> str:
    """Write the bounds of a ratio; one beyond the material ratio never looks like it."""
    lower, upper = (format_distinct([bound, material, 1.0], 3)[0] for bound in (change.lower, change.upper))
    return f"between {lower} and {upper}"


def _exactness_lost(output: OutputEvidence) -> Iterator[Finding]:
    """Find that an output was exact at every seed and is not; elsewhere, that it is off by more than rounding."""
    metric = "mean_abs_error"
    current, baseline = seed_means(output.comparisons, output.entry.outputs[output.output], metric)
    if baseline == 0 and current is not None and current > 0 and not _is_rounding(output, metric):
        message = f"the output was exact at every seed, and is not: mean_abs_error was 0 and is {current:.4g}"
        yield _by_a_hard_rule(output, Reason.REGRESSED, metric, message, current, baseline)


def _match_ratio_lost(output: OutputEvidence) -> Iterator[Finding]:
    current, baseline = seed_means(output.comparisons, output.entry.outputs[output.output], "match_ratio")
    if output.role == "golden" and current is not None and baseline is not None and current < baseline:
        counts = "any loss counts"
        if output.comparisons[0].runs:
            found = error_ratio_of_runs(MATCH_MEASURE, output.comparisons, output.entry.outputs[output.output])
            if found is None or found.chance >= output.level:
                return
            counts = "more than runs differ by"
        message = f"match_ratio against the golden fell from {baseline:.7g} to {current:.7g}; {counts}"
        yield _by_a_hard_rule(output, Reason.REGRESSED, "match_ratio", message, current, baseline)


def _by_a_hard_rule(
    output: OutputEvidence, reason: Reason, metric: str, message: str, current: float, baseline: float
) -> Finding:
    times = current / baseline if baseline else None
    return Finding(reason, message, output.output, metric, None, current, baseline, times, 1.0, None, rule="hard")


def _larger_maximum(output: OutputEvidence) -> str:
    current, baseline = seed_means(output.comparisons, output.entry.outputs[output.output], "max_abs_error")
    if current is None or baseline is None or current <= baseline:
        return ""
    times = f", {current / baseline:.3g} times" if baseline else ""
    return f"; its maximum rose from {baseline:.4g} to {current:.4g}{times}"


def describe_evidence(outputs: Sequence[OutputEvidence]) -> str:
    """Say of outputs in which nothing is worse what that rests on: the largest change, or why there is none."""
    every = [(change, output) for output in outputs for change in output.changes if change.metric != "bias"]
    told = {output.output for _, output in every}
    others: dict[str, list[str]] = {}
    for output in outputs:
        if output.output not in told:
            why = (
                f"fewer than {MIN_SAMPLES} samples"
                if STATISTIC in output.tolerance.regression
                else f"{STATISTIC} is off"
            )
            others.setdefault(why, []).append(output.output)
    if others:
        alone = "; ".join(f"{', '.join(names)}: {why}" for why, names in others.items())
        guarded = any(output.tolerance.regression.keys() - set(RULES) for output in outputs)
        return f"{alone}, so {'bounds and guards' if guarded else 'bounds'} alone decide"
    change, output = max(every, key=lambda pair: pair[0].upper)
    interval = _interval(change, 1 + _material(output, change.metric))
    times = f"{_times(change.ratio, 1.0, 4)} times the baseline's, {interval}"
    return f"no judged metric is worse: {output.output}: {change.metric} is {times}"
