"""Which operation of a version loses more than its counterpart in another version?

Operations are lined up by their names and exact values, in order. Pure functions of two sketched traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import isfinite
from sys import float_info
from typing import NamedTuple

from msgspec.structs import replace

from precreg.shadow.alignment import SketchedTrace, ValueSketch, find_parting, is_same, match_tolerance, place_of
from precreg.shadow.formula import order_difference
from precreg.shadow.ledger import normal_error, unit_of
from precreg.types import (
    FormulaDifference,
    GrowthKind,
    Operation,
    OrderDifference,
    Site,
    Trace,
    TracedOutput,
    VersionDifference,
)

# Own errors of one operation on inputs of other roundings differ by less (tests/shadow/test_versions.py).
_GROWTH = 1.5
# A correctly rounded operation has at most this own error, in eps of its dtype.
_ROUNDED_EPS = 0.5


# The lines that explain less of the growth of an output's error are no cause of it.
_MIN_EXPLAINED = 0.1


class Grown(NamedTuple):
    """An operation that loses more than its counterpart; None for a new operation.

    `explained` is the part of the growth of the error of `output` that the growths of its line explain, if it is known.
    """

    kind: GrowthKind
    operation: Operation
    counterpart: Operation | None
    explained: float | None = None
    output: str = ""


def compare_versions(
    trace: Trace, own: SketchedTrace, other: SketchedTrace, known: list[ValueSketch], found: VersionDifference
) -> VersionDifference:
    """Return `found` with the first operation of `own` whose own error grew, and the place where the formulas part.

    `trace` is the trace of `own`, with the outputs, and `found` has those of the other version. `known` are the
    sketches of the inputs.
    """
    tolerance = match_tolerance(unit_of(trace.dtype))
    pairs = pair_operations(own, other, tolerance)
    # Shares are known at the end of a trace, after the operations were sketched.
    grown = first_growth(trace, other.operations, pairs, found.outputs)
    parted = _parted_formula(trace, own, other, known, tolerance)
    return replace(
        found,
        kind=None if grown is None else grown.kind,
        first=None if grown is None else grown.operation,
        counterpart=None if grown is None else grown.counterpart,
        explained=None if grown is None else grown.explained,
        output="" if grown is None else grown.output,
        formula=None if parted is None else replace(parted, commit=found.commit),
        order=None if parted is not None else _other_order(trace, own, other, known, found),
        operations=len(other.operations),
        matched=len(pairs),
    )


def pair_operations(own: SketchedTrace, other: SketchedTrace, tolerance: float) -> dict[int, int]:
    """Return the numbers of the other version's operations by the own numbers, in order of execution.

    Operations of one name and exact value come first. Others of one value fill the gaps between them.
    """
    classes = _value_classes((*own.sketches, *other.sketches), tolerance)
    values, other_values = classes[: len(own.sketches)], classes[len(own.sketches) :]
    names = [(each.name, value) for each, value in zip(own.operations, values, strict=True)]
    other_names = [(each.name, value) for each, value in zip(other.operations, other_values, strict=True)]
    pairs: dict[int, int] = {}
    # autojunk would leave out the operations that occur often.
    for code, low, high, start, end in SequenceMatcher(None, names, other_names, autojunk=False).get_opcodes():
        if code == "equal":
            pairs |= {low + place + 1: start + place + 1 for place in range(high - low)}
        elif code == "replace":
            inner = SequenceMatcher(None, values[low:high], other_values[start:end], autojunk=False)
            for first, second, count in inner.get_matching_blocks():
                pairs |= {low + first + place + 1: start + second + place + 1 for place in range(count)}
    return pairs


def _value_classes(sketches: Sequence[ValueSketch | None], tolerance: float) -> list[int]:
    """Return one number for all sketches of one value; unknown values have numbers of their own below 0."""
    found = [-1 - place for place in range(len(sketches))]
    known = sorted((sketch.norm, place) for place, sketch in enumerate(sketches) if sketch is not None)
    recent: list[tuple[ValueSketch, int]] = []
    for norm, place in known:
        sketch = sketches[place]
        assert sketch is not None
        recent = [(each, number) for each, number in recent if each.norm * (1 + 2 * tolerance) >= norm]
        found[place] = next((number for each, number in recent if is_same(each, sketch, tolerance)), place)
        if found[place] == place:
            recent.append((sketch, place))
    return found


def first_growth(
    trace: Trace, other: Sequence[Operation], pairs: dict[int, int], former: Sequence[TracedOutput] = ()
) -> Grown | None:
    """Return the first operation whose own error grew and that explains the growth of an output's error.

    `former` are the outputs of the other version. If no output lost much, or shares are not known, return the first
    operation that loses more than the rounding of the trace's dtype explains; then the first one that loses more than
    correct rounding; then the first new operation that rounds at all: one more rounding is a loss, too.
    """
    partner = {number: other[place - 1] for number, place in pairs.items()}
    growths = [each for operation in trace.operations for each in _growth(operation, partner.get(operation.number))]
    normal = normal_error(trace.dtype)
    tiers = (
        _explaining(trace, growths, former),
        (each for each in growths if _own(each.operation) > max(normal, _GROWTH * _own(each.counterpart))),
        (each for each in growths if _is_beyond_rounding(each)),
        (each for each in growths if each.kind == "new"),
    )
    return next((each for tier in tiers for each in tier), None)


def _growth(operation: Operation, counterpart: Operation | None) -> Iterator[Grown]:
    if counterpart is None and _own(operation) > 0:
        yield Grown("new", operation, None)
    if counterpart is not None and _own(operation) > _GROWTH * _own(counterpart):
        yield Grown("grew", operation, counterpart)


def _own(operation: Operation | None) -> float:
    return 0.0 if operation is None or operation.own is None else operation.own.relative


def _is_beyond_rounding(grown: Grown) -> bool:
    """Return whether an operation loses more than correct rounding in the dtypes of the other version."""
    operation = grown.operation
    if grown.counterpart is not None:
        return _own(operation) > _ROUNDED_EPS * unit_of(grown.counterpart.dtype)
    # A new conversion to a coarser dtype rounds correctly, and loses all the same.
    units = [unit_of(operation.dtype), *(unit_of(each.dtype) for each in operation.inputs)]
    return _own(operation) > _ROUNDED_EPS * min(units)


def _explaining(trace: Trace, growths: Sequence[Grown], former: Sequence[TracedOutput]) -> Iterator[Grown]:
    """Yield the operations of lines that explain a part of the growth of the output's error that grew most."""
    output = _worst_output(trace.outputs, former)
    if output is None:
        return
    name, now, growth = output
    by_line: dict[Site, float] = {}
    for each in growths:
        operation = each.operation
        # To first order, an operation's part of the output's error grows with its own error.
        grown = 1 - _own(each.counterpart) / _own(operation) if isfinite(_own(operation)) else 1.0
        part = operation.shares.get(name, 0.0) * grown * now / growth
        by_line[operation.site] = by_line.get(operation.site, 0.0) + part
    for each in growths:
        if by_line[each.operation.site] >= _MIN_EXPLAINED:
            yield each._replace(explained=by_line[each.operation.site], output=name)


