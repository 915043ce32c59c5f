"""Did it get worse little by little? What losses come to that were accepted one at a time, each of them too small.

The factor of a metric is its accepted value now over one that was accepted before: the product of all that was
accepted since, losses and gains. So a loss that was made good is none, and a gain that is lost again little by little
is seen. The steps' own bounds say how sure that is: their distances, in logarithms, add in squares. Of all values
before, the one counts that the present one is most surely above, which is the smallest where chance has no part in it.

A single loss that is surely beyond what is allowed, and beyond BUDGET, is no small one: it was accepted for what it is,
and nothing before it counts any more. Smaller regressions that were accepted add up like losses that nothing refuses.

Growth below the rounding floor of the output dtype is no loss: what was smaller counts as the floor. Values of another
definition of the case are not compared, and of two numbers of seeds those that both have.

Did a whole suite get worse? Small losses of many cases, in one direction, are evidence that none of them is alone.

The cases whose bits changed are the sample: of each its ratio of mean |d|, and of these the mean with a t interval over
cases. How different they are is in the interval, too. What all of them share is not: so cases of the very same ratio,
which differ in nothing that matters, are one draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import exp, fsum, hypot, inf, log, sqrt
from typing import NamedTuple

from precreg.measure import METRICS, mean_metrics, mean_over_seeds, metric_ratio
from precreg.tolerance import DEFAULT_GROWTHS
from precreg.types import (
    CUMULATIVE_LOSS,
    STATISTIC,
    AcceptedValue,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Comparison,
    FindingKind,
    Location,
    RunFinding,
)
from precreg.verdict.growth import ROUNDING_FLOOR_ULP
from precreg.verdict.judge import digests_agree
from precreg.verdict.regression import RUN_ALPHA
from precreg.verdict.statistics import INTERVAL_ALPHA, MIN_SAMPLES, error_ratios, t_quantile, t_sf

CUMULATIVE_BUDGET = 1 + DEFAULT_GROWTHS[CUMULATIVE_LOSS]
"""What is allowed of a case that no suite tells of, and the smallest loss that is not small."""


class CumulativeLoss(NamedTuple):
    """How many times an earlier accepted value one metric is, at least `lower` times, and what that value was.

    `lower` is 0 where it is not known how sure the factor is. `steps` of those kept were accepted since; `before` is at
    least the rounding floor, and of a logarithm, as `current`, no ratio.
    """

    output: str
    metric: str
    factor: float
    lower: float
    current: float
    before: float
    since: AcceptedValue
    steps: int

    def __str__(self) -> str:
        """Say by how much, how sure that is, since when, in how many steps."""
        since = f"{self.since.date} ({self.since.reason})" if self.since.reason else self.since.date
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        sure = f"at least {self.lower:.4g}" if self.lower else "too few samples to tell from noise"
        return (
            f"{self.metric} of {self.output} is {self.factor:.4g} times ({sure}) what was accepted on {since}, "
            f"in {steps}: {self.current:.4g} against {self.before:.4g}"
        )


def cumulative_loss_finding(
    about: str, entry: BaselineEntry, budgets: Mapping[str, float], source: Location
) -> RunFinding | None:
    """Return what the run is told of a baseline that has surely crept beyond its budget: what is most beyond it.

    `budgets` has the factor that is allowed of each output; one that is not named may creep.
    """
    beyond = [found for found in cumulative_losses(entry, budgets) if found.lower > budgets.get(found.output, inf)]
    if not beyond:
        return None
    worst = max(beyond, key=lambda found: found.lower / budgets[found.output])
    message = f"{worst}; {budgets[worst.output]:.4g} times are allowed"
    return RunFinding(FindingKind.CREEP, about, message, worst.factor, source)


def cumulative_losses(entry: BaselineEntry, budgets: Mapping[str, float]) -> Iterator[CumulativeLoss]:
    """Yield every metric whose accepted value is above one that was accepted before, output by output."""
    for name in entry.outputs:
        for metric in mean_metrics():
            large = max(CUMULATIVE_BUDGET, budgets.get(name, inf))
            found = [one for one in _since(name, metric, entry, large) if one.factor > 1]
            if found:
                yield max(found, key=lambda one: (one.lower, one.factor))


def _since(name: str, metric: str, entry: BaselineEntry, large: float) -> Iterator[CumulativeLoss]:
    """Yield the ratio to each value before, the latest first, back to a single step that is surely large."""
    output = entry.outputs[name]
    now, floor = output.metrics.get(metric, []), _floor(metric, output)
    after, reach, joined, distance = now, entry.reach, 1, 0.0
    for index, value in reversed([*enumerate(entry.accepted)]):
        then = value.means.get(name, {}).get(metric, [])
        of_step = reach.get(name, {}).get(metric, inf)
        step = _ratio(metric, after, then, floor)
        if joined == 1 and step is not None and step.factor * exp(-of_step) > large:
            return
        distance = hypot(distance, of_step)
        found = _ratio(metric, now, then, floor)
        if found is not None and value.definition == entry.definition:
            lower = found.factor * exp(-distance)
            yield CumulativeLoss(name, metric, found.factor, lower, *found[1:], value, len(entry.accepted) - index)
        after, reach, joined = then, value.reach, value.steps


class _Ratio(NamedTuple):
    factor: float
    current: float
    before: float


def _ratio(metric: str, now: Sequence[float | None], then: Sequence[float | None], floor: float) -> _Ratio | None:
    """Compare the means over the seeds that both have; what was smaller than the floor counts as that."""
    seeds = min(len(now), len(then))
    current, before = mean_over_seeds(now[:seeds]), mean_over_seeds(then[:seeds])
    if current is None or before is None:
        return None
    factor = metric_ratio(METRICS[metric], current, max(before, floor))
    return None if factor is None else _Ratio(factor, current, max(before, floor))


def _floor(metric: str, output: BaselineOutput) -> float:
    """Return the value below which a metric is rounding; a logarithm of ULP has its floor within."""
    unit = METRICS[metric].unit
    if METRICS[metric].scale == "log2":
        return -inf
    scale = mean_over_seeds(output.metrics.get("ulp_scale", [])) or 0.0
    return ROUNDING_FLOOR_ULP * (1.0 if unit == "ULP" else scale)


COMBINED_METRIC = "mean_abs_error"


def combined_losses(results: Iterable[CaseResult], fingerprint: str) -> Iterator[RunFinding]:
    """Yield a finding for each suite that became materially worse as a whole, among cases that statistics judge.

    `fingerprint` is that of the run: what was accepted on another one tells of environments, and is left out. The level
    of a suite is that of the run over the number of suites with cases that changed.
    """
    suites = {
        suite: list(dict.fromkeys(pair for result in of_suite if (pair := _change(result, fingerprint)) is not None))
        for suite, of_suite in groupby(sorted(results, key=lambda result: result.id), _suite)
    }
    changed = {suite: pairs for suite, pairs in suites.items() if len(pairs) >= MIN_SAMPLES}
    for suite, pairs in changed.items():
        found = _finding(suite, pairs, RUN_ALPHA / len(changed))
        if found is not None:
            yield found


def _suite(result: CaseResult) -> str:
    return f"{result.tier}/{result.suite}"


def _change(result: CaseResult, fingerprint: str) -> tuple[float, float] | None:
    """Return the logarithm of a case's ratio, the mean over its outputs, and the growth that is not yet material."""
    baseline = result.baseline
    if baseline is None or baseline.entry.fingerprint != fingerprint or not _is_judged(result):
        return None
    logs = [
        log(change.ratio)
        for output, accepted in baseline.entry.outputs.items()
        for change in error_ratios(_seeds(result, output), accepted, baseline.entry.groups.get(output, ()))
        if change.metric == COMBINED_METRIC and change.ratio > 0
    ]
    material = max(tolerance.regression[STATISTIC] for tolerance in result.tolerances.values())
    return (fsum(logs) / len(logs), material) if logs else None


def _is_judged(result: CaseResult) -> bool:
    """Tell whether statistics judged a case: its bits changed, and no output was measured without a baseline for it."""
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


def _finding(suite: str, pairs: Sequence[tuple[float, float]], level: float) -> RunFinding | None:
    logs = [value for value, _ in pairs]
    mean = fsum(logs) / len(logs)
    spread = sqrt(fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1) / len(logs))
    freedom = len(logs) - 1
    lower = mean - t_quantile(INTERVAL_ALPHA, freedom) * spread
    chance = t_sf(mean / spread, freedom) if spread else 0.0
    if mean <= 0 or chance >= level or lower <= log(1 + max(material for _, material in pairs)):
        return None
    message = (
        f"{len(logs)} cases together: {COMBINED_METRIC} is {exp(mean):.4g} times the baseline's, "
        f"and at least {exp(lower):.4g}; "
        f"noise alone would say so with a chance of {chance:.2g}"
    )
    return RunFinding(FindingKind.COMBINED_LOSS, suite, message, exp(mean))
