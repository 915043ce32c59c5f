"""Did one version compute worse than another, by a test that looks again after more seeds?

Both versions run on the same fresh seeds, and each seed gives one value: the logarithm of the ratio of their errors. So
seeds are the sample, whatever correlates the errors inside an output. The test looks after 20, 40, 80 ... seeds. It
stops if a loss is proven, or if a relevant loss is excluded. docs/pair-test.md derives its error level.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, isnan, log, sqrt
from typing import NamedTuple

from precreg.verdict.statistics.uncertainty import mean_with_error, t_quantile, t_sf

# Seeds of the first look. Differences of one size and of random sign have one sign with probability 2^-n, and their t
# is infinite, so no p-value may be smaller. 2^-20 is the first that the level of a case in a project of 600 baselines,
# shared by 10 series and 10 looks, still allows (docs/pair-test.md).
FIRST_LOOK = 20

# Seeds up to which p-values are no smaller than the exact ones of random signs. With 320 and more equal differences of
# random sign, t is right within 1.3 times at the level of a look (tests/verdict/statistics/test_sequential.py).
MAX_EXACT_SEEDS = 160

# Sum of the largest scores of all values: enough that rounding them loses no power, and 0.5 ms for 160 values.
SIGN_SCORES = 4096

# Logarithms of ratios are clipped, so that one seed with an error of 0 does not decide alone.
MAX_LOG_RATIO = 20 * log(2)

# One-sided level of the upper bounds that exclude a loss. Ending early by them adds no false alarm.
CLEAR_ALPHA = 0.05


def looks(max_seeds: int) -> tuple[int, ...]:
    """Return the numbers of seeds after which the test looks: 20, and twice as many each time, up to `max_seeds`."""
    found = []
    seeds = FIRST_LOOK
    while seeds <= max_seeds:
        found.append(seeds)
        seeds *= 2
    return tuple(found)


def log_ratio(new: float, old: float) -> float:
    """Return log(new / old), clipped; 0 where both are 0, or where neither is a number."""
    if new == old or isnan(new) or isnan(old):
        return 0.0
    if old == 0:
        return MAX_LOG_RATIO
    ratio = new / old
    return max(-MAX_LOG_RATIO, min(MAX_LOG_RATIO, log(ratio))) if ratio > 0 else -MAX_LOG_RATIO


def relative_bias(bias: float, mean_abs_error: float) -> float:
    """Return a bias in units of the mean |d| of both versions, at most 2 in size; 0 where it is not a number."""
    found = bias / mean_abs_error if mean_abs_error else 0.0
    return 0.0 if isnan(found) else found


def p_above(values: Sequence[float], limit: float) -> float:
    """Return the p-value of H0: the mean is at most `limit`, by Student's t, and no smaller than by random signs.

    The tail of t is too thin for differences of nearly one size: 19 of 20 equal ones have one sign with probability
    2e-5, and t claims 1e-8.
    """
    mean, standard_error = mean_with_error(values)
    distance, n = mean - limit, len(values)
    if standard_error == 0:
        p = 0.0 if distance > 0 else 1.0
    else:
        t = distance / standard_error
        p = t_sf(t, n - 1) if t >= 0 else 1 - t_sf(-t, n - 1)
    return max(p, 2.0**-n if n > MAX_EXACT_SEEDS else p_by_signs(values, limit))


def p_by_signs(values: Sequence[float], limit: float) -> float:
    """Return the p-value of H0: the values are symmetric about `limit`, by the exact distribution of their signs.

    The statistic is the sum of scores of the values above the limit (Fisher, The Design of Experiments, 1935, chapter
    III). Scores are sizes, rounded to integers. Given the sizes, all 2^n signs are as likely, so any scores are exact.
    """
    differences = [value - limit for value in values]
    n, largest = len(differences), max(map(abs, differences))
    if largest == 0:
        return 1.0
    scale = max(1, SIGN_SCORES // n)
    scores = [round(scale * (abs(difference) / largest)) for difference in differences]
    above = sum(score for score, difference in zip(scores, differences, strict=True) if difference > 0)
    # The opposite signs turn sums of at least `above` into sums of at most `below`. The shorter side is counted.
    below = sum(scores) - above
    most = min(below, above - 1)
    # One integer holds how many signs give each sum up to `most`, as digits in base 2^(n + 1). No digit exceeds 2^n.
    digit = n + 1
    kept = (1 << ((most + 1) * digit)) - 1
    counts = 1
    # Small scores first, because the integer is then short for longer.
    for score in sorted(scores):
        counts += counts << (score * digit)
        if counts > kept:
            counts &= kept
    # The sum of digits, by casting out: it is at most 2^n, and the base less one is larger.
    found = counts % ((1 << digit) - 1)
    return (found if most == below else 2**n - found) / 2.0**n


def p_bias_grew(new: Sequence[float], old: Sequence[float], limit: float) -> float:
    """Return the p-value of H0: the size of the new bias is at most the size of the old one plus `limit`.

    For either sign of the new bias, both |new| > old + limit and |new| > -old + limit must hold, so the larger p-value
    of the two counts (an intersection-union test, Berger 1982), and two signs double it.
    """
    differences = [a - b for a, b in zip(new, old, strict=True)]
    sums = [a + b for a, b in zip(new, old, strict=True)]
    positive = max(p_above(differences, limit), p_above(sums, limit))
    negative = max(p_above([-d for d in differences], limit), p_above([-s for s in sums], limit))
    return min(1.0, 2 * min(positive, negative))


def p_mean_grew(new: Sequence[float], old: Sequence[float], growth: float) -> float:
    """Return the p-value of H0: the mean of `new` is at most 1 + `growth` times the mean of `old`, for values >= 0.

    The t test of paired differences. It needs no logarithms, so one seed with a tiny error does not add much noise.
    """
    scaled = _in_common_unit(new, old)
    if scaled is None:
        return 1.0
    return p_above([a - (1 + growth) * b for a, b in zip(*scaled, strict=True)], 0.0)


class MeanRatio(NamedTuple):
    """The ratio of two means, its confidence bounds, and the standard error of its logarithm (delta method)."""

    ratio: float
    lower: float
    upper: float
    log_error: float


def ratio_of_means(new: Sequence[float], old: Sequence[float], alpha: float) -> MeanRatio:
    """Return the ratio of the means of paired values, with one-sided confidence bounds at level `alpha` each.

    The bounds are those ratios R at which the mean of new - R * old is within its t half-width of 0 (Fieller 1954).
    """
    if not any(new) and not any(old):
        return MeanRatio(1.0, 1.0, 1.0, 0.0)
    scaled = _in_common_unit(new, old)
    if scaled is None:
        return MeanRatio(1.0, 0.0, inf, inf)
    (b, b_error), (a, a_error) = (mean_with_error(values) for values in scaled)
    if a == 0:
        return MeanRatio(inf, inf, inf, 0.0)
    sum_error = mean_with_error([x + y for x, y in zip(*scaled, strict=True)])[1]
    covariance = (sum_error**2 - a_error**2 - b_error**2) / 2
    t = t_quantile(alpha, len(new) - 1) ** 2
    # R^2 * square - 2 * R * middle + constant = 0
    square, middle, constant = a * a - t * a_error**2, a * b - t * covariance, b * b - t * b_error**2
    ratio = b / a
    log_error = mean_with_error([x - ratio * y for x, y in zip(*scaled, strict=True)])[1] / b if b else 0.0
    # If the mean of `old` is within noise of 0, no upper bound exists.
    if square <= 0:
        return MeanRatio(ratio, 0.0, inf, log_error)
    root = sqrt(max(0.0, middle * middle - square * constant))
    return MeanRatio(ratio, max(0.0, (middle - root) / square), (middle + root) / square, log_error)


def _in_common_unit(new: Sequence[float], old: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Return both in units of their largest value, so that squares do not vanish; None without such a unit."""
    unit = max(*new, *old)
    if not isfinite(unit) or unit == 0 or not all(map(isfinite, (*new, *old))):
        return None
    return [value / unit for value in new], [value / unit for value in old]


def upper_bound(values: Sequence[float], alpha: float) -> float:
    """Return the one-sided upper confidence bound of a mean at level `alpha`."""
    mean, standard_error = mean_with_error(values)
    return mean + t_quantile(alpha, len(values) - 1) * standard_error


def upper_bias_growth(new: Sequence[float], old: Sequence[float], alpha: float) -> float:
    """Return an upper bound of the growth of the size of a bias; `old` counts with its estimate."""
    largest = max(upper_bound(new, alpha), upper_bound([-value for value in new], alpha))
    return largest - abs(mean_with_error(old)[0])


def seeds_to_detect(values: Sequence[float], limit: float, loss: float, alpha: float) -> int:
    """Return the number of seeds that find a mean of `loss` with a power of 90 %, at the spread of `values`.

    The normal approximation: n = ((z_alpha + z_0.1) * sd / (loss - limit))^2, `loss` above `limit`.
    """
    from statistics import NormalDist

    deviation = mean_with_error(values)[1] * sqrt(len(values))
    z = NormalDist().inv_cdf(1 - alpha) + NormalDist().inv_cdf(0.9)
    return max(FIRST_LOOK, round((z * deviation / (loss - limit)) ** 2))
