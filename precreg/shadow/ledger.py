"""Which operation lost precision first, which explains most of the error, and is the ledger complete?

Pure functions of a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import hypot, isclose, isfinite, prod
from typing import Literal, NamedTuple

from msgspec.structs import replace

from precreg.arithmetic import COMPLEX_PARTS, FORMATS
from precreg.types import ErrorSize, EventKind, Operation, Site, Trace, TracedOutput, TraceEvent

# A correctly rounded operation has an own error of at most half a unit roundoff per element. A good library's sum of a
# thousand terms has a few. On ResNet-50, BERT and GPT-2 in float32, float16 and bfloat16 no operation reached 16.
FIRST_LOSS_EPS = 16.0
# Libraries add up numbers of 16 bits and fewer in float32, so their own errors stay below 0.3 eps on the same networks.
# A format that is narrower by three bits gives 3.3 (benchmarks/shadow/planted.py).
NARROW_LOSS_EPS = 2.0
_NARROW_PRECISION = 11
# A sum that rounds after each term has small own errors alone, and a large one together. Shorter chains are formulas.
MIN_CHAIN = 8
# An operation that amplifies the errors of its inputs by more is a loss although it rounds well.
FIRST_LOSS_GROWTH = 4.0


# A loss that reaches no output does not count: compensated sums and centred variances compute differences of roundings,
# which have large relative errors by design. An output with an error below this many eps has its last rounding only.
# Chosen on 262 of the shipped unit cases: harmless losses leave up to 0.8 eps in the output, and others 2.5 or more.
REACHED_EPS = 1.0
# The sum of the shares of a complete ledger (measured in the prototypes: 0.993 to 1.0003).
COMPLETE_SHARES = (0.95, 1.05)
# A correctly rounded result has a 2-norm of errors of 0.2 to 0.35 eps. A blocked sum of a few hundred terms in their
# dtype has 1 to 2 eps.
MANY_EPS = 2.0
# An addition whose operands are so many bits larger than its result has lost them.
LOST_BITS = 4.0
# A formula error below this share of the output dtype's eps does not show in the output.
VISIBLE_FORMULA_EPS = 0.25

# Goldens of the shipped unit cases differ from the shadow by up to 1.01 times the rounding of the subject.
GOLDEN_ROUNDINGS = 2.0

LossReason = Literal["overflow", "own", "amplified", "accumulated"]

# The probable cause of a loss:
# - overflow: a finite exact value became infinite or NaN;
# - underflow: the errors are below the smallest normal number;
# - cancellation: operands of one size were subtracted, so that errors of their size remain;
# - cast: the result has a coarser dtype than the inputs;
# - accumulator: a sum or product of matrices has the error of a narrow accumulator;
# - approximation: a function of single elements is not correctly rounded;
# - rounding: none of these.
LossCause = Literal["overflow", "underflow", "cancellation", "cast", "accumulator", "approximation", "rounding"]

# Parts of the names of operations that add many terms, in numpy, torch and ONNX.
_SUMS = (
    *("sum", "mean", "var", "std", "norm", "prod", "dot", "mm", "matmul", "einsum", "inner", "outer", "linear", "gemm"),
    *("conv", "softmax", "attention", "pool", "reduce", "accumulate", "correlate", "trapezoid", "trace", "addmv"),
)


class FirstLoss(NamedTuple):
    """The first operation that loses precision: it overflows, its own error is large, or it amplifies; and why.

    An operation that is repeated on its own result, such as `total += x`, is `accumulated`: `together` is the root of
    the sum of its squared own errors, and `times` their number.
    """

    operation: Operation
    reason: LossReason
    cause: LossCause
    times: int = 1
    together: float = 0.0


class Flip(NamedTuple):
    """The event at which the exact computation chooses other integers, and the largest own error on the way to it."""

    event: TraceEvent
    largest: Operation | None


class TraceGroup(NamedTuple):
    """The operations of one site or module: their count, largest errors, and shares of each output's error."""

    key: str
    site: Site
    operations: int
    own: float
    total: float
    shares: dict[str, float]
    first: int


# Why an output has no sum of shares: its error is infinite, or 0; its dtype has no rounding; or nothing computed it.
NoSum = Literal["not finite", "exact", "no rounding", "unknown"]


