"""The vocabulary: frozen values that travel suite -> case -> execution -> comparison -> verdict -> run record.

Terms: `actual` is the result under test; `reference` is the same computation in higher precision; `golden` is a named
implementation or stored output in the output dtype; `baseline` is what was accepted earlier. They are never synonyms.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, field

from precreg.types.metric import Metric, learn
from precreg.types.replicate import Noise, Replicate
from precreg.types.study import Study

Tier = Literal["unit", "integration", "model"]

TIERS: tuple[Tier, ...] = ("unit", "integration", "model")

Role = Literal["reference", "golden"]

Override = Literal["tighter", "always"]

Scalar = float | int | str
"""A number in a record; values JSON has no number for (complex, longdouble, NaN, infinities) as their repr."""


class Location(Struct, frozen=True):
    """A place in a file: path relative to the project (POSIX slashes), line counted from 1."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Computation(Struct, frozen=True):
    """Something that can be run: the kind of subject (an entry point) and what that kind is told."""

    kind: str
    spec: Any


class Layer(Struct, frozen=True):
    """One layer of the tolerance pyramid: settings by metric (or rtol, atol, standard), and where it was written.

    `dtype` and `output` restrict the layer to outputs of that dtype or name; None admits all. `lines` gives the line
    of each key, where it is known. `regression` holds, per metric, the growth that is allowed against the
    baseline (0.1 is 10 %), or None where the metric is not judged. A layer with an `override` comes after all others,
    and its bounds take hold always, or only where they are tighter than what holds.
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


STATISTIC, CREEP = RULES = ("statistic", "creep")
"""What `regression` may name besides metrics: growth of averages not yet material, and what losses may add up to."""


class Tolerance(Struct, frozen=True):
    """The resolved pyramid for one output: |a - r| <= atol + rtol * |r| for elements, and bounds on metrics.

    All of `bounds` must hold, and all bounds of at least one of the `alternatives`, where there are any. `regions`
    takes the place of constants of measure/regions.py while the output is measured. `regression` maps a metric, or one
    of RULES, to its allowed growth against the baseline; what is not named is not judged.
    """

    rtol: Bound
    atol: Bound
    bounds: tuple[Bound, ...]
    regression: dict[str, float]
    standard: str | None = None
    alternatives: tuple[tuple[Bound, ...], ...] = ()
    regions: dict[str, float] = field(default_factory=dict)


class Budget(Struct, frozen=True):
    """What a case may cost: subject time as a ratio to the baseline's, judged on the same fingerprint alone."""

    time_ratio: float | None = None


class Case(Struct, frozen=True):
    """One point of a suite's matrix: everything needed to run it, measure it, and find its baseline.

    `id` is tier/suite/name. `definition` is the digest of what is computed (subject and reference names, params,
    inputs), not of how it is judged. `baseline_id` and `baseline_definition` differ from them only where the suite
    says `baseline_of`. `directory` is the suite's folder, relative to the project.
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
    deterministic: bool = True
    """Whether repeats must give the same bits; where they need not, all of them together are judged by statistics."""
    category: str | None = None
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    budget: Budget = Budget()
    analyzers: tuple[str, ...] = ()
    expect_failure: str | None = None
    """Why the case is known to be bad; None where it is expected to pass."""
    device: str | None = None
    """The simulated device that computes the subject's operations; None leaves them to numpy."""
    fault: str | None = None
    """The fault that is planted into the subject's operations; None where there is none."""
    replicate: Replicate | None = None
    """What makes this run a replicate of the case, whose `Outcome.noise` is told; None where it is the case's own."""
    study: Study | None = None
    """What reports read the suite's results for together; no verdict and no digest knows of it."""


class Reason(StrEnum):
    """Why a verdict is what it is; docs/verdicts.md has the table."""

    IDENTICAL = "identical"
    WITHIN_TOLERANCE = "within_tolerance"
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
    UNAVAILABLE = "unavailable"
    UNEXPECTED_PASS = "unexpected_pass"
    EXPECTED_FAILURE = "expected_failure"


class Status(StrEnum):
    """What becomes of a case. Proposed: it could not be judged for want of a baseline, and a proposal waits."""

    PASSED = "passed"
    FAILED = "failed"
    PROPOSED = "proposed"
    ERROR = "error"
    SKIPPED = "skipped"


class Failure(Struct, frozen=True):
    """Why an execution has no outputs: reason, one line, and the end of the traceback or of what was printed."""

    reason: Reason
    message: str
    detail: str = ""


class RepeatDifference(Struct, frozen=True):
    """Where one output of a later run of the subject first differs from that of its first run on the same inputs.

    `repeat` counts runs from 1. `place` is the index along each axis of the first element, in C order, whose bits
    differ; `differing` of `size` elements do, of which `non_finite` are NaN or infinite in either run. `largest` is
    the largest distance between the finite others, None where there is none that float64 holds. `place` is None where
    one run gave no such output, or gave it in another shape or dtype.
    """

    output: str
    seed: int
    repeat: int
    place: tuple[int, ...] | None = None
    differing: int = 0
    size: int = 0
    largest: float | None = None
    non_finite: int = 0


