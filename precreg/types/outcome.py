"""Which values does running and measuring a case give: facts, without judgement?"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from string import ascii_letters
from typing import Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType, field

from precreg.types.case import Fact, Noise, Scalar, Stochastic
from precreg.types.metric import MetricDescription
from precreg.types.recorded import RecordedFigures
from precreg.types.verdict import Reason, RepeatDifference

# The parts of a process that a case may change for the cases after it.
StateKind = Literal[
    "floating_point_mode",
    "signal_handlers",
    "blocked_signals",
    "timers",
    "resource_limits",
    "umask",
    "locale",
    "time_zone",
    "descriptors",
    "faulthandler",
    "interpreter",
    "numpy_settings",
    "priority",
    "search_path",
    "modules",
    "functions",
    "registries",
    "decimal_context",
    "threads",
    "processes",
]


class StateChange(Struct, frozen=True):
    """A change that a case left in its process: its kind, the names of the changed parts, and the remedy.

    precreg `repaired` the process, or `replaced` the worker. In the process of the command a change may have no remedy:
    it `remains`. `others` counts the parts beyond the named ones.
    """

    kind: StateKind
    names: tuple[str, ...]
    remedy: Literal["repaired", "replaced", "remains"]
    others: int = 0


class Failure(Struct, frozen=True):
    """The failure of an execution without outputs: reason, one line, and the end of its traceback or printed text."""

    reason: Reason
    message: str
    detail: str = ""


class Execution(Struct, frozen=True):
    """Facts of one run of a case: digests of inputs (per seed) and outputs (per output, per seed), and its time.

    A digest is that of a seed's last run. If runs differ as the case declares, it is the digest of all their digests
    in order. `duration_s` is the subject's own time in seconds, the smallest over seeds and repeats. `unsteady` names
    the outputs whose repeats differ in any bit, in the subject's order, and `differences` has an entry for each. An
    execution without outputs has a `failure`. `left` are the changes that the case left in its process. `oracle` has a
    digest of all outputs of the reference or golden per seed, and `oracle_files` the project's files that its process
    opened, none if nobody noted them. `facts` name the hardware and the libraries that computed, as the subject's kind
    gave them, and `oracle_facts` are those of the reference or golden.
    """

    inputs: tuple[str, ...] = ()
    outputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    duration_s: float = 0.0
    unsteady: tuple[str, ...] = ()
    failure: Failure | None = None
    differences: tuple[RepeatDifference, ...] = ()
    left: tuple[StateChange, ...] = ()
    oracle: tuple[str, ...] = ()
    oracle_files: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    oracle_facts: dict[str, str] = field(default_factory=dict)


class Positions(Struct, frozen=True):
    """The named elements, worst first: flat C-order index, actual and reference, in lists of the same length."""

    index: list[int]
    actual: list[Scalar]
    reference: list[Scalar]

    def __post_init__(self) -> None:
        """Refuse lists that do not belong together, and integers that no dtype has. Raises ValueError."""
        if not len(self.index) == len(self.actual) == len(self.reference):
            raise ValueError(f"expected two values for each of {len(self.index)} positions")
        # Most outputs have floats alone, and a folder of dumps has thousands of these lists.
        kinds = {*map(type, self.actual), *map(type, self.reference)}
        if kinds - {float} and any(_is_too_long(value) for value in (*self.actual, *self.reference)):
            raise ValueError("expected elements of an array but got an integer of more than 64 bits")


def _is_too_long(value: Scalar) -> bool:
    return isinstance(value, int) and abs(value) >= 2**64


def unravel_index(index: int, shape: Sequence[int]) -> list[int]:
    """Return the indices along each axis of an element, from its position in C order."""
    indices: list[int] = []
    for length in reversed(shape):
        index, along = divmod(index, length)
        indices.append(along)
    return indices[::-1]


class Histogram(Struct, frozen=True):
    """Counts of |actual - reference| on a log axis, four bins an octave; zero errors are counted apart.

    Bin k holds errors e with k == (float64 bits of e - 1) >> 50. So a bin ends with a number of three significant bits,
    begins after one, and bins are in order of size. `bins` is sorted.
    """

    zeros: int
    bins: list[int]
    counts: list[int]

    def __post_init__(self) -> None:
        """Refuse lists that do not belong together. Raises ValueError."""
        if len(self.bins) != len(self.counts):
            raise ValueError(f"expected a count for each of {len(self.bins)} bins but got {len(self.counts)}")


# Letters of an ErrorGrid, the largest mean first, four an octave; all smaller means have the last one, too.
MAP_LEVELS = ascii_letters
# Characters of cells without a level: no finite pair, a NaN or an infinity on one side only, and no error.
MAP_EMPTY, MAP_MISMATCHED, MAP_EXACT = ".", "!", "0"


class ErrorGrid(Struct, frozen=True):
    """Mean |actual - reference| in at most 32 x 32 cells of the last two axes, over the finite pairs of all others.

    measure/heatmap.py makes the cells. `rows` has a text for each row of cells, with a character for each cell: the
    letter MAP_LEVELS[k] stands for means above largest * 2^(-(k + 1) / 4), and at most largest * 2^(-k / 4).
    """

    largest: float
    rows: tuple[str, ...]


class AxisGroups(Struct, frozen=True):
    """Sums over the finite pairs in the G = min(L, 16) groups of one axis of length L.

    Group g begins at index g*L//G. `n` counts its finite pairs. The others are sums of |d|, d, d^2, the error U in ULP,
    log2(U* + 1/4), d sign(r) and U^2; None where a sum is beyond float64. The last three are empty in old records
    without them.
    """

    n: list[int]
    absolute: list[float | None]
    signed: list[float | None]
    squared: list[float | None]
    ulps: list[float | None]
    logs: list[float | None] = field(default_factory=list)
    outward: list[float | None] = field(default_factory=list)
    squared_ulps: list[float | None] = field(default_factory=list)


class ElementDigits(Struct, frozen=True):
    """The significant decimal digits of one element: flat C-order index, digits, smallest and largest finite sample.

    `least` and `largest` are None if no sample is finite.
    """

    index: int
    digits: float
    least: float | None
    largest: float | None


class SignificantDigits(Struct, frozen=True):
    """The significant decimal digits of the elements of one output over the samples of a stochastic case.

    `counts` has the number of elements by whole digits: counts[3] elements have at least 3 digits and fewer than 4.
    `worst` are the elements with the fewest digits, worst first. `non_finite` counts the elements with a NaN or an
    infinity in some sample: they have no digits, unless all samples and the oracle agree on it.
    """

    settings: Stochastic
    counts: tuple[int, ...]
    worst: tuple[ElementDigits, ...]
    non_finite: int = 0


class Comparison(Struct, frozen=True):
    """The measurements of one output at one seed, without judgement. docs/metrics.md has every formula and unit.

    `metrics` has finite numbers only. A metric that the data do not define (no non-zero reference, no finite pair,
    overflow) is absent, and a bound on an absent metric is broken. Arrays of different shapes have no metrics.
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
    # The mean absolute error in the groups of the last axis, for arrays of two axes or more.
    heat: list[float] | None = None
    # The first flat C-order index of max_abs_error, max_rel_error, mare and max_ulp, if they are not 0.
    places: dict[str, int] = field(default_factory=dict)
    # The sums of errors in the groups of each axis; sums of parts add up.
    groups: tuple[AxisGroups, ...] = ()
    # The averages of errors run by run, for a nondeterministic case; empty for any other.
    runs: tuple[dict[str, float], ...] = ()
    # The analyzers' metrics, so that no reader needs the package that measured them.
    described: tuple[MetricDescription, ...] = ()
    # The errors of a second implementation against the same reference, by metric; None without a benchmark.
    benchmark: dict[str, float] | None = None
    # The place of recorded figures; None where arrays were compared.
    figures: RecordedFigures | None = None
    # The digits under random noise; unset without `stochastic:`, so that the records of other cases keep their bytes.
    digits: SignificantDigits | UnsetType = UNSET
    # Unset for results that passed, and for bits that were accepted, so that records stay small.
    error_map: ErrorGrid | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse positions outside the output. Raises ValueError."""
        size = prod(self.shape)
        for positions in (self.worst, self.non_finite):
            if positions is None or not positions.index:
                continue
            for index in (min(positions.index), max(positions.index)):
                if not 0 <= index < size:
                    raise ValueError(f"expected positions in an output of shape={list(self.shape)} but got {index}")


class SeedFigures(Struct, frozen=True):
    """The errors of one output at one seed, in the figures that two versions are compared by.

    `metrics` are over the finite pairs of `size`; it is empty without one. `mismatched` counts the pairs with a
    mismatched NaN or infinity, `correctly_rounded` those with the bits of the reference in the output's dtype.
    """

    metrics: dict[str, float]
    size: int
    mismatched: int = 0
    correctly_rounded: int = 0


class ReusedFrom(Struct, frozen=True):
    """The run that computed an outcome: the time of its start in UTC, and its commit, empty outside git."""

    started: str
    commit: str = ""


# The reasons why a case ran although its outcome is kept for later runs. `new` has no outcome under these conditions,
# and `changed` has one for other files. All others are kept for no run: precreg cannot see what the case depends on, or
# a file changed while it ran.
UnkeptReason = Literal[
    "new",
    "changed",
    "changed_meanwhile",
    "failed",
    "unavailable",
    "left_changes",
    "nondeterministic",
    "timed",
    "undeclared",
    "network",
    "programs",
    "deleted_library",
    "unreadable",
]


class ReusedOutcomes(Fact, frozen=True, tag="reused_outcomes"):
    """The number of cases that reused an outcome of an earlier run, and the start of the oldest of these runs.

    `ran` has the number of the other cases by reason.
    """

    cases: int
    oldest: str
    ran: tuple[tuple[UnkeptReason, int], ...] = ()


class ComparisonOutline(NamedTuple):
    """The facts of a comparison that a run reads of every case, without its figures."""

    output: str
    dtype: str
    reference_dtype: str
    described: tuple[MetricDescription, ...]
    has_digits: bool
    has_error_map: bool


def _outline(comparison: Comparison) -> ComparisonOutline:
    return ComparisonOutline(
        comparison.output,
        comparison.dtype,
        comparison.reference_dtype,
        comparison.described,
        comparison.digits is not UNSET,
        comparison.error_map is not UNSET,
    )


class Outcome(Struct, frozen=True):
    """The result of running and measuring one case. The journal stores outcomes; a resumed run judges them again."""

    case: str
    definition: str
    execution: Execution
    comparisons: tuple[Comparison, ...] = ()
    # The reference's outputs that the subject did not give.
    missing: tuple[str, ...] = ()
    # Measured for replicates alone.
    noise: Noise | None = None
    # The index of the worker in the record's table of workers; unset without a cluster.
    worker: int | UnsetType = UNSET
    # Set if an earlier run computed the outcome, and nothing that it depends on has changed since.
    reused: ReusedFrom | UnsetType = UNSET

    @property
    def described(self) -> tuple[MetricDescription, ...]:
        """Return the descriptions of all metrics of analyzers, each once."""
        return tuple(dict.fromkeys(each for outline in self.outlines for each in outline.described))

    @property
    def outlines(self) -> tuple[ComparisonOutline, ...]:
        """Return the outline of each comparison. Packed comparisons carry theirs, and stay packed."""
        carried: tuple[ComparisonOutline, ...] | None = getattr(self.comparisons, "outline", None)
        return tuple(map(_outline, self.comparisons)) if carried is None else carried