class Coverage(NamedTuple):
    """The parts of a computation that a trace covers: the operations, and those it does not know.

    `without_own` and `without_share` count operations that compute. `not_shadowed` are among those without own error.
    Events are counted as often as they happened. `sums` has the sum of the shares by output, and `no_sums` the reason
    why there is none.
    """

    operations: int
    without_own: int
    not_shadowed: int
    without_share: int
    cuts: int
    flips: int
    # Events after which the engine sees or knows less: another kernel, eager code, threads; the way of shares ended.
    weakened: int
    shares_cut: int
    sums: dict[str, float]
    no_sums: dict[str, NoSum]

    @property
    def adds_up(self) -> bool:
        """Return whether the shares of every output add up to about 1."""
        return all(map(is_complete, self.sums.values()))


def is_complete(sum_of_shares: float) -> bool:
    """Return whether the shares of an output add up to about 1."""
    return COMPLETE_SHARES[0] <= sum_of_shares <= COMPLETE_SHARES[1]


def unit_of(dtype: str) -> float:
    """Return eps of a dtype, the distance from 1 to the next number; complex dtypes have the eps of their parts."""
    format = FORMATS.get(COMPLEX_PARTS.get(dtype, dtype))
    return 2.0 ** (1 - format.precision) if format is not None else 2.0**-52


def find_first_loss(trace: Trace) -> FirstLoss | None:
    """Return the first operation whose loss is more than the rounding of the trace's dtype explains; None if none is.

    The dtype is the model's and not the operation's own. An operation in bfloat16 is normal for bfloat16, and a loss
    in a model of float32. No operation is a loss if the errors of all outputs are those of a last rounding.
    """
    unit = unit_of(trace.dtype)
    normal = normal_error(trace.dtype)
    errors = [None if each.rounding is None else each.rounding.relative for each in trace.outputs]
    if errors and all(error is not None and error <= REACHED_EPS * unit for error in errors):
        return None
    chains: dict[tuple[Site, str], _Chain] = {}
    for operation in trace.operations:
        if _is_infinite(operation.own) or _is_infinite(operation.total):
            origin = _overflow_origin(trace, operation)
            # An infinite error that comes from finite errors of the inputs, as the logarithm of 0 does, amplifies.
            if _is_infinite(operation.own) or origin is not operation:
                return FirstLoss(origin, "overflow", "overflow")
        if reason := _loss_reason(operation, normal, unit):
            return FirstLoss(operation, reason, suggest_cause(operation))
        chain = _continued(chains.get((operation.site, operation.name)), operation)
        chains[operation.site, operation.name] = chain
        if chain.times >= MIN_CHAIN and chain.together > normal:
            return FirstLoss(operation, "accumulated", "accumulator", chain.times, chain.together)
    return None


def _is_infinite(size: ErrorSize | None) -> bool:
    return size is not None and not isfinite(size.relative)


def _overflow_origin(trace: Trace, operation: Operation) -> Operation:
    """Return the first operation on the way to an infinite error that overflowed.

    Infinities beside huge exact values have no error, so the error may appear at an operation behind them.
    """
    overflowed = {(each.name, each.site) for each in trace.events if each.kind == "overflow"}
    by_number = {each.number: each for each in trace.operations}
    seen, waiting = {operation.number: operation}, [operation]
    while waiting:
        for number in waiting.pop().sources or ():
            each = by_number.get(number)
            is_new = each is not None and number not in seen and (each.name, each.site) in overflowed
            if is_new and each is not None and each.range is not None and (each.range.inf or each.range.nan):
                seen[number] = each
                waiting.append(each)
    return seen[min(seen)]


def normal_error(dtype: str) -> float:
    """Return the largest relative own error that the rounding of a dtype explains."""
    format = FORMATS.get(COMPLEX_PARTS.get(dtype, dtype))
    is_narrow = format is not None and format.precision <= _NARROW_PRECISION
    return (NARROW_LOSS_EPS if is_narrow else FIRST_LOSS_EPS) * unit_of(dtype)


class _Chain(NamedTuple):
    """An operation of one line that is repeated on its own result: the last number, and the errors so far."""

    number: int
    times: int
    together: float


