"""Planting: every case is run as it is and with each fault, and each run is judged by the case's own baseline.

What came of planting one fault in one case: a pure function of two results, the case's own and the faulted one.

Scores counted: how many faults were caught and how many harmless changes flagged, per tier and per fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic.faults import Fault
from precreg.baseline import Baselines
from precreg.measure import mean_over_seeds
from precreg.quality.variants import make_variant, run_variant
from precreg.run import Plan, run_and_judge
from precreg.types import Budget, Case, CaseResult, Status, Tier
from precreg.verdict import Policy

MIN_WORSE_FACTOR = 1.02
"""The growth of the mean absolute error from which a result has become worse, and not only other bits."""


class Effect(StrEnum):
    """No effect: the same bits. A fault is caught or missed, a harmless change silent or a false alarm.

    Error: the gate could not judge, and said so; it counts as neither.
    """

    NO_EFFECT = "no effect"
    CAUGHT = "caught"
    MISSED = "missed"
    SILENT = "silent"
    FALSE_ALARM = "false alarm"
    ERROR = "error"


class Score(Struct, frozen=True):
    """One fault in one case: what the gate made of it, by which reason, output and metric, and how much worse it was.

    `factor` is the mean absolute error with the fault divided by that without, over all seeds, of the output where it
    grew most; inf where there was none before, and None where it could not be measured. `worse` says that it is above
    WORSE, that elements of a golden match no more, or that figures are no figures: NaN, another shape, repeats that
    differ. `pinned` says that the case promises bits, being held against a golden or `exact`: it has to flag harmless
    changes, too.
    """

    case: str
    tier: Tier
    suite: str
    fault: str
    harmful: bool
    pinned: bool
    effect: Effect
    worse: bool = False
    factor: float | None = None
    reason: str = ""
    output: str = ""
    metric: str = ""
    message: str = ""


class Unplanted(Struct, frozen=True):
    """A case that no fault could be judged in, and why."""

    case: str
    tier: Tier
    why: str


def score_fault(case: Case, plain: CaseResult, faulted: CaseResult, fault: Fault) -> Score:
    """Score a fault in a case; `plain` is the case's result without it, which has passed."""
    pinned = case.role == "golden" or case.exact
    place = (case.id, case.tier, case.suite, fault.name, fault.harmful, pinned)
    unaltered = Score(*place, Effect.NO_EFFECT, factor=1.0)
    verdict = faulted.verdict
    if verdict.status is not Status.ERROR and _same_bits(plain, faulted):
        return unaltered
    first = verdict.findings[0]
    told = replace(
        unaltered, reason=verdict.reason, message=verdict.message, output=first.output, metric=first.metric, factor=None
    )
    if verdict.status is Status.ERROR:
        return replace(told, effect=Effect.ERROR)
    factor = _factor(plain, faulted)
    worse = (
        _unlike(plain, faulted) or _matches_lost(plain, faulted) or (factor is not None and factor > MIN_WORSE_FACTOR)
    )
    effects = (Effect.MISSED, Effect.CAUGHT) if fault.harmful else (Effect.SILENT, Effect.FALSE_ALARM)
    return replace(told, effect=effects[verdict.status is Status.FAILED], worse=worse, factor=factor)


def _same_bits(plain: CaseResult, faulted: CaseResult) -> bool:
    before, after = plain.outcome.execution, faulted.outcome.execution
    return before.outputs == after.outputs and not after.unsteady


def _means(result: CaseResult, metric: str) -> dict[str, float | None]:
    comparisons = result.outcome.comparisons
    names = dict.fromkeys(comparison.output for comparison in comparisons)
    return {
        name: mean_over_seeds(
            [comparison.metrics.get(metric) for comparison in comparisons if comparison.output == name]
        )
        for name in names
    }


def _factor(plain: CaseResult, faulted: CaseResult) -> float | None:
    """Return by how much the mean error grew where it grew most."""
    before, after = _means(plain, "mean_abs_error"), _means(faulted, "mean_abs_error")
    ratios = [
        _ratio(now, then) for name, now in after.items() if (then := before.get(name)) is not None and now is not None
    ]
    return max(ratios, default=None)


def _ratio(now: float, then: float) -> float:
    return now / then if then else (inf if now else 1.0)


def _matches_lost(plain: CaseResult, faulted: CaseResult) -> bool:
    """Tell whether fewer elements of a golden match than before."""
    if plain.role != "golden":
        return False
    before, after = _means(plain, "match_ratio"), _means(faulted, "match_ratio")
    return any((after.get(name) or 0.0) < (then or 0.0) for name, then in before.items())


def _unlike(plain: CaseResult, faulted: CaseResult) -> bool:
    """Tell whether outputs differ in more than finite figures: NaN, infinities, names, shapes, dtypes, repeats.

    Repeats that differ without the fault, too, were declared to: the case has passed.
    """
    lost = faulted.outcome.execution.unsteady and not plain.outcome.execution.unsteady
    return bool(lost) or _outline(plain) != _outline(faulted)


