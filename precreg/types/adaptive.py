"""Which values does adaptive precision keep: the format of each layer over the steps, and every change of it?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ADAPTIVE_SCHEMA = 1

# Why a layer changed its format:
# - over_budget: its error was above the budget;
# - non_finite: its result, or that of a narrower format, had NaN or infinities that the exact layer lacks;
# - calm: the error of the next narrower format was far below the budget, sample after sample.
FormatChangeReason = Literal["over_budget", "non_finite", "calm"]


class FormatChange(Struct, frozen=True):
    """One change. `error` is that of the format before; `new_error` that of the format after, on the same inputs."""

    step: int
    layer: str
    before: str
    after: str
    reason: FormatChangeReason
    error: float
    new_error: float


class AdaptiveLayer(Struct, frozen=True):
    """One layer: its present format, the steps that it ran in each format, and its sampled errors.

    `over_budget` counts samples above the budget, before the change that they caused. `unmet` counts those of them for
    which no wider format kept within the budget.
    """

    layer: str
    format: str
    budget: float
    steps: dict[str, int]
    samples: int = 0
    over_budget: int = 0
    unmet: int = 0
    worst_error: float = 0.0


class AdaptiveRecord(Struct, frozen=True, kw_only=True):
    """Everything that an adaptive run kept. `formats` go from the narrowest to the widest.

    `mean_bits` is the mean over steps and layers of the bits of an operand.
    """

    schema: int = ADAPTIVE_SCHEMA
    model: str
    formats: tuple[str, ...]
    every: int
    patience: int
    margin: float
    steps: int
    samples: int
    mean_bits: float
    layers: tuple[AdaptiveLayer, ...]
    changes: tuple[FormatChange, ...]
    # Changes that made room for later ones.
    dropped: int = 0
