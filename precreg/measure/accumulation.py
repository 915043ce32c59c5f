"""Add blocks of pairs to tallies and merge tallies, with the same bits in every order.

Sums are exact: an expansion is a few float64 numbers that do not overlap and whose sum is the exact sum. Maxima keep
their first place. TallyBuilder adds blocks of pairs, merge_all_tallies adds the tallies of parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import reduce
from heapq import nsmallest
from itertools import chain
from math import frexp, inf, isfinite, ldexp
from operator import add as plus
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.measure.sketch import SketchBuilder, add_sketches
from precreg.measure.tally import (
    Counts,
    Expansion,
    Groups,
    Maxima,
    MeasureRules,
    NamedPairs,
    Places,
    Sketches,
    Sums,
    Tally,
    add_expansions,
    make_expansion,
)
from precreg.storage import Array
from precreg.types import Scalar

# Terms of one block: their buffers of 256 KiB stay in a core's caches, and numpy's overhead per call stays small.
EXACT_SUM_BLOCK = 1 << 15
# 2^63 terms of this size, more than memory holds, add up without overflow.
HUGE = 2.0**960
_SMALLEST = ldexp(1.0, -1074)


def partial_sums(
    terms: NDArray[Any], largest: float, unit: float, scratch: tuple[NDArray[Any], NDArray[Any]]
) -> list[float]:
    """Return a few floats whose exact sum is the exact sum of the terms.

    `largest` bounds the size of the terms and is at most HUGE. Every term is a multiple of `unit`, a power of two; 0
    means that no unit is known. The function overwrites `scratch`, two arrays at least as long as the terms.

    Terms that are multiples of one unit add up exactly while their sum stays below 2**53 units. So the loop splits off
    the upper bits of each term and sums them alone, until the remainders are narrow enough. Adding 1.5 * 2**k rounds a
    term to a multiple of 2**(k - 52), and with this k the sum of all such multiples is exact (Rump, Ogita and Oishi,
    Accurate Floating-Point Summation I, 2008, "extraction").
    """
    parts: list[float] = []
    doublings = max((terms.size - 1).bit_length(), 2)
    while ldexp(largest, doublings) > ldexp(unit or _SMALLEST, 53):
        exponent = frexp(largest)[1] + doublings - 1
        sigma = ldexp(1.5, exponent)
        upper, rest = scratch[0][: terms.size], scratch[1][: terms.size]
        np.add(terms, sigma, out=upper)
        np.subtract(upper, sigma, out=upper)
        parts.append(float(np.add.reduce(upper)))
        terms = np.subtract(terms, upper, out=rest)
        largest = ldexp(1.0, exponent - 53)
        if ldexp(largest, doublings) > ldexp(unit or _SMALLEST, 53):  # the bound is loose: look
            largest = max(float(np.maximum.reduce(terms)), -float(np.minimum.reduce(terms)))
    parts.append(float(np.add.reduce(terms)))
    return parts


def merge_tallies(first: Tally, second: Tally, rules: MeasureRules) -> Tally:
    """Return the tally of two disjoint sets of pairs."""
    return merge_all_tallies([first, second], rules)


def merge_all_tallies(parts: Sequence[Tally], rules: MeasureRules) -> Tally:
    """Return the tally of all pairs of disjoint parts.

    Sums of groups are ordinary float64 sums in the order of the parts. Everything else has the same bits for every cut,
    apart from rounding inside a backend below the last bit of a sum.
    """
    if len(parts) == 1:
        return parts[0]
    maxima, places = reduce(_merge_maxima, ((part.maxima, part.places) for part in parts))
    errors, worst = _merge_worst(parts, max(rules.worst, 0))
    return Tally(
        counts=Counts(*map(sum, zip(*(part.counts for part in parts), strict=True))),
        sums=Sums(*map(_add_all, zip(*(part.sums for part in parts), strict=True))),
        maxima=maxima,
        places=places,
        sketches=Sketches(*map(add_sketches, zip(*(part.sketches for part in parts), strict=True))),
        errors=errors,
        worst=worst,
        non_finite=_merge_non_finite(parts, max(rules.worst, 0)),
        groups=reduce(_merge_groups, (part.groups for part in parts)),
        scaled=reduce(_merge_scaled, (part.scaled for part in parts)),
    )


def _add_all(expansions: Sequence[Expansion]) -> Expansion:
    return make_expansion(chain.from_iterable(expansions))


def _merge_maxima(first: tuple[Maxima, Places], second: tuple[Maxima, Places]) -> tuple[Maxima, Places]:
    """Return the larger maxima with their places; equal maxima have the earlier place."""
    places = []
    for one, other, here, there in zip(first[0], second[0], first[1], second[1], strict=False):
        tied = min(here, there) if one else -1
        places.append(tied if one == other else here if one > other else there)
    return Maxima(*map(max, first[0], second[0])), Places(*places)


def _merge_worst(parts: Sequence[Tally], max_pairs: int) -> tuple[list[float], NamedPairs]:
    errors = [error for part in parts for error in part.errors]
    named = _join([part.worst for part in parts])
    order = nsmallest(max_pairs, range(len(errors)), key=lambda place: (-errors[place], named.index[place]))
    return [errors[place] for place in order], _take(named, order)


def _merge_non_finite(parts: Sequence[Tally], max_pairs: int) -> NamedPairs:
    named = _join([part.non_finite for part in parts])
    return _take(named, nsmallest(max_pairs, range(len(named.index)), key=named.index.__getitem__))


def _join(parts: Sequence[NamedPairs]) -> NamedPairs:
    return NamedPairs(*(list(chain.from_iterable(lists)) for lists in zip(*parts, strict=True)))


def _take(named: NamedPairs, order: Sequence[int]) -> NamedPairs:
    index, actual, reference = named
    return NamedPairs([index[at] for at in order], [actual[at] for at in order], [reference[at] for at in order])


def _merge_groups(first: tuple[Groups, ...], second: tuple[Groups, ...]) -> tuple[Groups, ...]:
    if not first or not second:
        return first or second
    return tuple(map(_add_groups, first, second))


def _add_groups(first: Groups, second: Groups) -> Groups:
    sums = (list(map(plus, one, other)) for one, other in zip(first[1:], second[1:], strict=True))
    return Groups(list(map(plus, first.n, second.n)), *sums)


def _merge_scaled(
    first: dict[tuple[str, int], Expansion], second: dict[tuple[str, int], Expansion]
) -> dict[tuple[str, int], Expansion]:
    if not first or not second:
        return first or second
    sums = {key: add_expansions(first.get(key, ()), second.get(key, ())) for key in sorted({*first, *second})}
    return {key: total for key, total in sums.items() if total}


# Terms that float64 cannot add up are scaled by these powers of two: see Tally.scaled. Terms of first degree reach
# 2^1024 and products 2^2048, so that both come back below 2^960.
FIRST_DEGREE = 600
SECOND_DEGREE = 1200
# A smaller product may lose bits to underflow, which begins at 2^-1022.
TINY = 2.0**-960


class Buffers(NamedTuple):
    """float64 arrays as long as a block. The first five are the buffers of pairing.pair.

    Blocks share them because new arrays of this size cost a page fault every 4 kB.
    """

    actual: Array
    reference: Array
    difference: Array
    error: Array
    magnitude: Array
    ulps: Array
    quotients: Array
    squares: Array
    products: Array
    outward: Array
    squared_ulps: Array
    logs: Array


class TallyBuilder:
    """A growing tally and the buffers of its blocks; complex numbers need scratch of twice the length."""

    def __init__(self, rules: MeasureRules, factor: int, length: int) -> None:
        size = min(length, EXACT_SUM_BLOCK)
        self.buffers = Buffers(*(np.empty(size) for _ in Buffers._fields))
        self.integers = np.empty(size, np.int64)  # bit patterns and keys
        self.scratch = np.empty(size * factor), np.empty(size * factor)
        self.counts: Counter[str] = Counter()
        self.maxima: dict[str, float] = dict.fromkeys(Maxima._fields, 0.0)
        self.places: dict[str, int] = dict.fromkeys(Places._fields, -1)
        self.counting = {name: SketchBuilder() for name in Sketches._fields}
        self.parts: defaultdict[str, list[float]] = defaultdict(list)
        self.scaled: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        self.worst = WorstPairs(rules.worst)
        self.non_finite: list[int] = []

    def sum_up(self, name: str, terms: Array, largest: float, unit: float) -> float:
        """Add terms to a sum and return their own sum.

        The terms are at most `largest` in size, and multiples of `unit` unless it is 0.
        """
        if largest <= HUGE:
            parts = partial_sums(terms, largest, unit, self.scratch)
            self.parts[name] += parts
            return sum(parts)
        finite = np.isfinite(terms)
        self.parts[name] += terms[~finite].tolist()
        huge = finite & (np.abs(terms) > HUGE)
        self._add_part((name, FIRST_DEGREE), np.ldexp(terms[huge], -FIRST_DEGREE))
        self._add_part(name, terms[finite & ~huge])
        return float(np.add.reduce(terms))

    def _add_part(self, key: str | tuple[str, int], terms: Array) -> None:
        if terms.size:
            parts = self.parts[key] if isinstance(key, str) else self.scaled[key]
            parts += partial_sums(terms, float(np.abs(terms).max()), 0.0, self.scratch)

    def sum_products(
        self, name: str, factors: tuple[Array, Array], bounds: tuple[float, float], unit: float, out: Array
    ) -> float:
        """Add the products of two arrays to a sum; return their own sum, and the products in `out`.

        Products other than 0 lie within the bounds and are multiples of `unit`. If float64 cannot hold all bits of all
        of them, the function sorts them by size.
        """
        products = np.multiply(*factors, out=out)
        if bounds[1] <= HUGE and bounds[0] >= TINY:
            return self.sum_up(name, products, bounds[1], max(unit, float64_quantum(bounds[0])))
        sizes = np.abs(products)
        zero = (factors[0] == 0) | (factors[1] == 0)
        products[zero] = 0.0  # also infinity times zero: an error of zero adds nothing
        finite = (np.isfinite(factors[0]) & np.isfinite(factors[1])) | zero
        huge, tiny = finite & ~zero & (sizes > HUGE), (sizes < TINY) & ~zero
        for mask, exponent in ((huge, SECOND_DEGREE), (tiny, -SECOND_DEGREE)):
            first, second = (np.ldexp(factor[mask], -exponent // 2) for factor in factors)
            self._add_part((name, exponent), first * second)
        self.parts[name] += products[~finite].tolist()
        self._add_part(name, products[finite & ~huge & ~tiny])
        return float(np.add.reduce(products))

    def note(self, name: str, values: Array, place_of: Callable[[int], int]) -> float:
        """Update a maximum and its first place with values of a block; return their largest."""
        index = int(values.argmax())
        largest = float(values[index])
        self.note_at(name, largest, index, place_of)
        return largest

    def note_at(self, name: str, largest: float, index: int, place_of: Callable[[int], int]) -> None:
        """Update a maximum with the largest value of a block, at its index."""
        if largest > self.maxima[name]:
            self.maxima[name] = largest
            if name in self.places:
                self.places[name] = place_of(index)

    def figures(self) -> dict[str, Any]:
        """Return the fields of a Tally that need no second look at the arrays."""
        return {
            "counts": Counts(**self.counts),
            "sums": Sums(*(make_expansion(self.parts[name]) for name in Sums._fields)),
            "maxima": Maxima(**self.maxima),
            "places": Places(**self.places),
            "sketches": Sketches(*(self.counting[name].sketch() for name in Sketches._fields)),
            "errors": self.worst.errors.tolist(),
            "scaled": {key: total for key, parts in sorted(self.scaled.items()) if (total := make_expansion(parts))},
        }


class WorstPairs:
    """The `max_pairs` largest errors above zero so far and their places; of equal errors the earlier comes first."""

    def __init__(self, max_pairs: int) -> None:
        self._max_pairs = max_pairs
        self._least = 0.0 if max_pairs > 0 else inf
        self.errors = np.empty(0)
        self.places = np.empty(0, np.int64)

    def add(self, errors: Array, largest: float, position: int, kept: Array | None) -> None:
        """Keep the largest errors of a block, whose maximum is `largest`; blocks come in the order of places."""
        if largest <= self._least:
            return
        # A partition finds the threshold of a first large block faster than a sort of all its errors.
        if errors.size > 4 * self._max_pairs and self.errors.size < self._max_pairs:
            least = np.partition(errors, -self._max_pairs)[-self._max_pairs]
            places = np.flatnonzero((errors >= least) & (errors > 0))
        else:
            places = np.flatnonzero(errors > self._least)
        found = np.flatnonzero(kept)[places] if kept is not None else places
        self.errors = np.concatenate([self.errors, errors[places]])
        self.places = np.concatenate([self.places, found + position])
        order = (-self.errors).argsort(kind="stable")[: self._max_pairs]
        self.errors, self.places = self.errors[order], self.places[order]
        if self.errors.size == self._max_pairs:
            self._least = float(self.errors[-1])


def pairs_at(places: Array, start: int, actual: Array, reference: Array) -> NamedPairs:
    """Return the pairs at flat positions of arrays that begin at position `start`."""
    index = places - start
    return NamedPairs(places.tolist(), to_scalars(actual[index]), to_scalars(reference[index]))


def to_scalars(values: Array) -> list[Scalar]:
    """Return numbers that read back as the same values; values without a JSON number as text."""
    if values.dtype.kind in "biu":
        return [int(value) for value in values.tolist()]
    if values.dtype.kind == "c" or values.dtype.itemsize > 8:
        return [str(value) for value in values]
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        numbers: list[float] = values.astype(np.float64).tolist()
    return [number if isfinite(number) else repr(number) for number in numbers]


def float64_quantum(smallest: float) -> float:
    """Return a power of two that divides all float64 numbers from `smallest` on; 0 if it is unknown."""
    return ldexp(1.0, max(frexp(smallest)[1] - 53, -1074)) if 0 < smallest < inf else 0.0
