"""Exact sums of float64 numbers: as a few floats that do not overlap, whatever the order they were added in.

Merging tallies: that of two parts is the tally of the whole, in whatever order parts are merged.

The sums, maxima, sketches and named pairs of a tally, while its blocks are measured.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from heapq import nsmallest
from itertools import chain
from math import frexp, fsum, inf, isfinite, ldexp, nan
from operator import add as plus
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.measure.pairing import Array
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
)
from precreg.types import Scalar

EXACT_SUM_BLOCK = 1 << 15
"""Terms that are summed at once: few enough for their buffers to stay in a core's caches, many enough for numpy."""

HUGE = 2.0**960
"""Up to this size as many terms as memory holds add up without overflow."""

_LARGEST = ldexp(2**53 - 1, 971)
_SMALLEST = ldexp(1.0, -1074)


def round_expansion(parts: Iterable[float]) -> float:
    """Return the sum of the parts, rounded once: infinite beyond the largest float64, NaN of opposite infinities."""
    parts = tuple(parts)
    try:
        return fsum(parts)
    except ValueError:
        return nan
    except OverflowError:
        return _rounded(sum(map(Fraction, parts), Fraction(0)))


def make_expansion(parts: Iterable[float]) -> Expansion:
    """Return the one expansion of a sum: each float is the rounded rest of what those before it leave.

    It is the same for every order and grouping of the parts. Infinities and NaN swallow the rest, and so does a sum
    beyond the largest float64.
    """
    rest, found = list(parts), []
    while first := round_expansion(rest):
        found.append(first)
        if not isfinite(first):
            return (first,)
        rest.append(-first)
    return tuple(found)


def add_expansions(first: Expansion, second: Expansion) -> Expansion:
    """Return the exact sum of two expansions."""
    if not first or not second:
        return first or second
    return make_expansion((*first, *second))


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def sum_exactly(terms: NDArray[Any]) -> Expansion:
    """Return the exact sum of a flat float64 array."""
    parts: list[float] = []
    scratch = np.empty(min(EXACT_SUM_BLOCK, terms.size)), np.empty(min(EXACT_SUM_BLOCK, terms.size))
    for start in range(0, terms.size, EXACT_SUM_BLOCK):
        block = terms[start : start + EXACT_SUM_BLOCK]
        largest = max(float(np.maximum.reduce(block)), -float(np.minimum.reduce(block)))
        if largest <= HUGE:
            parts += partial_sums(block, largest, 0.0, scratch)
        else:  # infinities and NaN, too
            parts += block.tolist()
    return make_expansion(parts)


