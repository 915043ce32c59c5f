"""Has a row of numbers shifted, does it rise, or did it jump?

Statistics on plain lists, oldest first, in which larger is worse. Ranks test for shifts and trends (Mann and Whitney's
U at every split, Kendall's S). So their false alarms are the same for any independent noise, and one outlier counts for
one rank. For noise that is correlated in time, thresholds rise by the variance inflation (1 + r) / (1 - r) of an AR(1)
process. benchmarks/drift_study.py measures the false alarms of each rule, and docs/drift.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import inf, sqrt
from statistics import NormalDist, fmean, median, median_high
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Probabilities = np.ndarray[tuple[int], np.dtype[np.float64]]

# Significance level of one test at one run. With all splits tried after each of 60 runs, about 0.2 % of series
# without drift give a false alarm (docs/drift.md, benchmarks/drift_study.py).
DRIFT_ALPHA = 1.5e-5

# Fewer runs are not tested: no order of seven numbers is rarer than DRIFT_ALPHA (1/7! is 2e-4).
MIN_RUNS = 8

# The exact distributions cost more with every value. Beyond these sizes the normal approximation serves, which requires
# more than the exact distribution does (tests/history/drift/test_detect.py): of the smaller side for Mann and Whitney's
# U, and of all values for Kendall's S.
MAX_EXACT_SIDE = 10
MAX_EXACT_TREND = 60

# Standard deviation of a normal distribution over its median absolute deviation: 1 / NormalDist().inv_cdf(0.75).
SIGMA_OF_MAD = 1.4826

# A short trend has an estimated correlation near 1, where (1 + r) / (1 - r) has no bound and would hide any drift.
MAX_CORRELATION = 0.9

# Standard deviations of the noise by which all of the last runs must exceed the median of those before, for a jump.
JUMP_SIGMAS = 4.0

# The same for the level of the last runs against one single value, which is a draw of the same noise.
OFFSET_SIGMAS = 6.0

# Both thresholds are multiplied by 1 + this / n, because n values estimate their standard deviation only roughly.
SMALL_SAMPLE_CORRECTION = 15


class StepFit(NamedTuple):
    """A split: the index of the first value after it, the medians of both sides, and the sum of absolute deviations."""

    at: int
    before: float
    after: float
    misfit: float


class RampFit(NamedTuple):
    """A level up to an index and a straight line from there: its rise per value, its end, and the misfit."""

    at: int
    before: float
    slope: float
    after: float
    misfit: float


def noise_sigma(values: Sequence[float]) -> float:
    """Estimate the standard deviation of the noise from successive differences, which steps and trends hardly change.

    The estimate is the median absolute deviation, unless more than half of the differences are equal; 0 for a constant.
    """
    differences = [later - earlier for earlier, later in pairwise(values)]
    if not differences:
        return 0.0
    centre = median(differences)
    deviation = median(abs(difference - centre) for difference in differences)
    # The difference of two independent values has twice the variance of one.
    if deviation > 0:
        return SIGMA_OF_MAD * deviation / sqrt(2)
    return sqrt(fmean((difference - centre) ** 2 for difference in differences) / 2)


def has_worsened(values: Sequence[float], last: int) -> bool:
    """Return whether any statistic finds larger values: after a split, over the whole row, or in the last ones."""
    return has_shift(values) or has_trend(values) or has_jump(values, last)


def has_shift(values: Sequence[float]) -> bool:
    """Return whether the values after any split are larger than those before it, by Mann and Whitney's U.

    The threshold is multiplied by the correlation factor of the values.
    """
    if len(values) < MIN_RUNS:
        return False
    excess = _rank_excess(values)
    table = critical_shifts(len(values))
    found = [at for at, surplus in enumerate(excess, 1) if surplus >= table[at - 1]]
    # The correlation takes a fit of every split, so only rows that would be significant without it pay for that.
    if not found:
        return False
    factor = correlation_factor(values)
    return any(excess[at - 1] >= factor * table[at - 1] for at in found)


def has_trend(values: Sequence[float]) -> bool:
    """Return whether the values rise over the whole row, by Kendall's S (the test of Mann and Kendall)."""
    if len(values) < MIN_RUNS:
        return False
    surplus, critical = half_kendall_s(values), critical_trend(len(values))
    if surplus < critical:
        return False
    slope = theil_sen_slope(values)
    return surplus >= critical * sqrt(variance_inflation([value - slope * at for at, value in enumerate(values)]))


