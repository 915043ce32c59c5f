"""Which smallest set of ranked parts makes a bound hold, in few runs?

A run decides whether a set is enough. The ranking puts the probable parts in front, so the search looks for the
shortest prefix that is enough, by doubling and then halving its length. Then it drops members that are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from precreg.types import PrecisionStatus

Decide = Callable[[tuple[str, ...]], bool]


class SmallestSet(NamedTuple):
    """The members in the order of the ranking, and how the search ended; no members unless it found a set."""

    status: PrecisionStatus
    kept: tuple[str, ...] = ()


def find_smallest_set(ranked: Sequence[str], decide: Decide) -> SmallestSet:
    """Return the smallest set that is enough, if at most half of the parts are.

    `decide` runs a set, which is a tuple in the order of the ranking, and never twice the same. If a superset of an
    enough set is always enough, no member of the result can be left out.
    """
    known: dict[frozenset[str], bool] = {}

    def is_enough(members: Sequence[str]) -> bool:
        key = frozenset(members)
        if key not in known:
            known[key] = decide(tuple(each for each in ranked if each in key))
        return known[key]

    if is_enough(()):
        return SmallestSet("passed")
    # A larger set has no dominating part. Its search would chase noise.
    length = _shortest_prefix(ranked, max(1, len(ranked) // 2), is_enough)
    if length is None:
        return SmallestSet("spread" if len(ranked) > 1 and is_enough(ranked) else "insufficient")
    # The prefix without its last member is not enough, so this member is needed.
    last = ranked[length - 1 : length]
    needed = {*_needed(ranked[: length - 1], last, is_enough), *last}
    return SmallestSet("found", tuple(each for each in ranked if each in needed))


def _shortest_prefix(ranked: Sequence[str], most: int, is_enough: Callable[[Sequence[str]], bool]) -> int | None:
    """Return the length of the shortest prefix that is enough, up to `most`; None if none is."""
    failed, length = 0, 1
    # Sets are mostly small: doubling finds one of 2 among 60 in 2 runs, and halving alone in 6.
    while ranked and not is_enough(ranked[:length]):
        if length == most:
            return None
        failed, length = length, min(2 * length, most)
    while length - failed > 1:
        middle = (failed + length) // 2
        if is_enough(ranked[:middle]):
            length = middle
        else:
            failed = middle
    return length if ranked else None


def _needed(members: Sequence[str], beside: Sequence[str], is_enough: Callable[[Sequence[str]], bool]) -> Sequence[str]:
    """Return the members that are needed beside others, which are enough together with all members.

    Halves drop together (Junker, QuickXplain, AAAI 2004), so that few needed members among many cost few runs.
    """
    if not members or is_enough(beside):
        return ()
    if len(members) == 1:
        return members
    left, right = members[: len(members) // 2], members[len(members) // 2 :]
    of_right = _needed(right, [*left, *beside], is_enough)
    return [*_needed(left, [*of_right, *beside], is_enough), *of_right]
