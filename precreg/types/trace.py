"""Which values does a trace hold: the operations of one computation, their errors, and the errors of its outputs?

Every error is the difference from a value of higher precision, the shadow. An operation has three of them:

- own error: its result against the exact operation on the same low-precision inputs;
- inherited error: the exact operation on these inputs against the exact operation on the inputs' shadows;
- total error: its result against its shadow, which the whole computation in higher precision gives.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from precreg.types.watched import UnmatchedPattern, WatchedValue

TRACE_SCHEMA = "precreg-trace/1"

# The front end that saw an operation.
TraceEngine = Literal["numpy", "torch", "onnx"]

# forward; the pass that computes gradients; the step of an optimizer.
Phase = Literal["forward", "backward", "optimizer"]

# Why an operation has no own error, or is exact by definition:
# - not_shadowed: it has no form of higher precision, so it ran as it is, on the rounded shadows of its inputs;
# - random: the shadow takes the numbers that it drew;
# - created: it made values of none, such as zeros();
# - moved: it only moves numbers, so its own error is 0;
# - opaque: one operation replaces code that the trace cannot enter, such as a compiled region;
# - probe: no operation: the user's code marked this value with `precreg.probe`, and `name` is the user's.
OperationNote = Literal["", "not_shadowed", "random", "created", "moved", "opaque", "probe"]

# Events of a computation that weaken a trace, or explain it:
# - cut: a value left the shadow (float(x), .item(), .numpy(), a view of its bits), and comes back as exact;
# - flip: the computation in higher precision would have chosen other integers, indices or truth values;
# - overflow: a finite exact value became infinite or NaN;
# - eager: code that is compiled in a plain run ran operation by operation;
# - rerouted: the trace had to choose another kernel than the plain run;
# - untraced: the computation went on where the engine sees nothing (a thread, a process, a C library);
# - shares_cut: an operation without a derivative ends the way of shares to the operations before it;
# - rounded_weights: the case rounded weights to the dtype `name` before the computation, and the shadow takes them so.
EventKind = Literal[
    "cut", "flip", "overflow", "not_shadowed", "eager", "rerouted", "untraced", "shares_cut", "rounded_weights"
]


class Site(Struct, frozen=True):
    """The place of an operation: file and line of the user's code, and the module or node that ran it."""

    # Relative to the project if the file is inside.
    file: str = ""
    line: int = 0
    # The text of the line, stripped.
    code: str = ""
    # The path of a module, such as "layers.3.norm", or the name of an ONNX node.
    module: str = ""


class ErrorSize(Struct, frozen=True):
    """The size of the errors of one array. Masked constants beyond 1e30 and equal infinities do not count.

    `relative` is the 2-norm of the errors over the 2-norm of the exact values. `worst_row` is the largest such ratio
    of a row along the last axis, over the root mean square row. An error without a finite size is inf.
    """

    relative: float
    worst_row: float = 0.0
    max_abs: float = 0.0
    # Over elements, in ULP of the operation's dtype at the exact value; None where it was not measured.
    max_ulp: float | None = None
    mean_ulp: float | None = None


class ValueRange(Struct, frozen=True):
    """The range of the low-precision values: absolute values that are finite and not 0, and counts of elements.

    `saturated` counts values at the largest finite number of the dtype whose exact value lies beyond it.
    """

    smallest: float = 0.0
    largest: float = 0.0
    nan: int = 0
    inf: int = 0
    subnormal: int = 0
    saturated: int = 0
    zeros: int = 0


class TracedArray(Struct, frozen=True):
    """The dtype and shape of an input of an operation."""

    dtype: str
    shape: tuple[int, ...]


