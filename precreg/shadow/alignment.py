"""Which operations of two computations have the same exact values, and where do the computations part?

Only sketches of values are kept, so that memory does not grow with the arrays. Two values are equal if their sketches
agree, in any shape or order of elements.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import isclose
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from precreg.shadow.recorder import Observed
from precreg.shadow.sizes import MASK_LIMIT
from precreg.subject import is_tensor, tensor_to_array
from precreg.types import Operation, OperationPlace

# Two values of higher precision that agree to this relative difference are one, unless the searched difference is
# smaller. Shadows in float64 of one formula in two orders differ by 1e-15 to 1e-12 (tests/shadow/test_alignment.py).
MAX_TOLERANCE, MIN_TOLERANCE = 1e-6, 1e-11
# Two values are equal if they differ by this share of the error that is searched.
_SHARE_OF_ERROR = 1e-2


class Sketch(Struct, frozen=True):
    """Sums over the elements of one array that do not depend on their order.

    `outside` counts NaN, infinities and masked constants, which the sums leave out. Complex numbers count twice.
    """

    size: int
    outside: int
    norm: float
    total: float
    # The sums of x |x| / norm and of cos(x sqrt(size) / norm): two arrays with equal norm and total differ here.
    signed: float
    waves: float
    largest: float


@np.errstate(all="ignore")
def sketch_of(values: Any) -> Sketch | None:
    """Return the sketch of an array or tensor; None for other values."""
    array = tensor_to_array(values, "a value") if is_tensor(values) else np.asarray(values)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag])
    if array.dtype.kind not in "biuf":
        return None
    flat = array.astype(np.float64).reshape(-1)
    inside = flat[np.abs(flat) <= MASK_LIMIT]
    norm = _norm(inside)
    scaled = inside / norm if norm else inside
    return Sketch(
        size=flat.size,
        outside=flat.size - inside.size,
        norm=norm,
        total=float(np.sum(inside)),
        signed=float(np.sum(scaled * np.abs(inside))),
        waves=float(np.sum(np.cos(scaled * np.sqrt(max(flat.size, 1))))),
        largest=float(np.max(inside, initial=-MASK_LIMIT)),
    )


def _norm(values: NDArray[Any]) -> float:
    largest = float(np.max(np.abs(values), initial=0.0))
    return largest * float(np.linalg.norm(values / largest)) if largest else 0.0


def is_same(one: Sketch, other: Sketch, tolerance: float) -> bool:
    """Return whether two sketches are of equal values, to a relative tolerance of their norm."""
    if (one.size, one.outside) != (other.size, other.outside):
        return False
    scale, root = max(one.norm, other.norm), max(one.size, 1) ** 0.5
    return (
        abs(one.norm - other.norm) <= tolerance * scale
        # Sums of n elements change by the error's norm times sqrt(n) at most.
        and abs(one.total - other.total) <= tolerance * scale * root
        and abs(one.signed - other.signed) <= 2 * tolerance * scale
        and abs(one.waves - other.waves) <= tolerance * one.size
        and isclose(one.largest, other.largest, rel_tol=tolerance, abs_tol=tolerance * scale)
    )


def match_tolerance(error: float) -> float:
    """Return the relative tolerance of sketches for the search of a relative error."""
    return min(MAX_TOLERANCE, max(MIN_TOLERANCE, error * _SHARE_OF_ERROR))


class SketchedTrace(Struct, frozen=True):
    """The operations of a computation and the sketches of their exact values and of their operands, in order.

    The operands of an operation are those of its `sources`; views of them have the sketches of the views.
    """

    operations: tuple[Operation, ...]
    sketches: tuple[Sketch | None, ...]
    operands: tuple[tuple[Sketch | None, ...], ...] = ()


class SketchListener:
    """Sketch the exact value of each operation, and those of its operands."""

    def __init__(self) -> None:
        self._sketches: list[Sketch | None] = []
        self._operands: list[tuple[Sketch | None, ...]] = []

    def see(self, observed: Observed) -> None:
        """Sketch one operation's shadow and operands."""
        self._sketches.append(None if observed.exact is None else sketch_of(observed.exact))
        given = () if observed.operands is None else observed.operands()
        self._operands.append(tuple(map(sketch_of, given)))

    def trace_of(self, operations: Sequence[Operation]) -> SketchedTrace:
        """Return the operations that the listener saw with their sketches."""
        return SketchedTrace(tuple(operations), tuple(self._sketches), tuple(self._operands))


