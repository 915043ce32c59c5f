"""Which judgements can a case get, and which findings support them?

A finding carries facts; report/findings.py writes their sentences.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from precreg.types.case import Bound, Fact, Location, Scalar
from precreg.types.pair import PairFact
from precreg.types.recorded import AbsentFigures, FigureMoved, NonFiniteFigures


class Reason(StrEnum):
    """The reason of a verdict; docs/verdicts.md has the table."""

    IDENTICAL = "identical"
    WITHIN_TOLERANCE = "within_tolerance"
    NOT_CLEAR = "not_clear"
    KNOWN_BAD = "known_bad"
    IMPROVED = "improved"
    OUT_OF_TOLERANCE = "out_of_tolerance"
    REGRESSED = "regressed"
    NONDETERMINISTIC = "nondeterministic"
    OVER_BUDGET = "over_budget"
    NEW = "new"
    STALE = "stale"
    INPUTS_CHANGED = "inputs_changed"
    MISSING_OUTPUT = "missing_output"
    SHAPE_MISMATCH = "shape_mismatch"
    DTYPE_MISMATCH = "dtype_mismatch"
    EMPTY = "empty"
    NON_FINITE_MISMATCH = "non_finite_mismatch"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    SUBJECT_ERROR = "subject_error"
    REFERENCE_ERROR = "reference_error"
    ANALYZER_ERROR = "analyzer_error"
    BENCHMARK_ERROR = "benchmark_error"
    UNAVAILABLE = "unavailable"
    UNEXPECTED_PASS = "unexpected_pass"
    EXPECTED_FAILURE = "expected_failure"


class Status(StrEnum):
    """The status of a case. A proposed case has no baseline to judge it, and its proposal waits for a decision."""

    PASSED = "passed"
    FAILED = "failed"
    PROPOSED = "proposed"
    ERROR = "error"
    SKIPPED = "skipped"


# The rule behind a finding: a bound of the pyramid, a rule without a measure ("hard"), a statistic with its interval, a
# threshold on the growth of a metric ("guard"), or a budget. It is empty if no rule applies.
Rule = Literal["", "bound", "hard", "statistic", "guard", "budget"]


class RepeatDifference(Struct, frozen=True):
    """The first difference between one output of a later run and of the first run on the same inputs.

    `repeat` counts runs from 1. `place` is the index along each axis of the first element, in C order, whose bits
    differ. It is None if one run has no such output, or has it in another shape or dtype. `differing` of `size`
    elements differ, and `non_finite` of these are NaN or infinite in either run. `largest` is the largest distance
    between the finite others; None if float64 holds none.
    """

    output: str
    seed: int
    repeat: int
    place: tuple[int, ...] | None = None
    differing: int = 0
    size: int = 0
    largest: float | None = None
    non_finite: int = 0


class EnvironmentFact(Struct, frozen=True):
    """One fact in which two environments differ; None where an environment lacks it."""

    name: str
    before: str | None = None
    now: str | None = None


class ChangedEnvironment(Fact, frozen=True, tag="changed"):
    """The facts in which two environments differ, in the order of the most likely cause of other bits."""

    facts: tuple[EnvironmentFact, ...]


class UnknownEnvironment(Fact, frozen=True, tag="unknown"):
    """An environment that is known only by its fingerprint."""

    fingerprint: str


class SameDescription(Fact, frozen=True, tag="same_description"):
    """Two fingerprints of environments with the same facts."""

    before: str
    now: str


EnvironmentDifference = ChangedEnvironment | UnknownEnvironment | SameDescription


class AbsentOutput(Fact, frozen=True, tag="absent_output"):
    """An output that the subject did not give; `side` has it."""

    side: Literal["reference", "golden", "baseline"]


class NothingCompared(Fact, frozen=True, tag="nothing_compared"):
    """A case in which neither side gave an output."""


class AbsentArray(Fact, frozen=True, tag="absent_array"):
    """A stored array that one side of a comparison lacks."""

    side: Literal["actual", "reference", "golden"]
    array: str


class SideContents(Struct, frozen=True):
    """One side of a comparison: its path, the names of its first few arrays, and the number of the others."""

    side: str
    arrays: tuple[str, ...]
    others: int = 0


class NoCommonName(Fact, frozen=True, tag="no_common_name"):
    """Two sides of a comparison without a common name of an array."""

    actual: SideContents
    reference: SideContents


AbsenceFact = AbsentOutput | NothingCompared | AbsentArray | NoCommonName | AbsentFigures


class OtherShape(Fact, frozen=True, tag="other_shape"):
    """An output of another shape than the oracle's or the baseline's."""

    expected: tuple[int, ...]
    actual: tuple[int, ...]
    side: Literal["oracle", "baseline"]


class OtherDtype(Fact, frozen=True, tag="other_dtype"):
    """An output of another dtype than the golden's, the baseline's or the benchmark's."""

    expected: str
    actual: str
    side: Literal["golden", "baseline", "benchmark"]


