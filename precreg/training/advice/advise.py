"""Which remedies help a training, measured on short reruns of its recipe?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from precreg.diagnose import find_smallest_set
from precreg.errors import UserError
from precreg.subject import first_line
from precreg.subject.torch import is_out_of_memory
from precreg.training.advice.effects import LEAST_DAMAGE, damage_of, has_helped, rank_effects, rank_symptoms
from precreg.training.advice.facts import batch_size, gather_facts_of_recipe
from precreg.training.advice.narrow_layers import rank_layers
from precreg.training.advice.remedies import NotApplicableError
from precreg.training.advice.rerun import Rerun, ShortRuns
from precreg.training.advice.symptoms import RecipeFacts, RunView, find_symptoms, is_sum
from precreg.training.loss_scale import LossScaleGauge
from precreg.training.recipe import Recipe
from precreg.types import Remedy, RemedyEffect, RerunFigures, TrainingAdvice, TrainingSymptom

# A remedy with at most this damage explains the symptom well enough that no search of layers follows.
_SMALL_DAMAGE = 0.1
# float16's epsilons to try: the first is above its smallest normal number.
_EPSILONS = (1e-4, 1e-3)
# The first scale of torch's GradScaler.
_TORCH_SCALE = 2.0**16


class _Seed(NamedTuple):
    """The runs of one seed that effects are compared with."""

    start: float | None
    run: RerunFigures
    twin: RerunFigures

    @property
    def has_twin(self) -> bool:
        """Return whether the twin ends finite. Otherwise no format causes the fault, and no remedy removes it."""
        return self.start is not None and self.twin.final_loss is not None

    def damage(self, figures: RerunFigures) -> float:
        return damage_of(self.start, self.twin.final_loss, figures.final_loss)


class _Measurement:
    """Measure remedies against the runs of the seeds."""

    def __init__(self, short_runs: ShortRuns, seeds: Sequence[_Seed], progress: Callable[[str], None]) -> None:
        self.short_runs, self.seeds, self.progress = short_runs, seeds, progress

    def effect(self, remedy: Remedy) -> RemedyEffect:
        """Rerun with a remedy: the first seed, and the others if it helps there."""
        runs: list[RerunFigures] = []
        damages: list[float] = []
        helped = 0
        for seed in self.seeds:
            self.progress(remedy.kind)
            try:
                figures = self.short_runs.run(seed.run.seed, (remedy,)).figures
            except NotApplicableError as error:
                return RemedyEffect(remedy=remedy, problem=str(error))
            except UserError:
                raise
            # A model's own casts and torch's kernels refuse mixed dtypes with any exception.
            except Exception as error:
                return RemedyEffect(remedy=remedy, problem=first_line(error))
            runs.append(figures)
            damages.append(seed.damage(figures))
            helped += has_helped(seed.damage(seed.run), damages[-1])
            if not helped:
                break
        return RemedyEffect(
            remedy=remedy,
            runs=tuple(runs),
            damage=tuple(None if each == inf else each for each in damages),
            helped=helped,
        )


def advise_training(
    make: Callable[[], Recipe],
    name: str,
    *,
    steps: int,
    seeds: int,
    progress: Callable[[str], None] = lambda _stage: None,
) -> TrainingAdvice:
    """Return the symptoms of a recipe, which `make` returns anew for each run, and the measured effect of each remedy.

    Raises UserError for data or a recipe that cannot run, and the exceptions of the user's code in an unaltered run.
    """
    short_runs = ShortRuns(make, steps)
    progress("facts")
    facts = gather_facts_of_recipe(short_runs, 0)
    short_runs.average = _average(facts, short_runs)
    sweep = LossScaleGauge("float16") if "float16" in facts.computed else None
    first = short_runs.run(0)
    described = _describe(short_runs, facts, name, seeds)
    progress("twin")
    try:
        twin = short_runs.run(0, short_runs.average, is_wide=True, sweep=sweep)
    except Exception as error:
        return described(runs=(first.figures,), **_twin_problem(error))
    found = [_Seed(short_runs.judge(0), first.figures, twin.figures)]
    found += [
        _Seed(short_runs.judge(seed), short_runs.run(seed).figures, twin_of(short_runs, seed))
        for seed in range(1, seeds)
    ]
    damages = [seed.damage(seed.run) for seed in found]
    is_damaged = min(damages) >= LEAST_DAMAGE and any(seed.has_twin for seed in found)
    symptoms = find_symptoms(facts, _view(first), _view(twin))
    if is_damaged:
        scale = None if sweep is None else sweep.result().recommendation
        measurement = _Measurement(short_runs, found, progress)
        symptoms = _measure(symptoms, facts, None if scale is None else scale.exponent, measurement)
    return described(
        start_losses=tuple(seed.start for seed in found),
        runs=tuple(seed.run for seed in found),
        twins=tuple(seed.twin for seed in found),
        damage=tuple(None if each == inf else each for each in damages),
        is_damaged=is_damaged,
        symptoms=tuple(rank_symptoms(symptoms)),
    )


def _twin_problem(error: Exception) -> dict[str, object]:
    return {"twin_problem": first_line(error), "is_twin_out_of_memory": is_out_of_memory(error)}


def _average(facts: RecipeFacts, short_runs: ShortRuns) -> tuple[Remedy, ...]:
    """Return the remedy that makes a mean of a loss that is a sum; none for a mean."""
    if not is_sum(facts.doubled) and not is_sum(facts.split):
        return ()
    recipe = short_runs.make(0)
    divisor = batch_size(recipe) if is_sum(facts.doubled) else recipe.accumulate
    return (Remedy(kind="average_loss", value=float(divisor)),)


def _measure(
    symptoms: Sequence[TrainingSymptom], facts: RecipeFacts, exponent: int | None, measurement: _Measurement
) -> list[TrainingSymptom]:
    """Return the symptoms with the effects of their remedies, and narrow layers if nothing else explains the damage."""
    measured = [_with_effects(each, facts, exponent, measurement) for each in symptoms]
    if not any(_explains(each, len(measurement.seeds)) for each in measured):
        measured += _narrow_layers(facts, measurement)
    return measured


def twin_of(short_runs: ShortRuns, seed: int) -> RerunFigures:
    """Return the figures of the float64 twin of a seed."""
    return short_runs.run(seed, short_runs.average, is_wide=True).figures


def _describe(short_runs: ShortRuns, facts: RecipeFacts, name: str, seeds: int) -> Callable[..., TrainingAdvice]:
    optimizer = type(short_runs.make(0).optimizer).__name__

    def described(**found: object) -> TrainingAdvice:
        plain = {"start_losses": (), "runs": (), "twins": (), "damage": (), "is_damaged": False} | found
        return TrainingAdvice(
            recipe=name,
            steps=short_runs.steps,
            seeds=tuple(range(seeds)),
            optimizer=optimizer,
            formats=facts.computed,
            least_damage=LEAST_DAMAGE,
            **plain,  # type: ignore[arg-type]
        )

    return described


def _view(run: Rerun) -> RunView:
    counts = run.counts
    return RunView(
        run.figures,
        {name: (total, zeros) for name, (total, zeros) in counts.zeros_of.items()},
        {name: (total, lost) for name, (total, lost) in counts.updates_of.items()},
    )


def _with_effects(
    symptom: TrainingSymptom, facts: RecipeFacts, exponent: int | None, measurement: _Measurement
) -> TrainingSymptom:
    effects = [measurement.effect(each) for each in _remedies(symptom, facts, exponent, measurement.short_runs)]
    return _replace_effects(symptom, effects)


def _replace_effects(symptom: TrainingSymptom, effects: Sequence[RemedyEffect]) -> TrainingSymptom:
    return replace(symptom, effects=tuple(rank_effects(effects)))


def _first(effect: RemedyEffect) -> float:
    return inf if not effect.damage or effect.damage[0] is None else effect.damage[0]


def _remedies(
    symptom: TrainingSymptom, facts: RecipeFacts, exponent: int | None, short_runs: ShortRuns
) -> list[Remedy]:
    """Return the remedies to measure for a symptom."""
    bfloat16 = [Remedy(kind="bfloat16")] if "float16" in facts.computed else []
    scales = [2.0**exponent] if exponent is not None else []
    state = [Remedy(kind="float32_state"), Remedy(kind="master_weights")]
    if symptom.kind == "clipped_before_unscale":
        return [Remedy(kind="clip_after_unscale")]
    if symptom.kind == "loss_not_averaged":
        return list(short_runs.average)
    if symptom.kind == "epsilon_below_format":
        return [Remedy(kind="larger_epsilon", value=each) for each in _EPSILONS] + state
    if symptom.kind == "narrow_accumulation":
        return [Remedy(kind="float32_accumulation"), Remedy(kind="master_weights")]
    if symptom.kind in ("scale_too_high", "scale_too_low"):
        tried = dict.fromkeys([*scales, *([_TORCH_SCALE] if symptom.kind == "scale_too_low" else [])])
        return [*(Remedy(kind="set_scale", value=each) for each in tried), *bfloat16]
    return [Remedy(kind="master_weights"), Remedy(kind="stochastic_rounding")]


def _explains(symptom: TrainingSymptom, seeds: int) -> bool:
    """Return whether a remedy other than a wider range everywhere leaves little damage in all seeds."""
    return any(
        each.helped == seeds
        and each.remedy.kind != "bfloat16"
        and max(inf if damage is None else damage for damage in each.damage) <= _SMALL_DAMAGE
        for each in symptom.effects
    )


def _narrow_layers(facts: RecipeFacts, measurement: _Measurement) -> list[TrainingSymptom]:
    """Return the symptom of the smallest set of layers that removes the damage in float32; none without such a set."""
    measurement.progress("layers")
    short_runs = measurement.short_runs
    ranked = rank_layers(short_runs, 0)
    first = measurement.seeds[0]
    known: dict[tuple[str, ...], RemedyEffect] = {}

    def decide(layers: tuple[str, ...]) -> bool:
        if not layers:
            return False
        measured = _Measurement(short_runs, measurement.seeds[:1], measurement.progress)
        known[layers] = measured.effect(Remedy(kind="float32_layers", layers=layers))
        return bool(known[layers].helped) and _first(known[layers]) <= max(_SMALL_DAMAGE, first.damage(first.run) / 4)

    if not ranked:
        return []
    found = find_smallest_set(ranked, decide)
    if found.status != "found":
        return []
    remedies = [Remedy(kind="float32_layers", layers=found.kept)]
    if "float16" in facts.computed:
        remedies.append(Remedy(kind="bfloat16"))
    symptom = TrainingSymptom(
        kind="narrow_layer", count=len(found.kept), total=len(ranked), places=tuple((each, 1.0) for each in found.kept)
    )
    return [_replace_effects(symptom, [measurement.effect(each) for each in remedies])]
