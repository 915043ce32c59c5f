"""Student's t distribution: how many standard errors, themselves estimated, a chance of a given size reaches."""

from __future__ import annotations

from functools import lru_cache
from math import exp, isinf, lgamma, log, log1p
from statistics import NormalDist

_SMALL = 1e-300

_DIGITS = 1e-15

_TERMS = 10_000


@lru_cache(maxsize=4096)
def quantile(chance: float, freedom: float) -> float:
    """Return the t that a value with `freedom` degrees of freedom exceeds with `chance`, 0 < chance <= 1/2.

    Found by bisection of the tail; the relative error is below 1e-9. Infinite freedom gives the normal quantile.
    """
    if isinf(freedom):
        return -NormalDist().inv_cdf(chance)
    low, high = 0.0, 1.0
    while tail(high, freedom) > chance:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > chance else (low, middle)
    return high


def tail(t: float, freedom: float) -> float:
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
