"""Did it get worse? What of one output is worse than its baseline, by a hard rule, by statistics, beyond a threshold.

Hard rules need no measure: exactness or a match with the golden is lost. Statistics judge averages by the noise that
the output itself has: a loss must be one that noise explains with a chance below the case's error level, and its lower
confidence bound must be a material ratio. Guards on maxima and thresholds of the pyramid are what verdict/growth.py
knows. docs/verdicts.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf, log2

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure.metrics import described
from precreg.types.numbers import apart
from precreg.types.records import BaselineEntry
from precreg.types.types import RULES, STATISTIC, Comparison, Finding, Reason, Role, Tolerance
from precreg.verdict import elsewhere
from precreg.verdict.growth import MAXIMA, floor, growth_findings, in_unit, means, worsening
from precreg.verdict.statistics.paired import DOUBT, TESTS, Change, as_ratio, changes, of_runs
from precreg.verdict.statistics.sample import LEAST, MATCHES
from precreg.verdict.statistics.student import quantile

RUN_LEVEL = 0.1
"""The chance that a change of every case, none of them worse, has any of them called worse or better by noise."""


FEWEST = 32
"""Baselines that are counted at least, so that a young project's first cases do not move its error level."""


BIAS_MATERIAL = 0.2
"""Growth of the bias, in units of the mean |d|, that is not yet material."""


def error_level(baselines: int) -> float:
    """Return a case's error level: that of the run, over the number of baselines rounded up to a power of two.

    So another case moves no verdict, but for one that doubles their number.
    """
    return RUN_LEVEL / 2.0 ** ceil(log2(max(baselines, FEWEST)))


class Held(Struct, frozen=True):
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
    changes: tuple[Change, ...]

    @property
    def output(self) -> str:
        """The name of the output."""
        return self.comparisons[0].output


def held(
    comparisons: Sequence[Comparison],
    entry: BaselineEntry,
    tolerance: Tolerance,
    role: Role,
    *,
    alike: bool,
    level: float,
) -> Held:
    """Hold the comparisons of one output, in order of seeds, against its baseline; `level` is the case's."""
    accepted = entry.outputs[comparisons[0].output]
    pairs = tuple(comparisons[: len(accepted.digests)])
    found: tuple[Change, ...] = ()
    if STATISTIC in tolerance.regression:
        found = changes(pairs, accepted, entry.groups.get(pairs[0].output, ()))
    share = level / (TESTS * len(entry.outputs))
    return Held(pairs, entry, tolerance, role, alike, share, found)


def worse(output: Held) -> Iterator[Finding]:
    """Yield what makes an output worse than its baseline."""
    lost = [*_exactness_lost(output), *_match_ratio_lost(output)]
    yield from lost
    yield from (_finding(output, change, Reason.REGRESSED) for change in output.changes if _is_worse(output, change))
    grown = growth_findings(output.comparisons, output.entry.outputs[output.output], output.tolerance, output.role)
    better = improvement(output) is not None
    for found in grown:
        excused = found.metric in MAXIMA and (better or _is_maximum_elsewhere(output, found))
        if not (lost or excused):
            yield found


def _is_maximum_elsewhere(output: Held, found: Finding) -> bool:
    """Tell whether another environment explains a maximum that grew beyond its threshold."""
    allowed = elsewhere.guard(output.comparisons[0].dtype) * (found.limit or 0.0)
    return not output.alike and found.ratio is not None and found.ratio <= allowed


def improvement(output: Held) -> Finding | None:
    """Return the finding that the mean |d| fell materially, beyond noise; a maximum that rose meanwhile is told.

    An output that became exact at every seed needs no statistic for it.
    """
    current, baseline = means(output.comparisons, output.entry.outputs[output.output], "mean_abs_error")
    if current == 0 and baseline is not None and baseline > 0 and not _is_rounding(output, "mean_abs_error"):
        message = f"the output is exact at every seed, and was not: mean_abs_error is 0 and was {baseline:.4g}"
        return _by_a_hard_rule(output, Reason.IMPROVED, "mean_abs_error", message, current, baseline)
    for change in output.changes:
        if change.metric == "mean_abs_error" and _is_better(output, change):
            found = _finding(output, change, Reason.IMPROVED)
            return replace(found, message=found.message + _larger_maximum(output))
    return None


def _is_worse(output: Held, change: Change) -> bool:
    material = change.lower > 1 + _material(output, change.metric)
    return material and change.ratio > 1 and change.chance < output.level and not _is_explained(output, change.metric)


def _is_better(output: Held, change: Change) -> bool:
    material = change.upper * (1 + _material(output, change.metric)) < 1
    return material and change.chance < output.level and not _is_explained(output, change.metric)


def _material(output: Held, metric: str) -> float:
    return material(output.tolerance, metric, output.comparisons[0].dtype, alike=output.alike)


def material(tolerance: Tolerance, metric: str, dtype: str, *, alike: bool) -> float:
    """Return the growth of an average that is not yet material: on another fingerprint, what that explains."""
    least = tolerance.regression[STATISTIC]
    if metric == "bias":
        least = max(BIAS_MATERIAL, least)
    return least if alike else max(least, elsewhere.material(dtype))


def _is_explained(output: Held, metric: str) -> bool:
    """Tell whether another environment alone explains a change; within one environment other code is to blame."""
    comparisons = output.comparisons
    return not output.alike and _is_within(
        output, metric, in_unit(comparisons, metric, elsewhere.rounded(metric, comparisons[0].dtype))
    )


