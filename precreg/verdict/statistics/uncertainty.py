"""Which uncertainty has an estimate?

Student's t distribution, standard errors by the jackknife, and the tail of a figure over replicates. All functions work
on plain floats and know nothing of metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil, exp, fsum, inf, isfinite, isinf, lgamma, log, log1p, sqrt
from operator import sub
from statistics import NormalDist
from typing import NamedTuple

from msgspec import Struct

# No statistic of fewer samples fails a case: it would hardly ever find a loss. At the level of one test in a project of
# 600 baselines (1.4e-5), the t quantile is 21 with 5 samples and 189 with 3.
MIN_SAMPLES = 5

# The groups along one axis, or the seeds, may share no error and then have a standard error that is too small. Fewer
# samples replace the best-known standard error only if theirs exceeds it by this factor: they estimate their own badly.
FEWER_SAMPLES_ERROR_FACTOR = 1.5

# The same for fewer than MIN_SAMPLES: three seeds that share no error differ so much once in a thousand times
# (docs/regression-statistics.md, "The statistic").
FEW_SAMPLES_ERROR_FACTOR = 3.0

# Lentz's algorithm divides by the convergents; a tiny number in place of 0 changes no digit of the result.
_TINY = 1e-300
# Relative change of a step that ends the fraction: a few times the unit roundoff of float64.
_TOLERANCE = 1e-15
# Measured: t from 0.001 to 40 and df from 1 to 1e9 take at most 70 terms. More terms mean a wrong argument.
_MAX_TERMS = 10_000


# Bisection takes about 1 ms, and one run needs the same few quantiles in every case.
@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return the t that a value with `df` degrees of freedom exceeds with probability p, 0 < p <= 1/2.

    The relative error is below 1e-9. An infinite df gives the quantile of the normal distribution.
    """
    if isinf(df):
        return -NormalDist().inv_cdf(p)
    low, high = 0.0, 1.0
    while t_sf(high, df) > p:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_sf(middle, df) > p else (low, middle)
    return high


def t_sf(t: float, df: float) -> float:
    """Return the probability that a value with `df` degrees of freedom exceeds t >= 0 (DLMF 8.17.1, A&S 26.7.1)."""
    if isinf(t):
        return 0.0
    return _incomplete_beta(df / (df + t * t), df / 2, 0.5) / 2


def t_half_width(standard_error: float, units: int, alpha: float) -> float:
    """Return the distance of a one-sided confidence bound at level `alpha` from an estimate of so many units."""
    return t_quantile(alpha, units - 1) * standard_error


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by the continued fraction DLMF 8.17.22."""
    if x in (0.0, 1.0):
        return x
    # The fraction converges fast below the mean of the distribution; above it the complement does.
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    scale = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b))
    return scale / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22 by Lentz's algorithm as modified by Thompson and Barnett.

    Raises ArithmeticError if the fraction does not converge.
    """
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + part * d or _TINY)
        c = 1 + part / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _TOLERANCE:
            return value
    raise ArithmeticError(f"no convergence: x={x}, a={a}, b={b}")