def _continued(chain: _Chain | None, operation: Operation) -> _Chain:
    own = operation.own.relative if operation.own is not None else 0.0
    if chain is None or chain.number not in (operation.sources or ()):
        return _Chain(operation.number, 1, own)
    return _Chain(operation.number, chain.times + 1, hypot(chain.together, own))


def _loss_reason(operation: Operation, normal: float, unit: float) -> LossReason | None:
    own, total = operation.own, operation.total
    errors = [size.relative for size in (own, total) if size is not None]
    if own is not None and own.relative > normal:
        return "own"
    is_amplified = operation.amplification is not None and operation.amplification > FIRST_LOSS_GROWTH
    if not is_amplified or not errors:
        return None
    # Narrow formats amplify harmlessly within this limit, too.
    return "amplified" if max(errors) > max(normal, FIRST_LOSS_EPS * unit) else None


def suggest_cause(operation: Operation) -> LossCause:
    """Return the probable cause of an operation's error, from its name, dtypes and sizes alone."""
    own, unit = operation.own, unit_of(operation.dtype)
    if own is not None and not isfinite(own.relative):
        return "overflow"
    format = FORMATS.get(COMPLEX_PARTS.get(operation.dtype, operation.dtype))
    if own is not None and format is not None and own.relative > unit and 0.0 < own.max_abs <= format.smallest_normal:
        return "underflow"
    is_amplified = operation.amplification is not None and operation.amplification > FIRST_LOSS_GROWTH
    is_rounded = own is None or own.relative <= unit
    if is_amplified and is_rounded and (operation.lost_bits is None or operation.lost_bits >= LOST_BITS):
        return "cancellation"
    floating = [unit_of(each.dtype) for each in operation.inputs if _is_floating(each.dtype)]
    if floating and is_rounded and unit > max(floating):
        return "cast"
    if own is None or own.relative <= MANY_EPS * unit:
        return "rounding"
    return "accumulator" if any(part in operation.name.lower() for part in _SUMS) else "approximation"


def _is_floating(dtype: str) -> bool:
    return COMPLEX_PARTS.get(dtype, dtype) in FORMATS


def is_formula_dominant(output: TracedOutput, oracle: str = "reference") -> bool:
    """Return whether the formula explains more of an output's error than rounding does.

    A golden is rounded itself, so the shadow differs from it by about as much as from the output.
    """
    if output.formula is None or output.rounding is None:
        return False
    visible = VISIBLE_FORMULA_EPS * unit_of(output.dtype)
    rounding = output.rounding.relative * (GOLDEN_ROUNDINGS if oracle == "golden" else 1.0)
    return output.formula.relative > max(rounding, visible)


def rank_by_share(trace: Trace, output: str) -> list[Operation]:
    """Return the operations that have a share of an output's error, the largest absolute share first."""
    known = [operation for operation in trace.operations if output in operation.shares]
    return sorted(known, key=lambda operation: -abs(operation.shares[output]))


def group_by_site(operations: Sequence[Operation]) -> list[TraceGroup]:
    """Group operations by file and line, in the order of their first operations."""
    return _grouped(
        operations, lambda each: f"{each.site.file}:{each.site.line}" if each.site.file else each.site.module
    )


def group_by_module(operations: Sequence[Operation]) -> list[TraceGroup]:
    """Group operations by the path of their module or node, in the order of their first operations."""
    return _grouped(operations, lambda each: each.site.module)


def _grouped(operations: Iterable[Operation], key_of: Callable[[Operation], str]) -> list[TraceGroup]:
    members: dict[str, list[Operation]] = {}
    for operation in operations:
        members.setdefault(key_of(operation), []).append(operation)
    return [_group(key, each) for key, each in members.items()]


def _group(key: str, operations: Sequence[Operation]) -> TraceGroup:
    shares: dict[str, float] = {}
    for operation in operations:
        for output, share in operation.shares.items():
            shares[output] = shares.get(output, 0.0) + share
    own = max((each.own.relative for each in operations if each.own is not None), default=0.0)
    total = max((each.total.relative for each in operations if each.total is not None), default=0.0)
    return TraceGroup(key, operations[0].site, len(operations), own, total, shares, operations[0].number)


