"""Which symptoms do the figures of a run and of its float64 twin show?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from precreg.types import RerunFigures, TrainingSymptom

# The share of skipped steps: a scaler of torch that starts at 2**16 finds its scale within a few steps of a run of 50.
_MIN_SKIPPED = 0.1
# The share of gradients that are zero here and not in the twin.
_MIN_VANISHED = 0.01
# The share of weights with a gradient that an update leaves as they are.
_MIN_LOST = 0.05
_MIN_ACCUMULATION_ERROR = 0.01
# A mean gives 1 for a doubled batch, and a sum gives 2.
_MIN_DOUBLED = 1.8
_MAX_PLACES = 5

ByParameter = Mapping[str, tuple[int, int]]


class RecipeFacts(NamedTuple):
    """What a recipe is before it runs, and how its loss reacts to a doubled batch or more micro-batches."""

    # Formats of the weights, and of autocast.
    weights: tuple[str, ...]
    computed: tuple[str, ...]
    has_scaler: bool
    # The epsilon of an optimizer with narrow weights, and the smallest positive number of their format.
    epsilon: float | None = None
    smallest: float | None = None
    epsilon_format: str = ""
    # The loss of a doubled batch over that of the batch, and the gradient's norm with twice the micro-batches.
    doubled: float | None = None
    split: float | None = None


class RunView(NamedTuple):
    """The figures of a run and its counts by parameter: (total, affected)."""

    figures: RerunFigures
    zeros: ByParameter
    lost: ByParameter


def find_symptoms(facts: RecipeFacts, run: RunView, twin: RunView) -> list[TrainingSymptom]:
    """Return the symptoms of a run, apart from narrow layers, which need reruns."""
    return [
        *_of_order(facts, run.figures),
        *_of_epsilon(facts, run.figures),
        *_of_scale(facts, run, twin),
        *_of_updates(facts, run, twin),
    ]


def is_sum(factor: float | None) -> bool:
    """Return whether a loss that grows by a factor with twice the batch is a sum."""
    return factor is not None and factor >= _MIN_DOUBLED


def _of_order(facts: RecipeFacts, run: RerunFigures) -> Iterator[TrainingSymptom]:
    if run.scaled_clippings:
        yield TrainingSymptom(
            kind="clipped_before_unscale", count=run.scaled_clippings, total=run.clippings, value=run.scale
        )
    for factor in (facts.doubled, facts.split):
        if factor is not None and is_sum(factor):
            name = "batch" if factor is facts.doubled else "micro_batches"
            yield TrainingSymptom(kind="loss_not_averaged", value=factor, places=((name, factor),))
            return


def _of_epsilon(facts: RecipeFacts, run: RerunFigures) -> Iterator[TrainingSymptom]:
    # Half of the smallest number is a tie, which rounds to the even zero.
    if facts.epsilon is not None and facts.smallest is not None and facts.epsilon <= facts.smallest / 2:
        yield TrainingSymptom(
            kind="epsilon_below_format",
            count=run.zero_moments,
            total=run.updated,
            value=facts.epsilon,
            limit=facts.smallest,
            format=facts.epsilon_format,
        )


def _of_scale(facts: RecipeFacts, run: RunView, twin: RunView) -> Iterator[TrainingSymptom]:
    figures = run.figures
    if facts.has_scaler and figures.skipped >= _MIN_SKIPPED * figures.steps:
        yield TrainingSymptom(
            kind="scale_too_high", count=figures.skipped, total=figures.steps, value=figures.scale, format="float16"
        )
    if "float16" not in facts.computed or not figures.gradients:
        return
    # The twin's zeros are true ones, such as those of a ReLU.
    usual = twin.figures.zeros / twin.figures.gradients if twin.figures.gradients else 0.0
    vanished = figures.zeros - round(usual * figures.gradients)
    if vanished >= _MIN_VANISHED * figures.gradients:
        yield TrainingSymptom(
            kind="scale_too_low",
            count=vanished,
            total=figures.gradients,
            value=figures.scale,
            format="float16",
            places=_places(run.zeros, twin.zeros),
        )


def _of_updates(facts: RecipeFacts, run: RunView, twin: RunView) -> Iterator[TrainingSymptom]:
    figures = run.figures
    if figures.accumulation_error is not None and figures.accumulation_error >= _MIN_ACCUMULATION_ERROR:
        yield TrainingSymptom(
            kind="narrow_accumulation", value=figures.accumulation_error, format=_narrowest(facts.weights)
        )
    narrow = _narrowest(facts.weights)
    if narrow and figures.updated and figures.lost >= _MIN_LOST * figures.updated:
        yield TrainingSymptom(
            kind="lost_updates",
            count=figures.lost,
            total=figures.updated,
            format=narrow,
            places=_places(run.lost, twin.lost),
        )


def _narrowest(formats: tuple[str, ...]) -> str:
    return next((each for each in ("bfloat16", "float16") if each in formats), "")


def _places(found: ByParameter, usual: ByParameter) -> tuple[tuple[str, float], ...]:
    """Return the parameters whose share exceeds the twin's most."""
    shares = {
        name: (affected / total if total else 0.0) - _share(usual.get(name, (0, 0)))
        for name, (total, affected) in found.items()
    }
    most = sorted(shares.items(), key=lambda each: -each[1])[:_MAX_PLACES]
    return tuple((name, share) for name, share in most if share > 0)


def _share(counts: tuple[int, int]) -> float:
    return counts[1] / counts[0] if counts[0] else 0.0