class Operation(Struct, frozen=True, kw_only=True):
    """One operation, in order of execution from number 1, with its errors; None where they are not known.

    If an operation has several results, the record has the one with the largest own error.
    """

    number: int
    # As the engine names it: add, matmul, aten.native_layer_norm, FusedMatMul.
    name: str
    engine: TraceEngine
    site: Site
    phase: Phase = "forward"
    # The step of a training loop, from 0; None outside of one.
    step: int | None = None
    dtype: str
    shape: tuple[int, ...]
    inputs: tuple[TracedArray, ...] = ()
    own: ErrorSize | None = None
    inherited: ErrorSize | None = None
    total: ErrorSize | None = None
    # The largest possible own error, as a relative size; None without --bounds, and for functions without a bound.
    bound: float | None = None
    # The inherited error over the largest total error of the inputs.
    amplification: float | None = None
    # The share of each output's error that the operation's own error explains, by output; they may be negative.
    shares: dict[str, float] = field(default_factory=dict)
    range: ValueRange | None = None
    # log2 of the largest operand over the largest result, for additions and subtractions.
    lost_bits: float | None = None
    note: OperationNote = ""
    # The numbers of the operations that made its `inputs`, in their order; 0 for a value from outside. If it writes a
    # part of a memory, the operation that wrote the rest follows. None if the engine does not know.
    sources: tuple[int, ...] | None = None


class TraceEvent(Struct, frozen=True):
    """One event, or equal events at one site: how often, and in how many of how many elements at most."""

    kind: EventKind
    # The number of the operation before it.
    number: int
    name: str
    site: Site
    times: int = 1
    changed: int = 0
    elements: int = 0
    # A library's own reason, such as "not implemented for 'Double'"; facts, and no sentence of precreg's.
    detail: str = ""


class TracedOutput(Struct, frozen=True, kw_only=True):
    """The error of one output, split into rounding and formula.

    `rounding` is the low result against its shadow. `formula` is the shadow against the reference of the suite, and
    `whole` the low result against the reference. `tolerances` is the largest |error| / (atol + rtol |r|).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    rounding: ErrorSize | None = None
    formula: ErrorSize | None = None
    whole: ErrorSize | None = None
    tolerances: float | None = None
    # The number of the operation that made the output.
    number: int | None = None
    # The sum of the shares of all operations: about 1 if the ledger is complete.
    sum_of_shares: float | None = None
    # The largest possible rounding error to first order, as a relative size; None where an operation has no bound.
    bound: float | None = None
    # The shadow against a shadow of yet higher precision, as a relative difference; None where there was no second.
    shadow_error: float | None = None
    # Of the low result: it counts NaN and infinities.
    range: ValueRange | None = None
    # The digest of the low result's bits, as runs have it; empty where no run made it.
    digest: str = ""


class OperationPlace(Struct, frozen=True):
    """An operation without its errors: its number, name and place, and the dtype and shape of its result."""

    number: int
    name: str
    site: Site
    dtype: str
    shape: tuple[int, ...]


class FormulaDifference(Struct, frozen=True, kw_only=True):
    """The first operation whose exact value the other computation does not have, although it has its inputs.

    `other` is the function of the oracle, or the subject of another version. `first` is None if the computations do not
    part, and if nothing saw the operations of the other one. `counterpart` is the other's operation at this place.
    """

    other: Literal["reference", "golden", "version"]
    # That of the version.
    commit: str = ""
    first: OperationPlace | None = None
    counterpart: OperationPlace | None = None
    # The operations of the subject, those with a counterpart, and the operations of the other computation.
    operations: int = 0
    matched: int = 0
    other_operations: int = 0
    # The reason why the other computation could not be traced.
    problem: str = ""


class OrderDifference(Struct, frozen=True, kw_only=True):
    """The first operation whose exact value another computation of the same exact output does not have.

    Such computations are equal on paper and round differently: (a b) / c and a (b / c). `first` is None if the other
    computation alone has operations of its own. `counterpart` is the other's operation at this place.
    """

    other: Literal["golden", "version"]
    # That of the version.
    commit: str = ""
    # The output with other bits: how many of its elements differ, and their number; 0 where they were not counted.
    output: str
    changed: int = 0
    elements: int = 0
    first: OperationPlace | None = None
    counterpart: OperationPlace | None = None
    # The operations on the way to the output that round and that the other computation does not have, on each side.
    own_steps: int = 0
    other_steps: int = 0
    # The reason why one of the computations could not be traced again.
    problem: str = ""


# Why an operation loses more than the other version does: its own error grew, or it is new and has one.
GrowthKind = Literal["grew", "new"]


class VersionDifference(Struct, frozen=True, kw_only=True):
    """The first operation whose own error is larger than in another version, which ran on the same inputs.

    `commit` is the other version's. `first` is None if no own error grew. `counterpart` is the other version's
    operation with the same exact value; a new operation may have none. `explained` is the part of the growth of
    `output`'s error that the grown own errors of the line explain; None if no error of an output grew much.
    """

    revision: str
    commit: str
    kind: GrowthKind | None = None
    first: Operation | None = None
    counterpart: Operation | None = None
    explained: float | None = None
    output: str = ""
    # Where the exact values part; None if both versions compute one formula.
    formula: FormulaDifference | None = None
    # Where the order of operations differs, if the bits of an output do; None if both versions take the same steps.
    order: OrderDifference | None = None
    # The outputs of the other version, its operations, and the operations that have a counterpart there.
    outputs: tuple[TracedOutput, ...] = ()
    operations: int = 0
    matched: int = 0


class DumpedLayer(Struct, frozen=True):
    """The errors of one stored tensor and of the same tensor of this run, each against this run's shadow."""

    name: str
    file: str
    dumped: ErrorSize
    here: ErrorSize
    # True if the dump's error is more than this run's error and the dtype's rounding explain.
    unexplained: bool