class Parting(Struct, frozen=True):
    """The numbers of the first operation without a counterpart and of the other's operation at its place, from 1.

    Both are None if the computations do not part. `matched` counts the operations with a counterpart.
    """

    first: int | None
    counterpart: int | None
    matched: int


def find_parting(
    own: SketchedTrace, other: SketchedTrace, known: Sequence[Sketch], maker: int | None, tolerance: float
) -> Parting:
    """Find the first operation that led to `maker` and whose exact value the other computation does not have.

    `known` are the sketches of values that both computations start from. `maker` is the number of the operation that
    made the output; None takes the last one. Operations whose value the other computation has later again, such as
    x * (1 / y) for x / y, do not count.
    """
    values = _Values(other, known, tolerance)
    partners = [values.partner(sketch) for sketch in own.sketches]
    matched = sum(partner is not None for partner in partners)
    last = len(own.operations) if maker is None else maker
    if not last or partners[last - 1] is not None:
        return Parting(None, None, matched)
    first = _first_without_partner(own, partners, values, last)
    without = _Values(own, known, tolerance)
    free = [each for each, sketch in zip(other.operations, other.sketches, strict=True) if not without.has(sketch)]
    inputs = {partner for _, partner in _inputs(own, first, partners, values) if partner}
    return Parting(first, _counterpart(free, inputs), matched)


class _Values:
    """The values of a computation: those of its operations and of their operands, and those that it starts from."""

    def __init__(self, trace: SketchedTrace, known: Sequence[Sketch], tolerance: float) -> None:
        places = [(each.norm, number, each) for number, each in enumerate(trace.sketches, 1) if each is not None]
        places += [(each.norm, 0, each) for each in known]
        for operation, operands in zip(trace.operations, trace.operands, strict=False):
            # A view of a value is an operand that no operation made.
            makers = operation.sources or (0,) * len(operands)
            places += [(each.norm, maker, each) for maker, each in zip(makers, operands, strict=False) if each]
        # Operations before views of them.
        self._places = sorted(places, key=lambda place: place[:2])
        self._norms = [norm for norm, _, _ in self._places]
        self._tolerance = tolerance

    def partner(self, sketch: Sketch | None) -> int | None:
        """Return the number of the operation that made an equal value; 0 for one from outside, None if there is none.

        A value that an engine does not know has no partner, so a search goes on to the operations before it.
        """
        if sketch is None:
            return None
        for place in range(bisect_left(self._norms, sketch.norm * (1 - self._tolerance)), len(self._places)):
            norm, number, each = self._places[place]
            if norm > sketch.norm * (1 + 2 * self._tolerance):
                return None
            if is_same(sketch, each, self._tolerance):
                return number
        return None

    def has(self, sketch: Sketch | None) -> bool:
        """Return whether there is an equal value."""
        return self.partner(sketch) is not None


def _inputs(
    own: SketchedTrace, number: int, partners: Sequence[int | None], values: _Values
) -> Iterator[tuple[int, int | None]]:
    """Yield the makers of an operation's inputs, and the partners of these inputs in the other computation."""
    sources = own.operations[number - 1].sources
    # An engine that knows no sources leaves the order of execution.
    before: Sequence[int] = range(number - 1, number) if sources is None else sources
    operands = own.operands[number - 1] if own.operands and sources is not None else ()
    for source, operand in zip_longest(before, operands[: len(before)]):
        found = values.partner(operand)
        # A part of a value may have a partner although the whole has none.
        yield source, partners[source - 1] if found is None and source else found


def _first_without_partner(own: SketchedTrace, partners: Sequence[int | None], values: _Values, last: int) -> int:
    """Walk back from an operation over those without a partner, and return the first of them."""
    seen, waiting = {last}, [last]
    while waiting:
        number = waiting.pop()
        for source, partner in _inputs(own, number, partners, values):
            if source and partner is None and source not in seen:
                seen.add(source)
                waiting.append(source)
    return min(seen)


def _counterpart(free: Sequence[Operation], inputs: set[int]) -> int | None:
    """Return the first operation among `free` that uses one of the inputs, or that follows them."""
    # 0 stands for a value that both computations start from.
    inputs = inputs or {0}
    using = [each.number for each in free if each.sources is not None and not inputs.isdisjoint(each.sources)]
    after = [each.number for each in free if each.number > max(inputs)]
    return min(using, default=min(after, default=None))


def place_of(trace: SketchedTrace, number: int | None) -> OperationPlace | None:
    """Return the place of the operation with that number; None for no number."""
    if number is None:
        return None
    each = trace.operations[number - 1]
    return OperationPlace(each.number, each.name, each.site, each.dtype, each.shape)
