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

from precreg.arithmetic import FORMATS, dtype_name
from precreg.shadow.recorder import Observed
from precreg.shadow.sizes import MASK_LIMIT
from precreg.subject import is_tensor, tensor_to_array
from precreg.types import Operation, OperationPlace

# Two values of higher precision that agree to this relative difference are one, unless the searched difference is
# smaller. Shadows in float64 of one formula in two orders differ by 1e-15 to 1e-12 (tests/shadow/test_alignment.py).
MAX_TOLERANCE, MIN_TOLERANCE = 1e-6, 1e-11
# Two values are equal if they differ by this share of the error that is searched.
_SHARE_OF_ERROR = 1e-2


class ValueSketch(Struct, frozen=True):
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
def sketch_of(values: Any) -> ValueSketch | None:
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
    return ValueSketch(
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


def bits_of(values: Any) -> int | None:
    """Return a number of 64 bits of the elements' values, in any order, shape and dtype; None for other values.

    Equal elements give equal numbers, and others differ except with a probability of 1 in 2^64. The zeros are one.
    """
    array = tensor_to_array(values, "a value") if is_tensor(values) else np.asarray(values)
    # float64 holds all values of the others.
    is_number = array.dtype.kind in "biuf" or dtype_name(array.dtype) in FORMATS
    if not is_number or array.dtype.itemsize > 8:
        return None
    wide = array.astype(np.float64).reshape(-1) + 0.0
    wide[np.isnan(wide)] = np.nan
    mixed = wide.view(np.uint64)
    # The last steps of MurmurHash3 for 64 bits, so that a sum of the elements' numbers depends on all of their bits.
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
    return int(np.sum(mixed ^ (mixed >> np.uint64(33)), dtype=np.uint64)) ^ array.size


def is_same(one: ValueSketch, other: ValueSketch, tolerance: float) -> bool:
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

    The operands of an operation are its `sources`' operands; views of them have the sketches of the views. `bits` has
    the numbers of `bits_of` of the low-precision results; None where they are not known.
    """

    operations: tuple[Operation, ...]
    sketches: tuple[ValueSketch | None, ...]
    operands: tuple[tuple[ValueSketch | None, ...], ...] = ()
    bits: tuple[int | None, ...] = ()


class SketchListener:
    """Sketch the exact value of each operation, and of its operands."""

    def __init__(self) -> None:
        self._sketches: list[ValueSketch | None] = []
        self._operands: list[tuple[ValueSketch | None, ...]] = []
        self._bits: list[int | None] = []

    def see(self, observed: Observed) -> None:
        """ValueSketch one operation's shadow and operands."""
        self._sketches.append(None if observed.exact is None else sketch_of(observed.exact))
        given = () if observed.operands is None else observed.operands()
        self._operands.append(tuple(map(sketch_of, given)))
        self._bits.append(bits_of(observed.actual))

    def trace_of(self, operations: Sequence[Operation]) -> SketchedTrace:
        """Return the operations that the listener saw with their sketches."""
        return SketchedTrace(tuple(operations), tuple(self._sketches), tuple(self._operands), tuple(self._bits))


class Parting(Struct, frozen=True):
    """The numbers of the first operation without a counterpart and of the other's operation at its place, from 1.

    Both are None if the computations do not part. `matched` counts the operations with a counterpart.
    """

    first: int | None
    counterpart: int | None
    matched: int


def find_parting(
    own: SketchedTrace, other: SketchedTrace, known: Sequence[ValueSketch], maker: int | None, tolerance: float
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


class Reordering(Struct, frozen=True):
    """The numbers of the operations that one of two computations of the same exact value alone has, in order, from 1.

    `counterpart` is the other's operation at the place of the first own one.
    """

    own: tuple[int, ...]
    other: tuple[int, ...]
    counterpart: int | None


def find_reordering(
    own: SketchedTrace, other: SketchedTrace, known: Sequence[ValueSketch], maker: int | None, unit: float
) -> Reordering | None:
    """Find the operations that lead to `maker` and that the other computation of its value does not have.

    Return None if the other computation has no such value, or has the same operations. `unit` is eps of the
    computation's dtype. Only operations after the last values with equal bits count: other steps to the same bits
    change no output. Operations that round nothing do not count, and neither do values within two roundings of each
    other: there one side uses another precision.
    """
    last = len(own.operations) if maker is None else maker
    partner = _Values(other, known, match_tolerance(unit)).partner(own.sketches[last - 1]) if last else None
    if not partner:
        return None
    loose = max(match_tolerance(unit), 2 * unit)
    values, without = _Values(other, known, loose), _Values(own, known, loose)
    ours = _steps_beyond(own, last, values, set(other.bits))
    theirs = _steps_beyond(other, partner, without, set(own.bits))
    if not ours and not theirs:
        return None
    if not ours:
        return Reordering((), tuple(theirs), theirs[0])
    partners = [values.partner(sketch) for sketch in own.sketches]
    inputs = {each for _, each in _inputs(own, ours[0], partners, values) if each}
    counterpart = _counterpart([other.operations[number - 1] for number in theirs], inputs)
    return Reordering(tuple(ours), tuple(theirs), counterpart or next(iter(theirs), None))


def _steps_beyond(trace: SketchedTrace, last: int, values: _Values, bits: set[int | None]) -> list[int]:
    """Return the operations on the way to the last one that round and whose value is not among the values.

    The way begins behind operations whose bits are among `bits`.
    """
    known = {number for number, each in enumerate(trace.bits, 1) if each is not None and each in bits}
    seen, waiting = {last}, [last]
    while waiting:
        number = waiting.pop()
        sources = trace.operations[number - 1].sources
        # An engine that knows no sources leaves the order of execution.
        before = set(range(1, number) if sources is None else sources) - seen - known - {0}
        seen |= before
        waiting.extend(before)
    return [
        number
        for number in sorted(seen)
        if _rounds(trace.operations[number - 1])
        and (sketch := trace.sketches[number - 1]) is not None
        and not values.has(sketch)
    ]


def _rounds(operation: Operation) -> bool:
    is_computed = operation.note not in ("created", "moved", "random", "probe")
    return is_computed and (operation.own is None or operation.own.relative > 0)


class _Values:
    """The values of a computation: of its operations, of their operands, and its initial values."""

    def __init__(self, trace: SketchedTrace, known: Sequence[ValueSketch], tolerance: float) -> None:
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

    def partner(self, sketch: ValueSketch | None) -> int | None:
        """Return the number of the operation that made an equal value; 0 for one from outside, None without one.

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

    def has(self, sketch: ValueSketch | None) -> bool:
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
    # 0 means a value that both computations start from.
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
