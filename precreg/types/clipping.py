"""What does clipping change: how many steps, in which direction, and on which side of unscaling?"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

# How a gradient is clipped:
# - global_norm: all parameters together are shortened to the norm (torch.nn.utils.clip_grad_norm_);
# - parameter_norm: each parameter's gradient is shortened to the norm on its own;
# - value: each element is limited (torch.nn.utils.clip_grad_value_).
ClipKind = Literal["global_norm", "parameter_norm", "value"]
CLIP_KINDS: tuple[ClipKind, ...] = get_args(ClipKind)


class ClipEffect(Struct, frozen=True, kw_only=True):
    """The effect of one limit.

    `quantile` is the quantile of the observed sizes that the limit is; None for a limit of the user. `sum_cosine`
    compares the sum of the clipped gradients of all steps with the sum of the unclipped ones. `step_cosine` and
    `least_cosine` are the mean and the least cosine within a step: 1 for a global norm, which keeps the direction.
    """

    kind: ClipKind
    limit: float
    quantile: float | None
    # Steps in which the limit changes a gradient.
    clipped_steps: int
    step_cosine: float | None
    least_cosine: float | None
    sum_cosine: float | None
    # The length of the sum of the clipped gradients over the length of the unclipped sum.
    sum_length: float | None


class ClippingSweep(Struct, frozen=True, kw_only=True):
    """The effects of several limits on the measured steps.

    `measured` of `elements` elements of a step give the cosines of sums and of clipped values. Norms are of all
    elements, and so are the cosines within a step of clipped norms.
    """

    steps: int
    # Steps with NaN or infinite gradients have no finite norm, and are in no figure.
    nonfinite_steps: int
    elements: int
    measured: int
    norms: tuple[float, ...]
    effects: tuple[ClipEffect, ...]
    not_measured: tuple[str, ...] = ()


class ClippedStep(Struct, frozen=True):
    """One clipping as it happened: the norm that was compared with the limit, and the scale that it still had.

    `is_scaled` is true if the gradients were clipped before the scaler unscaled them.
    """

    step: int
    norm: float
    limit: float
    scale: float
    is_scaled: bool


class ClippedBeforeUnscale(Struct, frozen=True, kw_only=True):
    """Gradients were clipped while they still had the loss scale, so that the limit was limit / scale.

    `effective_least` and `effective_greatest` are the limits that acted on the unscaled gradients. `clipped` counts
    the steps that this clipping changed, `clipped_after` those that clipping after unscaling would have changed.
    """

    clippings: int
    scaled: int
    first_step: int
    limit: float
    effective_least: float
    effective_greatest: float
    clipped: int
    clipped_after: int
