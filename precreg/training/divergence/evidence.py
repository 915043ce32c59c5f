"""How far do equal runs of a training part, and does a pair part farther, faster or in one direction?

Each twin gives one value of each statistic. A pair is compared with them as a further value of the same normal
distribution, by Student's t; distances by their logarithms. So the number of twins, not of steps or weights, decides
the degrees of freedom: weights and steps of one run are correlated. Many parameters share one significance level
(Bonferroni): among n of them, each has TEST_ALPHA / n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import exp, fsum, inf, isfinite, log, sqrt
from statistics import median

from precreg.types import ConfidenceInterval
from precreg.verdict.statistics import mean_with_error, t_quantile, t_sf

# The significance level of a verdict, shared by its tests: start of all weights, start by parameter, growth, two
# directions, and the loss.
DIVERGENCE_ALPHA = 0.01
TESTS_PER_PAIR = 6
TEST_ALPHA = DIVERGENCE_ALPHA / TESTS_PER_PAIR
_INTERVAL_ALPHA = 0.05

# Rates are medians of slopes between so many places: all pairs of more would take longer and change nothing.
MAX_SLOPE_POINTS = 60

Distances = Sequence[float | None]


def noise_limits(twins: Sequence[Distances]) -> tuple[float | None, ...]:
    """Return, for each step, the limit that the distance of a further twin exceeds with probability TEST_ALPHA.

    None for steps at which fewer than two twins have a distance above 0. A single twin is its own limit.
    """
    return tuple(_limit([each for each in column if each]) for column in zip(*twins, strict=True))


def _limit(distances: Sequence[float]) -> float | None:
    if len(distances) < 2:
        return distances[0] if distances else None
    return exp(min(_upper_limit([log(each) for each in distances], TEST_ALPHA), 700.0))


def _upper_limit(values: Sequence[float], alpha: float) -> float:
    """Return the value that a further one of the same normal distribution exceeds with probability `alpha`."""
    mean, error = mean_with_error(values)
    return mean + t_quantile(alpha, len(values) - 1) * error * sqrt(len(values) + 1)


def excess_over_twins(pair: Distances, twins: Sequence[Distances], tests: int) -> float | None:
    """Return the distance of a pair over the limit of its twins: the geometric means of the places where it is above 0.

    A further twin exceeds the limit with probability TEST_ALPHA / `tests`. None if the pair has no distance, or if
    fewer than two twins have one at each of these places.
    """
    places = [place for place, value in enumerate(pair) if value]
    logs = [_mean_log([twin[place] for place in places]) for twin in twins]
    known = [each for each in logs if each is not None]
    own = _mean_log([pair[place] for place in places])
    if own is None or len(known) < 2:
        return None
    return exp(min(own - _upper_limit(known, TEST_ALPHA / tests), 700.0))


def _mean_log(values: Distances) -> float | None:
    """Return the mean logarithm; None without values, or if one is 0 or not finite."""
    if not values or not all(value and isfinite(value) for value in values):
        return None
    return fsum(log(value) for value in values if value) / len(values)


def significant_difference(twins: Sequence[float]) -> float | None:
    """Return the smallest distance from the twins' mean that is significant at TEST_ALPHA, on two sides."""
    if len(twins) < 2:
        return None
    return t_quantile(TEST_ALPHA / 2, len(twins) - 1) * mean_with_error(twins)[1] * sqrt(len(twins) + 1)


def farther_twin_p(value: float, twins: Sequence[float], *, two_sided: bool = True) -> float | None:
    """Return the probability that a further twin is as far from the twins' mean as a value; None for one twin.

    One-sided, only values above the mean count.
    """
    if len(twins) < 2:
        return None
    mean, error = mean_with_error(twins)
    spread = error * sqrt(len(twins) + 1)
    t = (value - mean) / spread if spread else (0.0 if value == mean else inf * (1 if value > mean else -1))
    if two_sided:
        return min(1.0, 2 * t_sf(abs(t), len(twins) - 1))
    return t_sf(t, len(twins) - 1) if t >= 0 else 1 - t_sf(-t, len(twins) - 1)


def growth_rate(steps: Sequence[int], distances: Distances) -> float | None:
    """Return the growth of the logarithm of a distance per step: the median of all slopes (Theil and Sen, 1968).

    A median, because the flip of a single value moves a distance by decades in one step. None for fewer than two
    distances above 0.
    """
    known = [(step, log(value)) for step, value in zip(steps, distances, strict=True) if value and isfinite(value)]
    every = max(1, -(-len(known) // MAX_SLOPE_POINTS))
    taken = known[::every]
    slopes = [(upper - lower) / (later - step) for (step, lower), (later, upper) in combinations(taken, 2)]
    return median(slopes) if slopes else None


def interval_of_mean(values: Sequence[float]) -> ConfidenceInterval | None:
    """Return the mean of values with its 95 % confidence interval; None without values."""
    if len(values) < 2:
        return ConfidenceInterval(values[0]) if values else None
    mean, error = mean_with_error(values)
    half = t_quantile(_INTERVAL_ALPHA / 2, len(values) - 1) * error
    return ConfidenceInterval(mean, mean - half, mean + half)


def interval_of_pair(value: float, twins: Sequence[float]) -> ConfidenceInterval:
    """Return the pair's own value with an interval of 95 %, from the spread among the twins."""
    if len(twins) < 2:
        return ConfidenceInterval(value)
    spread = mean_with_error(twins)[1] * sqrt(len(twins))
    half = t_quantile(_INTERVAL_ALPHA / 2, len(twins) - 1) * spread
    return ConfidenceInterval(value, value - half, value + half)


def lasting_excess(distances: Distances, limits: Sequence[float | None], factor: float) -> int | None:
    """Return the place of the first distance from which on all exceed `factor` times their limits; None for none."""
    found = None
    for place, is_beyond in enumerate(_beyond(distances, limits, factor)):
        if not is_beyond:
            found = None
        elif found is None:
            found = place
    return found


def _beyond(distances: Distances, limits: Sequence[float | None], factor: float) -> Iterator[bool]:
    for distance, limit in zip(distances, limits, strict=True):
        # A distance that is not finite is beyond every limit.
        yield distance is None or (limit is not None and distance > factor * limit)