def has_jump(values: Sequence[float], last: int) -> bool:
    """Return whether each of the last values exceeds the median of those before by far more than the noise.

    Sizes show after two runs a change that ranks can show only after four.
    """
    before = values[: len(values) - last]
    if len(before) < MIN_RUNS:
        return False
    rise, explained = (
        min(values[len(before) :]) - median(before),
        JUMP_SIGMAS * small_sample_factor(len(before)) * noise_sigma(before),
    )
    return rise > explained and rise > explained * correlation_factor(before)


def correlation_factor(values: Sequence[float]) -> float:
    """Return the factor on thresholds for noise that is correlated in time, from the residuals about the best step."""
    return sqrt(variance_inflation(_residuals(values, best_step(values))))


def small_sample_factor(count: int) -> float:
    """Return the factor on thresholds in standard deviations that are estimated from `count` values."""
    return 1 + SMALL_SAMPLE_CORRECTION / count


def running_median(values: Sequence[float]) -> list[float]:
    """Return the running median of three, which removes single outliers and keeps steps and lines."""
    if len(values) < 3:
        return list(values)
    inner = [median(values[at - 1 : at + 2]) for at in range(1, len(values) - 1)]
    return [inner[0], *inner, inner[-1]]


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return Theil and Sen's slope: the median of the slopes of all pairs, per value."""
    count = len(values)
    return median((values[j] - values[i]) / (j - i) for i in range(count) for j in range(i + 1, count))


def step_fits(values: Sequence[float], min_side: int = 1) -> Iterator[StepFit]:
    """Yield every split that leaves at least `min_side` values on each side."""
    for at in range(min_side, len(values) - min_side + 1):
        # The upper median, because one good run among two before the split makes no level.
        before, after = median_high(values[:at]), median(values[at:])
        misfit = sum(abs(value - (before if place < at else after)) for place, value in enumerate(values))
        yield StepFit(at, before, after, misfit)


def best_step(values: Sequence[float]) -> StepFit:
    """Return the split with the smallest sum of absolute deviations; the earliest of equals."""
    return min(step_fits(values), key=lambda step: step.misfit)


def best_ramp(values: Sequence[float]) -> RampFit:
    """Return the joined level and line with the smallest sum of absolute deviations; the earliest of equals.

    Each line is a least-squares fit that outliers would pull, so the values must come from `running_median`.
    """
    return min((_fitted_ramp(values, at) for at in range(len(values) - 2)), key=lambda ramp: ramp.misfit)


def variance_inflation(residuals: Sequence[float]) -> float:
    """Return the variance of a mean over that for independent values, (1 + r) / (1 - r) for AR(1) noise, at least 1."""
    centre = fmean(residuals)
    about = [residual - centre for residual in residuals]
    energy = sum(residual**2 for residual in about)
    if energy == 0:
        return 1.0
    lagged = sum(earlier * later for earlier, later in pairwise(about)) / energy
    correlation = min(max(lagged, 0.0), MAX_CORRELATION)
    return (1 + correlation) / (1 - correlation)


def half_kendall_s(values: Sequence[float]) -> float:
    """Return half of Kendall's S: the number of rising pairs less half of all pairs, with ties as half a pair."""
    from bisect import bisect_left, bisect_right, insort

    earlier: list[float] = []
    score = 0
    for value in values:
        left = bisect_left(earlier, value)
        score += left - (len(earlier) - bisect_right(earlier, value, left))
        insort(earlier, value)
    return score / 2


