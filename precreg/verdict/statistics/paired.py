"""By how much did errors change? A pure function of two sets of group sums, with what is not known of it.

The change is a ratio of averages. What it may be off by is told in two ways, and the smaller one is taken. Paired: each
group of the run beside the same of the baseline, which knows most where few elements changed, or all by one factor.
Redrawn: what two independent draws of the baseline's own errors would differ by, which knows most where a run's errors
are shared by many elements, and the baseline's are not. docs/verdicts.md derives both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, inf, sqrt

from msgspec import Struct

from precreg.types.records import AxisSums, BaselineOutput
from precreg.types.types import Comparison
from precreg.verdict.statistics.sample import LEAST, MEASURES, Measure, Sample, by_run, by_seed, samples
from precreg.verdict.statistics.student import quantile, tail
from precreg.verdict.statistics.verdict_spread import Spread, paired, redrawn, widest

DOUBT = 0.01
"""The chance that one of the bounds of a case's changes is on the wrong side of the truth."""


REDRAWN = ("mean_abs_error", "mean_log2_ulp")
"""The averages that no few elements make: of others the baseline may have drawn too little to tell what it can draw."""


MOST = 700.0
"""The largest logarithm of a ratio that is told."""


TESTS = len(MEASURES) + len(REDRAWN)
"""How often one output is tested: each average paired, and some redrawn."""


class Change(Struct, frozen=True):
    """How many times the baseline's an average of errors is, and the bounds of that, each wrong with DOUBT at most.

    `error` is the standard error of the logarithm of `ratio`, from so many `units` along `axis` (None: seeds), and
    `chance` the probability that noise alone changes as much, in the same direction. The growth of a bias is told in
    units of the baseline's mean |d|: a ratio of 1.1 says that it grew by a tenth of that.
    """

    output: str
    metric: str
    ratio: float
    lower: float
    upper: float
    error: float
    units: int
    axis: int | None
    chance: float


def changes(current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]) -> tuple[Change, ...]:
    """Return the change of each average of one output, as far as there are enough samples for it.

    `current` are comparisons of that output in order of seeds, as many as both sides have; `groups` are what the
    baseline keeps of it.
    """
    found = (_change(measure, current, accepted, groups) for measure in MEASURES)
    return tuple(change for change in found if change is not None)


def _change(
    measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput, groups: Sequence[AxisSums]
) -> Change | None:
    found = of_samples(current[0].output, measure, samples(measure, current, accepted, groups))
    if found is None or not current[0].runs:
        return found
    by_chance = of_runs(measure, current, accepted)
    return None if by_chance is None else max((found, by_chance), key=lambda each: each.upper)


def of_runs(measure: Measure, current: Sequence[Comparison], accepted: BaselineOutput) -> Change | None:
    """Return the change of what need not repeat, as its seeds or runs tell of it; None below LEAST of them.

    All groups of a run may share what chance did to it, so that they do not show it. Seeds do, as both sides drew
    theirs by chance. Where they are too few, runs do; those of the baseline are taken to spread as the current ones.
    """
    enough = len(current) >= LEAST
    sample = by_seed(measure, current, accepted) if enough else by_run(measure, current, accepted)
    if sample is None or len(sample.n) < LEAST:
        return None
    estimate = paired(sample, measure)
    if estimate is None:
        return None
    value, spread = estimate
    error = spread.error * (1 if enough else sqrt(2))
    return change(current[0].output, measure.metric, value, spread._replace(error=error, axis=None))


def of_samples(output: str, measure: Measure, samples: Iterable[Sample]) -> Change | None:
    """Return the change that samples along several axes tell of; None below LEAST, or where one is not defined."""
    known = list(samples)
    estimates = [estimate for sample in known if (estimate := paired(sample, measure)) is not None]
    if max((len(sample.n) for sample in known), default=0) < LEAST or len(estimates) < len(known):
        return None
    spread = widest([each for _, each in estimates])
    value = next(value for value, each in estimates if each is spread)
    again = known if measure.metric in REDRAWN else []
    own = [each for sample in again if (each := redrawn(sample, measure)) is not None]
    return change(output, measure.metric, value, min([spread, *([widest(own)] if own else [])], key=_reach))


def _reach(spread: Spread) -> float:
    """Return how far the bounds of a change are from it."""
    return quantile(DOUBT / TESTS, spread.units - 1) * spread.error


def change(output: str, metric: str, value: float, spread: Spread) -> Change:
    """Return the change that a logarithm of a ratio and its spread tell of."""
    reach = _reach(spread)
    deviations = abs(value) / spread.error if spread.error else inf if value else 0.0
    bounds = (as_ratio(value), as_ratio(value - reach), as_ratio(value + reach))
    return Change(output, metric, *bounds, *spread, tail(deviations, spread.units - 1))


def as_ratio(logarithm: float) -> float:
    """Return the ratio that has a logarithm; infinite where float64 has none so large."""
    return exp(logarithm) if logarithm < MOST else inf
