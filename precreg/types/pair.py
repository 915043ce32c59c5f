"""Which values does comparing two computations of the same output give?

Two versions of the code, the present and the accepted one, run on fresh inputs. A benchmark is a second implementation.
Figures are measured, and facts explain verdicts.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from precreg.types.case import Fact

# The end of a paired test: a loss is proven, the bits are the same, a relevant loss is excluded, or neither is.
PairEnd = Literal["worse", "same_bits", "clear", "not_clear"]

# The limit that ended an unclear test: of seeds, of the case's seconds, or of the run's.
EndedBy = Literal["max_seeds", "case_seconds", "run_seconds"]


# A share of correctly rounded elements that is lost without a report, as in a single run, and the level of the report.
MIN_SHARE_LOSS = 0.01
SHARE_ALPHA = 1e-3


class PairedFigure(Struct, frozen=True):
    """One metric of one output on the seeds that both versions ran: the ratio of the present errors to the accepted.

    `ratio` is the geometric mean over seeds; of a bias it is 1 + the growth of its size in units of the mean |d| of
    both versions. `lower` and `upper` are its 95 % confidence interval. `log_mean` and `log_error` are the mean and the
    standard error that pooled evidence adds up: of log(ratio), or of the growth of a bias.
    """

    output: str
    dtype: str
    metric: str
    ratio: float
    lower: float
    upper: float
    log_mean: float
    log_error: float


class RoundingShare(Struct, frozen=True):
    """The share of correctly rounded elements of one output, accepted and present, with the seeds that lost and gained.

    `p_value` is that of the exact sign test over seeds, H0: no seed is more likely to lose than to gain.
    """

    output: str
    before: float
    now: float
    lost: int
    gained: int
    p_value: float

    @property
    def is_loss(self) -> bool:
        """Return whether reports mention the share: it shrank relevantly and significantly."""
        return self.before - self.now > MIN_SHARE_LOSS and self.p_value < SHARE_ALPHA


class WorseOnFreshInputs(Fact, frozen=True, tag="worse_on_fresh_inputs"):
    """A metric that grew over the accepted version's on so many seeds."""

    commit: str
    seeds: int


class NonFiniteOnFreshInputs(Fact, frozen=True, tag="non_finite_on_fresh_inputs"):
    """More mismatched NaN and infinities than the accepted version has on the same inputs."""

    commit: str
    seed: int
    before: int
    now: int


class BetterOnFreshInputs(Fact, frozen=True, tag="better_on_fresh_inputs"):
    """A metric that shrank against the accepted version's on so many seeds."""

    commit: str
    seeds: int


class ClearOnFreshInputs(Fact, frozen=True, tag="clear_on_fresh_inputs"):
    """No relevant loss on so many seeds: bits are the same, or every upper bound is below its limit.

    `metric` has the largest upper bound of all averages and maxima, `upper`.
    """

    commit: str
    seeds: int
    same_bits: bool = False
    output: str = ""
    metric: str = ""
    upper: float = 1.0


class UnclearOnFreshInputs(Fact, frozen=True, tag="unclear_on_fresh_inputs"):
    """A loss neither proven nor excluded by so many seeds.

    `metric` is the one furthest from clear, with the 95 % upper bound `upper` of its ratio; `averages` is the largest
    upper bound of all averages. `needed` is an estimate of the seeds that find a loss of `detectable`. Without a seed,
    the metric is empty.
    """

    commit: str
    seeds: int
    ended_by: EndedBy
    output: str = ""
    metric: str = ""
    upper: float = 0.0
    averages: float = 0.0
    detectable: float = 0.0
    needed: int = 0


class FailedOnFreshInputs(Fact, frozen=True, tag="failed_on_fresh_inputs"):
    """An exception or a crash of the present version on a fresh input that the accepted version computes."""

    commit: str
    failure: str


PairFact = (
    WorseOnFreshInputs
    | NonFiniteOnFreshInputs
    | BetterOnFreshInputs
    | ClearOnFreshInputs
    | UnclearOnFreshInputs
    | FailedOnFreshInputs
)


class AverageRatio(Struct, frozen=True):
    """The average errors of an output and of the benchmark, and their ratio between confidence bounds.

    The bounds are None if there are too few samples. A number beyond float64 is None, too.
    """

    metric: str
    actual: float
    benchmark: float
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None


# The side that is nearer to the reference. "none": no difference is shown; "mixed": each by another average; "unknown":
# too few samples.
Nearer = Literal["actual", "benchmark", "mixed", "none", "same_bits", "unknown"]


class BenchmarkDifference(Struct, frozen=True):
    """Which of an output and its benchmark is nearer to the reference; the mean absolute error is the first ratio."""

    nearer: Nearer
    ratios: tuple[AverageRatio, ...] = ()
