"""Student's t distribution: how many standard errors, themselves estimated, a chance of a given size reaches.

The distribution of a figure over replicates, and how far its tail may reach beyond what was seen.

The tail is the simplest that is exact for few values: above the median, excesses are taken to be exponential. Errors of
sums and of single elements fall off at least as fast; maxima over many elements may fall off more slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, isfinite, isinf, lgamma, log, log1p
from statistics import NormalDist

from msgspec import Struct

_SMALL = 1e-300

_DIGITS = 1e-15

_TERMS = 10_000


@lru_cache(maxsize=4096)
def t_quantile(chance: float, freedom: float) -> float:
    """Return the t that a value with `freedom` degrees of freedom exceeds with `chance`, 0 < chance <= 1/2.

    Found by bisection of the tail; the relative error is below 1e-9. Infinite freedom gives the normal quantile.
    """
    if isinf(freedom):
        return -NormalDist().inv_cdf(chance)
    low, high = 0.0, 1.0
    while t_sf(high, freedom) > chance:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_sf(middle, freedom) > chance else (low, middle)
    return high


def t_sf(t: float, freedom: float) -> float:
    """Return the chance that a value with `freedom` degrees of freedom exceeds t >= 0 (DLMF 8.17.1, A&S 26.7.1)."""
    if isinf(t):
        return 0.0
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by the continued fraction DLMF 8.17.22.

    It converges fast below the mean of the distribution, and I_x(a, b) = 1 - I_(1-x)(b, a) serves above.
    """
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    scale = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b))
    return scale / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """Return 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22 by the algorithm of Lentz, as modified by Thompson, Barnett."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _TERMS):
        m = term // 2
        if term % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + part * d or _SMALL)
        c = 1 + part / c or _SMALL
        value *= c * d
        if abs(c * d - 1) < _DIGITS:
            return value
    raise ArithmeticError(f"no convergence: x={x}, a={a}, b={b}")


MIN_REPLICATES = 5
"""Replicates below which no tail is claimed."""


CONFIDENCE = 0.95
"""Of what counting alone can say."""


class NoiseSummary(Struct, frozen=True):
    """Nearest-rank percentiles of n values: of few, the highest percentiles are the largest value itself."""

    n: int
    median: float
    p95: float
    p99: float
    largest: float


class NoiseTail(Struct, frozen=True):
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


def summarize_noise(values: Sequence[float]) -> NoiseSummary:
    """Describe values, of which there is at least one; they may be infinite."""
    ordered = sorted(values)
    median, p95, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 0.99))
    return NoiseSummary(len(ordered), median, p95, p99, ordered[-1])


def estimate_tail(values: Sequence[float]) -> NoiseTail | None:
    """Estimate the tail above the median; None of fewer than FEWEST values, and where one is infinite."""
    if len(values) < MIN_REPLICATES or not all(map(isfinite, values)):
        return None
    ordered = sorted(values)
    above = len(ordered) // 2
    start = ordered[-above - 1]
    return NoiseTail(len(ordered), start, above, sum(value - start for value in ordered[-above:]))


def max_unseen_probability(n: int) -> float:
    """Return the largest chance of exceeding that n values, of which none did, leave open at CONFIDENCE."""
    bound: float = 1 - (1 - CONFIDENCE) ** (1 / n)
    return bound