def _worst_output(now: Sequence[TracedOutput], former: Sequence[TracedOutput]) -> tuple[str, float, float] | None:
    """Return the output whose rounding grew most against the other version's, with its error and the growth.

    Return None if no output's rounding grew by more than noise.
    """
    before = {each.name: each.rounding.relative for each in former if each.rounding is not None}
    grown = [
        (each.rounding.relative / max(before[each.name], float_info.min), each.name, each.rounding.relative)
        for each in now
        if each.rounding is not None and each.name in before and isfinite(each.rounding.relative)
    ]
    ratio, name, error = max(grown, default=(0.0, "", 0.0))
    return (name, error, error - before[name]) if ratio > _GROWTH else None


def _parted_formula(
    trace: Trace, own: SketchedTrace, other: SketchedTrace, known: Sequence[ValueSketch], tolerance: float
) -> FormulaDifference | None:
    """Return the place where the exact values part, for the first output whose value the other version lacks."""
    for output in trace.outputs:
        if output.number is None:
            continue
        parting = find_parting(own, other, known, output.number, tolerance)
        if parting.first is not None:
            return FormulaDifference(
                other="version",
                first=place_of(own, parting.first),
                counterpart=place_of(other, parting.counterpart),
                operations=len(own.operations),
                matched=parting.matched,
                other_operations=len(other.operations),
            )
    return None


def _other_order(
    trace: Trace, own: SketchedTrace, other: SketchedTrace, known: list[ValueSketch], found: VersionDifference
) -> OrderDifference | None:
    """Return the place where the order of operations differs, for the first output whose bits do."""
    before = {each.name: each.digest for each in found.outputs}
    changed = [each for each in trace.outputs if each.digest != before.get(each.name, each.digest)]
    made = OrderDifference(other="version", commit=found.commit, output="")
    return order_difference(own, other, known, changed, trace.dtype, made)
