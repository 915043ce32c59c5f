"""Which operation lost precision first, which explains most of the error, and is the ledger complete?

Pure functions of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from precreg.arithmetic import FORMATS
from precreg.types import Operation, Site, Trace

# A correctly rounded operation has an own error of at most half a unit roundoff per element, and a good library's sum
# of a thousand terms has a few. On ResNet-50, BERT and GPT-2 in float32, float16 and bfloat16 no operation reached 16.
FIRST_LOSS_EPS = 16.0
# An operation that amplifies the errors of its inputs by more is a loss although it rounds well.
FIRST_LOSS_GROWTH = 4.0


class FirstLoss(NamedTuple):
    """The first operation that loses precision, and why: it overflows, its own error is large, or it amplifies."""

    operation: Operation
    reason: str  # overflow | own | amplified


class TraceGroup(NamedTuple):
    """The operations of one site or module: their count, largest errors, and shares of each output's error."""

    key: str
    site: Site
    operations: int
    own: float
    total: float
    shares: dict[str, float]
    first: int


class Coverage(NamedTuple):
    """The parts of a computation that a trace covers: the operations, and those it does not know."""

    operations: int
    without_own: int
    not_shadowed: int
    without_share: int
    cuts: int
    flips: int


def unit_of(dtype: str) -> float:
    """Return eps of a dtype, the distance from 1 to the next number; complex dtypes have that of their parts."""
    from precreg.arithmetic import COMPLEX_PARTS

    format = FORMATS.get(COMPLEX_PARTS.get(dtype, dtype))
    return 2.0 ** (1 - format.precision) if format is not None else 2.0**-52


def find_first_loss(trace: Trace) -> FirstLoss | None:
    """Return the first operation whose loss is more than the rounding of the trace's dtype explains; None if none is.

    The dtype is the model's and not the operation's own: an operation in bfloat16 is normal for bfloat16, and a loss
    in a model of float32.
    """
    normal = FIRST_LOSS_EPS * unit_of(trace.dtype)
    for operation in trace.operations:
        if reason := _loss_reason(operation, normal):
            return FirstLoss(operation, reason)
    return None


def _loss_reason(operation: Operation, normal: float) -> str:
    own, total = operation.own, operation.total
    errors = [size.relative for size in (own, total) if size is not None]
    if own is not None and not isfinite(own.relative):
        return "overflow"
    if own is not None and own.relative > normal:
        return "own"
    is_amplified = operation.amplification is not None and operation.amplification > FIRST_LOSS_GROWTH
    return "amplified" if is_amplified and errors and max(errors) > normal else ""


def rank_by_share(trace: Trace, output: str) -> list[Operation]:
    """Return the operations that have a share of an output's error, the largest absolute share first."""
    known = [operation for operation in trace.operations if output in operation.shares]
    return sorted(known, key=lambda operation: -abs(operation.shares[output]))


def group_by_site(operations: Sequence[Operation]) -> list[TraceGroup]:
    """TraceGroup operations by file and line, in the order of their first operations."""
    return _grouped(
        operations, lambda each: f"{each.site.file}:{each.site.line}" if each.site.file else each.site.module
    )


def group_by_module(operations: Sequence[Operation]) -> list[TraceGroup]:
    """TraceGroup operations by the path of their module or node, in the order of their first operations."""
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


def coverage_of(trace: Trace) -> Coverage:
    """Count the operations that a trace does not know whole, and the events that weaken it."""
    computed = [each for each in trace.operations if each.note not in ("created", "moved")]
    return Coverage(
        operations=len(trace.operations),
        without_own=sum(each.own is None for each in computed),
        not_shadowed=sum(each.note in ("not_shadowed", "opaque") for each in computed),
        without_share=sum(not each.shares for each in computed),
        cuts=sum(event.times for event in trace.events if event.kind == "cut"),
        flips=sum(event.times for event in trace.events if event.kind == "flip"),
    )
