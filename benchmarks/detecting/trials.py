"""Trials: what does each rule say of each change, at seeds of their own?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from detecting.elsewhere import Elsewhere
from detecting.measured import ORIGINAL, Sample
from detecting.operator import Operator
from detecting.pairs import Paired, goes_on, on_own_seeds, paired
from detecting.rules import (
    ALONE,
    ALONE_ELSEWHERE,
    CASE,
    DEFAULT,
    DEFAULT_ELSEWHERE,
    RULES,
    baseline_of,
    other_bits,
    verdict,
)
from precreg.report import add_verdict_messages
from precreg.types import Status, Verdict

# Trials that are paired unless the command line says otherwise: a change that is not clear takes over a thousand seeds.
PAIRED = 5


class Plan(NamedTuple):
    """The number of trials, the own seeds of each, the number that is paired, and the other environment, if any."""

    trials: int
    seeds: int = CASE.seeds
    paired: int = PAIRED
    there: Elsewhere | None = None

    def of_trial(self, samples: Sequence[Sample], trial: int) -> Sequence[Sample]:
        """Return the samples of one trial."""
        return samples[trial * self.seeds : (trial + 1) * self.seeds]


class Told(NamedTuple):
    """What the rules that were asked said of one change in one trial, and `evidence`, what precreg's own said.

    `pairs` has the ends of the rules that draw fresh seeds.
    """

    operator: str
    change: str
    trial: int
    flags: dict[str, bool]
    same_bits: bool
    evidence: dict[str, str]
    pairs: dict[str, Paired]


def told(operator: Operator, found: Mapping[str, Sequence[Sample]], plan: Plan) -> Iterator[Told]:
    """Ask every rule about every change of an operator, trial by trial, and pairs in the first ones."""
    for trial in range(plan.trials):
        own = {name: plan.of_trial(given, trial) for name, given in found.items()}
        verdicts, pairs = by_precreg(operator, own, trial, plan)
        for change in operator.changes():
            given = {name: of[change] for name, of in verdicts.items()}
            flags = {name: one.status is Status.FAILED for name, one in given.items()}
            flags |= {name: rule(own[change], own[ORIGINAL]) for name, rule in RULES.items()}
            same = not other_bits(own[change], own[ORIGINAL])
            evidence = {name: said(one) for name, one in given.items()}
            ends = {name: of[change] for name, of in pairs.items()}
            yield Told(operator.name, change, trial, flags, same, evidence, ends)


Verdicts = dict[str, dict[str, Verdict]]
Ends = dict[str, dict[str, Paired]]


def by_precreg(
    operator: Operator, own: Mapping[str, Sequence[Sample]], trial: int, plan: Plan
) -> tuple[Verdicts, Ends]:
    """Return precreg's verdicts on every change by rule, and the ends of those rules that pair."""
    here = baseline_of(own[ORIGINAL])
    alone = {change: verdict(own[change], here) for change in operator.changes()}
    verdicts: Verdicts = {ALONE: alone}
    pairs: Ends = {}
    if trial < plan.paired:
        pairs[DEFAULT] = paired(operator, alone, trial)
    if plan.there is not None:
        stored = plan.there.baseline(plan.of_trial(plan.there.samples[operator.name], trial))
        elsewhere = {change: verdict(own[change], stored) for change in operator.changes()}
        verdicts[ALONE_ELSEWHERE] = elsewhere
        if DEFAULT in pairs:
            pairs[DEFAULT_ELSEWHERE] = after_other_baseline(elsewhere, pairs[DEFAULT])
    ends = {rule: {change: end.verdict for change, end in of.items()} for rule, of in pairs.items()}
    return verdicts | ends, pairs


def after_other_baseline(first: Mapping[str, Verdict], here: Mapping[str, Paired]) -> dict[str, Paired]:
    """Return the ends of changes that a baseline from elsewhere judged first.

    A change that passes with other bits goes on to the accepted version. That computes the own seeds here, which gives
    what a baseline of this environment has, so the end is the one `here`.
    """
    return {change: here[change] if goes_on(given) else on_own_seeds(given) for change, given in first.items()}


def said(given: Verdict) -> str:
    """Give the words of a verdict."""
    return f"{given.reason}: {add_verdict_messages(given).message}"
