"""What grows while blocks of pairs are measured: parts of sums, maxima and their places, sketches, named pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from math import frexp, inf, isfinite, ldexp
from typing import Any

import numpy as np

from precreg.measure.exact import BLOCK, HUGE, expansion, partial_sums
from precreg.measure.pairing import Array
from precreg.measure.sketch import Counting
from precreg.measure.tally import Counts, Maxima, Named, Places, Rules, Sketches, Sums
from precreg.types.types import Scalar

FIRST_DEGREE = 600

SECOND_DEGREE = 1200
"""Binary exponents that terms which float64 cannot add up are scaled by: see Tally.scaled."""


TINY = 2.0**-960
"""Products below this may have lost bits."""


class Running:
    """A tally in the making, and the buffers that blocks are worked on in: `factor` times the length of a block."""

    def __init__(self, rules: Rules, factor: int, length: int) -> None:
        size = min(length, BLOCK)
        self.buffers = tuple(np.empty(size) for _ in range(7))
        self.integers = np.empty(size, np.int64)
        self.mask = np.empty(size, np.bool_)
        self.scratch = np.empty(size * factor), np.empty(size * factor)
        self.counts: Counter[str] = Counter()
        self.maxima: dict[str, float] = dict.fromkeys(Maxima._fields, 0.0)
        self.places: dict[str, int] = dict.fromkeys(Places._fields, -1)
        self.counting = {name: Counting() for name in Sketches._fields}
        self.parts: defaultdict[str, list[float]] = defaultdict(list)
        self.scaled: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        self.worst = Worst(rules.worst)
        self.non_finite: list[int] = []

    def sum_up(self, name: str, terms: Array, largest: float, unit: float) -> float:
        """Add terms to a sum, and return theirs; they are at most `largest`, and multiples of `unit` unless it is 0."""
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
        """Add the products of two arrays to a sum; return their sum, and the products in `out`.

        Those that are not 0 lie within the bounds, and are multiples of `unit`; if float64 cannot hold all of them
        with all their bits, they are looked at one by one.
        """
        products = np.multiply(*factors, out=out)
        if bounds[1] <= HUGE and bounds[0] >= TINY:
            return self.sum_up(name, products, bounds[1], max(unit, unit_of(bounds[0])))
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
        """Keep the largest value seen, and its first place; return the largest of these values."""
        index = int(values.argmax())
        largest = float(values[index])
        self.note_at(name, largest, index, place_of)
        return largest

    def note_at(self, name: str, largest: float, index: int, place_of: Callable[[int], int]) -> None:
        """Keep a largest value, which stands at an index of a block, if it is the largest seen."""
        if largest > self.maxima[name]:
            self.maxima[name] = largest
            if name in self.places:
                self.places[name] = place_of(index)

    def figures(self) -> dict[str, Any]:
        """Return the fields of a Tally that need no array to be read again."""
        return {
            "counts": Counts(**self.counts),
            "sums": Sums(*(expansion(self.parts[name]) for name in Sums._fields)),
            "maxima": Maxima(**self.maxima),
            "places": Places(**self.places),
            "sketches": Sketches(*(self.counting[name].sketch() for name in Sketches._fields)),
            "errors": self.worst.errors.tolist(),
            "scaled": {key: total for key, parts in sorted(self.scaled.items()) if (total := expansion(parts))},
        }


class Worst:
    """The `most` largest errors above zero so far and their places, the earlier of two equal ones first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._least = 0.0 if most > 0 else inf
        self.errors = np.empty(0)
        self.places = np.empty(0, np.int64)

    def add(self, errors: Array, largest: float, position: int, kept: Array | None) -> None:
        """Look at a block of errors, of which `largest` is the largest; blocks come in the order of places."""
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


def named(places: Array, start: int, actual: Array, reference: Array) -> Named:
    """Return the pairs at flat positions; the arrays begin at `start`."""
    index = places - start
    return Named(places.tolist(), scalars(actual[index]), scalars(reference[index]))


def scalars(values: Array) -> list[Scalar]:
    """Return numbers that read back as the same values; as text what JSON has no number for."""
    if values.dtype.kind in "biu":
        return [int(value) for value in values.tolist()]
    if values.dtype.kind == "c" or values.dtype.itemsize > 8:
        return [str(value) for value in values]
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        numbers: list[float] = values.astype(np.float64).tolist()
    return [number if isfinite(number) else repr(number) for number in numbers]


def unit_of(smallest: float) -> float:
    """Return a power of two of which all float64 numbers from `smallest` on are multiples; 0 if that is unknown."""
    return ldexp(1.0, max(frexp(smallest)[1] - 53, -1074)) if 0 < smallest < inf else 0.0
