"""What came of planting one fault in one case: a pure function of two results, the case's own and the faulted one."""

from __future__ import annotations

from enum import StrEnum
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic.faults.fault import Fault
from precreg.measure.metrics import mean_over_seeds
from precreg.types.records import CaseResult
from precreg.types.types import Case, Status, Tier

WORSE = 1.02
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


def score(case: Case, plain: CaseResult, faulted: CaseResult, fault: Fault) -> Score:
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
    worse = _unlike(plain, faulted) or _matches_lost(plain, faulted) or (factor is not None and factor > WORSE)
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
