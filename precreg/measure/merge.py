"""Merging tallies: that of two parts is the tally of the whole, in whatever order parts are merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from heapq import nsmallest
from itertools import chain
from operator import add as plus

from precreg.measure import exact, sketch
from precreg.measure.tally import Counts, Expansion, Groups, Maxima, Named, Places, Rules, Sketches, Sums, Tally


def merge(first: Tally, second: Tally, rules: Rules) -> Tally:
    """Return the tally of the pairs of both, which share none."""
    return merge_all([first, second], rules)


def merge_all(parts: Sequence[Tally], rules: Rules) -> Tally:
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
        sketches=Sketches(*map(sketch.add_all, zip(*(part.sketches for part in parts), strict=True))),
        errors=errors,
        worst=worst,
        non_finite=_earliest(parts, max(rules.worst, 0)),
        groups=reduce(_groups, (part.groups for part in parts)),
        scaled=reduce(_scaled, (part.scaled for part in parts)),
    )


def _added(expansions: Sequence[Expansion]) -> Expansion:
    return exact.expansion(chain.from_iterable(expansions))


def _larger(first: tuple[Maxima, Places], second: tuple[Maxima, Places]) -> tuple[Maxima, Places]:
    """Return the larger ones with their places: of equal ones the earlier place."""
    places = []
    for one, other, here, there in zip(first[0], second[0], first[1], second[1], strict=False):
        tied = min(here, there) if one else -1
        places.append(tied if one == other else here if one > other else there)
    return Maxima(*map(max, first[0], second[0])), Places(*places)


def _worst(parts: Sequence[Tally], most: int) -> tuple[list[float], Named]:
    errors = [error for part in parts for error in part.errors]
    named = _joined([part.worst for part in parts])
    order = nsmallest(most, range(len(errors)), key=lambda place: (-errors[place], named.index[place]))
    return [errors[place] for place in order], _taken(named, order)


def _earliest(parts: Sequence[Tally], most: int) -> Named:
    named = _joined([part.non_finite for part in parts])
    return _taken(named, nsmallest(most, range(len(named.index)), key=named.index.__getitem__))


def _joined(parts: Sequence[Named]) -> Named:
    return Named(*(list(chain.from_iterable(lists)) for lists in zip(*parts, strict=True)))


def _taken(named: Named, order: Sequence[int]) -> Named:
    index, actual, reference = named
    return Named([index[at] for at in order], [actual[at] for at in order], [reference[at] for at in order])


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
    sums = {key: exact.add(first.get(key, ()), second.get(key, ())) for key in sorted({*first, *second})}
    return {key: total for key, total in sums.items() if total}