def _is_rounding(output: Held, metric: str) -> bool:
    """Tell whether another environment's rounding explains that an output is, or is not, exact."""
    return not output.alike and _is_within(output, metric, floor(output.comparisons, metric))


def _is_within(output: Held, metric: str, growth: float) -> bool:
    current, baseline = means(output.comparisons, output.entry.outputs[output.output], metric)
    return current is not None and baseline is not None and abs(worsening(metric, current, baseline)) <= growth


def noise(output: Held, change: Change) -> float:
    """Return the smallest ratio that would be called worse, given the spread of this change."""
    freedom = change.units - 1
    significant = quantile(output.level, freedom) * change.error
    doubt = quantile(DOUBT / TESTS, freedom) * change.error
    return max(as_ratio(significant), (1 + _material(output, change.metric)) * as_ratio(doubt))


def _finding(output: Held, change: Change, reason: Reason) -> Finding:
    current, baseline = means(output.comparisons, output.entry.outputs[output.output], change.metric)
    explained = noise(output, change)
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


def _sentence(change: Change, current: float | None, baseline: float | None, explained: float, material: float) -> str:
    figures = "" if current is None or baseline is None else f"{' against '.join(apart([current, baseline]))}; "
    noise_is = f"noise {'explains' if explained < inf else 'may be'} {_times(explained, change.ratio, 3)} times"
    if change.metric == "bias":
        grew = f"grew by {change.ratio - 1:.3g} of the mean |d|"
        return f"bias {grew} ({figures}{change.lower - 1:.3g} to {change.upper - 1:.3g})"
    scale = " in the scale of each element" if described(change.metric).unit != "value" else ""
    is_times = f"{change.metric} is {_times(change.ratio, explained, 4)} times the baseline's{scale}"
    return f"{is_times} ({figures}{_interval(change, material)}; {noise_is})"


def _times(ratio: float, beside: float, digits: int) -> str:
    """Write a ratio; one that is not 1, nor the one beside it, never looks like it."""
    return apart([ratio, beside, 1.0], digits)[0]


def _interval(change: Change, material: float) -> str:
    """Write the bounds of a ratio; one beyond the material ratio never looks like it."""
    lower, upper = (apart([bound, material, 1.0], 3)[0] for bound in (change.lower, change.upper))
    return f"between {lower} and {upper}"


def _exactness_lost(output: Held) -> Iterator[Finding]:
    """Find that an output was exact at every seed and is not; elsewhere, that it is off by more than rounding."""
    metric = "mean_abs_error"
    current, baseline = means(output.comparisons, output.entry.outputs[output.output], metric)
    if baseline == 0 and current is not None and current > 0 and not _is_rounding(output, metric):
        message = f"the output was exact at every seed, and is not: mean_abs_error was 0 and is {current:.4g}"
        yield _by_a_hard_rule(output, Reason.REGRESSED, metric, message, current, baseline)


def _match_ratio_lost(output: Held) -> Iterator[Finding]:
    current, baseline = means(output.comparisons, output.entry.outputs[output.output], "match_ratio")
    if output.role == "golden" and current is not None and baseline is not None and current < baseline:
        counts = "any loss counts"
        if output.comparisons[0].runs:
            found = of_runs(MATCHES, output.comparisons, output.entry.outputs[output.output])
            if found is None or found.chance >= output.level:
                return
            counts = "more than runs differ by"
        message = f"match_ratio against the golden fell from {baseline:.7g} to {current:.7g}; {counts}"
        yield _by_a_hard_rule(output, Reason.REGRESSED, "match_ratio", message, current, baseline)


def _by_a_hard_rule(
    output: Held, reason: Reason, metric: str, message: str, current: float, baseline: float
) -> Finding:
    times = current / baseline if baseline else None
    return Finding(reason, message, output.output, metric, None, current, baseline, times, 1.0, None, rule="hard")


def _larger_maximum(output: Held) -> str:
    current, baseline = means(output.comparisons, output.entry.outputs[output.output], "max_abs_error")
    if current is None or baseline is None or current <= baseline:
        return ""
    times = f", {current / baseline:.3g} times" if baseline else ""
    return f"; its maximum rose from {baseline:.4g} to {current:.4g}{times}"


def judged(outputs: Sequence[Held]) -> str:
    """Say of outputs in which nothing is worse what that rests on: the largest change, or why there is none."""
    every = [(change, output) for output in outputs for change in output.changes if change.metric != "bias"]
    told = {output.output for _, output in every}
    others: dict[str, list[str]] = {}
    for output in outputs:
        if output.output not in told:
            why = f"fewer than {LEAST} samples" if STATISTIC in output.tolerance.regression else f"{STATISTIC} is off"
            others.setdefault(why, []).append(output.output)
    if others:
        alone = "; ".join(f"{', '.join(names)}: {why}" for why, names in others.items())
        guarded = any(output.tolerance.regression.keys() - set(RULES) for output in outputs)
        return f"{alone}, so {'bounds and guards' if guarded else 'bounds'} alone decide"
    change, output = max(every, key=lambda pair: pair[0].upper)
    interval = _interval(change, 1 + _material(output, change.metric))
    times = f"{_times(change.ratio, 1.0, 4)} times the baseline's, {interval}"
    return f"no judged metric is worse: {output.output}: {change.metric} is {times}"
