"""Which version of a line is the first bad one, and which smallest set of parts restores a result?

`first_bad` halves a line of versions, as git bisect does. `smallest_set` is delta debugging: ddmin of Zeller and
Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from precreg.types import VersionVerdict

_Part = TypeVar("_Part")


class FirstBad(NamedTuple):
    """The last good place of a line, the first place that may be bad, and the first place that is bad.

    All places between the last two were skipped. They are equal if none was.
    """

    good: int
    bad: int

    @property
    def skipped(self) -> range:
        """Return the places between both, which could not be judged."""
        return range(self.good + 1, self.bad)


def first_bad(length: int, judge: Callable[[int], VersionVerdict]) -> FirstBad:
    """Return the first bad place of a line whose place 0 is good and whose last place is bad.

    A place that cannot be judged is skipped, and the nearest one to the middle is next.
    """
    good, bad, skipped = 0, length - 1, set[int]()
    while left := [place for place in range(good + 1, bad) if place not in skipped]:
        middle = min(left, key=lambda place: (abs(2 * place - good - bad), place))
        verdict = judge(middle)
        if verdict == "good":
            good = middle
        elif verdict == "bad":
            bad = middle
        else:
            skipped.add(middle)
    return FirstBad(good, bad)


def smallest_set(parts: Sequence[_Part], restores: Callable[[Sequence[_Part]], bool]) -> list[_Part]:
    """Return a minimal subset that restores the result: without any part it does not.

    All parts together must restore it. The number of runs is linear in the parts if one part is to blame, and quadratic
    at worst.
    """
    known: dict[tuple[int, ...], bool] = {}

    def holds(places: Sequence[int]) -> bool:
        key = tuple(places)
        if key not in known:
            known[key] = restores([parts[place] for place in key])
        return known[key]

    kept, pieces = [*range(len(parts))], 2
    while len(kept) > 1:
        groups = _groups(kept, pieces)
        smaller = next((group for group in groups if holds(group)), None)
        if smaller is not None:
            kept, pieces = smaller, 2
            continue
        others = ([place for place in kept if place not in group] for group in groups)
        rest = next((other for other in others if pieces > 2 and holds(other)), None)
        if rest is not None:
            kept, pieces = rest, max(pieces - 1, 2)
        elif pieces == len(kept):
            break
        else:
            pieces = min(len(kept), 2 * pieces)
    return [parts[place] for place in kept]


def _groups(places: Sequence[int], pieces: int) -> list[list[int]]:
    ends = [len(places) * number // pieces for number in range(pieces + 1)]
    return [[*places[start:end]] for start, end in pairwise(ends)]
