"""Which values define a case: its computation, inputs, tolerance layers, budget and studies?

Frozen values travel suite -> case -> execution -> comparison -> verdict -> run record. Terms: `actual` is the result
under test. `reference` is the same computation in higher precision. `golden` is a named implementation or stored output
in the output dtype. `baseline` is the accepted result. They are never synonyms.
"""

from __future__ import annotations

from math import ceil, log
from typing import Any, Literal

from msgspec import Struct, field

Tier = Literal["unit", "integration", "model"]
TIERS: tuple[Tier, ...] = ("unit", "integration", "model")
Role = Literal["reference", "golden"]
Override = Literal["tighter", "always"]
# A number in a record. JSON has no number for complex values, long doubles, NaN and infinities: they are their repr.
Scalar = float | int | str


class Fact(Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """The base of all facts: `kind` names the struct in JSON."""


class Growth(Struct, frozen=True):
    """A study of the growth of a relative error with the number of operations, which is the parameter `over`.

    Reports fit two laws to the cases of at most `fit_to` operations and extrapolate them to the other cases.
    """

    over: str
    metric: str = "mean_rel_error"
    fit_to: int = 16


class Note(Struct, frozen=True):
    """Advice on one optimisation that no run measures: where to use it, and its risk."""

    use: str = ""
    risk: str = ""


class TradeOff(Struct, frozen=True):
    """A study of precision against speed.

    Each case is compared with the case whose parameter `over` is `plain` and whose other parameters are equal. `notes`
    have the value of `over` as the key, in the spelling of case names.
    """

    over: str
    plain: str
    notes: dict[str, Note] = field(default_factory=dict)


class Study(Struct, frozen=True):
    """The studies of one suite, whose id is tier/suite. No verdict and no digest depends on a study."""

    suite: str
    growth: Growth | None = None
    trade_off: TradeOff | None = None


class LongSum(Struct, frozen=True):
    """The number of terms of a sum, the precision of its arithmetic in bits, and whether the terms are products."""

    terms: int
    precision: int
    products: bool


class Noise(Struct, frozen=True):
    """The additional measurements of a replicate.

    `shares` has the largest |d| / (atol + rtol |r|) per output and seed. A share is infinite if a NaN or an infinity
    has no counterpart. `longest` is the sum with the largest product of terms and unit roundoff; None without a sum.
    """

    shares: dict[str, tuple[float, ...]]
    longest: LongSum | None = None


class Location(Struct, frozen=True):
    """A place in a file: path relative to the project (POSIX slashes), line counted from 1."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Computation(Struct, frozen=True):
    """A runnable subject or reference: its kind (an entry point), and the specification for this kind."""

    kind: str
    spec: Any


class ReferenceDtype(Struct, frozen=True):
    """The dtype in which a reference gets its floating inputs; `digits` are the decimal digits of mpmath, else 0."""

    name: Literal["float64", "longdouble", "mpmath"]
    digits: int = 0


class Layer(Struct, frozen=True):
    """One layer of the tolerance pyramid: settings by metric (or rtol, atol, standard), and their place.

    `dtype`, `output` and `environment` restrict the layer; None admits all. `lines` has the line of each key, if it is
    known. `regression` has the allowed growth against the baseline per metric (0.1 is 10 %), or per metric and
    direction; None switches it off. A layer with an `override` comes after all others. Its bounds apply always, or only
    where they are tighter.
    """

    name: str
    source: Location
    bounds: dict[str, float | str]
    regression: dict[str, float | None] = field(default_factory=dict)
    dtype: str | None = None
    output: str | None = None
    environment: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    override: Override | None = None


class Bound(Struct, frozen=True):
    """One limit on one metric, and the layer (file:line) that set it."""

    metric: str
    limit: float
    layer: str
    source: Location


# Thresholds of one direction are settings of their own, with the metric, a space and the direction as the key, such as
# "bias up". Names of metrics have no space. Up and down are for signed metrics: the size grew, and the value went up or
# down. "better" has the gain from which a change counts as an improvement.
GROWTH_UP, GROWTH_DOWN, GAIN = "up", "down", "better"


# Seeds of a case that states none and has random inputs. Five are the smallest sample on which a statistic is claimed,
# so outputs of any size have one. docs/detection.md has the losses that 1, 3, 5 and 8 seeds find, and their cost.
DEFAULT_SEEDS = 5


def growth_key(metric: str, direction: str) -> str:
    """Return the key of a threshold of one direction."""
    return f"{metric} {direction}"


def split_growth_key(key: str) -> tuple[str, str]:
    """Return the metric, or the rule, and the direction of a key; the direction of a plain threshold is empty."""
    metric, _, direction = key.partition(" ")
    return metric, direction


# `regression` may name these rules besides metrics: growth of averages below which statistics stay silent, the budget
# of cumulative losses, which files spell "creep", and growth on fresh inputs below which a pair of versions passes.
STATISTIC, CUMULATIVE_LOSS, PAIRED_LOSS = RULES = ("statistic", "creep", "pair")


class Tolerance(Struct, frozen=True):
    """The resolved pyramid of one output: |a - r| <= atol + rtol * |r| for elements, and bounds on metrics.

    All `bounds` must hold, and all bounds of at least one of the `alternatives`, if there are any. `regions` replace
    constants of Regions for the measurement. `regression` maps a metric, or one of RULES, to its allowed growth
    against the baseline; no rule judges the growth of other metrics. `directions` has thresholds of one direction.
    """

    rtol: Bound
    atol: Bound
    bounds: tuple[Bound, ...]
    regression: dict[str, float]
    standard: str | None = None
    alternatives: tuple[tuple[Bound, ...], ...] = ()
    regions: dict[str, float] = field(default_factory=dict)
    directions: dict[str, float] = field(default_factory=dict)

    @property
    def bounded(self) -> tuple[str, ...]:
        """Return the metrics with a bound, also one of the alternatives."""
        every = (self.bounds, *self.alternatives)
        return tuple(dict.fromkeys(bound.metric for bounds in every for bound in bounds))


class Budget(Struct, frozen=True):
    """The allowed cost of a case: subject time over the baseline's, judged on the same machine alone."""

    time_ratio: float | None = None


# The noise of a sample: each result of an operation rounded up or down at random, or moved last bits of the inputs.
StochasticNoise = Literal["rounding", "inputs"]
# The formula of significant digits: of errors with a normal distribution around the centre, or of any distribution.
DigitsMethod = Literal["normal", "general"]
# The centre of the samples' errors: their own mean, or the result of the reference or golden.
DigitsCentre = Literal["mean", "oracle"]
# The unit of the samples' errors: the centre itself, or the power of two at or below it.
DigitsError = Literal["relative", "absolute"]


class Stochastic(Struct, frozen=True):
    """The runs of a subject under random noise, and the statement about the digits that they support.

    With confidence `confidence`, a result under the same noise agrees with the centre in the stated digits with
    probability `probability`.
    """

    samples: int = 30
    noise: StochasticNoise = "rounding"
    method: DigitsMethod = "normal"
    against: DigitsCentre = "mean"
    error: DigitsError = "relative"
    probability: float = 0.95
    confidence: float = 0.95

    @property
    def min_general_samples(self) -> int:
        """Return the number n of samples that the general formula needs: probability^n <= 1 - confidence.

        Sohier et al., Confidence intervals for stochastic arithmetic, ACM TOMS 47(2), 2021, section 4.
        """
        return ceil(log(1 - self.confidence) / log(self.probability))


class Case(Struct, frozen=True):
    """One point of a suite's matrix: everything needed to run it, measure it, and find its baseline.

    `id` is tier/suite/name. `definition` is the digest of the computation (subject and reference names, params,
    inputs), without the tolerance. `baseline_id` and `baseline_definition` differ from them only if the suite has
    `baseline_of`. `directory` is the suite's folder, relative to the project.
    """

    id: str
    tier: Tier
    suite: str
    name: str
    source: Location
    definition: str
    baseline_id: str
    baseline_definition: str
    directory: str
    subject: Computation
    oracle: Computation
    role: Role
    inputs: dict[str, dict[str, Any]]
    params: dict[str, Any]
    parameters: dict[str, Any]
    layers: tuple[Layer, ...]
    seeds: int = 1
    repeats: int = 1
    timeout_s: float = 300.0
    exact: bool = False
    # Repeats must give the same bits. If they need not, statistics judge all repeats together.
    deterministic: bool = True
    category: str | None = None
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    budget: Budget = Budget()
    analyzers: tuple[str, ...] = ()
    # The reason why the case is known to be bad; None if it should pass.
    expect_failure: str | None = None
    # The simulated device that computes the subject's operations; None leaves them to numpy.
    device: str | None = None
    study: Study | None = None
    # A second implementation: metrics that need a benchmark divide by its errors. The definition leaves it out, because
    # no figure of a baseline depends on it.
    benchmark: Computation | None = None
    # The dtype in which the reference gets its inputs; None promotes each dtype to the next wider one.
    reference_dtype: ReferenceDtype | None = None
    # Paths and patterns of further files that a change of the case's results may come from, relative to the project.
    # The definition leaves them out.
    depends: tuple[str, ...] = ()
    # An output without a finite element passes if the golden has the same: empty, or infinite in the same places.
    empty_passes: bool = False
    # Further runs under random noise; None for none. The definition leaves them out, because they change no result.
    stochastic: Stochastic | None = None
    # The valid range of inputs by name: low, high, and NaN as a third number if it is valid. Searches of the worst
    # inputs stay inside. The definition leaves them out.
    ranges: dict[str, tuple[float, ...]] = {}