def mean_with_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of at least two independent values, and its standard error."""
    mean = fsum(values) / len(values)
    return mean, sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


# From the totals of columns to a figure; None if the figure is not defined.
TotalsStatistic = Callable[..., float | None]


def jackknife(
    columns: Sequence[Sequence[float]], statistic: TotalsStatistic, power: float
) -> tuple[float, float] | None:
    """Return `power` times a statistic of the column totals, and its jackknife standard error.

    Each row is one group, and each is left out once (Efron, The Jackknife, the Bootstrap and Other Resampling Plans,
    1982, chapter 3). None if the statistic of all rows is not defined. The error is infinite if the statistic is not
    defined without some row.
    """
    totals = [sum(column) for column in columns]
    value = statistic(*totals)
    if value is None:
        return None
    without = [statistic(*map(sub, totals, row)) for row in zip(*columns, strict=True)]
    known = [each for each in without if each is not None]
    units = len(without)
    # One group has all the errors, so the sample shows nothing about the spread of others like it.
    if len(known) < units:
        return value * power, inf
    middle = sum(known) / units
    # A product, because a float to a power may raise OverflowError where a product is infinite.
    spread = sum((each - middle) * (each - middle) for each in known) * (units - 1) / units
    return value * power, sqrt(spread) * power


class StandardError(NamedTuple):
    """A standard error of the logarithm of a ratio, from `units` samples along an axis (None: seeds)."""

    error: float
    units: int
    axis: int | None


def largest_standard_error(errors: Sequence[StandardError]) -> StandardError:
    """Return the largest standard error among samples along several axes.

    Groups that cut the axis along which errors are shared see too little of the spread, and nobody knows that axis.
    Samples of less than half the units of another, or fewer than MIN_SAMPLES, count only if theirs is clearly larger.
    """
    enough = [each for each in errors if each.units >= MIN_SAMPLES]
    taken = _clearly_largest(enough or errors)
    few_samples = [
        each for each in errors if each.units < MIN_SAMPLES and each.error > FEW_SAMPLES_ERROR_FACTOR * taken.error
    ]
    return max(few_samples, default=taken, key=_error_and_units)


def _clearly_largest(errors: Sequence[StandardError]) -> StandardError:
    most_units = max(each.units for each in errors)
    largest = max((each for each in errors if 2 * each.units >= most_units), key=_error_and_units)
    fewer_samples = [
        each
        for each in errors
        if 2 * each.units < most_units and each.error > FEWER_SAMPLES_ERROR_FACTOR * largest.error
    ]
    return max(fewer_samples, default=largest, key=_error_and_units)


def _error_and_units(each: StandardError) -> tuple[float, int]:
    return each.error, each.units


# Replicates below which no tail is estimated: the estimate rests on the upper half, and half of 4 is 2 values.
MIN_REPLICATES = 5

# Confidence of the bound that counting alone gives (docs/calibrate.md).
CONFIDENCE = 0.95


class NoiseSummary(Struct, frozen=True):
    """Nearest-rank percentiles of n values: with few values, the highest percentiles are the largest value itself."""

    n: int
    median: float
    p95: float
    p99: float
    largest: float


class NoiseTail(Struct, frozen=True):
    """An exponential tail above `start`: `above` of n values lie beyond it, and `total` is the sum of their excesses.

    Errors of sums and of single elements fall off at least as fast; maxima over many elements may fall off more slowly
    (docs/calibrate.md has both cases measured).
    """

    n: int
    start: float
    above: int
    total: float

    def exceedance_probability(self, limit: float) -> float:
        """Return the probability that another value exceeds a limit that is not below `start`.

        It is (k + 1) / (n + 1) (1 + (limit - start) / total)^-k with k values above. It is exact for excesses with an
        exponential distribution of any scale (docs/calibrate.md).
        """
        # A power of k and no exponential, because the scale of the tail is itself estimated from k values.
        if not self.total:
            return 0.0 if limit >= self.start else 1.0
        beyond: float = (1 + (limit - self.start) / self.total) ** -self.above
        return (self.above + 1) / (self.n + 1) * beyond

    def exceedance_quantile(self, p: float) -> float:
        """Return the limit that another value exceeds with probability p, at least `start`."""
        fold: float = ((self.above + 1) / (self.n + 1) / p) ** (1 / self.above)
        return self.start + max(fold - 1, 0.0) * self.total


def summarize_noise(values: Sequence[float]) -> NoiseSummary:
    """Summarize at least one value; values may be infinite."""
    ordered = sorted(values)
    median, p95, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 0.99))
    return NoiseSummary(len(ordered), median, p95, p99, ordered[-1])


def estimate_tail(values: Sequence[float]) -> NoiseTail | None:
    """Estimate the tail above the median; None with fewer than MIN_REPLICATES values, or with an infinite one."""
    if len(values) < MIN_REPLICATES or not all(map(isfinite, values)):
        return None
    ordered = sorted(values)
    above = len(ordered) // 2
    start = ordered[-above - 1]
    return NoiseTail(len(ordered), start, above, sum(value - start for value in ordered[-above:]))


def max_unseen_probability(n: int) -> float:
    """Return the largest probability p of an event that n trials without it do not exclude: (1 - p)^n = 5 %."""
    bound: float = 1 - (1 - CONFIDENCE) ** (1 / n)
    return bound
