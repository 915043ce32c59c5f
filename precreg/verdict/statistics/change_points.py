"""Has a row of numbers shifted, does it rise, or did it jump?

Statistics on plain lists, oldest first, in which larger is worse. Ranks test for shifts and trends (Mann and Whitney's
U at every split, Kendall's S). So their false alarms are the same for any independent noise, and one outlier counts for
one rank. For noise that is correlated in time, thresholds rise by the variance inflation (1 + r) / (1 - r) of an AR(1)
process. benchmarks/drift_study.py measures the false alarms of each rule, and docs/drift-statistics.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import comb, inf, sqrt
from statistics import NormalDist, fmean, median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Probabilities = np.ndarray[tuple[int], np.dtype[np.float64]]
    Row = np.ndarray[tuple[int], np.dtype[np.float64]]
    Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]

# Significance level of one test at one run. With all splits tried after each of 60 runs, about 0.2 % of series
# without drift give a false alarm (docs/drift-statistics.md, benchmarks/drift_study.py).
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

# A fit takes correlation out of its residuals, the more so the shorter the row (Marriott and Pope 1954). Measured on
# AR(1) noise with r from 0 to 0.8, 60 rows of 10 to 60 values: the estimate is too low by about (2 + 6 r) / n about a
# line, and by (2.5 + 10 r) / n about the best step. These are the two numbers of each fit.
LINE_BIAS = (2.0, 6.0)
STEP_BIAS = (2.5, 10.0)
# The correction is limited to this factor, because its denominator is 0 for ten values.
MAX_BIAS_FACTOR = 2.5

# The latest runs that show whether the noise has grown, and the growth that their estimate may have at random.
LATE_RUNS = 15
CHANCE_GROWTH = 1.5

# In a shorter row noise that is correlated by 0.8 rises like a slope, and its correlation cannot be estimated. With 25
# in place of 30, and without CLEAR_CORRECTION, 20 of 500 such histories raised a false alarm; now 8
# (benchmarks/drift_study.py, seeds 1000 to 1499; 8 of the next 500).
MIN_RUNS_FOR_CORRELATION = 30

# A rise of so many standard deviations of the noise is one, however correlated the noise is. A fit of a step would
# take a slope for correlated noise. Noise that is correlated by 0.8 rises by up to 12.5 of them where ranks call it
# significant (200 rows of 60 runs).
CLEAR_RISE_SIGMAS = 14

# That number is multiplied by 1 + this / n: of n correlated values the differences show half the true noise by chance.
CLEAR_CORRECTION = 5

# Significance level of the order of an exact series: how rarely noise on a coarse grid puts its worse values last.
ORDER_ALPHA = 0.004

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


class RiseTest(NamedTuple):
    """A statistic in units of its critical value for independent noise, and the factor that the noise asks for."""

    excess: float
    factor: float

    @property
    def is_significant(self) -> bool:
        """Return True if the statistic exceeds its critical value for this noise."""
        return self.excess >= max(self.factor, 1)

    @property
    def is_hidden(self) -> bool:
        """Return True if only independent and even noise would make the statistic significant."""
        return 1 <= self.excess < self.factor


NO_RISE = RiseTest(0.0, 1.0)


def has_worsened(values: Sequence[float], last: int) -> bool:
    """Return whether any statistic finds larger values: after a split, over the whole row, or in the last ones."""
    return any(test.is_significant for test in rise_tests(values, last))


def is_too_noisy(values: Sequence[float], last: int) -> bool:
    """Return whether correlated or growing noise hides a rise that independent noise would show."""
    tests = [*rise_tests(values, last)]
    return any(test.is_hidden for test in tests) and not any(test.is_significant for test in tests)


def rise_tests(values: Sequence[float], last: int) -> Iterator[RiseTest]:
    """Yield the statistics of a rise, the cheapest of them last."""
    yield shift_test(values)
    yield trend_test(values)
    yield jump_test(values, last)


def shift_test(values: Sequence[float]) -> RiseTest:
    """Test whether the values after any split are larger than those before it, by Mann and Whitney's U."""
    if len(values) < MIN_RUNS:
        return NO_RISE
    table = critical_shifts(len(values))
    excess = max(surplus / critical for surplus, critical in zip(_rank_excess(values), table, strict=True))
    # The correlation takes a fit of every split, so only rows that would be significant without it pay for that.
    if excess < 1:
        return RiseTest(excess, 1.0)
    step = best_step(values)
    rise = step.after - step.before
    is_clear = _is_clear(values, rise)
    return RiseTest(excess, 1.0 if is_clear else correlation_factor(values) * _rank_factor(values, rise))