class Execution(Struct, frozen=True):
    """Facts of one run of a case: digests of inputs (per seed) and outputs (per output, per seed), and its time.

    A digest is that of the last of a seed's runs; where runs differ as the case declares, it is one of all their
    digests, in their order, and no run's own.
    `duration_s` is the subject's own time in seconds, the smallest over seeds and repeats. `unsteady` names the
    outputs whose repeats differ in any bit, in the order in which the subject gives them, and `differences` has one
    entry for each of them. `failure` is set where there are no outputs.
    """

    inputs: tuple[str, ...] = ()
    outputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    duration_s: float = 0.0
    unsteady: tuple[str, ...] = ()
    failure: Failure | None = None
    differences: tuple[RepeatDifference, ...] = ()


class Positions(Struct, frozen=True):
    """Elements worth naming, worst first: flat C-order index, actual, reference, each list of one length."""

    index: list[int]
    actual: list[Scalar]
    reference: list[Scalar]


class Histogram(Struct, frozen=True):
    """Counts of |actual - reference| on a log axis, four bins an octave; zero errors are counted apart.

    Bin k holds errors e with k == (float64 bits of e - 1) >> 50, so that a bin ends with, and does not begin at, a
    number of three significant bits, and bins are in order of size. `bins` is sorted.
    """

    zeros: int
    bins: list[int]
    counts: list[int]


class AxisGroups(Struct, frozen=True):
    """Sums over the finite pairs in the groups of one axis of length L, of which there are G = min(L, 16).

    Group g begins at index g*L//G. `n` counts its finite pairs; the others are sums of |d|, d, d^2, of the error U in
    ULP, and of log2(U* + 1/4); None where a sum is beyond float64. `logs` is empty in what was recorded before it was.
    """

    n: list[int]
    absolute: list[float | None]
    signed: list[float | None]
    squared: list[float | None]
    ulps: list[float | None]
    logs: list[float | None] = field(default_factory=list)


class Comparison(Struct, frozen=True):
    """Measurements of one output at one seed, without judgement. docs/metrics.md gives every formula and unit.

    `metrics` holds finite numbers only: a metric that is not defined on the data (no non-zero reference, no finite
    pair, overflow) is absent, and a bound on an absent metric is broken. A shape that differs leaves metrics empty.
    """

    output: str
    seed: int
    dtype: str
    shape: tuple[int, ...]
    reference_dtype: str
    reference_shape: tuple[int, ...]
    metrics: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    worst: Positions | None = None
    non_finite: Positions | None = None
    histogram: Histogram | None = None
    heat: list[float] | None = None
    """Mean absolute error in the groups of the last axis, of two or more."""
    places: dict[str, int] = field(default_factory=dict)
    """Where max_abs_error, max_rel_error, mare and max_ulp are first met: flat C-order index, if they are not 0."""
    groups: tuple[AxisGroups, ...] = ()
    """Sums of errors in the groups of each axis, which merge by adding."""
    runs: tuple[dict[str, float], ...] = ()
    """Averages of errors, run by run, of a case whose runs need not repeat; empty for any other."""
    described: tuple[Metric, ...] = ()
    """The metrics that analyzers are asked for, described, so that no reader needs the package that measured them."""

    def __post_init__(self) -> None:
        """Make these metrics known to the process, wherever the comparison was measured or kept."""
        if self.described:
            learn(self.described)


class Outcome(Struct, frozen=True):
    """What running and measuring one case gave. The journal holds these; verdicts are made from them again."""

    case: str
    definition: str
    execution: Execution
    comparisons: tuple[Comparison, ...] = ()
    missing: tuple[str, ...] = ()
    """Outputs that the reference has and the subject did not give."""
    noise: Noise | None = None
    """Set of replicates alone."""


Rule = Literal["", "bound", "hard", "statistic", "guard", "budget"]
"""What binds a finding: a bound of the pyramid, a rule without a measure, a statistic with its interval, a threshold on
the growth of a metric, a budget; empty where there is nothing to hold to."""


class Finding(Struct, frozen=True):
    """One reason to fail, or to note: an output's metric with the numbers and the rule that binds.

    `lower` and `upper` are the confidence bounds of `ratio`, current to baseline, at the case's own error level, and
    `floor` the ratio that noise explains; a statistic alone has them.
    """

    reason: Reason
    message: str
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


class Verdict(Struct, frozen=True):
    """The judgement of one case: status, the reason that decides, and every finding with its numbers, worst first."""

    status: Status
    reason: Reason
    message: str
    findings: tuple[Finding, ...] = ()
    underlying: Reason | None = None
    """For expected_failure and unexpected_pass: the reason without the declaration."""
