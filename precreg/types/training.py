"""Which values does an observed training keep: its gradients and updates at the sampled steps, its loss and scale?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from precreg.types.clipping import ClippedStep
from precreg.types.loss_scale import GradientLosses, ScalerPoint
from precreg.types.monitor import MonitorOverhead

TRAINING_SCHEMA = "precreg-training/1"

# Facts that weaken the figures of a training, or name the first bad value:
# - nonfinite: NaN or infinite values; `phase` says where they were made;
# - no_gradient: a parameter of the optimizer never had a gradient;
# - sparse: a sparse gradient, which is not measured;
# - no_twin: the optimizer has no float64 twin, so an update counts as lost if the gradient is not zero and the weight
#   kept its bits;
# - sampled: a parameter has more elements than are measured;
# - unnamed: the optimizer has a tensor that the model does not name;
# - data_ended: the data gave fewer batches than the steps need;
# - not_measured: stored values that are no floating-point numbers;
# - not_located: the noted loss (phase "loss") or the norm at clipping (phase "gradient") was not finite in a step that
#   was not sampled, so the place is not known;
# - failed: the observer itself failed with the error of this name; figures are missing, and the training went on.
TrainingEventKind = Literal[
    "nonfinite",
    "no_gradient",
    "sparse",
    "no_twin",
    "sampled",
    "unnamed",
    "data_ended",
    "not_measured",
    "not_located",
    "failed",
]
# Where values were first not finite: in a weight before the step, in the input of a layer, in the output of a layer
# with finite inputs, in the loss, in the gradient of a layer's output, or in the gradient of a parameter.
NonfinitePhase = Literal["", "weight", "input", "forward", "loss", "backward", "gradient"]


class ExponentCounts(Struct, frozen=True):
    """Counts of finite nonzero elements by floor(log2(|x|)): `counts[i]` is for the exponent `least` + i."""

    least: int
    counts: tuple[int, ...]


class ValueFigures(Struct, frozen=True, kw_only=True):
    """The figures of a tensor. Mean, standard deviation, least and greatest are of finite elements.

    Counts are of the `measured` ones of the `elements`. `subnormal`, `below` and `beyond` are nonzero elements, times
    the loss scale of the step, in `format` with rounding to nearest: those it holds as subnormals, those it rounds to
    zero, and those beyond its largest number, infinities included.
    """

    format: str
    elements: int
    measured: int
    mean: float = 0.0
    std: float = 0.0
    least: float = 0.0
    greatest: float = 0.0
    nan: int = 0
    inf: int = 0
    zeros: int = 0
    subnormal: int = 0
    below: int = 0
    beyond: int = 0
    # The square root of the sum of squares of the finite measured elements.
    norm: float = 0.0
    exponents: ExponentCounts = ExponentCounts(0, ())


class UpdateFigures(Struct, frozen=True, kw_only=True):
    """The update of a parameter in one step: how many of the intended changes left the weight's bits as they were.

    With a twin, an update is intended where the same step in float64 moves the weight. Without one, where the gradient
    is not zero. `median_ulp`, `least_ulp` and `greatest_ulp` are sizes of the intended updates in ULP of the weight's
    format; None without a twin or an intended update.
    """

    elements: int
    measured: int
    intended: int
    lost: int
    has_twin: bool
    median_ulp: float | None = None
    least_ulp: float | None = None
    greatest_ulp: float | None = None
    # The norm of the change over the norm of the weights before it, as it happened and as it was intended.
    relative: float | None = None
    intended_relative: float | None = None


class ParameterFigures(Struct, frozen=True, kw_only=True):
    """A parameter at one step: its gradient, unscaled and before clipping, and its update."""

    parameter: str
    shape: tuple[int, ...]
    # The format of the weight; empty for stored gradients.
    format: str = ""
    gradient: ValueFigures | None = None
    update: UpdateFigures | None = None


class OutputGradient(Struct, frozen=True):
    """The gradients of a layer's outputs in one step, of all calls together, unscaled."""

    layer: str
    gradient: ValueFigures


class TrainingStep(Struct, frozen=True, kw_only=True):
    """One sampled step. `scale` is the loss scale, 1.0 without scaling; a skipped step has no updates.

    `gradient_norm` is the global norm of the measured parameters, unscaled and before clipping; None if it is not
    finite.
    """

    step: int
    loss: float | None = None
    scale: float = 1.0
    is_skipped: bool = False
    gradient_norm: float | None = None
    parameters: tuple[ParameterFigures, ...] = ()
    outputs: tuple[OutputGradient, ...] = ()


class StepLoss(Struct, frozen=True):
    """The loss of one step; None if it is not finite."""

    step: int
    loss: float | None


# The gradients that a noise scale compares: of the micro-batches of an update, or of the sampled steps.
NoiseSource = Literal["micro_batches", "steps"]


class GradientNoise(Struct, frozen=True, kw_only=True):
    """The simple noise scale of McCandlish et al. (2018): the trace of the covariance over the squared true gradient.

    Its unit is a micro-batch or a batch, as `source` says. It is None if the estimate of the squared gradient is not
    positive. An empty parameter stands for all parameters together. From steps it includes the gradient's drift.
    """

    parameter: str
    source: NoiseSource
    samples: int
    scale: float | None


class TrainingEvent(Struct, frozen=True, kw_only=True):
    """One event, or equal ones: how often, the step of the first, the name of a parameter or layer, and a reason."""

    kind: TrainingEventKind
    step: int
    name: str = ""
    phase: NonfinitePhase = ""
    times: int = 1
    detail: str = ""


class TrainingRecord(Struct, frozen=True, kw_only=True):
    """Everything that an observer has kept. `dropped` counts the oldest sampled steps, which made room for later ones.

    `losses`, `scales` and `clips` have every step, sampled or not; `points_dropped` counts the oldest that made room.
    """

    schema: str = TRAINING_SCHEMA
    model: str
    # Empty for stored gradients.
    optimizer: str = ""
    every: int = 1
    # Steps that began, sampled or not.
    begun: int = 0
    dropped: int = 0
    steps: tuple[TrainingStep, ...] = ()
    losses: tuple[StepLoss, ...] = ()
    scales: tuple[ScalerPoint, ...] = ()
    clips: tuple[ClippedStep, ...] = ()
    points_dropped: int = 0
    noise: tuple[GradientNoise, ...] = ()
    events: tuple[TrainingEvent, ...] = ()
    overhead: MonitorOverhead = field(default_factory=MonitorOverhead)


class TrainingReport(Struct, frozen=True, kw_only=True):
    """Everything that `precreg training` measures: the observed steps, and the losses at other scales and limits."""

    record: TrainingRecord
    losses: GradientLosses | None = None
