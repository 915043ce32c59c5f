"""Which parts does a traced computation have, and in which order do they probably matter?

The share of a part is the sum of the shares of its operations. An error that is not finite has no shares: then the
operations that made it rank first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite, prod

from precreg.types import ErrorSize, Operation, PrecisionPart, Trace

# Operations that round nothing, or that no dtype changes.
_WITHOUT_PART = ("created", "random", "probe")


def group_parts(
    trace: Trace, output: str, key_of: Callable[[Operation], str | None], growth: int, free: Sequence[str] = ()
) -> list[PrecisionPart]:
    """Return the operations of a trace as parts by a key, in order of execution; None leaves an operation out.

    `growth` is the number of bytes by which an element grows in the wider dtype. `free` are names of operations that
    disappear there.
    """
    members: dict[str, list[Operation]] = {}
    for operation in trace.operations:
        key = None if operation.note in _WITHOUT_PART else key_of(operation)
        if key is not None:
            members.setdefault(key, []).append(operation)
    return [_part(key, each, output, growth, free) for key, each in members.items()]


def _part(key: str, operations: Sequence[Operation], output: str, growth: int, free: Sequence[str]) -> PrecisionPart:
    shares = [each.shares[output] for each in operations if output in each.shares]
    paid = [each for each in operations if each.name not in free]
    elements = sum(prod(each.shape) for each in paid if each.note != "moved")
    return PrecisionPart(
        name=key,
        members=(key,),
        site=operations[0].site,
        share=sum(shares) if shares else None,
        own=max((_relative(each.own) for each in operations), default=0.0),
        operations=len(paid),
        elements=elements,
        result_bytes=growth * elements,
    )


def _relative(size: ErrorSize | None) -> float:
    return 0.0 if size is None else size.relative


def rank_parts(parts: Iterable[PrecisionPart]) -> list[PrecisionPart]:
    """Return parts in the order in which they probably matter: without a finite own error, by share, by own error."""

    def place(part: PrecisionPart) -> tuple[bool, float, float]:
        return isfinite(part.own), -abs(part.share or 0.0), -part.own

    return sorted(parts, key=place)
