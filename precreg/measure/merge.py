"""Merging tallies: that of two parts is the tally of the whole, in whatever order parts are merged."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add as plus

from precreg.measure import exact, sketch
from precreg.measure.tally import (
    Counts,
    Expansion,
    Groups,
    Maxima,
    Named,
    Places,
    Rules,
    Sketches,
    Sums,
    Tally,
)


def merge(first: Tally, second: Tally, rules: Rules) -> Tally:
    """Return the tally of the pairs of both, which share none.

    Sums of groups are ordinary float64 sums; all else is the same to the bit however the pairs were cut up.
    """
    maxima, places = _maxima(first, second)
    errors, worst = _worst(first, second, max(rules.worst, 0))
    return Tally(
        counts=Counts(*map(plus, first.counts, second.counts)),
        sums=Sums(*map(exact.add, first.sums, second.sums)),
        maxima=maxima,
        places=places,
        sketches=Sketches(*map(sketch.add, first.sketches, second.sketches)),
        errors=errors,
        worst=worst,
        non_finite=_earliest(first.non_finite, second.non_finite, max(rules.worst, 0)),
        groups=_groups(first.groups, second.groups),
        scaled=_scaled(first.scaled, second.scaled),
    )


def _maxima(first: Tally, second: Tally) -> tuple[Maxima, Places]:
    """Return the larger ones with their places: of equal ones the earlier place."""
    places = []
    for one, other, here, there in zip(first.maxima, second.maxima, first.places, second.places, strict=False):
        tied = min(here, there) if one else -1
        places.append(tied if one == other else here if one > other else there)
    return Maxima(*map(max, first.maxima, second.maxima)), Places(*places)


def _worst(first: Tally, second: Tally, most: int) -> tuple[list[float], Named]:
    errors = first.errors + second.errors
    named = _joined(first.worst, second.worst)
    order = sorted(range(len(errors)), key=lambda place: (-errors[place], named.index[place]))[:most]
    return [errors[place] for place in order], _taken(named, order)


def _earliest(first: Named, second: Named, most: int) -> Named:
    named = _joined(first, second)
    return _taken(named, sorted(range(len(named.index)), key=named.index.__getitem__)[:most])


def _joined(first: Named, second: Named) -> Named:
    return Named(first.index + second.index, first.actual + second.actual, first.reference + second.reference)


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
