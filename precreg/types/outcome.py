from __future__ import annotations

from msgspec import Struct, field

from precreg.types.case import Noise, Scalar
from precreg.types.metric import MetricDescription
from precreg.types.verdict import Reason


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
    described: tuple[MetricDescription, ...] = ()
    """The metrics that analyzers are asked for, described, so that no reader needs the package that measured them."""


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

    @property
    def described(self) -> tuple[MetricDescription, ...]:
        """Return the descriptions of all metrics of analyzers, each once."""
        return tuple(dict.fromkeys(each for comparison in self.comparisons for each in comparison.described))