def _rank_excess(values: Sequence[float]) -> list[float]:
    """Return, for each split, U of the later side less its mean m * n / 2; tied values share a rank."""
    ranks = _midranks(values)
    count = len(values)
    mean_rank = (count + 1) / 2
    excess, later = [], 0.0
    for rank in reversed(ranks[1:]):
        later += rank - mean_rank
        excess.append(later)
    return excess[::-1]


def _midranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2 + 1
        first = last + 1
    return ranks


@cache
def critical_shifts(count: int) -> list[float]:
    """Return, for the splits of `count` values after 1, 2, ... of them, the smallest significant U - m * n / 2."""
    for fewer in range(2, count, MAX_EXACT_SIDE):
        critical_shifts(fewer)  # fills the cache in steps, or the recursion of U would be too deep
    return [_critical_shift(min(at, count - at), max(at, count - at)) for at in range(1, count)]


@cache
def _critical_shift(small: int, large: int) -> float:
    half = small * large / 2
    if small > MAX_EXACT_SIDE:
        return NormalDist().inv_cdf(1 - DRIFT_ALPHA) * sqrt(small * large * (small + large + 1) / 12)
    return _least_significant(_mann_whitney_distribution(small, large)) - half


@cache
def _mann_whitney_distribution(small: int, large: int) -> Probabilities:
    """Return the probability of each U of two samples of one continuous distribution (Mann and Whitney 1947)."""
    import numpy as np

    if small == 0 or large == 0:
        return np.ones(1)
    # The largest value exceeds all `large` values of the other sample if it is in the small one, and else adds nothing.
    probabilities = np.zeros(small * large + 1)
    from_small = _mann_whitney_distribution(small - 1, large)
    from_large = _mann_whitney_distribution(*sorted((small, large - 1)))
    probabilities[large:] = from_small * (small / (small + large))
    probabilities[: len(from_large)] += from_large * (large / (small + large))
    return probabilities


@cache
def critical_trend(count: int) -> float:
    """Return the smallest significant half of Kendall's S of `count` values."""
    pairs = count * (count - 1) / 2
    if count > MAX_EXACT_TREND:
        deviation = sqrt(count * (count - 1) * (2 * count + 5) / 72)
        return NormalDist().inv_cdf(1 - DRIFT_ALPHA) * deviation
    return _least_significant(_kendall_distribution(count)) - pairs / 2


def _kendall_distribution(count: int) -> Probabilities:
    """Return the probability of each number of rising pairs in a random order of `count` values."""
    import numpy as np

    # The value at each place makes 0 to place - 1 rising pairs with those before it, all equally likely.
    probabilities = np.ones(1)
    for place in range(2, count + 1):
        probabilities = np.convolve(probabilities, np.full(place, 1 / place))
    return probabilities


def _least_significant(probabilities: Probabilities) -> float:
    """Return the smallest outcome whose upper tail has at most DRIFT_ALPHA; infinity if none has."""
    tails = probabilities[::-1].cumsum()
    rare = int((tails <= DRIFT_ALPHA).sum())
    return len(probabilities) - rare if rare else inf


def _fitted_ramp(values: Sequence[float], at: int) -> RampFit:
    hinge = [max(0, place - at) for place in range(len(values))]
    mean_hinge, mean_value = fmean(hinge), fmean(values)
    above = sum((x - mean_hinge) * (value - mean_value) for x, value in zip(hinge, values, strict=True))
    slope = above / sum((x - mean_hinge) ** 2 for x in hinge)
    level = mean_value - slope * mean_hinge
    misfit = sum(abs(value - level - slope * x) for x, value in zip(hinge, values, strict=True))
    return RampFit(at, level, slope, level + slope * hinge[-1], misfit)


def _residuals(values: Sequence[float], step: StepFit) -> list[float]:
    return [value - (step.before if at < step.at else step.after) for at, value in enumerate(values)]
