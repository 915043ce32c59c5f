"""Which smallest set of numbered items still fails?

Halving keeps the half with the larger loss as long as one of them fails alone, and then moves the ends of the range
together. Delta debugging drops items inside of it (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
input", 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Smallest(NamedTuple):
    """The items that still fail, in order, and the number of sets that were tried.

    Without any one of the items the rest passes, unless `is_cut` says that the search met its limit of tries.
    """

    items: tuple[int, ...]
    tries: int
    is_cut: bool = False


class _Cut(Exception):  # noqa: N818
    """End a search at its limit."""


class _Tries:
    """Counts the sets whose loss was measured, and measures each set once."""

    def __init__(self, loss: Callable[[frozenset[int]], float], limit: int) -> None:
        self._loss, self._limit = loss, limit
        self._known: dict[frozenset[int], float] = {}

    @property
    def count(self) -> int:
        return len(self._known)

    def loss(self, items: Sequence[int]) -> float:
        chosen = frozenset(items)
        if not chosen:
            return 0.0
        if chosen not in self._known:
            if len(self._known) >= self._limit:
                raise _Cut
            self._known[chosen] = self._loss(chosen)
        return self._known[chosen]

    def fails(self, items: Sequence[int]) -> bool:
        return self.loss(items) > 1


def find_smallest(items: Sequence[int], loss: Callable[[frozenset[int]], float], limit: int = 1000) -> Smallest:
    """Return a smallest set of items that fails: whose loss is above 1. All items must fail together.

    No set is measured twice. The empty set passes.
    """
    tries, kept = _Tries(loss, limit), [*items]
    try:
        for keep in (_larger_half, _shorter_end, _later_start, _without_parts):
            for found in keep(kept, tries):
                kept = found
    except _Cut:
        return Smallest(tuple(kept), tries.count, is_cut=True)
    return Smallest(tuple(kept), tries.count)


def _larger_half(items: list[int], tries: _Tries) -> Iterator[list[int]]:
    """Yield ever smaller halves that fail; the one with the larger loss if both do."""
    kept = items
    while len(kept) > 1:
        halves = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        kept = max(halves, key=tries.loss)
        if not tries.fails(kept):
            return
        yield kept


def _shorter_end(items: list[int], tries: _Tries) -> Iterator[list[int]]:
    return _halved(len(items), lambda size: items[:size], tries)


def _later_start(items: list[int], tries: _Tries) -> Iterator[list[int]]:
    return _halved(len(items), lambda size: items[len(items) - size :], tries)


def _halved(size: int, part: Callable[[int], list[int]], tries: _Tries) -> Iterator[list[int]]:
    """Yield ever smaller parts that fail. `part` gives a part of a size, and the part of the whole size fails."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if tries.fails(part(middle)):
            high = middle
            yield part(middle)
        else:
            low = middle


def _without_parts(items: list[int], tries: _Tries) -> Iterator[list[int]]:
    """Yield ever smaller sets that fail: one block of the set before, or the set without the block."""
    kept, blocks = items, 2
    while len(kept) > 1:
        smaller = next((each for each in _blocks(kept, blocks) if tries.fails(each)), None)
        if smaller is not None:
            blocks = 2 if len(smaller) <= len(kept) // 2 else max(blocks - 1, 2)
            kept = smaller
            yield kept
        elif blocks == len(kept):
            break
        else:
            blocks = min(2 * blocks, len(kept))


def _blocks(kept: list[int], count: int) -> Iterator[list[int]]:
    """Yield the blocks of a set, and then the rest without each block."""
    cuts = [len(kept) * at // count for at in range(count + 1)]
    yield from (kept[start:stop] for start, stop in pairwise(cuts))
    if count > 2:
        yield from (kept[:start] + kept[stop:] for start, stop in pairwise(cuts))
