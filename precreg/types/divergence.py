"""Which values describe the divergence of two runs of one training: distances by step, noise, growth, bias, verdict?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

DIVERGENCE_SCHEMA = 1

# - identical: all compared steps have the same bits;
# - chaos: the runs part as runs with a last-bit change do, from a start that rounding explains;
# - loss: they part by more than rounding, grow faster than runs with a last-bit change, or part in one direction;
# - unclear: the reason says which evidence is missing.
DivergenceVerdict = Literal["identical", "chaos", "loss", "unclear"]

# Of a loss:
# - start: the runs part by more than a last-bit change explains;
# - parameter: one parameter parts by more than its own noise, and the noise of others hides it in the sum;
# - growth: the distance grows faster than the twins', and leaves their range;
# - direction: the weights move in one direction, toward zero or away from it;
# - loss_bias: the loss is higher or lower over the whole run;
# - non_finite: run B has NaN or infinities where run A and its twins have none.
# Of an unclear comparison:
# - different_start: the initial weights are unrelated, as if from two seeds;
# - batch_order: the runs see the same batches in another order;
# - different_data: the runs see other batches;
# - no_twins, few_twins: no noise to compare with, or too little of it;
# - order_noise: the runs part as twins with other orders of batches do, which hides smaller losses;
# - few_steps: too few steps after the runs part;
# - jump: the distance leaves the range of the twins at one late step, which a flip of one value explains, too;
# - parameter_jump: one parameter leaves its own noise within the first steps, which a flip explains, too;
# - no_updates: equal bits, but no update changed a weight of run A in the compared steps;
# - reference_non_finite: run A itself has NaN or infinities at its first compared step.
DivergenceReason = Literal[
    "none",
    "start",
    "parameter",
    "growth",
    "direction",
    "loss_bias",
    "non_finite",
    "different_start",
    "batch_order",
    "different_data",
    "no_twins",
    "few_twins",
    "few_steps",
    "order_noise",
    "jump",
    "parameter_jump",
    "no_updates",
    "reference_non_finite",
]


# Whether two runs saw the same batches in another order, or others.
BatchDifference = Literal["batch_order", "different_data"]


class TrainingRun(Struct, frozen=True, kw_only=True):
    """One run of a training: its name, the number of its stored steps, and its weights."""

    name: str
    steps: int
    parameters: int
    elements: int
    # The dtypes of the weights, sorted.
    dtypes: tuple[str, ...] = ()


class TrainingParting(Struct, frozen=True):
    """The step and the parameter at which two runs part, with the relative distance there, and in ULP.

    `others` counts further parameters that part at the same step. The distance is None for a parameter of zeros. `ulp`
    is the norm of the difference over that of the ULPs of run A.
    """

    step: int
    parameter: str
    distance: float | None
    ulp: float | None
    others: int = 0


class ConfidenceInterval(Struct, frozen=True):
    """An estimate with its confidence interval; None where too few values give no interval."""

    value: float
    low: float | None = None
    high: float | None = None


class ParameterCourse(Struct, frozen=True):
    """The distances of one parameter at the compared steps: relative to its norm in run A, and to its ULPs.

    None where a value is not finite, or where the norm is 0. `start_ratio` is the distance where the runs part over the
    limit of this parameter among the twins, `early_ratio` the same over the first eight steps, by geometric means. They
    are None if the parameter has no distance there, or fewer than two twins have one.
    """

    parameter: str
    distances: tuple[float | None, ...]
    ulps: tuple[float | None, ...]
    start_ratio: float | None = None
    early_ratio: float | None = None


class TwinCourse(Struct, frozen=True):
    """The distances of a twin from run A at the compared steps, over all weights.

    `toward` and `direction` are its biases, as in `DirectionBias`, `loss_change` the mean relative change of its loss.
    """

    name: str
    distances: tuple[float | None, ...]
    growth: float | None
    toward: float
    direction: float
    loss_change: float | None


class DivergenceGrowth(Struct, frozen=True, kw_only=True):
    """The growth rates per step of the logarithm of the distance: of the pair, and of the twins.

    `p_value` is the probability that a twin grows as fast as the pair. None where too few steps or twins give no rate.
    """

    pair: ConfidenceInterval | None = None
    twins: ConfidenceInterval | None = None
    p_value: float | None = None


class DirectionBias(Struct, frozen=True):
    """One statistic of direction, of the pair and as the mean of the twins, and the probability of such a twin.

    - toward: the change of |weight| over the whole change: -1 if all changes shrink weights, 1 if all let them grow;
    - direction: the change of the weights over the whole change: -1 or 1 if all have one sign;
    - loss: the mean relative change of the loss.

    A smaller difference from the twins than `visible` is not significant.
    """

    kind: Literal["toward", "direction", "loss"]
    pair: float
    twins: float | None
    p_value: float | None
    visible: float | None = None


class EpochLosses(Struct, frozen=True):
    """The mean losses of one epoch in both runs, over the steps that both have."""

    epoch: int
    steps: int
    a: float
    b: float


class DivergenceOmissions(Struct, frozen=True, kw_only=True):
    """Everything that the comparison left out: steps and parameters of one run alone, and steps that are not finite."""

    steps_a: int = 0
    steps_b: int = 0
    parameters_a: tuple[str, ...] = ()
    parameters_b: tuple[str, ...] = ()
    # Parameters whose shapes differ.
    shapes: tuple[str, ...] = ()
    # Compared steps at which a weight of one run or of the other is NaN or infinite.
    non_finite_a: int = 0
    non_finite_b: int = 0
    first_non_finite: int | None = None
    # Twins that gave the bits of run A: their training did not go on with the changed weights.
    idle_twins: int = 0
    # Parameters that differ where the runs part, and are not judged alone: fewer than two twins show noise of them.
    parameters_without_noise: tuple[str, ...] = ()


class DivergenceRecord(Struct, frozen=True, kw_only=True):
    """The comparison of two runs of one training, step by step.

    `steps` are the compared steps. `courses` has one entry for each parameter, `distances` are those of all weights.
    `noise` is the upper limit of a further twin's distance at each step.
    """

    schema: int = DIVERGENCE_SCHEMA
    precreg: str
    a: TrainingRun
    b: TrainingRun
    steps: tuple[int, ...]
    distances: tuple[float | None, ...]
    courses: tuple[ParameterCourse, ...]
    losses_a: tuple[float | None, ...] = ()
    losses_b: tuple[float | None, ...] = ()
    twins: tuple[TwinCourse, ...] = ()
    # Twins that saw the batches of run A in another order, or other batches.
    twins_with_other_batches: int = 0
    noise: tuple[float | None, ...] = ()
    # The first difference of bits, and the first distance that stays beyond noise to the end.
    parted: TrainingParting | None = None
    beyond: TrainingParting | None = None
    # The distance where the runs part, over the upper limit of the twins there.
    start_ratio: float | None = None
    # The largest distance over the largest upper limit of the twins.
    level_ratio: float | None = None
    # The relative change of the loss that gave the first different step: 0 if the forward pass has the same result.
    loss_at_parting: float | None = None
    growth: DivergenceGrowth = DivergenceGrowth()
    biases: tuple[DirectionBias, ...] = ()
    epochs: tuple[EpochLosses, ...] = ()
    omissions: DivergenceOmissions = DivergenceOmissions()
    verdict: DivergenceVerdict
    reason: DivergenceReason = "none"
