"""When may a paired run stop drawing seeds, and at which error level does it judge meanwhile?

A paired run may draw as many seeds as it likes of both versions. Each interim analysis of them is another opportunity
for a false alarm. So the planned analyses share the error level of the case evenly (Bonferroni). However
they depend on each other, and wherever they end, the probability of any false alarm is at most that level.
docs/pairs.md derives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2

from msgspec.structs import replace

from precreg.types import STATISTIC, BaselineEntry, Comparison, Outcome, Reason, Status, Tolerance, Verdict
from precreg.verdict.judge import Policy, comparisons_by_output
from precreg.verdict.regression import MIN_BASELINES, min_relevant_growth
from precreg.verdict.statistics.ratios import error_ratios

# Seeds of a case at most, unless it has more itself. From 3 seeds it allows four analyses (3, 6, 12, 24). In the
# example of docs/pairs.md these find every loss of 1.1 times and half the losses of 1.05 times.
MAX_SEEDS = 32

# Seconds that both versions of one case may take together after the first analysis.
MAX_SECONDS = 2.0


def interim_analyses(seeds: int, max_seeds: int) -> tuple[int, ...]:
    """Return the numbers of seeds to analyse: the case's own, then twice as many each time, up to `max_seeds`."""
    analyses = [seeds]
    while analyses[-1] * 2 <= max_seeds:
        analyses.append(analyses[-1] * 2)
    return tuple(analyses)


def split_alpha(policy: Policy, analyses: int) -> Policy:
    """Return the policy of each analysis, as for a project with `analyses` times the baselines."""
    # case_alpha rounds the number of baselines up to a power of two, so the number of analyses is rounded up, too.
    return replace(policy, baselines=max(policy.baselines, MIN_BASELINES) * 2 ** ceil(log2(analyses)))


def is_conclusive(
    verdict: Verdict, outcome: Outcome, other: BaselineEntry, tolerances: Mapping[str, Tolerance]
) -> bool:
    """Return whether more seeds could not change a verdict: the bits are the same, it failed, or it is futile."""
    # A time over the budget may be the machine's, so it is measured once more.
    if verdict.reason in (Reason.IDENTICAL, Reason.OVER_BUDGET):
        return verdict.reason is Reason.IDENTICAL
    if verdict.status is not Status.PASSED:
        return True
    return all(
        _is_futile(seeds, other, tolerances[name])
        for name, seeds in comparisons_by_output(outcome).items()
        if outcome.execution.outputs[name] != tuple(other.outputs[name].digests)
    )


def _is_futile(seeds: list[Comparison], other: BaselineEntry, tolerance: Tolerance) -> bool:
    """Return whether the upper bound of each average of an output excludes a relevant loss."""
    # Without the statistic, thresholds and bounds judge, and these do not become clearer with more seeds.
    if STATISTIC not in tolerance.regression:
        return True
    output, dtype = seeds[0].output, seeds[0].dtype
    found = error_ratios(seeds, other.outputs[output], other.groups.get(output, ()))
    return bool(found) and all(
        ratio.upper <= 1 + min_relevant_growth(tolerance, ratio.metric, dtype, same_environment=True) for ratio in found
    )


def without_bounds(tolerance: Tolerance) -> Tolerance:
    """Return a tolerance that judges regressions alone, for seeds that a pair adds to the case's own.

    Bounds apply to the case's own seeds: a case must not fail at its 20th seed in a pair and pass otherwise.
    """
    return replace(tolerance, bounds=(), alternatives=())