def trend_test(values: Sequence[float]) -> RiseTest:
    """Test whether the values rise over the whole row, by Kendall's S (the test of Mann and Kendall)."""
    if len(values) < MIN_RUNS:
        return NO_RISE
    excess = half_kendall_s(values) / critical_trend(len(values))
    if excess < 1:
        return RiseTest(excess, 1.0)
    slope = theil_sen_slope(values)
    rise = slope * (len(values) - 1)
    if _is_clear(values, rise):
        return RiseTest(excess, 1.0)
    inflation = variance_inflation([value - slope * at for at, value in enumerate(values)], LINE_BIAS)
    return RiseTest(excess, sqrt(inflation) * _rank_factor(values, rise))


def jump_test(values: Sequence[float], last: int) -> RiseTest:
    """Test whether each of the last values exceeds the median of those before by far more than the noise.

    Sizes show after two runs a change that ranks can show only after four.
    """
    before = values[: len(values) - last]
    if len(before) < MIN_RUNS:
        return NO_RISE
    rise = min(values[len(before) :]) - median(before)
    if rise <= 0:
        return NO_RISE
    explained = JUMP_SIGMAS * small_sample_factor(len(before)) * noise_sigma(before)
    if explained == 0:
        return RiseTest(inf, 1.0)
    excess = rise / explained
    if excess < 1:
        return RiseTest(excess, 1.0)
    return RiseTest(excess, correlation_factor(before) * growth_factor(before))


def late_growth(values: Sequence[float]) -> float:
    """Return the noise of the latest values over the noise of all; 1 for a short row, and without noise."""
    whole = noise_sigma(values)
    return noise_sigma(values[-LATE_RUNS:]) / whole if whole and len(values) > LATE_RUNS else 1.0


def growth_factor(values: Sequence[float]) -> float:
    """Return the factor on thresholds for noise that has grown: at least 1.

    Ranks take the later values for a sample of the same noise. If those are noisier, all of a few later values exceed
    the earlier ones by chance. The noise of few late values is uncertain, so a clear growth counts once and a half.
    """
    growth = late_growth(values)
    return max(1.0, growth if growth <= CHANCE_GROWTH else CHANCE_GROWTH * growth)


def _rank_factor(values: Sequence[float], rise: float) -> float:
    """Return the factor on rank statistics for late noise, and for a short row: infinite unless the rise is clear."""
    if len(values) < MIN_RUNS_FOR_CORRELATION:
        return inf
    late = noise_sigma(values[-LATE_RUNS:])
    growth = late_growth(values)
    # A rise far beyond the late noise is one, whatever the ranks of noisier values are worth.
    return 1.0 if growth <= CHANCE_GROWTH or rise > OFFSET_SIGMAS * late else growth


def _is_clear(values: Sequence[float], rise: float) -> bool:
    return rise >= CLEAR_RISE_SIGMAS * (1 + CLEAR_CORRECTION / len(values)) * noise_sigma(values)


def order_p_value(is_worse: Sequence[bool]) -> float:
    """Return the probability that a random order puts the worse values last as often as this row has them there.

    Hypergeometric: the last b of n values are all among its w worse ones with probability C(w, b) / C(n, b).
    """
    trailing = next((at for at, worse in enumerate(reversed(is_worse)) if not worse), len(is_worse))
    return comb(sum(is_worse), trailing) / comb(len(is_worse), trailing)


def correlation_factor(values: Sequence[float]) -> float:
    """Return the factor on thresholds for noise that is correlated in time, from residuals about a step or a slope.

    The residuals of a slope about a step look correlated, so the better of the two fits counts.
    """
    step = best_step(values)
    inflation = variance_inflation(_residuals(values, step), STEP_BIAS)
    if inflation > 1 and len(values) >= MIN_RUNS:
        ramp = best_ramp(running_median(values))
        about = [value - ramp.before - ramp.slope * max(0, at - ramp.at) for at, value in enumerate(values)]
        if sum(map(abs, about)) < step.misfit:
            inflation = min(inflation, variance_inflation(about, STEP_BIAS))
    return sqrt(inflation)


