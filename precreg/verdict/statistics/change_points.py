"""Has a row of numbers shifted, or does it rise? Statistics on plain lists, oldest first, in which larger is worse.

Shift and rise are tested by ranks (Mann and Whitney's U at every split, Kendall's S), so what they claim falsely is
the same for any independent noise, Gaussian or with heavy tails, and one outlier counts for one rank. Where the
noise is correlated in time the tests ask for more, by the variance inflation (1 + r) / (1 - r) of an AR(1) process.
benchmarks/drift_study.py measures how often each rule is wrong; docs/drift.md states it.
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


if TYPE_CHECKING:
    Chances = np.ndarray[tuple[int], np.dtype[np.float64]]


DRIFT_ALPHA = 1.5e-5
"""Of one test at one run. Judged after each of 60 runs, all splits tried, both are wrong in 0.2 % of series."""


MIN_RUNS = 8
"""Fewer runs are not tested: no order of seven numbers is rarer than SIGNIFICANCE allows."""


MAX_EXACT_SIDE = 10
"""Up to this size of the smaller side the distribution of U is exact; beyond it is normal, which asks for more."""


MAX_EXACT_TREND = 60
"""The same for the number of values and Kendall's S."""


SIGMA_OF_MAD = 1.4826
"""The standard deviation of Gaussian numbers over their median absolute deviation."""


MAX_CORRELATION = 0.9


JUMP_SIGMAS = 4.0
"""Standard deviations of the noise by which the last runs must exceed the median of those before, to be a jump."""


OFFSET_SIGMAS = 6.0
"""The same for the level of the last runs beyond one single value, which is a draw of the same noise."""


SMALL_SAMPLE_CORRECTION = 15
"""Both are raised by the factor 1 + UNSETTLED / n, because n values tell the noise no better."""


class StepFit(NamedTuple):
    """The split that fits best: index of the first value after it, the medians of both sides, and the misfit."""

    at: int
    before: float
    after: float
    misfit: float


class RampFit(NamedTuple):
    """A level up to an index and a straight line from there on: its rise per value, its end, and the misfit."""

    at: int
    before: float
    slope: float
    after: float
    misfit: float


def noise_sigma(values: Sequence[float]) -> float:
    """Estimate the standard deviation of the noise from successive differences, so that steps and trends do not count.

    Robust (median absolute deviation) unless more than half of the differences are equal; 0 for a constant.
    """
    differences = [later - earlier for earlier, later in pairwise(values)]
    if not differences:
        return 0.0
    centre = median(differences)
    deviation = median(abs(difference - centre) for difference in differences)
    if deviation > 0:
        return SIGMA_OF_MAD * deviation / sqrt(2)
    return sqrt(fmean((difference - centre) ** 2 for difference in differences) / 2)


def has_shift(values: Sequence[float]) -> bool:
    """Tell whether the values after any split are larger than those before it, by Mann and Whitney's U.

    Raised where the residuals about the best step are correlated, by `inflation`.
    """
    if len(values) < MIN_RUNS:
        return False
    excess = _rank_excess(values)
    table = critical_shifts(len(values))
    found = [at for at, surplus in enumerate(excess, 1) if surplus >= table[at - 1]]
    if not found:
        return False
    factor = correlation_factor(values)
    return any(excess[at - 1] >= factor * table[at - 1] for at in found)


def has_trend(values: Sequence[float]) -> bool:
    """Tell whether the values rise over the whole row, by Kendall's S (the test of Mann and Kendall)."""
    if len(values) < MIN_RUNS:
        return False
    surplus, least = half_kendall_s(values), critical_trend(len(values))
    if surplus < least:
        return False
    slope = theil_sen_slope(values)
    return surplus >= least * sqrt(variance_inflation([value - slope * at for at, value in enumerate(values)]))


def has_jump(values: Sequence[float], last: int) -> bool:
    """Tell whether each of the last values exceeds the median of those before by far more than the noise.

    Finds at the second run what ranks can find at the fourth only; no independent noise with a variance does so often.
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
    """Return the factor on thresholds that noise asks for whose neighbours are alike, measured about the best step."""
    return sqrt(variance_inflation(_residuals(values, best_step(values))))


def small_sample_factor(count: int) -> float:
    """Return the factor on thresholds in standard deviations that were estimated from so many values."""
    return 1 + SMALL_SAMPLE_CORRECTION / count


def running_median(values: Sequence[float]) -> list[float]:
    """Return the running median of three: single outliers go, steps and lines stay as they are."""
    if len(values) < 3:
        return list(values)
    inner = [median(values[at - 1 : at + 2]) for at in range(1, len(values) - 1)]
    return [inner[0], *inner, inner[-1]]


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return Theil and Sen's slope: the median of the slopes of all pairs, per value."""
    count = len(values)
    return median((values[j] - values[i]) / (j - i) for i in range(count) for j in range(i + 1, count))