class DumpComparison(Struct, frozen=True, kw_only=True):
    """The stored tensors of another machine beside a trace, in order of execution; names without a counterpart."""

    folder: str
    layers: tuple[DumpedLayer, ...] = ()
    # Names of dumps that the trace lacks, of layers that the dumps lack, and of other shapes.
    only_dumped: tuple[str, ...] = ()
    only_traced: tuple[str, ...] = ()
    other_shapes: tuple[str, ...] = ()


class SiteTotals(Struct, frozen=True, kw_only=True):
    """The operations of one site that a stored trace leaves out: their count, largest errors and sums of shares."""

    site: Site
    operations: int
    without_own: int = 0
    not_shadowed: int = 0
    without_share: int = 0
    own: float = 0.0
    total: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)


class Trace(Struct, frozen=True, kw_only=True):
    """The trace of one computation."""

    schema: str = TRACE_SCHEMA
    # The id of the case, or the name of the traced function.
    case: str
    definition: str = ""
    seed: int = 0
    commit: str = ""
    # The dtype whose rounding is normal in this computation: the model's dtype, or the declared one.
    dtype: str
    # The dtype of the shadow: float64, longdouble, double-double.
    shadow: str = "float64"
    # The names and versions of what computed.
    facts: dict[str, str] = field(default_factory=dict)
    # True if the traced computation gave the bits of a plain run; None if none was made.
    same_bits: bool | None = None
    # True if two plain runs gave the same bits; None if only one was made.
    repeats: bool | None = None
    # The role of the oracle that `formula` and `whole` of outputs compare with; empty if it gave nothing.
    oracle: Literal["", "reference", "golden"] = ""
    # The reason why the oracle gave nothing.
    oracle_problem: str = ""
    operations: tuple[Operation, ...] = ()
    events: tuple[TraceEvent, ...] = ()
    outputs: tuple[TracedOutput, ...] = ()
    # Operations beyond the bound of a stored trace, which has the totals of their sites only.
    left_out: int = 0
    left_out_sites: tuple[SiteTotals, ...] = ()
    # The values that the watches showed, up to a bound, and the number of those beyond it.
    watched: tuple[WatchedValue, ...] = ()
    watched_left_out: int = 0
    unmatched: tuple[UnmatchedPattern, ...] = ()
    # Where the formula differs, if it explains more of an output's error than rounding does.
    formula: FormulaDifference | None = None
    # Where the order of operations differs from the golden's, if the bits of an output do.
    order: OrderDifference | None = None
    against: VersionDifference | None = None
    dumps: DumpComparison | None = None
