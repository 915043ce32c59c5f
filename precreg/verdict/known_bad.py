"""Which wrong results does a baseline excuse that was accepted as known bad?

The entry has the state at its acceptance: the bounds that were broken, with the values of their metrics, and the
elements that differed in NaN or infinity. A result that is as wrong passes, and one that is worse has regressed.
Another broken bound, another output with NaN, a missing output or another shape fail as in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from precreg.measure import mean_over_seeds, metric_named
from precreg.tolerance import DEFAULT_GROWTHS
from precreg.types import (
    CUMULATIVE_LOSS,
    Bound,
    Comparison,
    Finding,
    KnownBad,
    KnownBadFixed,
    Metric,
    MetricImproved,
    NoAlternative,
    NonFiniteMoved,
    Outcome,
    Reason,
    Rule,
    Tolerance,
)
from precreg.verdict.limits import allowed_ratio, broken_bounds, exceeds_growth, grown_finding
from precreg.verdict.regression import (
    OutputEvidence,
    other_environment_growth,
    other_environment_maximum_factor,
)

# The results that can be accepted as known bad. A missing output or another shape gives no figure to compare with.
KNOWN_BAD_REASONS = frozenset({Reason.OUT_OF_TOLERANCE, Reason.NON_FINITE_MISMATCH})

# Alternatives have no bound of their own, so their metrics are kept under another name.
_EITHER = "either."

# Growth of an excused metric without a threshold. A bound does not limit it any longer, so something else must: maxima
# as the shipped threshold, and other metrics by the shipped budget of cumulative losses.
_MAXIMUM_GROWTH = DEFAULT_GROWTHS["max_abs_error"]
_OTHER_GROWTH = DEFAULT_GROWTHS[CUMULATIVE_LOSS]


class ExcusedFindings(NamedTuple):
    """Hold the findings that judge, and those that the baseline excuses."""

    judged: list[Finding]
    excused: list[Finding]


def known_bad_state(outcome: Outcome, tolerances: Mapping[str, Tolerance]) -> KnownBad:
    """Return the broken bounds and the mismatches of an outcome, without a reason."""
    by_output: dict[str, list[Comparison]] = {}
    for comparison in outcome.comparisons:
        by_output.setdefault(comparison.output, []).append(comparison)
    bounds = {
        name: {key: [each.metrics.get(key.removeprefix(_EITHER)) for each in seeds] for key in keys}
        for name, seeds in by_output.items()
        if (keys := _broken_keys(seeds, tolerances[name]))
    }
    return KnownBad(
        bounds=bounds,
        nans=_counts(by_output, "nan_mismatched"),
        infinities=_counts(by_output, "inf_mismatched"),
    )


def _broken_keys(seeds: Sequence[Comparison], tolerance: Tolerance) -> list[str]:
    """Return the metrics of the bounds that an output breaks at any seed."""
    found = [finding for each in seeds for finding in broken_bounds(each, tolerance)]
    keys = [finding.metric for finding in found if not isinstance(finding.fact, NoAlternative)]
    if len(keys) < len(found):
        keys += [_EITHER + bound.metric for alternative in tolerance.alternatives for bound in alternative]
    return list(dict.fromkeys(keys))


def _counts(outputs: Mapping[str, Sequence[Comparison]], kind: str) -> dict[str, list[int]]:
    counts = {name: [each.counts.get(kind, 0) for each in seeds] for name, seeds in outputs.items()}
    return {name: seeds for name, seeds in counts.items() if any(seeds)}


def excuse_mismatches(found: Iterable[Finding], outcome: Outcome, known: KnownBad) -> ExcusedFindings:
    """Separate the mismatches in NaN and infinity that were accepted; more than these are a regression."""
    result = ExcusedFindings([], [])
    compared = {(each.output, each.seed): each for each in outcome.comparisons}
    for finding in found:
        moved = None
        if finding.reason is Reason.NON_FINITE_MISMATCH and finding.seed is not None:
            moved = _moved([compared[finding.output, finding.seed]], known)
        if moved is None:
            result.judged.append(finding)
        elif moved.nan_now > moved.nan_before or moved.inf_now > moved.inf_before:
            result.judged.append(_mismatch_finding(finding.output, Reason.REGRESSED, moved))
        else:
            result.excused.append(finding)
    return result


def _moved(seeds: Sequence[Comparison], known: KnownBad) -> NonFiniteMoved | None:
    """Return the mismatches of some seeds of one output now and at acceptance; None if it had none at these seeds."""
    output = seeds[0].output
    kinds = [known.nans.get(output, []), known.infinities.get(output, [])]
    length = max(map(len, kinds))
    common = [each for each in seeds if each.seed < length]
    if not common:
        return None
    before = [sum(kind[each.seed] for each in common) if kind else 0 for kind in kinds]
    if not any(before):
        return None
    now = [sum(each.counts.get(name, 0) for each in common) for name in ("nan_mismatched", "inf_mismatched")]
    return NonFiniteMoved(before[0], now[0], before[1], now[1])


def _mismatch_finding(output: str, reason: Reason, moved: NonFiniteMoved) -> Finding:
    current, baseline = moved.nan_now + moved.inf_now, moved.nan_before + moved.inf_before
    rule: Rule = "hard" if reason is Reason.REGRESSED else ""
    ratio = current / baseline
    return Finding(reason, output=output, current=current, baseline=baseline, ratio=ratio, rule=rule, fact=moved)


def excuse_bounds(broken: Iterable[Finding], known: KnownBad) -> ExcusedFindings:
    """Separate the broken bounds that were broken at acceptance."""
    result = ExcusedFindings([], [])
    for finding in broken:
        (result.excused if _is_excused(finding, known) else result.judged).append(finding)
    return result


def _is_excused(finding: Finding, known: KnownBad) -> bool:
    """Return whether a bound was broken at acceptance, at any seed, and has this seed there."""
    values = known.bounds.get(finding.output, {})
    if isinstance(finding.fact, NoAlternative):
        return any(key.startswith(_EITHER) and _has_seed(finding, seeds) for key, seeds in values.items())
    seeds = values.get(finding.metric, [])
    # A metric that was not defined, and now is, has no value to compare with.
    return _has_seed(finding, seeds) and (finding.current is None) == (seeds[finding.seed or 0] is None)


def _has_seed(finding: Finding, seeds: Sequence[float | None]) -> bool:
    return (finding.seed or 0) < len(seeds)


def excused_growth(output: OutputEvidence, excused: Iterable[Finding], known: KnownBad) -> Iterator[Finding]:
    """Yield the metrics of excused bounds that are worse than at acceptance, beyond a threshold and rounding.

    If no statistic judges the output, its mean |d| is limited, too.
    """
    for metric, current, baseline, growth in _excused_figures(output, excused, known):
        if exceeds_growth(output.comparisons, metric, current, baseline, growth):
            yield grown_finding(output.output, metric, current, baseline, growth)


def excused_gains(output: OutputEvidence, excused: Iterable[Finding], known: KnownBad) -> Iterator[Finding]:
    """Yield the same metrics where they are better to that extent, for an output that no statistic judges."""
    if output.ratios:
        return
    for metric, current, baseline, growth in _excused_figures(output, excused, known):
        # Better by so much is worse by so much with both sides exchanged.
        if exceeds_growth(output.comparisons, metric, baseline, current, growth):
            limit = 1 / allowed_ratio(metric, growth)
            found = grown_finding(output.output, metric, current, baseline, growth)
            yield replace(found, reason=Reason.IMPROVED, limit=limit, fact=MetricImproved())


class _ExcusedFigures(NamedTuple):
    """Hold a metric of an excused bound now and at acceptance, and the growth that is not a regression."""

    metric: Metric
    current: float
    baseline: float
    growth: float


def _excused_figures(output: OutputEvidence, excused: Iterable[Finding], known: KnownBad) -> Iterator[_ExcusedFigures]:
    if all(finding.output != output.output for finding in excused):
        return
    values = {key.removeprefix(_EITHER): seeds for key, seeds in known.bounds.get(output.output, {}).items()}
    if not output.ratios:
        accepted = output.entry.outputs[output.output].metrics.get("mean_abs_error", [])
        values = {"mean_abs_error": accepted, **values}
    for name, seeds in values.items():
        metric = metric_named(name, output.comparisons[0].described)
        current = mean_over_seeds([each.metrics.get(name) for each in output.comparisons[: len(seeds)]])
        baseline = mean_over_seeds(seeds[: len(output.comparisons)])
        if current is None or baseline is None:
            continue
        yield _ExcusedFigures(metric, current, baseline, _allowed_growth(output, name, maximum=metric.maximum))


def _allowed_growth(output: OutputEvidence, name: str, *, maximum: bool) -> float:
    """Return the growth of an excused metric that is not a regression, here or in another environment."""
    growth = output.tolerance.regression.get(name, _MAXIMUM_GROWTH if maximum else _OTHER_GROWTH)
    if output.same_environment:
        return growth
    dtype = output.comparisons[0].dtype
    if maximum:
        return (1 + growth) * other_environment_maximum_factor(dtype) - 1
    return max(growth, other_environment_growth(dtype))


def known_bad_improvements(
    outcome: Outcome, tolerances: Mapping[str, Tolerance], known: KnownBad, *, is_bad: bool
) -> Iterator[Finding]:
    """Yield the finding that a known-bad case is as it should be, or the outputs with fewer mismatches.

    `is_bad` says that the case still breaks a bound, or has mismatches.
    """
    if not is_bad and all(_has_bounds(tolerances.get(name), keys) for name, keys in known.bounds.items()):
        yield Finding(Reason.IMPROVED, fact=KnownBadFixed(known.reason))
        return
    for name in dict.fromkeys(each.output for each in outcome.comparisons):
        moved = _moved([each for each in outcome.comparisons if each.output == name], known)
        if moved is not None and (moved.nan_now < moved.nan_before or moved.inf_now < moved.inf_before):
            yield _mismatch_finding(name, Reason.IMPROVED, moved)


def _has_bounds(tolerance: Tolerance | None, keys: Iterable[str]) -> bool:
    """Return whether a tolerance still has the bounds that were broken: one that is gone proves nothing."""
    if tolerance is None:
        return False
    either: list[Bound] = [bound for alternative in tolerance.alternatives for bound in alternative]
    held = {bound.metric for bound in tolerance.bounds} | {_EITHER + bound.metric for bound in either}
    return held >= set(keys)
