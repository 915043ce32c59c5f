"""Did a run as a whole regress, and with which code does it exit?

Losses that are each too small to fail add up, over accepted values or over the cases of a suite. Findings on the run
report them, and count as failed cases.

Cumulative loss: the factor of a metric is its accepted value now over an earlier one, the product of all losses and
gains accepted since. A loss that was recovered counts as none, and a gain that is lost again step by step is seen. The
half-widths of the steps add in squares, as logarithms. The earlier value with the largest lower bound counts.

Combined loss: the cases of a suite whose bits changed are a sample of log ratios of mean |d|, all together and by the
dtype of outputs. Their mean with a t interval over cases is evidence that no case has alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, fsum, hypot, inf, log
from typing import NamedTuple

from msgspec.structs import replace

from precreg.measure import METRICS, mean_metrics, mean_over_seeds, metric_ratio
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
    Reason,
    RunFinding,
    Status,
    Verdict,
)
from precreg.verdict.judge import digests_agree
from precreg.verdict.limits import ROUNDING_FLOOR_ULP, seed_means
from precreg.verdict.regression import RUN_ALPHA
from precreg.verdict.statistics import INTERVAL_ALPHA, MIN_SAMPLES, error_ratios, mean_with_error, t_half_width, t_sf

# The exit code of a run in which no case depends on the change, or in which other shards have all cases.
NOTHING_TO_JUDGE = 0

# The factor allowed to a case for which no suite sets one, and the smallest single loss that is not small.
CUMULATIVE_BUDGET = 1 + DEFAULT_GROWTHS[CUMULATIVE_LOSS]

# Mean |d| alone, because several metrics of one case are not independent draws.
COMBINED_METRIC = "mean_abs_error"


def run_exit_code(
    verdicts: Iterable[Verdict], *, findings: Iterable[RunFinding] = (), empty: int = 2, strict: bool = False
) -> int:
    """Return 1 if anything is proven worse, otherwise 2 if anything could not be judged, otherwise 0.

    A finding on the run that nothing allows counts as a failed case. With `strict`, a case that is not clear could not
    be judged. Without a verdict and without such a finding, return `empty`.
    """
    every = tuple(verdicts)
    # A run that judged nothing by mistake must not pass, so `empty` is 2 unless the caller knows the reason.
    statuses = {verdict.status for verdict in every}
    unclear = strict and any(verdict.reason is Reason.NOT_CLEAR for verdict in every)
    if Status.FAILED in statuses or any(finding.binding for finding in findings):
        return 1
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
        # A suite is reported once: all its cases before those of one dtype.
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
    if baseline is None or not environment.has_seen(baseline.entry) or not _is_judged(result):
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
