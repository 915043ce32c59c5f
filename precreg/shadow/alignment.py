"""Which operations of two computations have the same exact values, and where do the computations part?

Only sketches of values are kept, so that memory does not grow with the arrays. Two values are equal if their sketches
agree, in any shape or order of elements.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isclose
from typing import Any, NamedTuple

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
    """The operations of a computation and the sketches of their exact values, in order."""

    operations: tuple[Operation, ...]
    sketches: tuple[Sketch | None, ...]


class SketchListener:
    """Sketch the exact value of each operation."""

    def __init__(self) -> None:
        self.sketches: list[Sketch | None] = []

    def see(self, observed: Observed) -> None:
        """Sketch one operation's shadow."""
        self.sketches.append(None if observed.exact is None else sketch_of(observed.exact))


class Parting(Struct, frozen=True):
    """The numbers of the first operation without a counterpart and of the other's operation at its place, from 1.

    Both are None if the computations do not part. `matched` counts the operations with a counterpart.
    """

    first: int | None
    counterpart: int | None
    matched: int


class _Search(NamedTuple):
    """The partners of the own operations, the values that both computations start from, and the tolerance."""

    partners: Sequence[int | None]
    known: Sequence[Sketch]
    tolerance: float


def find_parting(
    own: SketchedTrace, other: SketchedTrace, known: Sequence[Sketch], maker: int | None, tolerance: float
) -> Parting:
    """Find the first operation that led to `maker` and whose exact value the other computation does not have.

    `known` are the sketches of values that both computations start from. `maker` is the number of the operation that
    made the output; None takes the last one. Operations whose value the other computation has later again, such as
    x * (1 / y) for x / y, do not count.
    """
    partners = _partners(own.sketches, other.sketches, known, tolerance)
    matched = sum(partner is not None for partner in partners)
    last = len(own.operations) if maker is None else maker
    if not last or partners[last - 1] is not None:
        return Parting(None, None, matched)
    first = min(_first_by_sources(own.operations, partners, last), last)
    search = _Search(partners, known, tolerance)
    return Parting(first, _counterpart(own, other, search, first), matched)


def _partners(
    own: Sequence[Sketch | None], other: Sequence[Sketch | None], known: Sequence[Sketch], tolerance: float
) -> list[int | None]:
    """Return the number of an equal operation of the other computation for each sketch; 0 for an equal known value.

    A value that an engine does not know has no partner, so the search goes on to the operations before it.
    """
    places = [(each.norm, number, each) for number, each in enumerate((None, *other)) if each is not None]
    places += [(each.norm, 0, each) for each in known]
    places.sort(key=lambda place: place[:2])
    norms = [norm for norm, _, _ in places]

    def partner(sketch: Sketch) -> int | None:
        for place in range(bisect_left(norms, sketch.norm * (1 - tolerance)), len(places)):
            norm, number, each = places[place]
            if norm > sketch.norm * (1 + 2 * tolerance):
                return None
            if is_same(sketch, each, tolerance):
                return number
        return None

    return [None if sketch is None else partner(sketch) for sketch in own]


def _first_by_sources(operations: Sequence[Operation], partners: Sequence[int | None], last: int) -> int:
    """Walk back from an operation over those without a partner, and return the first of them."""
    seen, waiting = {last}, [last]
    while waiting:
        number = waiting.pop()
        sources = operations[number - 1].sources
        # An engine that knows no sources leaves the order of execution.
        before = range(number - 1, number) if sources is None else sources
        for source in before:
            if source > 0 and source not in seen and partners[source - 1] is None:
                seen.add(source)
                waiting.append(source)
    return min(seen)


def _counterpart(own: SketchedTrace, other: SketchedTrace, search: _Search, first: int) -> int | None:
    """Return the other's first operation without a partner that has the inputs of `first`, or that follows them."""
    sources = own.operations[first - 1].sources
    before = range(first - 1, first) if sources is None else sources
    # 0 stands for a value that both start from.
    inputs = {partner for source in before if source and (partner := search.partners[source - 1])} or {0}
    without = _partners(other.sketches, own.sketches, search.known, search.tolerance)
    free = [each for each, partner in zip(other.operations, without, strict=True) if partner is None]
    using = [each.number for each in free if each.sources is not None and not inputs.isdisjoint(each.sources)]
    after = [each.number for each in free if each.number > max(inputs)]
    return min(using, default=min(after, default=None))


def place_of(trace: SketchedTrace, number: int | None) -> OperationPlace | None:
    """Return the place of the operation with that number; None for no number."""
    if number is None:
        return None
    each = trace.operations[number - 1]
    return OperationPlace(each.number, each.name, each.site, each.dtype, each.shape)
