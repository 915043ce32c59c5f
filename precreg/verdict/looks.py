"""More seeds until it is clear: after how many to look, at which error level, and when more can change nothing.

A paired run may draw as many seeds as it likes of both versions. Each look at them is one more chance for a false
alarm, so the case's error level is shared by all looks that are planned, evenly (Bonferroni): whatever the dependence
between looks, and wherever they end, the chance that any is wrong is at most the level. docs/pairs.md derives it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from precreg.records import BaselineEntry
from precreg.types import Comparison, Outcome, Reason, Status, Tolerance, Verdict
from precreg.verdict.judge import Policy
from precreg.verdict.paired import Change, changes

MOST_SEEDS = 32
"""So many are drawn at most, unless a case has more."""

MOST_SECONDS = 2.0
"""So long both versions of one case may take together, after the first look."""

_OF_SEEDS = (Reason.IDENTICAL, Reason.OVER_BUDGET)


def planned(seeds: int, most: int) -> tuple[int, ...]:
    """Return after how many seeds to look: the case's own, then twice as many each time, up to the most."""
    looks = [seeds]
    while looks[-1] * 2 <= most:
        looks.append(looks[-1] * 2)
    return tuple(looks)


def shared(policy: Policy, looks: int) -> Policy:
    """Return the policy at each of so many looks."""
    return policy


def is_clear(verdict: Verdict, outcome: Outcome, other: BaselineEntry, policy: Policy) -> bool:
    """Tell whether more seeds could not change a verdict: bits are the same, it failed, or it is surely not worse.

    Surely not worse is an output of which every average of errors has its upper bound at most at the material ratio.
    A time over the budget is measured once more.
    """
    if verdict.reason in _OF_SEEDS:
        return verdict.reason is Reason.IDENTICAL
    if verdict.status is not Status.PASSED:
        return True
    return all(found and all(change.upper <= 1.02 for change in found) for found in _changes(outcome, other))


def _changes(outcome: Outcome, other: BaselineEntry) -> Iterator[tuple[Change, ...]]:
    by_output: dict[str, list[Comparison]] = {}
    for comparison in outcome.comparisons:
        by_output.setdefault(comparison.output, []).append(comparison)
    for name, seeds in by_output.items():
        yield changes(seeds, other.outputs[name], other.groups.get(name, []))


def without_bounds(tolerance: Tolerance) -> Tolerance:
    """Return what judges change alone: bounds hold for the seeds of the case, and not for those that a pair adds."""
    return replace(tolerance, bounds=(), alternatives=())