def lag_correlation(values: Sequence[float]) -> float:
    """Return the correlation r of neighbours that gives the correlation factor."""
    inflation = correlation_factor(values) ** 2
    return (inflation - 1) / (inflation + 1)


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
    import numpy as np

    count = len(values)
    if not (splits := range(min_side, count - min_side + 1)):
        return
    # The upper median, because one good run among two before the split makes no level.
    before = [*_growing_middles(values, lambda row: row[len(row) // 2])][splits.start - 1 : splits.stop - 1]
    # The values after a split, from the last split to the first.
    after = [*_growing_middles(values[::-1], _median_of_sorted)][::-1][splits.start : splits.stop]
    levels = np.where(np.arange(count)[:, None] < np.array(splits), before, after)
    misfits = _sum_in_order(abs(np.array(values)[:, None] - levels))
    yield from map(StepFit, splits, before, after, misfits.tolist())


def _growing_middles(values: Sequence[float], middle: Callable[[Sequence[float]], float]) -> Iterator[float]:
    """Yield the middle of the first value, of the first two, and so on; `middle` gets them sorted."""
    from bisect import insort

    found: list[float] = []
    for value in values:
        insort(found, value)
        yield middle(found)


def _median_of_sorted(values: Sequence[float]) -> float:
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _sum_in_order(terms: Table) -> Row:
    """Add the rows of a table from the first to the last: numpy's sums have an order of their own."""
    import numpy as np

    found: Row = np.add.accumulate(terms, axis=0)[-1]
    return found


def best_step(values: Sequence[float]) -> StepFit:
    """Return the split with the smallest sum of absolute deviations; the earliest of equals."""
    return min(step_fits(values), key=lambda step: step.misfit)


def best_ramp(values: Sequence[float]) -> RampFit:
    """Return the joined level and line with the smallest sum of absolute deviations; the earliest of equals.

    Each line is a least-squares fit that outliers would pull, so the values must come from `running_median`.
    """
    import numpy as np

    count, row, hinges = len(values), np.array(values)[:, None], _hinges(len(values))
    mean_value = fmean(values)
    slopes = _sum_in_order(hinges.centred * (row - mean_value)) / hinges.energies
    levels = mean_value - slopes * hinges.means
    misfits = _sum_in_order(abs(row - levels - slopes * hinges.places)).tolist()
    at = misfits.index(min(misfits))
    slope, level = slopes[at].item(), levels[at].item()
    return RampFit(at, level, slope, level + slope * (count - 1 - at), misfits[at])


def variance_inflation(residuals: Sequence[float], bias: tuple[float, float]) -> float:
    """Return the variance of a mean over that for independent values, (1 + r) / (1 - r) for AR(1) noise, at least 1.

    `bias` is that of the estimate of r from the residuals of a fit: LINE_BIAS or STEP_BIAS.
    """
    centre = fmean(residuals)
    about = [residual - centre for residual in residuals]
    energy = sum(residual**2 for residual in about)
    # Rounding of an exact line is not noise.
    if energy <= len(about) * (1e-12 * max(1.0, abs(centre))) ** 2:
        return 1.0
    lagged = sum(earlier * later for earlier, later in pairwise(about)) / energy
    constant, share = (part / len(residuals) for part in bias)
    corrected = (lagged + constant) / max(1 - share, 1 / MAX_BIAS_FACTOR)
    correlation = min(max(corrected, 0.0), MAX_CORRELATION)
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


class _Hinges(NamedTuple):
    """Hold max(0, place - at) by place and `at`, its deviations from its mean, and the mean and the energy by `at`."""

    places: Table
    centred: Table
    means: Row
    energies: Row


# A monitor fits rows of one length or two, and a table of 400 places has 2.5 MB.
@lru_cache(maxsize=4)
def _hinges(count: int) -> _Hinges:
    """Return the hinges of the ramps of `count` values: they do not depend on the values."""
    import numpy as np

    places = np.maximum(0.0, np.arange(count)[:, None] - np.arange(count - 2.0))
    means = np.array([fmean(column) for column in places.T.tolist()])
    centred = places - means
    return _Hinges(places, centred, means, _sum_in_order(centred * centred))


def _residuals(values: Sequence[float], step: StepFit) -> list[float]:
    return [value - (step.before if at < step.at else step.after) for at, value in enumerate(values)]