class FirstElement(Struct, frozen=True):
    """The first element of its kind: flat C-order index, actual and reference."""

    index: int
    actual: Scalar
    reference: Scalar


class NonFiniteElements(Fact, frozen=True, tag="non_finite"):
    """Elements that are NaN or infinite on one side, or with another sign."""

    differing: int
    size: int
    first: FirstElement | None = None


class NoElement(Fact, frozen=True, tag="no_element"):
    """An output without elements."""

    shape: tuple[int, ...]


class NoFinitePair(Fact, frozen=True, tag="no_finite_pair"):
    """An output without a pair of finite elements."""


StructureFact = OtherShape | OtherDtype | NonFiniteElements | NonFiniteFigures | NoElement | NoFinitePair


class BrokenLimit(Struct, frozen=True, omit_defaults=True):
    """A metric beyond a limit; `current` is None if it is not defined, or `lacks_benchmark`.

    A ratio to a benchmark has its two sides: the `error`, and the `benchmark_error` by which it divides. If the
    benchmark's is smaller than a `floor` of msprobe, the ratio divides by the floor.
    """

    metric: str
    limit: float
    current: float | None = None
    # The limit is the smallest allowed value, not the largest.
    at_least: bool = False
    lacks_benchmark: bool = False
    error: float | None = None
    benchmark_error: float | None = None
    floor: float | None = None


class BrokenBound(Fact, frozen=True, tag="broken_bound"):
    """A broken bound, and the layer that set it; a match ratio has rtol and atol, in this order."""

    broken: BrokenLimit
    layer: str
    closeness: tuple[Bound, ...] = ()


class NoAlternative(Fact, frozen=True, tag="no_alternative"):
    """The broken limits of each alternative of a tolerance; `layer` set the first of them."""

    alternatives: tuple[tuple[BrokenLimit, ...], ...]
    layer: str
    closeness: tuple[Bound, ...] = ()


class NoBaseline(Fact, frozen=True, tag="no_baseline"):
    """A case without a baseline in any of the environments."""

    environments: tuple[str, ...]


class NewOutput(Fact, frozen=True, tag="new_output"):
    """An output that the baseline in `file` lacks."""

    file: str


class DefinitionChanged(Fact, frozen=True, tag="definition_changed"):
    """A case with another definition than at the acceptance of the baseline in `file`."""

    file: str


class InputsChanged(Fact, frozen=True, tag="inputs_changed"):
    """A case with other inputs than at the acceptance of the baseline in `file`, and the same definition."""

    file: str


JudgeFact = NoBaseline | NewOutput | DefinitionChanged | InputsChanged


class BitsNotExact(Fact, frozen=True, tag="bits_not_exact"):
    """A case that is declared exact, with other bits than the baseline's."""


# The result that an output is compared with: the accepted one, or a second implementation's.
Judge = Literal["baseline", "benchmark"]


class ExactnessLost(Fact, frozen=True, tag="exactness_lost"):
    """An output that has errors, and had none at any seed."""

    judge: Judge = "baseline"


class ExactnessGained(Fact, frozen=True, tag="exactness_gained"):
    """An output that has no error at any seed, and had some."""

    judge: Judge = "baseline"


class MatchesLost(Fact, frozen=True, tag="matches_lost"):
    """Fewer matches with the golden: more than runs differ by if `tested`, and any loss counts otherwise."""

    tested: bool = False


class RatioMoved(Fact, frozen=True, tag="ratio_moved"):
    """A ratio to the baseline beyond noise and the minimum relevant change.

    An improvement has the output's maximum error before and now, if that rose meanwhile. `typical` is the ratio of a
    typical group of elements, in place of an average that few elements make.
    """

    maximum_before: float | None = None
    maximum_now: float | None = None
    judge: Judge = "baseline"
    typical: bool = False


class MetricGrew(Fact, frozen=True, tag="metric_grew"):
    """A metric that grew beyond its threshold."""

    judge: Judge = "baseline"


class MetricImproved(Fact, frozen=True, tag="metric_improved"):
    """A metric that improved beyond its threshold for gains."""

    judge: Judge = "baseline"


class NonFiniteMoved(Fact, frozen=True, tag="non_finite_moved"):
    """Elements that differ in NaN, and in infinity, when a known-bad case was accepted and now."""

    nan_before: int
    nan_now: int
    inf_before: int
    inf_now: int


class KnownBadFixed(Fact, frozen=True, tag="known_bad_fixed"):
    """A case that was accepted as known bad for the reason `why`, and now keeps every bound."""

    why: str


class SmallOutputGrew(Fact, frozen=True, tag="small_output_grew"):
    """An average of so few `elements` at so few `seeds` that no statistic judges it, many times the baseline's."""

    elements: int
    seeds: int
    judge: Judge = "baseline"


