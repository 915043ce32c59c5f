"""What `precreg run --pair` says of changes: both versions draw more seeds until the verdict is clear.

Looks, levels and what is clear are those of verdict/statistics/looks.py. Only time is no matter here: what there is to
compute is small, so seeds alone bound a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from detecting.measured import ORIGINAL, Sample, samples
from detecting.operator import Operator
from detecting.rules import CASE, ENVIRONMENT, PROMISED, baseline_of, outcome_of, tolerance_of
from precreg.types import Baseline, Verdict
from precreg.verdict import Policy, judge_case
from precreg.verdict.statistics import MAX_SEEDS, interim_analyses, is_conclusive, split_alpha

FURTHER = 100_000
"""Seeds that trials draw beyond their own begin here: neither other trials nor labels have them."""

LOOKS = interim_analyses(CASE.seeds, MAX_SEEDS)
"""After how many seeds a pair looks."""


class Paired(NamedTuple):
    """The verdict on a change after the last look at it, how many seeds that took, and whether it is clear."""

    verdict: Verdict
    seeds: int
    clear: bool


def paired(operator: Operator, own: Mapping[str, Sequence[Sample]], trial: int) -> dict[str, Paired]:
    """Judge every change of an operator by the original; `own` is what both gave at the seeds of the trial."""
    found = {name: list(given) for name, given in own.items()}
    told: dict[str, Paired] = {}
    open_ = [name for name in found if name != ORIGINAL]
    for look, seeds in enumerate(LOOKS):
        more = range(FURTHER + trial * MAX_SEEDS + LOOKS[look - 1], FURTHER + trial * MAX_SEEDS + seeds)
        drawn = samples(only(operator, open_), more) if look and open_ else {}
        found = {name: found[name] + drawn.get(name, []) for name in (ORIGINAL, *open_)}
        baseline = baseline_of(found[ORIGINAL])
        told |= {name: judged(found[name], baseline) for name in open_}
        open_ = [name for name in open_ if not told[name].clear]
    return told


def only(operator: Operator, changes: Sequence[str]) -> Operator:
    """Return an operator with some of its changes."""
    every = operator.changes()
    return operator._replace(harmful={name: every[name] for name in changes}, harmless={})


def judged(current: Sequence[Sample], baseline: Baseline) -> Paired:
    """Look once at as many seeds as there are."""
    tolerances = {"out": tolerance_of(current[0].comparison.dtype)}
    outcome = outcome_of(current)
    policy = split_alpha(Policy(baselines=PROMISED), len(LOOKS))
    verdict = judge_case(CASE, outcome, tolerances, baseline, ENVIRONMENT, policy)
    return Paired(verdict, len(current), is_conclusive(verdict, outcome, baseline.entry, tolerances))