def find_flip(trace: Trace, output: TracedOutput) -> Flip | None:
    """Return the flip that an output of integers or truth values shows; None if no flip fits, or several."""
    flips = [each for each in trace.events if each.kind == "flip" and each.elements == prod(output.shape)]
    maker = next((each for each in trace.operations if each.number == output.number), None)
    if maker is not None and maker.dtype == output.dtype:
        flips = [each for each in flips if (each.name, each.site) == (maker.name, maker.site)] or flips
    if len(flips) != 1:
        return None
    before = _leading_to(trace, flips[0].number)
    own = [each for each in before if each.own is not None and each.own.relative > 0]
    return Flip(flips[0], max(own, key=lambda each: each.own.relative if each.own is not None else 0.0, default=None))


def leading_to(trace: Trace, output: TracedOutput) -> list[Operation]:
    """Return the operations on the way to an output, in order: those that its maker uses, and those with a share."""
    used = set() if output.number is None else {each.number for each in _leading_to(trace, output.number)}
    return [each for each in trace.operations if each.number in used or each.shares.get(output.name)]


def _leading_to(trace: Trace, number: int) -> list[Operation]:
    """Return an operation and those whose results it uses; all before it where an engine knows no sources."""
    by_number = {each.number: each for each in trace.operations}
    seen, waiting = {number}, [number]
    while waiting:
        last = by_number.get(waiting.pop())
        sources = () if last is None else range(1, last.number) if last.sources is None else last.sources
        new = set(sources) - seen - {0}
        seen |= new
        waiting.extend(new)
    return [each for each in trace.operations if each.number in seen]


def only_output(trace: Trace, name: str) -> Trace:
    """Return the trace with one of its outputs, and the shares of its error alone."""
    operations = tuple(
        replace(each, shares={name: each.shares[name]} if name in each.shares else {}) for each in trace.operations
    )
    outputs = tuple(each for each in trace.outputs if each.name == name)
    return replace(trace, operations=operations, outputs=outputs)


def maker_of(operations: Sequence[Operation], output: TracedOutput) -> int | None:
    """Return the number of the operation that made an output: the last one with its dtype, size and error.

    A view of a result makes no operation, so the shapes may differ.
    """
    for operation in reversed(operations):
        # A probe makes nothing: it marks the result of an earlier operation.
        is_like = (
            operation.note != "probe"
            and operation.dtype == output.dtype
            and prod(operation.shape) == prod(output.shape)
        )
        # The norms of a result and of its view may add up in another order.
        if is_like and _agree(operation.total, output.rounding):
            return operation.number
    return None


def _agree(one: ErrorSize | None, other: ErrorSize | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.relative == other.relative or isclose(one.relative, other.relative, rel_tol=1e-9)


def coverage_of(trace: Trace) -> Coverage:
    """Count the operations that a trace does not know whole, and the events that weaken it."""
    computed = [each for each in trace.operations if each.note not in ("created", "moved", "random", "probe")]
    events = Counter[EventKind]()
    for event in trace.events:
        events[event.kind] += event.times
    # A stored trace has the counts of the operations that it leaves out.
    left = trace.left_out_sites
    return Coverage(
        operations=len(trace.operations) + trace.left_out,
        without_own=sum(each.own is None for each in computed) + sum(each.without_own for each in left),
        not_shadowed=sum(each.note in ("not_shadowed", "opaque") for each in computed)
        + sum(each.not_shadowed for each in left),
        without_share=sum(not each.shares for each in computed) + sum(each.without_share for each in left),
        cuts=events["cut"],
        flips=events["flip"],
        weakened=events["eager"] + events["rerouted"] + events["untraced"],
        shares_cut=events["shares_cut"],
        sums={each.name: each.sum_of_shares for each in trace.outputs if each.sum_of_shares is not None},
        no_sums={each.name: _no_sum(each) for each in trace.outputs if each.sum_of_shares is None},
    )


def _no_sum(output: TracedOutput) -> NoSum:
    if not _is_floating(output.dtype):
        return "no rounding"
    if output.rounding is None:
        return "unknown"
    if not isfinite(output.rounding.relative):
        return "not finite"
    return "exact" if output.rounding.relative == 0 else "unknown"
