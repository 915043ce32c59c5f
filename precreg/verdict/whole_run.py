"""Did a run as a whole regress, and with which code does it exit?

Losses that are each too small to fail add up, over accepted values or over the cases of a suite. Findings on the run
report them, and count as failed cases.

Cumulative loss: the factor of a metric is its accepted value now over an earlier one, the product of all losses and
gains accepted since. A loss that was recovered counts as none, and a gain that is lost again step by step is seen. The
half-widths of the steps add in squares, as logarithms. The earlier value with the largest lower bound counts.

Combined loss: the cases of a suite whose bits changed are a sample of log ratios of mean |d|, all together and by the
dtype of outputs. Their mean with a t interval over cases is evidence that no case has alone.

A run also has cases in which it could not see every loss: they passed with other bits, and little judged them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import exp, fsum, hypot, inf, log, prod
from typing import NamedTuple

from msgspec.structs import replace

from precreg.measure import METRICS, mean_metrics, mean_over_seeds, metric_named, metric_ratio
from precreg.tolerance import DEFAULT_GROWTHS
from precreg.types import (
    CUMULATIVE_LOSS,
    STATISTIC,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    CombinedLoss,
    Comparison,
    CumulativeLoss,
    Environment,
    FindingKind,
    Location,
    NotRegressed,
    Reason,
    RunFinding,
    Status,
    UnjudgedOutputs,
    Verdict,
)
from precreg.verdict.judge import digests_agree
from precreg.verdict.limits import MIN_ELEMENTS, ROUNDING_FLOOR_ULP, growth_metrics, seed_means
from precreg.verdict.recorded_figures import has_figures_alone
from precreg.verdict.regression import RUN_ALPHA
from precreg.verdict.statistics import INTERVAL_ALPHA, MIN_SAMPLES, error_ratios, mean_with_error, t_half_width, t_sf

# The exit code of a run in which no case depends on the change, or in which other shards have all cases.
NOTHING_TO_JUDGE = 0

# The factor allowed to a case for which no suite sets one, and the smallest single loss that is not small.
CUMULATIVE_BUDGET = 1 + DEFAULT_GROWTHS[CUMULATIVE_LOSS]

# Mean |d| alone, because several metrics of one case are not independent draws.
COMBINED_METRIC = "mean_abs_error"


def run_exit_code(
    verdicts: Iterable[Verdict],
    *,
    findings: Iterable[RunFinding] = (),
    empty: int = 2,
    strict: bool = False,
    unclaimed: bool = False,
) -> int:
    """Return 1 if anything is proven worse, otherwise 2 if anything could not be judged, otherwise 0.

    A finding on the run that nothing allows counts as a failed case. With `strict`, a case that is not clear could not
    be judged, and neither could `unclaimed` changes: those of files that belong to no case. Without a verdict and
    without such a finding, return `empty`.
    """
    every = tuple(verdicts)
    # A run that judged nothing by mistake must not pass, so `empty` is 2 unless the caller knows the reason.
    statuses = {verdict.status for verdict in every}
    unclear = strict and any(verdict.reason is Reason.NOT_CLEAR for verdict in every)
    if Status.FAILED in statuses or any(finding.binding for finding in findings):
        return 1
    if strict and unclaimed:
        return 2
    if not statuses:
        return empty
    if unclear or statuses & {Status.ERROR, Status.PROPOSED}:
        return 2
    return 0


def cumulative_loss_finding(
    about: str, entry: BaselineEntry, budgets: Mapping[str, float], source: Location
) -> RunFinding | None:
    """Return the finding for a case whose cumulative loss is surely beyond its budget, for the metric most beyond it.

    `budgets` has the allowed factor of each output; an output without one is not limited.
    """
    beyond = [found for found in cumulative_losses(entry, budgets) if found.lower > budgets.get(found.output, inf)]
    if not beyond:
        return None
    worst = max(beyond, key=lambda found: found.lower / budgets[found.output])
    fact = replace(worst, allowed=budgets[worst.output])
    return RunFinding(FindingKind.CREEP, about, factor=worst.factor, source=source, fact=fact)


def cumulative_losses(entry: BaselineEntry, budgets: Mapping[str, float]) -> Iterator[CumulativeLoss]:
    """Yield every metric whose accepted value is above an earlier one, output by output."""
    for name in entry.outputs:
        for metric in mean_metrics():
            large = max(CUMULATIVE_BUDGET, budgets.get(name, inf))
            found = [one for one in _since(name, metric, entry, large) if one.factor > 1]
            if found:
                yield max(found, key=lambda one: (one.lower, one.factor))


def _since(name: str, metric: str, entry: BaselineEntry, large: float) -> Iterator[CumulativeLoss]:
    """Yield the ratio to each earlier value, the latest first, back to a single step that is surely `large`."""
    output = entry.outputs[name]
    now, floor = output.metrics.get(metric, []), _floor(metric, output)
    after, half_widths, joined, half_width = now, entry.reach, 1, 0.0
    for index, value in reversed([*enumerate(entry.accepted)]):
        then = value.means.get(name, {}).get(metric, [])
        of_step = half_widths.get(name, {}).get(metric, inf)
        step = _ratio(metric, after, then, floor)
        # Whoever accepted a single large loss saw it, so the count begins anew after it.
        if joined == 1 and step is not None and step.factor * exp(-of_step) > large:
            return
        half_width = hypot(half_width, of_step)
        found = _ratio(metric, now, then, floor)
        # Values of another definition of the case cannot be compared, but their steps belong to the way.
        if found is not None and value.definition == entry.definition:
            lower = found.factor * exp(-half_width)
            steps = len(entry.accepted) - index
            yield CumulativeLoss(name, metric, found.factor, lower, *found[1:], value.date, value.reason, steps)
        after, half_widths, joined = then, value.reach, value.steps


class _Ratio(NamedTuple):
    factor: float
    current: float
    before: float


def _ratio(metric: str, now: Sequence[float | None], then: Sequence[float | None], floor: float) -> _Ratio | None:
    """Compare the means over the seeds that both have; an earlier mean below the floor counts as the floor."""
    seeds = min(len(now), len(then))
    current, before = mean_over_seeds(now[:seeds]), mean_over_seeds(then[:seeds])
    if current is None or before is None:
        return None
    factor = metric_ratio(METRICS[metric], current, max(before, floor))
    return None if factor is None else _Ratio(factor, current, max(before, floor))


def _floor(metric: str, output: BaselineOutput) -> float:
    """Return the value below which a metric is rounding."""
    # log2(ULP + 1/4) has its floor within.
    unit = METRICS[metric].unit
    if METRICS[metric].scale == "log2":
        return -inf
    scale = mean_over_seeds(output.metrics.get("ulp_scale", [])) or 0.0
    return ROUNDING_FLOOR_ULP * (1.0 if unit == "ULP" else scale)


def combined_losses(results: Iterable[CaseResult], environment: Environment) -> Iterator[RunFinding]:
    """Yield a finding for each suite that regressed as a whole, among cases that the statistic judges.

    `environment` is the run's. Cases whose baseline it does not know are left out, because their ratios show the
    difference of environments.
    """
    pools: defaultdict[CasePool, dict[tuple[float, float], None]] = defaultdict(dict)
    for result in results:
        for pool, ratio in _log_ratios(result, environment):
            # Cases with the very same ratio differ in nothing that matters, so together they are one draw.
            pools[pool][ratio] = None
    # Where a suite has outputs of one dtype, all of them are no other pool.
    of_dtypes = [ratios for pool, ratios in pools.items() if pool.dtype]
    tested = {
        pool: [*ratios]
        for pool, ratios in sorted(pools.items())
        if len(ratios) >= MIN_SAMPLES and (pool.dtype or ratios not in of_dtypes)
    }
    reported = set()
    for pool, ratios in tested.items():
        # All pools that changed share the error level of the run (Bonferroni).
        found = _combined_loss(pool, ratios, RUN_ALPHA / len(tested))
        # A suite is reported once: all its cases first, then the cases of one dtype.
        if found is not None and pool.suite not in reported:
            reported.add(pool.suite)
            yield found


class CasePool(NamedTuple):
    """The changed cases of a suite whose ratios are one sample: all, or those with outputs of one dtype.

    Outputs of fewer elements than the statistic needs are a sample of their own, because their ratios vary much more.
    """

    suite: str
    dtype: str = ""
    small: bool = False


def _suite(result: CaseResult) -> str:
    return f"{result.tier}/{result.suite}"


def _log_ratios(result: CaseResult, environment: Environment) -> Iterator[tuple[CasePool, tuple[float, float]]]:
    """Yield the pools of a case, each with the mean log ratio over its outputs and its minimum relevant growth."""
    baseline = result.baseline
    here = environment.of_case(result.outcome.execution)
    if baseline is None or not here.has_seen(baseline.entry) or not _is_judged(result):
        return
    logs: defaultdict[CasePool, list[float]] = defaultdict(list)
    for output, accepted in baseline.entry.outputs.items():
        seeds = _seeds(result, output)
        judged = error_ratios(seeds, accepted, baseline.entry.groups.get(output, ()))
        ratios = [ratio.ratio for ratio in judged if ratio.metric == COMBINED_METRIC]
        small = not judged
        current, before = seed_means(seeds, accepted, COMBINED_METRIC)
        if small and current is not None and before:
            ratios = [current / before]
        for pool in {CasePool(_suite(result), dtype, small) for dtype in ("", accepted.dtype)}:
            logs[pool] += [log(ratio) for ratio in ratios if 0 < ratio < inf]
    min_growth = max(tolerance.regression[STATISTIC] for tolerance in result.tolerances.values())
    yield from ((pool, (fsum(known) / len(known), min_growth)) for pool, known in logs.items() if known)


def _is_judged(result: CaseResult) -> bool:
    """Return whether the statistic judged a case: its bits changed, and each output has a baseline."""
    baseline = result.baseline
    return (
        baseline is not None
        and result.outcome.definition == baseline.entry.definition
        and all(STATISTIC in tolerance.regression for tolerance in result.tolerances.values())
        and baseline.entry.outputs.keys() == result.outcome.execution.outputs.keys()
        and baseline.entry.outputs.keys() == result.tolerances.keys()
        and not all(
            digests_agree(digests, baseline.entry.outputs[name].digests)
            for name, digests in result.outcome.execution.outputs.items()
        )
    )


def _seeds(result: CaseResult, output: str) -> Sequence[Comparison]:
    assert result.baseline is not None
    seeds = len(result.baseline.entry.inputs)
    return [each for each in result.outcome.comparisons if each.output == output and each.seed < seeds]


def _combined_loss(pool: CasePool, ratios: Sequence[tuple[float, float]], alpha: float) -> RunFinding | None:
    mean, standard_error = mean_with_error([value for value, _ in ratios])
    cases = len(ratios)
    lower = mean - t_half_width(standard_error, cases, INTERVAL_ALPHA)
    p_value = t_sf(mean / standard_error, cases - 1) if standard_error else 0.0
    min_growth = max(growth for _, growth in ratios)
    if mean <= 0 or p_value >= alpha or lower <= log(1 + min_growth):
        return None
    fact = CombinedLoss(cases, COMBINED_METRIC, exp(mean), exp(lower), p_value, pool.dtype, pool.small)
    return RunFinding(FindingKind.COMBINED_LOSS, pool.suite, factor=exp(mean), fact=fact)


class UnseenKind(StrEnum):
    """The reason why a run could not see every loss of a case that passed with other bits, the weakest evidence first.

    report/describe.py has the sentences.
    """

    # No statistic, threshold on an average or hard rule judges an output whose bits changed.
    NO_POWER = "no_power"
    # The ratio for small outputs alone judges an output whose bits changed.
    SMALL_OUTPUTS = "small_outputs"
    # A ratio alone judges figures of a table, whose noise is unknown.
    FIGURES_ALONE = "figures_alone"
    # The baseline is from another environment, and no other version of the code judged here.
    WIDER_LIMITS = "wider_limits"
    # Fresh inputs neither proved nor excluded a loss.
    NOT_CLEAR = "not_clear"


# Reasons of cases that passed with other bits than the baseline's. A declared failure is judged by no baseline.
_OTHER_BITS = frozenset({Reason.WITHIN_TOLERANCE, Reason.IMPROVED, Reason.KNOWN_BAD})


def unseen_cases(results: Iterable[CaseResult]) -> dict[UnseenKind, list[CaseResult]]:
    """Return the cases of each kind in which a run could not see every loss, without empty kinds."""
    found: dict[UnseenKind, list[CaseResult]] = {kind: [] for kind in UnseenKind}
    for result in results:
        kind = unseen_kind(result)
        if kind is not None:
            found[kind].append(result)
    return {kind: cases for kind, cases in found.items() if cases}


def unseen_kind(result: CaseResult) -> UnseenKind | None:
    """Return why the run could not see every loss of a case, by the first kind that applies; None if it could.

    A case with the baseline's bits, and one that a test on fresh inputs cleared, hide no loss.
    """
    verdict, end = result.verdict, result.paired.end if result.paired else None
    if verdict.status is not Status.PASSED:
        return None
    if verdict.reason is Reason.NOT_CLEAR or end == "not_clear":
        return UnseenKind.NOT_CLEAR
    if verdict.reason not in _OTHER_BITS or end is not None:
        return None
    if has_figures_alone(result.outcome.comparisons):
        return UnseenKind.FIGURES_ALONE
    of_outputs = [_unseen_output(result, name, unjudged) for name, unjudged in _unjudged_outputs(result)]
    if UnseenKind.NO_POWER in of_outputs:
        return UnseenKind.NO_POWER
    if UnseenKind.SMALL_OUTPUTS in of_outputs:
        return UnseenKind.SMALL_OUTPUTS
    return UnseenKind.WIDER_LIMITS if verdict.accepted_in is not None else None


def _unjudged_outputs(result: CaseResult) -> Iterator[tuple[str, UnjudgedOutputs]]:
    facts = [finding.fact for finding in result.verdict.findings]
    every = [unjudged for fact in facts if isinstance(fact, NotRegressed) for unjudged in fact.unjudged]
    yield from ((name, unjudged) for unjudged in every for name in unjudged.outputs)


def _unseen_output(result: CaseResult, name: str, unjudged: UnjudgedOutputs) -> UnseenKind | None:
    """Return the kind of an output without a statistic; None if it did not change, or if another rule sees losses."""
    accepted = None if result.baseline is None else result.baseline.entry.outputs.get(name)
    if accepted is None or digests_agree(result.outcome.execution.outputs.get(name, ()), accepted.digests):
        return None
    # Hard rules: any error of an exact output, and any lost match of a golden.
    if result.role == "golden" or mean_over_seeds(accepted.metrics.get("mean_abs_error", [])) == 0:
        return None
    elements, seeds = prod(accepted.shape), len(accepted.digests)
    metrics = [metric_named(each, result.outcome.described) for each in growth_metrics(result.tolerances[name])]
    # A threshold on a maximum sees large losses alone, and thresholds need elements.
    if elements * seeds >= MIN_ELEMENTS and not all(metric.maximum for metric in metrics):
        return None
    by_ratio = elements < MIN_ELEMENTS and unjudged.cause == "few_samples" and result.verdict.accepted_in is None
    return UnseenKind.SMALL_OUTPUTS if by_ratio else UnseenKind.NO_POWER
