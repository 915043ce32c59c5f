"""Fit the growth of a relative error with the number n of operations by two laws, and compare their predictions.

Each operation has a factor 1 + e_i, so a quantity that should be d_0 is d_n = d_0 * prod(1 + e_i). The measured error
is |d_n / d_0 - 1|.

- If every e_i has one sign, as with truncation, d_n is about d_0 * exp(n * e): the error grows like n.
- If the signs are random, as with rounding to nearest, log(d_n / d_0) is a random walk: the error grows like
  c * sqrt(n) (Higham, Accuracy and Stability of Numerical Algorithms, 2.8).

Both laws are fitted to the cases with few operations, and hold if they predict the others. Quantities are assumed to
be positive: only then is a result that is too small nearer to zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import expm1, hypot, inf, log, log1p, sqrt
from operator import itemgetter
from typing import NamedTuple

from precreg.measure import mean_over_seeds
from precreg.suite import case_name
from precreg.types import CaseResult, Comparison, Growth


class MeasuredOutput(NamedTuple):
    """Hold one output of one case: its result, and one comparison per seed."""

    result: CaseResult
    output: str
    seeds: tuple[Comparison, ...]

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric over the seeds; None if it is undefined for a seed."""
        return mean_over_seeds([comparison.metrics.get(metric) for comparison in self.seeds])


def results_of_suite(suite: str, results: Iterable[CaseResult]) -> list[CaseResult]:
    """Return the results of the suite tier/name, in their order."""
    # The tier belongs to the key: two tiers may have suites of one name.
    return [result for result in results if f"{result.tier}/{result.suite}" == suite]


def measured_outputs(result: CaseResult) -> list[MeasuredOutput]:
    """Return the measured outputs of a case, none if it has no output."""
    comparisons = result.outcome.comparisons
    names = dict.fromkeys(comparison.output for comparison in comparisons)
    return [MeasuredOutput(result, name, tuple(c for c in comparisons if c.output == name)) for name in names]


def other_parameters(result: CaseResult, over: str) -> str:
    """Name a case by its parameters without one; empty if it has no other."""
    rest = {name: value for name, value in result.parameters.items() if name != over}
    return case_name(rest) if rest else ""


def series_name(parameters: str, output: str, *, of_several: bool) -> str:
    """Name a series by its parameters, and by its output if the suite has several."""
    return ", ".join(filter(None, (parameters, output if of_several else "")))


# exp(709.8) overflows float64; a law this far off has failed anyway.
MAX_EXPONENT = 700.0


class GrowthPoint(NamedTuple):
    """Hold one case: n operations, the relative error, and its direction.

    The direction is (above - below) / (above + below), over elements that are too large or too small: 1 if every one is
    too large, -1 if every one is too small, near 0 if errors have both signs.
    """

    case: str
    n: int
    error: float
    direction: float


class GrowthSeries(NamedTuple):
    """Hold the points of one combination of the other parameters by n, and the laws fitted to few operations.

    `e` is the relative error of one operation if errors have one sign, `c` if their signs are random; None if no error
    was above 0.
    """

    name: str
    points: tuple[GrowthPoint, ...]
    fit_to: int
    e: float | None
    c: float | None

    def grown(self, n: float) -> float:
        """Return |d_n / d_0 - 1| of d_n = d_0 * exp(n * e)."""
        return 0.0 if self.e is None else abs(expm1(min(n * self.e, MAX_EXPONENT)))

    def walked(self, n: float) -> float:
        """Return c * sqrt(n)."""
        return 0.0 if self.c is None else self.c * sqrt(n)

    @property
    def foretold(self) -> list[GrowthPoint]:
        """Return the points to which no law was fitted, and whose error is above 0."""
        return [point for point in self.points if point.n > self.fit_to and point.error > 0]


