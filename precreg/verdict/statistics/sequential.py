"""More seeds until it is clear: after how many to look, at which error level, and when more can change nothing.

A paired run may draw as many seeds as it likes of both versions. Each look at them is one more chance for a false
alarm, so the case's error level is shared by all looks that are planned, evenly (Bonferroni): whatever the dependence
between looks, and wherever they end, the chance that any is wrong is at most the level. docs/pairs.md derives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2

from msgspec.structs import replace

from precreg.types import STATISTIC, BaselineEntry, Comparison, Outcome, Reason, Status, Tolerance, Verdict
from precreg.verdict.judge import Policy
from precreg.verdict.regression import MIN_BASELINES, min_relevant_growth
from precreg.verdict.statistics.ratios import error_ratios

MAX_SEEDS = 32
"""So many are drawn at most, unless a case has more."""


MAX_SECONDS = 2.0
"""So long both versions of one case may take together, after the first look."""


def interim_analyses(seeds: int, most: int) -> tuple[int, ...]:
    """Return after how many seeds to look: the case's own, then twice as many each time, up to the most."""
    looks = [seeds]
    while looks[-1] * 2 <= most:
        looks.append(looks[-1] * 2)
    return tuple(looks)


def split_alpha(policy: Policy, looks: int) -> Policy:
    """Return the policy at each of so many looks: as if there were so many times the baselines.

    Their number is rounded up to a power of two first, because the error level is.
    """
    return replace(policy, baselines=max(policy.baselines, MIN_BASELINES) * 2 ** ceil(log2(looks)))


def is_conclusive(
    verdict: Verdict, outcome: Outcome, other: BaselineEntry, tolerances: Mapping[str, Tolerance]
) -> bool:
    """Tell whether more seeds could not change a verdict: bits are the same, it failed, or it is surely not worse.

    Surely not worse is an output of which every average of errors has an upper bound that is not material. A time over
    the budget is measured once more.
    """
    if verdict.reason in (Reason.IDENTICAL, Reason.OVER_BUDGET):
        return verdict.reason is Reason.IDENTICAL
    if verdict.status is not Status.PASSED:
        return True
    by_output: dict[str, list[Comparison]] = {}
    for comparison in outcome.comparisons:
        if outcome.execution.outputs[comparison.output] != tuple(other.outputs[comparison.output].digests):
            by_output.setdefault(comparison.output, []).append(comparison)
    return all(_surely_not_worse(seeds, other, tolerances[name]) for name, seeds in by_output.items())


def _surely_not_worse(seeds: list[Comparison], other: BaselineEntry, tolerance: Tolerance) -> bool:
    """Tell so of one output; where no statistic judges it, more seeds are of no use."""
    if STATISTIC not in tolerance.regression:
        return True
    output, dtype = seeds[0].output, seeds[0].dtype
    found = error_ratios(seeds, other.outputs[output], other.groups.get(output, ()))
    return bool(found) and all(
        change.upper <= 1 + min_relevant_growth(tolerance, change.metric, dtype, alike=True) for change in found
    )


def without_bounds(tolerance: Tolerance) -> Tolerance:
    """Return what judges change alone: bounds hold for the seeds of the case, and not for those that a pair adds."""
    return replace(tolerance, bounds=(), alternatives=())
