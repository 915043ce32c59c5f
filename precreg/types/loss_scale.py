"""Which gradients are lost at each loss scale, which scale loses least, and how did a scaler move?"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from precreg.types.clipping import ClippedBeforeUnscale, ClippingSweep

# The scales of a sweep: 2**0 to 2**24. GradScaler starts at 2**16, and doubles from there.
SCALE_EXPONENTS = tuple(range(25))


class ScaleLosses(Struct, frozen=True, kw_only=True):
    """The gradients of one parameter at each scale of a sweep, or of all parameters (`parameter` is then empty).

    The tuples have one entry for each exponent of the sweep. The counts are of elements over all steps, and exact.
    """

    parameter: str
    elements: int
    nonzero: int
    # NaN and infinities. They are in none of the other counts.
    nonfinite: int
    largest: float
    # Nonzero gradients that the format rounds to zero, holds as subnormals, and does not hold.
    zero: tuple[int, ...]
    subnormal: tuple[int, ...]
    beyond: tuple[int, ...]
    # The sum of squares of the gradients that become zero, over the sum of squares of all.
    zero_energy: tuple[float, ...]
    # Gradients at or below this size were lost before they could be counted, because they were computed in a narrow
    # format. 0.0 where the format of the computation holds everything. `zeros` elements may have been lost.
    floor: float = 0.0
    zeros: int = 0


class ScaleWindow(Struct, frozen=True):
    """The scales 2**low to 2**high: none of them overflows in any step, and none loses fewer gradients."""

    low: int
    high: int
    # Nonzero gradients that become zero at each of these scales.
    zero: int


class ScalerRun(Struct, frozen=True):
    """A dynamic scaler on the measured largest gradients: its steps, skipped steps, and scales as powers of two."""

    initial: int
    steps: int
    skipped: int
    final: int


class ScaleRecommendation(Struct, frozen=True, kw_only=True):
    """The recommended scale 2**exponent: the highest without overflow, less a margin in doublings.

    `growth` is the largest gradient of the second half of the steps over that of the first half; None below two steps.
    """

    exponent: int
    highest: int
    margin: int
    growth: float | None
    # Nonzero gradients that become zero at the recommended scale and without scaling.
    zero: int
    zero_unscaled: int
    nonzero: int
    # GradScaler with its defaults from the recommended scale, and from its own first scale.
    runs: tuple[ScalerRun, ...] = ()


class LossScaleSweep(Struct, frozen=True, kw_only=True):
    """The losses of gradients at each scale 2**exponent, by parameter and for all.

    `overflow_steps` counts, for each scale, the steps in which a gradient is beyond the format's largest number.
    """

    format: str
    exponents: tuple[int, ...]
    steps: int
    layers: tuple[ScaleLosses, ...]
    total: ScaleLosses
    overflow_steps: tuple[int, ...]
    # Steps with NaN or infinite gradients before any scaling of the sweep.
    nonfinite_steps: int
    # The largest finite gradient of each step.
    largest: tuple[float, ...]
    window: ScaleWindow | None
    recommendation: ScaleRecommendation | None
    # Arrays that were not measured, because their elements are not floating-point numbers.
    not_measured: tuple[str, ...] = ()


class ScalerPoint(Struct, frozen=True):
    """The loss scale of one step, and whether the scaler skipped the step's update."""

    step: int
    scale: float
    is_skipped: bool


class ScalerHistory(Struct, frozen=True, kw_only=True):
    """The moves of a scaler: its skipped steps, its scales, and how often it grew and backed off.

    `growth_interval` is the smallest number of steps between two growths; None below two growths.
    """

    steps: int
    skipped: int
    longest_skipped: int
    first: float
    last: float
    least: float
    greatest: float
    growths: int
    backoffs: int
    growth_interval: int | None
    # Steps at a scale below 1, where scaling loses gradients in place of saving them.
    below_one: int


# How a tensor gets its scale before a conversion to fp8:
# - unscaled: the scale 1;
# - power_of_two: the largest power of two at which the tensor's largest element does not overflow;
# - amax: the format's largest number over the tensor's largest element;
# - delayed: the same from the largest elements of earlier steps (Transformer Engine's delayed scaling).
TensorScaling = Literal["unscaled", "power_of_two", "amax", "delayed"]
TENSOR_SCALINGS: tuple[TensorScaling, ...] = get_args(TensorScaling)


class ScalingLoss(Struct, frozen=True, kw_only=True):
    """The losses of one scaling: counts over all steps, and the error's sum of squares over the tensor's."""

    zero: int
    beyond: int
    error_energy: float


class TensorScales(Struct, frozen=True, kw_only=True):
    """The scales of one tensor: the losses of each way of scaling, and of each constant scale 2**exponent.

    Counts are of the measured elements: a sample if the tensor is large. `largest` is of all elements. `best` is
    the exponent of the constant scale with the least error.
    """

    parameter: str
    elements: int
    measured: int
    nonzero: int
    nonfinite: int
    largest: float
    scalings: dict[TensorScaling, ScalingLoss]
    exponents: tuple[int, ...]
    constant: tuple[ScalingLoss, ...]
    best: int | None


class TensorScaleSweep(Struct, frozen=True, kw_only=True):
    """The per-tensor scales of a narrow format. `history` and `margin` belong to delayed scaling."""

    format: str
    steps: int
    history: int
    margin: int
    tensors: tuple[TensorScales, ...]
    not_measured: tuple[str, ...] = ()


class GradientLosses(Struct, frozen=True, kw_only=True):
    """Everything that scales and clipping lose of the gradients of one training; None for a part not measured."""

    loss_scale: LossScaleSweep | None = None
    tensor_scales: TensorScaleSweep | None = None
    clipping: ClippingSweep | None = None
    clip_order: ClippedBeforeUnscale | None = None
    # The scale of each known step, and their summary; both without entries for a training without scaling.
    scales: tuple[ScalerPoint, ...] = ()
    scaler: ScalerHistory | None = None
