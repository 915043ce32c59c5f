"""The distribution of a figure over replicates, and how far its tail may reach beyond what was seen.

The tail is the simplest that is exact for few values: above the median, excesses are taken to be exponential. Errors of
sums and of single elements fall off at least as fast; maxima over many elements may fall off more slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite

from msgspec import Struct

FEWEST = 5
"""Replicates below which no tail is claimed."""


CONFIDENCE = 0.95
"""Of what counting alone can say."""


class Spread(Struct, frozen=True):
    """Nearest-rank percentiles of n values: of few, the highest percentiles are the largest value itself."""

    n: int
    median: float
    p95: float
    p99: float
    largest: float


class Tail(Struct, frozen=True):
    """Excesses over the value `start`, which `above` of n values lie beyond; `total` is the sum of their excesses."""

    n: int
    start: float
    above: int
    total: float

    def chance(self, limit: float) -> float:
        """Return the chance that another value exceeds `limit`, which is not below `start`.

        (k + 1) / (n + 1) (1 + (limit - start) / total)^-k with k values above: exactly the chance, over the values
        seen and the next one, where excesses are exponential of whatever scale. It tends to 0 more slowly than an
        exponential, because the scale is itself estimated.
        """
        if not self.total:
            return 0.0 if limit >= self.start else 1.0
        beyond: float = (1 + (limit - self.start) / self.total) ** -self.above
        return (self.above + 1) / (self.n + 1) * beyond

    def reached(self, chance: float) -> float:
        """Return the limit that another value exceeds with that chance, at least `start`."""
        fold: float = ((self.above + 1) / (self.n + 1) / chance) ** (1 / self.above)
        return self.start + max(fold - 1, 0.0) * self.total


def spread(values: Sequence[float]) -> Spread:
    """Describe values, of which there is at least one; they may be infinite."""
    ordered = sorted(values)
    median, p95, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 0.99))
    return Spread(len(ordered), median, p95, p99, ordered[-1])


def tail(values: Sequence[float]) -> Tail | None:
    """Estimate the tail above the median; None of fewer than FEWEST values, and where one is infinite."""
    if len(values) < FEWEST or not all(map(isfinite, values)):
        return None
    ordered = sorted(values)
    above = len(ordered) // 2
    start = ordered[-above - 1]
    return Tail(len(ordered), start, above, sum(value - start for value in ordered[-above:]))


def not_excluded(n: int) -> float:
    """Return the largest chance of exceeding that n values, of which none did, leave open at CONFIDENCE."""
    bound: float = 1 - (1 - CONFIDENCE) ** (1 / n)
    return bound
