"""Scores counted: how many faults were caught and how many harmless changes flagged, per tier and per fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from precreg.quality.score import Effect, Score

SLIGHT = 1.5
"""A growth of the mean error below this is slight: what tolerances never see, and baselines should."""


class Share(Struct, frozen=True):
    """`part` of `whole`."""

    part: int
    whole: int

    @property
    def ratio(self) -> float | None:
        """Return the share as a number, or None of nothing."""
        return self.part / self.whole if self.whole else None


class Tally(Struct, frozen=True):
    """What came of the faults and harmless changes that were planted under one name (a tier, a fault, or all).

    `planted` and `harmless` count those that were judged. `caught`: of the faults that had an effect. `caught_worse`:
    of those that made the result worse; `caught_slight`: of those whose mean error grew by less than SLIGHT times.
    `flagged`: of the harmless changes that had an effect, in cases judged by their errors; `flagged_bits`: of those in
    cases that promise bits, where to flag them is right. `errors` could not be judged.
    """

    name: str
    cases: int
    planted: int
    caught: Share
    caught_worse: Share
    caught_slight: Share
    harmless: int
    flagged: Share
    flagged_bits: Share
    errors: int


def tally(name: str, scores: Iterable[Score]) -> Tally:
    """Count scores."""
    every = list(scores)
    judged = [score for score in every if score.effect is not Effect.ERROR]
    faults = [score for score in judged if score.harmful and score.effect is not Effect.NO_EFFECT]
    changes = [score for score in judged if not score.harmful and score.effect is not Effect.NO_EFFECT]
    worse = [score for score in faults if score.worse]
    return Tally(
        name=name,
        cases=len({score.case for score in every}),
        planted=sum(score.harmful for score in judged),
        caught=_share(faults, Effect.CAUGHT),
        caught_worse=_share(worse, Effect.CAUGHT),
        caught_slight=_share([score for score in worse if _is_slight(score)], Effect.CAUGHT),
        harmless=sum(not score.harmful for score in judged),
        flagged=_share([score for score in changes if not score.pinned], Effect.FALSE_ALARM),
        flagged_bits=_share([score for score in changes if score.pinned], Effect.FALSE_ALARM),
        errors=len(every) - len(judged),
    )


def tallies(scores: Sequence[Score], key: Callable[[Score], str], names: Iterable[str]) -> list[Tally]:
    """Count scores per name that `key` gives them, in the order of names; those without a score are left out."""
    grouped = {name: [score for score in scores if key(score) == name] for name in names}
    return [tally(name, group) for name, group in grouped.items() if group]


def missed(scores: Iterable[Score]) -> list[Score]:
    """Return the faults that made a result worse and were not caught, the worst first."""
    found = [score for score in scores if score.effect is Effect.MISSED and score.worse]
    return sorted(found, key=lambda score: (-(score.factor or 0.0), score.case, score.fault))


def any_judged(scores: Iterable[Score]) -> bool:
    """Tell whether the gate could judge one fault or harmless change at least."""
    return any(score.effect is not Effect.ERROR for score in scores)


def _share(scores: Sequence[Score], effect: Effect) -> Share:
    return Share(sum(score.effect is effect for score in scores), len(scores))


def _is_slight(score: Score) -> bool:
    return score.factor is not None and score.factor < SLIGHT


def broken(every: Tally, at_least: float | None, at_most: float | None) -> list[str]:
    """Say which of two limits is broken: the least share of worse results caught, the most harmless changes flagged.

    A share of nothing breaks neither.
    """
    detection, alarms = every.caught_worse.ratio, every.flagged.ratio
    problems = []
    if at_least is not None and detection is not None and detection < at_least:
        problems.append(f"detection {detection:.4f} is below {at_least:g}")
    if at_most is not None and alarms is not None and alarms > at_most:
        problems.append(f"false alarms {alarms:.4f} are above {at_most:g}")
    return problems
