"""How much of a training's progress does a run lack, and which remedies help?"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from precreg.types import SYMPTOM_KINDS, RemedyEffect, TrainingSymptom

# A run that lacks a smaller share of its twin's progress is left alone. Seen in tests/extras/training/advice: healthy
# runs lack less.
LEAST_DAMAGE = 0.05
# Damages that differ by less rank equally: the kind of the symptom decides then.
_EQUAL = 0.05


def damage_of(start: float | None, twin: float | None, final: float | None) -> float:
    """Return the share of the twin's progress that a run lacks, at least 0: infinity for a run that is not finite.

    The twin's progress is its change of the loss from the start. A twin that makes none, or is not finite itself, gives
    no damage to a finite run.
    """
    if final is None:
        return inf
    if start is None or twin is None or start <= twin:
        return 0.0
    return max(0.0, (final - twin) / (start - twin))


def has_helped(before: float, after: float) -> bool:
    """Return whether a remedy removed at least half of the damage, and at least the least damage that counts."""
    return after < inf and after <= before / 2 and before - after >= LEAST_DAMAGE


def rank_effects(effects: Iterable[RemedyEffect]) -> list[RemedyEffect]:
    """Return effects with the one first that leaves least damage; equal ones stay in their order."""
    return sorted(effects, key=lambda each: (bool(each.problem), *_rank(each)))


def rank_symptoms(symptoms: Iterable[TrainingSymptom]) -> list[TrainingSymptom]:
    """Return symptoms with the one first whose best remedy leaves least damage; narrower causes first among equals."""
    return sorted(symptoms, key=_rank_of_symptom)


def _rank_of_symptom(symptom: TrainingSymptom) -> tuple[int, float, bool, int]:
    best = next(iter(symptom.effects), None)
    # bfloat16 widens the range everywhere, so it is no evidence for this cause.
    is_general = best is not None and best.remedy.kind == "bfloat16"
    return (*_rank(best), is_general, SYMPTOM_KINDS.index(symptom.kind))


def _rank(effect: RemedyEffect | None) -> tuple[int, float]:
    if effect is None or not effect.damage:
        return (0, inf)
    left = max(inf if each is None else each for each in effect.damage)
    return (-effect.helped, inf if left == inf else round(left / _EQUAL))