def step_fits(values: Sequence[float], least: int = 1) -> Iterator[StepFit]:
    """Yield every split that leaves at least so many values on each side.

    Of an even number of values before it the worse of the middle two counts: one good run is no level.
    """
    for at in range(least, len(values) - least + 1):
        before, after = median_high(values[:at]), median(values[at:])
        misfit = sum(abs(value - (before if place < at else after)) for place, value in enumerate(values))
        yield StepFit(at, before, after, misfit)


def best_step(values: Sequence[float]) -> StepFit:
    """Return the split whose two medians leave the least sum of absolute deviations; the earliest of equals."""
    return min(step_fits(values), key=lambda step: step.misfit)


def best_ramp(values: Sequence[float]) -> RampFit:
    """Return the level and line, joined, of the bend with the least sum of absolute deviations; the earliest of equals.

    Each line is fitted by least squares, so give it `calmed` values.
    """
    return min((_fitted_ramp(values, at) for at in range(len(values) - 2)), key=lambda ramp: ramp.misfit)


def variance_inflation(residuals: Sequence[float]) -> float:
    """Return by how much the variance of a mean exceeds that of independent values: (1 + r) / (1 - r), at least 1."""
    centre = fmean(residuals)
    about = [residual - centre for residual in residuals]
    energy = sum(residual**2 for residual in about)
    if energy == 0:
        return 1.0
    lagged = sum(earlier * later for earlier, later in pairwise(about)) / energy
    correlation = min(max(lagged, 0.0), MAX_CORRELATION)
    return (1 + correlation) / (1 - correlation)


def half_kendall_s(values: Sequence[float]) -> float:
    """Return half of Kendall's S: how many pairs rise beyond half of all pairs, ties counted as half a pair."""
    from bisect import bisect_left, bisect_right, insort

    earlier: list[float] = []
    score = 0
    for value in values:
        left = bisect_left(earlier, value)
        score += left - (len(earlier) - bisect_right(earlier, value, left))
        insort(earlier, value)
    return score / 2


def _rank_excess(values: Sequence[float]) -> list[float]:
    """Return, for each split, by how much U of the later side exceeds its mean m * n / 2; tied values share a rank."""
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
    """Return, for the splits of `count` values after 1, 2, ... of them, the least U - m * n / 2 that is significant."""
    for fewer in range(2, count, MAX_EXACT_SIDE):
        critical_shifts(fewer)  # the recursion of U must not start from afar
    return [_critical_shift(min(at, count - at), max(at, count - at)) for at in range(1, count)]


@cache
def _critical_shift(small: int, large: int) -> float:
    half = small * large / 2
    if small > MAX_EXACT_SIDE:
        return NormalDist().inv_cdf(1 - DRIFT_ALPHA) * sqrt(small * large * (small + large + 1) / 12)
    return _least_significant(_chances_of_u(small, large)) - half


@cache
def _chances_of_u(small: int, large: int) -> Chances:
    """Return the chance of each U of two samples of one continuous distribution (Mann and Whitney 1947, recursion)."""
    import numpy as np

    if small == 0 or large == 0:
        return np.ones(1)
    chances = np.zeros(small * large + 1)
    from_small = _chances_of_u(small - 1, large)
    from_large = _chances_of_u(*sorted((small, large - 1)))
    chances[large:] = from_small * (small / (small + large))
    chances[: len(from_large)] += from_large * (large / (small + large))
    return chances


@cache
def critical_trend(count: int) -> float:
    """Return the least half of Kendall's S that is significant among so many values."""
    pairs = count * (count - 1) / 2
    if count > MAX_EXACT_TREND:
        deviation = sqrt(count * (count - 1) * (2 * count + 5) / 72)
        return NormalDist().inv_cdf(1 - DRIFT_ALPHA) * deviation
    return _least_significant(_chances_of_rising_pairs(count)) - pairs / 2


def _chances_of_rising_pairs(count: int) -> Chances:
    """Return the chance of each number of rising pairs in a random order of so many values."""
    import numpy as np

    chances = np.ones(1)
    for place in range(2, count + 1):
        chances = np.convolve(chances, np.full(place, 1 / place))
    return chances


def _least_significant(chances: Chances) -> float:
    """Return the least outcome that is reached or exceeded with at most SIGNIFICANCE; infinity where none is."""
    tails = chances[::-1].cumsum()
    rare = int((tails <= DRIFT_ALPHA).sum())
    return len(chances) - rare if rare else inf


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
