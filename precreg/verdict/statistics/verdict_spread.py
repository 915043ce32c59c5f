"""How far may a change be from the truth? Standard errors of averages of errors, from the groups they are made of.

Errors inside one output are correlated, so groups of elements, and not elements, are the sample: those along one axis,
seed by seed. The standard error is the jackknife's, leaving out one group at a time (Efron, The Jackknife, the
Bootstrap and Other Resampling Plans, 1982, chapter 3), along the axis where it is largest: where errors are shared
along another axis, groups that cut it see too little of their spread. docs/verdicts.md derives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, log, sqrt
from typing import NamedTuple

from precreg.verdict.statistics.sample import LEAST, Measure, Sample

CLEARLY = 1.5
"""How many times larger the error of fewer than half as many units must be to be taken: it is itself known badly."""


PLAINLY = 3.0
"""The same of fewer than LEAST units: three seeds that share no error differ so much once in a thousand times."""


class Spread(NamedTuple):
    """A standard error of the logarithm of a ratio, from so many units along an axis (None: seeds)."""

    error: float
    units: int
    axis: int | None


def widest(spreads: Sequence[Spread]) -> Spread:
    """Return the largest error of those with at least half as many units as any; of others where it clearly is more.

    Fewer than LEAST units count where theirs is plainly more than what the others come to.
    """
    enough = [spread for spread in spreads if spread.units >= LEAST]
    taken = _clearly_widest(enough or spreads)
    few = [spread for spread in spreads if spread.units < LEAST and spread.error > PLAINLY * taken.error]
    return max(few, default=taken, key=_size)


def _clearly_widest(spreads: Sequence[Spread]) -> Spread:
    most = max(spread.units for spread in spreads)
    well = max((spread for spread in spreads if 2 * spread.units >= most), key=_size)
    badly = [spread for spread in spreads if 2 * spread.units < most and spread.error > CLEARLY * well.error]
    return max(badly, default=well, key=_size)


def _size(spread: Spread) -> tuple[float, int]:
    return spread.error, spread.units


Statistic = Callable[[float, float, int, float], float | None]
"""Of the sums of the run, of the baseline, the pairs, and the baseline's |d|: the logarithm of a ratio, or None."""


def _log_ratio(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return log(current / baseline) if current > 0 and baseline > 0 and isfinite(current / baseline) else None


def _log_of_logs(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return (current - baseline) / n * log(2) if n else None


def _growth_of_bias(current: float, baseline: float, n: int, absolute: float) -> float | None:
    """Return by how much the size of the bias grew, in units of the mean |d|, as the logarithm of 1 more."""
    growth = (abs(current) - abs(baseline)) / absolute if absolute else inf
    return log(1 + growth) if growth > -1 and isfinite(growth) else None


def _fewer_matches(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return (baseline - current) / n if n else None


def _log_of_baseline(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return log(baseline / n) if baseline > 0 and n else None


def _logs_of_baseline(current: float, baseline: float, n: int, absolute: float) -> float | None:
    return baseline / n * log(2) if n else None


_OWN: dict[str, Statistic] = {
    "mean_abs_error": _log_of_baseline,
    "rms_error": _log_of_baseline,
    "mean_ulp": _log_of_baseline,
    "mean_log2_ulp": _logs_of_baseline,
}


_STATISTICS: dict[str, Statistic] = {
    "mean_log2_ulp": _log_of_logs,
    "bias": _growth_of_bias,
    "match_ratio": _fewer_matches,
}


def paired(sample: Sample, measure: Measure) -> tuple[float, Spread] | None:
    """Return the logarithm of a measure's ratio and its error, each group of the run beside that of the baseline."""
    estimate = jackknife(sample, _STATISTICS.get(measure.metric, _log_ratio), measure.power)
    return None if estimate is None else (estimate[0], Spread(estimate[1], len(sample.n), sample.axis))


def redrawn(sample: Sample, measure: Measure) -> Spread | None:
    """Return the error of a ratio of two draws of what the baseline drew: what it is where nothing has changed.

    None for what has no such ratio, as a bias, and where the baseline has no errors.
    """
    if measure.metric not in _OWN:
        return None
    estimate = jackknife(sample, _OWN[measure.metric], measure.power)
    return None if estimate is None else Spread(sqrt(2) * estimate[1], len(sample.n), sample.axis)


def jackknife(sample: Sample, statistic: Statistic, power: float) -> tuple[float, float] | None:
    """Return a statistic of all groups, and its standard error by leaving out each; None where it is not defined.

    Infinite where one group has all the errors: nothing is known of others like it.
    """
    totals = (sum(sample.current), sum(sample.baseline), sum(sample.n), sum(sample.absolute))
    value = statistic(*totals)
    if value is None:
        return None
    without = [
        statistic(totals[0] - current, totals[1] - baseline, totals[2] - n, totals[3] - absolute)
        for current, baseline, n, absolute in zip(*sample[1:], strict=True)
    ]
    known = [each for each in without if each is not None]
    units = len(without)
    if len(known) < units:
        return value * power, inf
    middle = sum(known) / units
    spread = sum((each - middle) * (each - middle) for each in known) * (units - 1) / units  # a power may overflow
    return value * power, sqrt(spread) * power
