"""How many planted faults does the gate catch, and how many harmless changes does it flag?

Every case runs as it is and once with each fault. The case's own baseline judges each run. The score of a fault follows
from two results of its case, the unfaulted and the faulted one; tallies count scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic.faults import Fault
from precreg.baseline import Baselines
from precreg.measure import mean_over_seeds
from precreg.quality.variants import make_variant, run_variant
from precreg.run import Plan, run_and_judge
from precreg.types import Budget, Case, CaseResult, Status, Tier, Verdict
from precreg.verdict import Policy

# A growth of the mean absolute error above it makes a result worse: the verdicts' minimum relevant change of means.
MIN_WORSE_FACTOR = 1.02

# A growth of the mean error below it is slight: most tolerances admit it, and baselines should show it. The study of
# detection counts losses below 1.5 apart too (docs/detection.md).
MAX_SLIGHT_FACTOR = 1.5


class Effect(StrEnum):
    """Name the effect of a fault or a harmless change on the verdict."""

    # The same bits.
    NO_EFFECT = "no effect"
    # Of a fault: the verdict failed, or it did not.
    CAUGHT = "caught"
    MISSED = "missed"
    # Of a harmless change: the verdict did not fail, or it did.
    SILENT = "silent"
    FALSE_ALARM = "false alarm"
    # The gate could not judge.
    ERROR = "error"


class Score(Struct, frozen=True):
    """Hold one fault in one case: its effect, and the reason, output and metric of the verdict."""

    case: str
    tier: Tier
    suite: str
    fault: str
    harmful: bool
    # A case with a golden, or an exact one, promises bits: it must flag harmless changes too.
    pinned: bool
    effect: Effect
    # The factor exceeds MIN_WORSE_FACTOR, fewer elements of a golden match, or NaN, shapes or repeats differ.
    worse: bool = False
    # The growth of the mean absolute error over all seeds, in the output where it grew most. Infinite if there was no
    # error before, None if it could not be measured.
    factor: float | None = None
    reason: str = ""
    output: str = ""
    metric: str = ""
    # None without an effect.
    verdict: Verdict | None = None


class Unplanted(Struct, frozen=True):
    """Hold a case in which no fault can be judged, and the reason: it is known bad, computes by itself, or fails.

    `detail` is the kind of a subject that computes by itself, or the reason of the verdict without a fault.
    """

    case: str
    tier: Tier
    cause: Literal["known_bad", "own_arithmetic", "failed"]
    detail: str = ""


class BrokenRate(NamedTuple):
    """Hold a share of faults or harmless changes that breaks a limit."""

    rate: Literal["detection", "false_alarms"]
    share: float
    limit: float


def score_fault(case: Case, unfaulted: CaseResult, faulted: CaseResult, fault: Fault) -> Score:
    """Score a fault in a case by its results without the fault, which passed, and with it."""
    pinned = case.role == "golden" or case.exact
    place = (case.id, case.tier, case.suite, fault.name, fault.harmful, pinned)
    no_effect = Score(*place, Effect.NO_EFFECT, factor=1.0)
    verdict = faulted.verdict
    if verdict.status is not Status.ERROR and _same_bits(unfaulted, faulted):
        return no_effect
    # Findings come worst first.
    first = verdict.findings[0]
    score = replace(
        no_effect, reason=verdict.reason, verdict=verdict, output=first.output, metric=first.metric, factor=None
    )
    if verdict.status is Status.ERROR:
        return replace(score, effect=Effect.ERROR)
    factor = _mean_error_growth(unfaulted, faulted)
    worse = (
        _differs_beyond_errors(unfaulted, faulted)
        or _loses_matches(unfaulted, faulted)
        or (factor is not None and factor > MIN_WORSE_FACTOR)
    )
    effects = (Effect.MISSED, Effect.CAUGHT) if fault.harmful else (Effect.SILENT, Effect.FALSE_ALARM)
    return replace(score, effect=effects[verdict.status is Status.FAILED], worse=worse, factor=factor)


def _same_bits(unfaulted: CaseResult, faulted: CaseResult) -> bool:
    before, after = unfaulted.outcome.execution, faulted.outcome.execution
    return before.outputs == after.outputs and not after.unsteady


def _means(result: CaseResult, metric: str) -> dict[str, float | None]:
    """Return the mean of a metric over the seeds by output."""
    comparisons = result.outcome.comparisons
    names = dict.fromkeys(comparison.output for comparison in comparisons)
    return {
        name: mean_over_seeds(
            [comparison.metrics.get(metric) for comparison in comparisons if comparison.output == name]
        )
        for name in names
    }


def _mean_error_growth(unfaulted: CaseResult, faulted: CaseResult) -> float | None:
    """Return the largest growth of the mean absolute error over the outputs, or None if it was not measured."""
    before, after = _means(unfaulted, "mean_abs_error"), _means(faulted, "mean_abs_error")
    ratios = [
        now / then if then else (inf if now else 1.0)
        for name, now in after.items()
        if (then := before.get(name)) is not None and now is not None
    ]
    return max(ratios, default=None)


def _loses_matches(unfaulted: CaseResult, faulted: CaseResult) -> bool:
    """Return whether fewer elements of a golden match than without the fault."""
    if unfaulted.role != "golden":
        return False
    before, after = _means(unfaulted, "match_ratio"), _means(faulted, "match_ratio")
    return any((after.get(name) or 0.0) < (then or 0.0) for name, then in before.items())


def _differs_beyond_errors(unfaulted: CaseResult, faulted: CaseResult) -> bool:
    """Return whether NaN, infinities, names, shapes, dtypes or repeats of outputs differ."""
    # The unfaulted case has passed, so repeats that differ without the fault were declared to.
    loses_repeats = faulted.outcome.execution.unsteady and not unfaulted.outcome.execution.unsteady
    return bool(loses_repeats) or _outline(unfaulted) != _outline(faulted)


def _outline(result: CaseResult) -> list[tuple[object, ...]]:
    """Return all facts of the outputs apart from their finite errors."""
    kinds = ("nan_mismatched", "inf_mismatched")
    return [
        (each.output, each.seed, each.dtype, each.shape, *(each.counts.get(kind, 0) for kind in kinds))
        for each in result.outcome.comparisons
    ]


def run_scores(
    cases: Iterable[Case], faults: Sequence[Fault], plan: Plan, baselines: Baselines
) -> Iterator[Score | Unplanted]:
    """Plant every fault in every case; yield each score as it comes, and each case in which no fault can be judged.

    Such a case is known to be bad, computes without numpy's operations, or does not pass without a fault. Nothing is
    written: no baseline, no proposal, no report. Raises UserError as a run does.
    """
    plantable = []
    for case in cases:
        left_out = unplantable_case(case)
        if left_out is not None:
            yield left_out
        else:
            plantable.append(case)
    variants = [variant for case in plantable for variant in _planted_runs(case, faults)]
    policy = Policy(baselines=baselines.number(plan.environment.chain))
    plan = replace(plan, runner=run_variant)
    ran = run_and_judge([variant.case for variant in variants], plan, policy, baselines)
    yield from _score_results(ran, {variant.case.id: variant for variant in variants})


class _PlantedRun(NamedTuple):
    """Hold a case to run: the case `of` itself, or its variant with a fault."""

    case: Case
    of: Case
    fault: Fault | None = None


def unplantable_case(case: Case) -> Unplanted | None:
    """Return why no fault is planted in a case; None if faults are."""
    if case.expect_failure is not None:
        return Unplanted(case.id, case.tier, "known_bad")
    if case.subject.kind == "python":
        return None
    return Unplanted(case.id, case.tier, "own_arithmetic", case.subject.kind)


def _planted_runs(case: Case, faults: Iterable[Fault]) -> Iterator[_PlantedRun]:
    """Yield a case as it is, and then with each fault."""
    # In a row, because a worker keeps the inputs and the oracle of one case at a time.
    yield _PlantedRun(case, case)
    for fault in faults:
        # Without a budget: simulated operations take many times as long.
        yield _PlantedRun(make_variant(case, fault.name, fault=fault.name, budget=Budget()), case, fault)


def _score_results(results: Iterable[CaseResult], variants: dict[str, _PlantedRun]) -> Iterator[Score | Unplanted]:
    """Score each faulted result when the unfaulted one of its case is there; results come in any order."""
    unfaulted: dict[str, CaseResult] = {}
    waiting: defaultdict[str, list[tuple[Fault, CaseResult]]] = defaultdict(list)
    for result in results:
        _, case, fault = variants[result.id]
        if fault is not None:
            waiting[case.id].append((fault, result))
        else:
            unfaulted[case.id] = result
            if not _passed(result):
                yield Unplanted(case.id, case.tier, "failed", result.verdict.reason)
        own = unfaulted.get(case.id)
        if own is not None and _passed(own):
            yield from (score_fault(case, own, faulted, fault) for fault, faulted in waiting.pop(case.id, []))


def _passed(result: CaseResult) -> bool:
    return result.verdict.status is Status.PASSED


class Share(Struct, frozen=True):
    """`part` of `whole`."""

    part: int
    whole: int

    @property
    def ratio(self) -> float | None:
        """Return part / whole, or None if `whole` is 0."""
        return self.part / self.whole if self.whole else None


class ScoreTally(Struct, frozen=True):
    """Counts of the faults and harmless changes of one tier, of one name, or of all."""

    name: str
    cases: int
    # Faults that were judged.
    planted: int
    # Of the faults that had an effect.
    caught: Share
    # Of the faults that made the result worse.
    caught_worse: Share
    # Of the faults that made it worse by a factor below MAX_SLIGHT_FACTOR.
    caught_slight: Share
    # Harmless changes that were judged.
    harmless: int
    # Of the harmless changes that had an effect, in cases that are judged by their errors: false alarms.
    flagged: Share
    # The same in cases that promise bits, which must flag them.
    flagged_bits: Share
    # Faults and harmless changes that could not be judged.
    errors: int


def tally_scores(name: str, scores: Iterable[Score]) -> ScoreTally:
    """Count scores under one name."""
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
    """Count the scores of each name that `key` returns, in the order of `names`; names without a score are left out."""
    grouped = {name: [score for score in scores if key(score) == name] for name in names}
    return [tally_scores(name, group) for name, group in grouped.items() if group]


def missed_faults(scores: Iterable[Score]) -> list[Score]:
    """Return the missed faults that made a result worse, the worst first."""
    found = [score for score in scores if score.effect is Effect.MISSED and score.worse]
    return sorted(found, key=lambda score: (-(score.factor or 0.0), score.case, score.fault))


def is_any_judged(scores: Iterable[Score]) -> bool:
    """Return whether the gate could judge at least one fault or harmless change."""
    return any(score.effect is not Effect.ERROR for score in scores)


def _share(scores: Sequence[Score], effect: Effect) -> Share:
    return Share(sum(score.effect is effect for score in scores), len(scores))


def _is_slight(score: Score) -> bool:
    return score.factor is not None and score.factor < MAX_SLIGHT_FACTOR


def broken_limits(every: ScoreTally, at_least: float | None, at_most: float | None) -> list[BrokenRate]:
    """Return each broken limit: the smallest share of worse results caught, and the largest of false alarms.

    A share of no faults breaks no limit.
    """
    detection, alarms = every.caught_worse.ratio, every.flagged.ratio
    problems = []
    if at_least is not None and detection is not None and detection < at_least:
        problems.append(BrokenRate("detection", detection, at_least))
    if at_most is not None and alarms is not None and alarms > at_most:
        problems.append(BrokenRate("false_alarms", alarms, at_most))
    return problems
