"""Which operation of a version loses more than its counterpart in another version?

Operations are lined up by their names and exact values, in order. Pure functions of two sketched traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from msgspec.structs import replace

from precreg.shadow.alignment import Sketch, SketchedTrace, find_parting, is_same, match_tolerance, place_of
from precreg.shadow.ledger import unit_of
from precreg.types import FormulaDifference, GrowthKind, Operation, Trace, VersionDifference

# Own errors of one operation on inputs of other roundings differ by less (tests/shadow/test_versions.py).
_GROWTH = 1.5
# A correctly rounded operation has at most this own error, in eps of its dtype.
_ROUNDED_EPS = 0.5


class Grown(NamedTuple):
    """An operation that loses more than its counterpart; None for a new operation."""

    kind: GrowthKind
    operation: Operation
    counterpart: Operation | None


def compare_versions(
    trace: Trace, own: SketchedTrace, other: SketchedTrace, known: Sequence[Sketch], found: VersionDifference
) -> VersionDifference:
    """Return `found` with the first operation of `own` whose own error grew, and the place where the formulas part.

    `trace` is the trace of `own`, with the outputs. `known` are the sketches of the inputs.
    """
    tolerance = match_tolerance(unit_of(trace.dtype))
    pairs = pair_operations(own, other, tolerance)
    grown = first_growth(own.operations, other.operations, pairs)
    parted = _parted_formula(trace, own, other, known, tolerance)
    return replace(
        found,
        kind=None if grown is None else grown.kind,
        first=None if grown is None else grown.operation,
        counterpart=None if grown is None else grown.counterpart,
        formula=None if parted is None else replace(parted, commit=found.commit),
        operations=len(other.operations),
        matched=len(pairs),
    )


def pair_operations(own: SketchedTrace, other: SketchedTrace, tolerance: float) -> dict[int, int]:
    """Return the numbers of the other version's operations by those of the own ones, in order of execution.

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


def _value_classes(sketches: Sequence[Sketch | None], tolerance: float) -> list[int]:
    """Return one number for all sketches of one value; unknown values have numbers of their own below 0."""
    found = [-1 - place for place in range(len(sketches))]
    known = sorted((sketch.norm, place) for place, sketch in enumerate(sketches) if sketch is not None)
    recent: list[tuple[Sketch, int]] = []
    for norm, place in known:
        sketch = sketches[place]
        assert sketch is not None
        recent = [(each, number) for each, number in recent if each.norm * (1 + 2 * tolerance) >= norm]
        found[place] = next((number for each, number in recent if is_same(each, sketch, tolerance)), place)
        if found[place] == place:
            recent.append((sketch, place))
    return found


def first_growth(own: Sequence[Operation], other: Sequence[Operation], pairs: dict[int, int]) -> Grown | None:
    """Return the first operation that loses more than correct rounding explains in the dtypes of the other version.

    Without one, return the first new operation that rounds at all: one more rounding is a loss, too.
    """
    partner = {number: other[place - 1] for number, place in pairs.items()}
    grown = [each for operation in own for each in _growth(operation, partner.get(operation.number))]
    if grown:
        return grown[0]
    new = [each for each in own if each.number not in partner and each.own is not None and each.own.relative > 0]
    return Grown("new", new[0], None) if new else None


def _growth(operation: Operation, counterpart: Operation | None) -> Iterator[Grown]:
    if operation.own is None:
        return
    if counterpart is None:
        # A new conversion to a coarser dtype rounds correctly, and loses all the same.
        finest = min((unit_of(each.dtype) for each in operation.inputs), default=unit_of(operation.dtype))
        if operation.own.relative > _ROUNDED_EPS * min(finest, unit_of(operation.dtype)):
            yield Grown("new", operation, None)
        return
    before = 0.0 if counterpart.own is None else counterpart.own.relative
    if operation.own.relative > max(_GROWTH * before, _ROUNDED_EPS * unit_of(counterpart.dtype)):
        yield Grown("grew", operation, counterpart)


def _parted_formula(
    trace: Trace, own: SketchedTrace, other: SketchedTrace, known: Sequence[Sketch], tolerance: float
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