def growth_series(study: Growth, suite: str, results: Iterable[CaseResult]) -> list[GrowthSeries]:
    """Return a series for each combination of the other parameters, and each output, by name."""
    measured = [one for result in results_of_suite(suite, results) for one in measured_outputs(result)]
    several = len({one.output for one in measured}) > 1
    named = [
        (series_name(other_parameters(one.result, study.over), one.output, of_several=several), point)
        for one in measured
        if (point := _point(study, one)) is not None
    ]
    # groupby joins neighbours only. The sort by n also makes the last point the farthest prediction.
    named.sort(key=lambda found: (found[0], found[1].n))
    return [_fitted(name, [point for _, point in group], study.fit_to) for name, group in groupby(named, itemgetter(0))]


def _point(study: Growth, measured: MeasuredOutput) -> GrowthPoint | None:
    error = measured.mean(study.metric)
    if error is None:
        return None
    # Counts and not a signed mean: one large error would hide the direction of all others.
    above, below = (sum(seed.counts.get(name, 0) for seed in measured.seeds) for name in ("above", "below"))
    direction = (above - below) / (above + below) if above + below else 0.0
    return GrowthPoint(measured.result.id, measured.result.parameters[study.over], error, direction)


def _fitted(name: str, points: Sequence[GrowthPoint], fit_to: int) -> GrowthSeries:
    # Few operations only: a law fitted to all points could not fail on any of them.
    fitted = [point for point in points if point.n <= fit_to]
    return GrowthSeries(name, tuple(points), fit_to, fit_one_sign(fitted), fit_random_signs(fitted))


def fit_one_sign(points: Sequence[GrowthPoint]) -> float | None:
    """Fit e of d_n = d_0 * exp(n * e): the sum of log(d_n / d_0) over the sum of n.

    Errors get the sign of the majority. An error that cancels d_0 completely has no logarithm and is left out.
    """
    # Truncation shrinks a positive quantity, so the sign follows from the elements above and below.
    sign = -1.0 if sum(point.direction for point in points) < 0 else 1.0
    known = [point for point in points if point.error > 0 and sign * point.error > -1]
    if not known:
        return None
    # log1p keeps the digits of errors near the unit roundoff, which log(1 + x) loses. A ratio of sums is the
    # least-squares slope with weights 1 / n.
    return sum(log1p(sign * point.error) for point in known) / sum(point.n for point in known)


def fit_random_signs(points: Sequence[GrowthPoint]) -> float | None:
    """Fit c of c * sqrt(n): the variances of a random walk add, so c^2 is the sum of squares over the sum of n."""
    known = [point for point in points if point.error > 0]
    # hypot does not underflow when tiny errors are squared.
    return hypot(*(point.error for point in known)) / sqrt(sum(point.n for point in known)) if known else None


class LawComparison(NamedTuple):
    """Hold the law that is nearer to the points it was not fitted to, and the worst factor of each law."""

    law: str
    grown: float
    walked: float


EXPONENTIAL_LAW, RANDOM_WALK_LAW = "exp(n e)", "sqrt(n)"


def compare_laws(one: GrowthSeries) -> LawComparison | None:
    """Compare the laws with the cases of more operations; None without such cases, or without a law."""
    if not one.foretold or one.e is None:
        return None
    # The worst point decides: a law that fits all points but one does not hold.
    grown = max(_factor(one.grown(point.n), point.error) for point in one.foretold)
    walked = max(_factor(one.walked(point.n), point.error) for point in one.foretold)
    return LawComparison(EXPONENTIAL_LAW if grown <= walked else RANDOM_WALK_LAW, grown, walked)


def _factor(predicted: float, measured: float) -> float:
    # A factor in either direction: too small a prediction is as wrong as too large a one.
    return max(predicted / measured, measured / predicted) if predicted > 0 else inf


def growth_slope(one: GrowthSeries) -> float | None:
    """Return the exponent p of error ~ n^p between the first and the last point; None for one point."""
    known = [point for point in one.points if point.error > 0]
    if len(known) < 2:
        return None
    # The ends of the series have the longest lever. The exponent is a hint beside the laws, so no regression is needed.
    first, last = known[0], known[-1]
    return log(last.error / first.error) / log(last.n / first.n)