def _outline(result: CaseResult) -> list[tuple[object, ...]]:
    kinds = ("nan_mismatched", "inf_mismatched")
    return [
        (each.output, each.seed, each.dtype, each.shape, *(each.counts.get(kind, 0) for kind in kinds))
        for each in result.outcome.comparisons
    ]


def run_scores(
    cases: Iterable[Case], faults: Sequence[Fault], plan: Plan, baselines: Baselines
) -> Iterator[Score | Unplanted]:
    """Plant every fault in every case; yield each score as it comes, and each case in which none can be judged.

    Nothing is written: no baseline, no proposal, no report. A case that is known to be bad, that computes nothing, or
    that does not pass without a fault, tells nothing of the gate. Raises UserError as a run does.
    """
    plantable = []
    for case in cases:
        why = reason_not_plantable(case)
        if why:
            yield Unplanted(case.id, case.tier, why)
        else:
            plantable.append(case)
    variants = [variant for case in plantable for variant in _variants(case, faults)]
    policy = Policy(baselines=baselines.number(plan.environment.chain))
    plan = replace(plan, runner=run_variant)
    ran = run_and_judge([variant.case for variant in variants], plan, policy, baselines)
    yield from _scored(ran, {variant.case.id: variant for variant in variants})


class _Variant(NamedTuple):
    """A case to be run: the case `of` as it is, or with a fault and an id of its own."""

    case: Case
    of: Case
    fault: Fault | None = None


def reason_not_plantable(case: Case) -> str:
    """Return why no fault is planted in a case, or nothing."""
    if case.expect_failure is not None:
        return "it is known to be bad"
    return "" if case.subject.kind == "python" else f"a subject of kind {case.subject.kind} computes by itself"


def _variants(case: Case, faults: Iterable[Fault]) -> Iterator[_Variant]:
    """Yield a case as it is, and then with each fault: one process mostly has them in a row, and remembers its oracle.

    A case's id has two slashes, so that no id is met twice. How long simulated operations take is not judged.
    """
    yield _Variant(case, case)
    for fault in faults:
        yield _Variant(make_variant(case, fault.name, fault=fault.name, budget=Budget()), case, fault)


def _scored(results: Iterable[CaseResult], variants: dict[str, _Variant]) -> Iterator[Score | Unplanted]:
    plain: dict[str, CaseResult] = {}
    waiting: defaultdict[str, list[tuple[Fault, CaseResult]]] = defaultdict(list)
    for result in results:
        _, case, fault = variants[result.id]
        if fault is not None:
            waiting[case.id].append((fault, result))
        else:
            plain[case.id] = result
            if not _passed(result):
                yield Unplanted(case.id, case.tier, f"without a fault it is {result.verdict.reason}")
        if case.id in plain and _passed(plain[case.id]):
            yield from (
                score_fault(case, plain[case.id], faulted, fault) for fault, faulted in waiting.pop(case.id, [])
            )


def _passed(result: CaseResult) -> bool:
    return result.verdict.status is Status.PASSED


MAX_SLIGHT_FACTOR = 1.5
"""A growth of the mean error below this is slight: what tolerances never see, and baselines should."""


class Share(Struct, frozen=True):
    """`part` of `whole`."""

    part: int
    whole: int

    @property
    def ratio(self) -> float | None:
        """Return the share as a number, or None of nothing."""
        return self.part / self.whole if self.whole else None


class ScoreTally(Struct, frozen=True):
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


def tally_scores(name: str, scores: Iterable[Score]) -> ScoreTally:
    """Count scores."""
    every = list(scores)
    judged = [score for score in every if score.effect is not Effect.ERROR]
    faults = [score for score in judged if score.harmful and score.effect is not Effect.NO_EFFECT]
    changes = [score for score in judged if not score.harmful and score.effect is not Effect.NO_EFFECT]
    worse = [score for score in faults if score.worse]
    return ScoreTally(
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


def tally_scores_by(scores: Sequence[Score], key: Callable[[Score], str], names: Iterable[str]) -> list[ScoreTally]:
    """Count scores per name that `key` gives them, in the order of names; those without a score are left out."""
    grouped = {name: [score for score in scores if key(score) == name] for name in names}
    return [tally_scores(name, group) for name, group in grouped.items() if group]


def missed_faults(scores: Iterable[Score]) -> list[Score]:
    """Return the faults that made a result worse and were not caught, the worst first."""
    found = [score for score in scores if score.effect is Effect.MISSED and score.worse]
    return sorted(found, key=lambda score: (-(score.factor or 0.0), score.case, score.fault))


def is_any_judged(scores: Iterable[Score]) -> bool:
    """Tell whether the gate could judge one fault or harmless change at least."""
    return any(score.effect is not Effect.ERROR for score in scores)


def _share(scores: Sequence[Score], effect: Effect) -> Share:
    return Share(sum(score.effect is effect for score in scores), len(scores))


def _is_slight(score: Score) -> bool:
    return score.factor is not None and score.factor < MAX_SLIGHT_FACTOR


def broken_limits(every: ScoreTally, at_least: float | None, at_most: float | None) -> list[str]:
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