def partial_sums(
    terms: NDArray[Any], largest: float, unit: float, scratch: tuple[NDArray[Any], NDArray[Any]]
) -> list[float]:
    """Return a few floats whose sum is that of the terms, exactly.

    `largest` bounds the size of the terms, at most HUGE; every term is a multiple of `unit`, a power of two, or of
    nothing known where that is 0. `scratch` is overwritten and at least as long as the terms.

    Terms that are multiples of one unit add up exactly while their sum stays below 2**53 units. So the upper bits of
    each term are taken off and summed alone, as long as what is left is too wide: adding 1.5 * 2**k rounds a term to
    a multiple of 2**(k - 52), and k is chosen to let the sum of all such multiples be exact (Rump, Ogita and Oishi,
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
        if ldexp(largest, doublings) > ldexp(unit or _SMALLEST, 53):  # what is left may well be less
            largest = max(float(np.maximum.reduce(terms)), -float(np.minimum.reduce(terms)))
    parts.append(float(np.add.reduce(terms)))
    return parts


def merge_tallies(first: Tally, second: Tally, rules: MeasureRules) -> Tally:
    """Return the tally of the pairs of both, which share none."""
    return merge_all_tallies([first, second], rules)


def merge_all_tallies(parts: Sequence[Tally], rules: MeasureRules) -> Tally:
    """Return the tally of the pairs of all parts, of which no two share a pair.

    Sums of groups are ordinary float64 sums, taken in the order of the parts; all else is the same to the bit however
    the pairs were cut up, but for what a form itself rounds below the last bit of a sum.
    """
    if len(parts) == 1:
        return parts[0]
    maxima, places = reduce(_larger, ((part.maxima, part.places) for part in parts))
    errors, worst = _worst(parts, max(rules.worst, 0))
    return Tally(
        counts=Counts(*map(sum, zip(*(part.counts for part in parts), strict=True))),
        sums=Sums(*map(_added, zip(*(part.sums for part in parts), strict=True))),
        maxima=maxima,
        places=places,
        sketches=Sketches(*map(add_sketches, zip(*(part.sketches for part in parts), strict=True))),
        errors=errors,
        worst=worst,
        non_finite=_earliest(parts, max(rules.worst, 0)),
        groups=reduce(_groups, (part.groups for part in parts)),
        scaled=reduce(_scaled, (part.scaled for part in parts)),
    )


def _added(expansions: Sequence[Expansion]) -> Expansion:
    return make_expansion(chain.from_iterable(expansions))


def _larger(first: tuple[Maxima, Places], second: tuple[Maxima, Places]) -> tuple[Maxima, Places]:
    """Return the larger ones with their places: of equal ones the earlier place."""
    places = []
    for one, other, here, there in zip(first[0], second[0], first[1], second[1], strict=False):
        tied = min(here, there) if one else -1
        places.append(tied if one == other else here if one > other else there)
    return Maxima(*map(max, first[0], second[0])), Places(*places)


def _worst(parts: Sequence[Tally], most: int) -> tuple[list[float], NamedPairs]:
    errors = [error for part in parts for error in part.errors]
    named = _joined([part.worst for part in parts])
    order = nsmallest(most, range(len(errors)), key=lambda place: (-errors[place], named.index[place]))
    return [errors[place] for place in order], _taken(named, order)


def _earliest(parts: Sequence[Tally], most: int) -> NamedPairs:
    named = _joined([part.non_finite for part in parts])
    return _taken(named, nsmallest(most, range(len(named.index)), key=named.index.__getitem__))


def _joined(parts: Sequence[NamedPairs]) -> NamedPairs:
    return NamedPairs(*(list(chain.from_iterable(lists)) for lists in zip(*parts, strict=True)))


def _taken(named: NamedPairs, order: Sequence[int]) -> NamedPairs:
    index, actual, reference = named
    return NamedPairs([index[at] for at in order], [actual[at] for at in order], [reference[at] for at in order])


def _groups(first: tuple[Groups, ...], second: tuple[Groups, ...]) -> tuple[Groups, ...]:
    if not first or not second:
        return first or second
    return tuple(map(_sum_of_groups, first, second))


def _sum_of_groups(first: Groups, second: Groups) -> Groups:
    sums = (list(map(plus, one, other)) for one, other in zip(first[1:], second[1:], strict=True))
    return Groups(list(map(plus, first.n, second.n)), *sums)


def _scaled(
    first: dict[tuple[str, int], Expansion], second: dict[tuple[str, int], Expansion]
) -> dict[tuple[str, int], Expansion]:
    if not first or not second:
        return first or second
    sums = {key: add_expansions(first.get(key, ()), second.get(key, ())) for key in sorted({*first, *second})}
    return {key: total for key, total in sums.items() if total}


# Binary exponents by which terms are scaled if float64 cannot add them: see Tally.scaled.
FIRST_DEGREE = 600
SECOND_DEGREE = 1200

TINY = 2.0**-960  # smaller products may have lost bits


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
    logs: Array


class TallyBuilder:
    """A tally in the making, and the buffers of its blocks; complex numbers need scratch of twice the length."""

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
        """Add terms to a sum, and return their own sum.

        Terms are at most `largest`, and multiples of `unit` unless that is 0.
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

        Products other than 0 lie within the bounds, and are multiples of `unit`. If float64 cannot hold all of them
        with all their bits, large and small ones are scaled.
        """
        products = np.multiply(*factors, out=out)
        if bounds[1] <= HUGE and bounds[0] >= TINY:
            return self.sum_up(name, products, bounds[1], max(unit, float64_quantum(bounds[0])))
        sizes = np.abs(products)
        zero = (factors[0] == 0) | (factors[1] == 0)
        products[zero] = 0.0  # infinite by zero, too: an error of zero adds nothing
        finite = (np.isfinite(factors[0]) & np.isfinite(factors[1])) | zero
        huge, tiny = finite & ~zero & (sizes > HUGE), (sizes < TINY) & ~zero
        for mask, exponent in ((huge, SECOND_DEGREE), (tiny, -SECOND_DEGREE)):
            first, second = (np.ldexp(factor[mask], -exponent // 2) for factor in factors)
            self._add_part((name, exponent), first * second)
        self.parts[name] += products[~finite].tolist()
        self._add_part(name, products[finite & ~huge & ~tiny])
        return float(np.add.reduce(products))

    def note(self, name: str, values: Array, place_of: Callable[[int], int]) -> float:
        """Update a maximum and its first place; return the largest of these values."""
        index = int(values.argmax())
        largest = float(values[index])
        self.note_at(name, largest, index, place_of)
        return largest

    def note_at(self, name: str, largest: float, index: int, place_of: Callable[[int], int]) -> None:
        """Update a maximum and its place with the largest value of a block, at an index of the block."""
        if largest > self.maxima[name]:
            self.maxima[name] = largest
            if name in self.places:
                self.places[name] = place_of(index)

    def figures(self) -> dict[str, Any]:
        """Return the fields of a Tally that do not repeat elements of the arrays."""
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
    """The `most` largest errors above zero so far and their places, the earlier of two equal ones first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._least = 0.0 if most > 0 else inf
        self.errors = np.empty(0)
        self.places = np.empty(0, np.int64)

    def add(self, errors: Array, largest: float, position: int, kept: Array | None) -> None:
        """Add a block of errors, at most `largest`; blocks come in the order of places."""
        if largest <= self._least:
            return
        if errors.size > 4 * self._most and self.errors.size < self._most:
            least = np.partition(errors, -self._most)[-self._most]
            places = np.flatnonzero((errors >= least) & (errors > 0))
        else:
            places = np.flatnonzero(errors > self._least)
        found = np.flatnonzero(kept)[places] if kept is not None else places
        self.errors = np.concatenate([self.errors, errors[places]])
        self.places = np.concatenate([self.places, found + position])
        order = (-self.errors).argsort(kind="stable")[: self._most]
        self.errors, self.places = self.errors[order], self.places[order]
        if self.errors.size == self._most:
            self._least = float(self.errors[-1])


def pairs_at(places: Array, start: int, actual: Array, reference: Array) -> NamedPairs:
    """Return the pairs at flat positions; the arrays begin at `start`."""
    index = places - start
    return NamedPairs(places.tolist(), to_scalars(actual[index]), to_scalars(reference[index]))


def to_scalars(values: Array) -> list[Scalar]:
    """Return numbers that read back as the same values: text for NaN and infinities, which JSON lacks."""
    if values.dtype.kind in "biu":
        return [int(value) for value in values.tolist()]
    if values.dtype.kind == "c" or values.dtype.itemsize > 8:
        return [str(value) for value in values]
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        numbers: list[float] = values.astype(np.float64).tolist()
    return [number if isfinite(number) else repr(number) for number in numbers]


def float64_quantum(smallest: float) -> float:
    """Return a power of two that divides all float64 numbers from `smallest` on; 0 if `smallest` is unknown."""
    return ldexp(1.0, max(frexp(smallest)[1] - 53, -1074)) if 0 < smallest < inf else 0.0
