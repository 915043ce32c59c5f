"""Which faults does a training in reduced precision show, and what does each remedy change in a rerun?"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

TRAINING_ADVICE_SCHEMA = "precreg-training-advice/1"

# In the order of their priority where remedies of two symptoms help equally: the narrower cause comes first.
SymptomKind = Literal[
    "clipped_before_unscale",
    "loss_not_averaged",
    "epsilon_below_format",
    "narrow_accumulation",
    "scale_too_high",
    "scale_too_low",
    "lost_updates",
    "narrow_layer",
]
SYMPTOM_KINDS: tuple[SymptomKind, ...] = get_args(SymptomKind)

RemedyKind = Literal[
    "clip_after_unscale",
    "average_loss",
    "set_scale",
    "larger_epsilon",
    "float32_state",
    "float32_accumulation",
    "master_weights",
    "stochastic_rounding",
    "float32_layers",
    "bfloat16",
]


class Remedy(Struct, frozen=True, kw_only=True):
    """One alteration of a recipe.

    `value` is a scale, an epsilon or the divisor of a loss. `layers` are modules that compute in float32.
    """

    kind: RemedyKind
    value: float | None = None
    layers: tuple[str, ...] = ()


class RerunFigures(Struct, frozen=True, kw_only=True):
    """The figures of one short run.

    `final_loss` is computed in float64 with the weights after the last step, on the same batches for every run; it is
    None if it is not finite. Counts are of elements over all measured steps.
    """

    seed: int
    steps: int
    # Steps of the optimizer, and steps that the scaler skipped.
    updates: int
    skipped: int
    final_loss: float | None
    # The loss of each step as the training computed it; None where it is not finite.
    losses: tuple[float | None, ...] = ()
    # Steps with NaN or infinite gradients, and the number of such elements.
    nonfinite_steps: int = 0
    nonfinite: int = 0
    # Gradients, and those that are zero.
    gradients: int = 0
    zeros: int = 0
    # Weights with a nonzero gradient in an update, and those among them that kept their value.
    updated: int = 0
    lost: int = 0
    # Second moments of Adam that are zero where the gradient is not.
    zero_moments: int = 0
    # The scale of the last step; 1.0 without scaling.
    scale: float = 1.0
    # Clippings, and those of gradients that still had a scale other than 1.
    clippings: int = 0
    scaled_clippings: int = 0
    # The norm of the difference of accumulated gradients from their float32 sum, over the norm of that sum: the largest
    # of all steps. None without accumulation in a narrow format.
    accumulation_error: float | None = None


class RemedyEffect(Struct, frozen=True, kw_only=True):
    """The measured effect of a remedy.

    `damage` is the share of the twin's progress that a run lacks: (final loss - twin's) / (start loss - twin's), at
    least 0, and None for a run without a finite final loss. One entry for each seed.
    """

    remedy: Remedy
    runs: tuple[RerunFigures, ...] = ()
    damage: tuple[float | None, ...] = ()
    # Seeds in which the remedy helped: it removed at least half of the damage.
    helped: int = 0
    # The error that ended the rerun, or the reason why there was none. Empty after a measurement.
    problem: str = ""


class TrainingSymptom(Struct, frozen=True, kw_only=True):
    """A fact that a run shows, with the effects of its remedies, the best first.

    `count` of `total` steps, elements or updates have it. `value` is a figure and `limit` the format's: the epsilon and
    the smallest number, or the loss of a doubled batch over that of the batch.
    """

    kind: SymptomKind
    count: int = 0
    total: int = 0
    value: float | None = None
    limit: float | None = None
    format: str = ""
    # Parameters or layers that have it most, with their shares.
    places: tuple[tuple[str, float], ...] = ()
    effects: tuple[RemedyEffect, ...] = ()


class TrainingAdvice(Struct, frozen=True, kw_only=True):
    """The symptoms of a training, and the remedies that help, measured on short reruns.

    `twins` are runs of the recipe in float64 from the same weights on the same batches. `start_losses` has the loss
    before the first step. All tuples have one entry for each seed.
    """

    schema: str = TRAINING_ADVICE_SCHEMA
    recipe: str
    steps: int
    seeds: tuple[int, ...]
    optimizer: str
    formats: tuple[str, ...]
    start_losses: tuple[float | None, ...]
    runs: tuple[RerunFigures, ...]
    twins: tuple[RerunFigures, ...]
    damage: tuple[float | None, ...]
    # The damage in each seed is at least `least_damage`, so that remedies are advised.
    is_damaged: bool
    least_damage: float
    symptoms: tuple[TrainingSymptom, ...] = ()
    # The error that ended the twin. Without a twin nothing is advised.
    twin_problem: str = ""
    # The float64 twin lacked memory: it needs twice the memory of a float32 recipe.
    is_twin_out_of_memory: bool = False