class MaximaGrew(Fact, frozen=True, tag="maxima_grew"):
    """A maximum that is above the baseline's of all seeds, at `larger` of the run's `seeds`."""

    larger: int
    seeds: int


class TimeGrew(Fact, frozen=True, tag="time_grew"):
    """A time of the subject beyond its budget."""


class UndeclaredDifference(Fact, frozen=True, tag="undeclared_difference"):
    """An output whose repeats differ without being declared to; `first` is the stage where it starts."""

    first: bool
    difference: RepeatDifference | None = None


RegressionFact = (
    BitsNotExact
    | ExactnessLost
    | ExactnessGained
    | MatchesLost
    | RatioMoved
    | MetricGrew
    | MetricImproved
    | SmallOutputGrew
    | MaximaGrew
    | FigureMoved
    | TimeGrew
    | UndeclaredDifference
)


class SameBits(Fact, frozen=True, tag="same_bits"):
    """The baseline's bits at each of its seeds; `seeds` is their number if the case has more.

    `runs` of each seed agree, if the case is declared not to repeat.
    """

    seeds: int | None = None
    runs: int | None = None


class ChangedBits(Fact, frozen=True, tag="changed_bits"):
    """Bits other than the baseline's: of a case that repeats, that need not, or whose runs differ as declared."""

    cause: Literal["change", "undecided", "repeats"] = "change"
    # The first output whose runs differ, and where.
    output: str = ""
    difference: RepeatDifference | None = None


class LargestRatio(Struct, frozen=True):
    """The ratio to the baseline with the largest upper bound; `min_ratio` is the minimum relevant one."""

    output: str
    metric: str
    ratio: float | None
    lower: float | None
    upper: float | None
    min_ratio: float


class UnjudgedOutputs(Struct, frozen=True):
    """Outputs that the statistic does not judge."""

    cause: Literal["few_samples", "statistic_off", "figures_alone"]
    outputs: tuple[str, ...]


class RoundingLost(Struct, frozen=True):
    """Shares of correctly rounded elements: fewer than the baseline's at each of `seeds`, with `p_value`."""

    output: str
    baseline: float
    current: float
    seeds: int
    p_value: float


class NotRegressed(Fact, frozen=True, tag="not_regressed"):
    """Other bits without a regression, by the largest ratio, or without one if outputs were not judged.

    `runs` of each seed agree, if the case is declared not to repeat.
    """

    bits: ChangedBits
    largest: LargestRatio | None = None
    unjudged: tuple[UnjudgedOutputs, ...] = ()
    has_thresholds: bool = False
    runs: int | None = None
    rounding: tuple[RoundingLost, ...] = ()


class SameElements(Fact, frozen=True, tag="same_elements"):
    """A stored array with the bits of its reference, in the actual's dtype."""


class BoundsHold(Fact, frozen=True, tag="bounds_hold"):
    """A stored array that keeps every bound."""


PassFact = SameBits | NotRegressed | SameElements | BoundsHold

KnownBadFact = NonFiniteMoved | KnownBadFixed

FindingFact = (
    AbsenceFact
    | StructureFact
    | BrokenBound
    | NoAlternative
    | JudgeFact
    | RegressionFact
    | KnownBadFact
    | PassFact
    | PairFact
)


class Finding(Struct, frozen=True):
    """One reason of a verdict: an output's metric with its numbers and the rule that applies.

    A statistic has the confidence bounds `lower` and `upper` of `ratio`, current over baseline, at the case's alpha.
    Its `floor` is the largest ratio within noise. `fact` has the ingredients of the message that are no figures. It is
    None where the message quotes an exception, and in old records.
    """

    reason: Reason
    # Empty until report/ writes it.
    message: str = ""
    output: str = ""
    metric: str = ""
    seed: int | None = None
    current: float | None = None
    baseline: float | None = None
    ratio: float | None = None
    limit: float | None = None
    source: Location | None = None
    rule: Rule = ""
    lower: float | None = None
    upper: float | None = None
    floor: float | None = None
    fact: FindingFact | None = None


class OtherEnvironment(Struct, frozen=True):
    """The environment of a baseline that was accepted in another one than the run's, and what differs here."""

    environment: str
    difference: EnvironmentDifference


class Verdict(Struct, frozen=True):
    """The judgement of one case: status, the worst reason, and every finding with its numbers, worst first."""

    status: Status
    reason: Reason
    # Empty until report/ writes it.
    message: str = ""
    findings: tuple[Finding, ...] = ()
    # The reason without the declaration, for expected_failure and unexpected_pass.
    underlying: Reason | None = None
    # The reason of that declaration.
    declared: str = ""
    # Set if the verdict rests on the figures of a baseline from another environment.
    accepted_in: OtherEnvironment | None = None
    # The reason in a baseline that was accepted as known bad, if the case is still bad, and the findings that the
    # baseline excuses.
    known_bad: str = ""
    excused: tuple[Finding, ...] = ()
