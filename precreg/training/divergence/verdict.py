"""Is the divergence of two runs chaos, or a loss of precision? A pure function of facts."""

from __future__ import annotations

from typing import NamedTuple

from precreg.training.divergence.evidence import TEST_ALPHA
from precreg.types import BatchDifference, DirectionBias, DivergenceGrowth, DivergenceReason, DivergenceVerdict

# A twin changes 1 in 16 weights by an ULP. Changes of all weights by an ULP are 4 times as far, and rounding alone
# explains them.
NOISE_FACTOR = 4.0
# Below this part of the whole change, a direction is too weak to matter, even if it is significant.
MIN_DIRECTION = 0.25
# A smaller mean relative change of the loss than this does not matter, even if it is significant.
MIN_LOSS_CHANGE = 1e-6
# Rates of fewer steps are rounding, not growth.
MIN_GROWTH_STEPS = 8
# Student's t of 1 or 2 degrees of freedom accepts everything.
MIN_TWINS = 3
# The initial weights of two seeds differ by about as much as their norm.
DIFFERENT_START = 0.5


class DivergenceEvidence(NamedTuple):
    """The facts from which a verdict follows; None where one is not known."""

    has_same_bits: bool
    # Whether an update changed a weight of run A. Equal bits of two runs without one are no evidence.
    has_updates: bool
    # The largest relative distance of a parameter at the first compared step.
    initial: float
    # Whether both runs saw the same batches, the same ones in another order, or others; None if nobody stored them.
    batches: BatchDifference | None
    is_reference_finite: bool
    # Whether run B, and it alone, has NaN or infinities.
    is_other_non_finite: bool
    twins: int
    # The same of each twin. Twins with other orders show the noise of a batch order, which hides smaller losses.
    twin_batches: tuple[BatchDifference | None, ...]
    # Compared steps from the one at which the runs part.
    steps: int
    start_ratio: float | None
    level_ratio: float | None
    # The largest excess of a parameter over its own limit: where the runs part, and over the first steps.
    parameter_start: float | None
    parameter_early: float | None
    growth: DivergenceGrowth
    biases: tuple[DirectionBias, ...]


def judge_divergence(evidence: DivergenceEvidence) -> tuple[DivergenceVerdict, DivergenceReason]:
    """Return the verdict on a pair of runs, with its reason; `none` where the verdict needs none."""
    if not evidence.is_reference_finite:
        return "unclear", "reference_non_finite"
    if evidence.has_same_bits:
        return ("identical", "none") if evidence.has_updates else ("unclear", "no_updates")
    if evidence.initial > DIFFERENT_START:
        return "unclear", "different_start"
    if evidence.batches is not None and not _have_other_orders(evidence):
        return "unclear", evidence.batches
    if evidence.is_other_non_finite:
        return "loss", "non_finite"
    if not evidence.twins:
        return "unclear", "no_twins"
    reason = _loss_reason(evidence)
    if reason == "none":
        return _without_loss(evidence)
    if evidence.twins < MIN_TWINS:
        return "unclear", "few_twins"
    # A jump may be the flip of one value. The other reasons are losses.
    return ("unclear", reason) if reason in ("jump", "parameter_jump") else ("loss", reason)


def _have_other_orders(evidence: DivergenceEvidence) -> bool:
    """Return whether the runs, and all twins, saw the batches of run A in other orders: a distribution over orders."""
    return {evidence.batches, *evidence.twin_batches} == {"batch_order"} and bool(evidence.twin_batches)


def _without_loss(evidence: DivergenceEvidence) -> tuple[DivergenceVerdict, DivergenceReason]:
    if evidence.steps < MIN_GROWTH_STEPS:
        return "unclear", "few_steps"
    # Twins with other batches part by far more than rounding: a pair within their noise does not pass.
    return ("unclear", "order_noise") if any(evidence.twin_batches) else ("chaos", "none")


def _loss_reason(evidence: DivergenceEvidence) -> DivergenceReason:
    """Return the first reason to call the divergence more than chaos; `none` if it has none."""
    if evidence.start_ratio is not None and evidence.start_ratio > NOISE_FACTOR:
        return "start"
    if evidence.parameter_start is not None and evidence.parameter_start > NOISE_FACTOR:
        return "parameter"
    if evidence.steps < MIN_GROWTH_STEPS:
        return "none"
    biases = {each.kind: each for each in evidence.biases}
    for kind in ("toward", "direction"):
        if kind in biases and _is_significant(biases[kind]) and abs(biases[kind].pair) > MIN_DIRECTION:
            return "direction"
    is_beyond = evidence.level_ratio is not None and evidence.level_ratio > NOISE_FACTOR
    if is_beyond:
        p_value = evidence.growth.p_value
        return "growth" if p_value is not None and p_value < TEST_ALPHA else "jump"
    if "loss" in biases and _is_significant(biases["loss"]) and _is_relevant_change(biases["loss"]):
        return "loss_bias"
    if evidence.parameter_early is not None and evidence.parameter_early > NOISE_FACTOR:
        return "parameter_jump"
    return "none"


def _is_significant(bias: DirectionBias) -> bool:
    return bias.p_value is not None and bias.p_value < TEST_ALPHA


def _is_relevant_change(bias: DirectionBias) -> bool:
    return bias.twins is not None and abs(bias.pair - bias.twins) > MIN_LOSS_CHANGE
