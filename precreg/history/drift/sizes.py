"""Which metrics a drift is looked for in, and the size of each: a number that is 0 at best and larger when worse."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import exp, exp2, inf, log, log2
from typing import NamedTuple

from precreg.measure.metrics import METRICS, described

MEANS = ("mean_abs_error", "rms_error", "mean_ulp", "mean_log2_ulp", "match_ratio", "equal_share")
"""Means over all elements: what drift is found in."""


GUARDS = ("max_abs_error", "max_ulp", "bias")
"""One element decides the maxima, and a bias near 0 is the difference of large sums: held to a wide factor."""


JUDGED = MEANS + GUARDS


GUARD_FACTOR = 4.0
"""As the shipped threshold of max_abs_error: harmless changes of the order of summation move maxima by up to 2.5."""


MOST_LOG2 = 1000.0
"""Beyond it, or below its negative, 2^value is no float."""


HIGHEST = log(sys.float_info.max)
"""Of a place on the logarithmic axis."""


def is_judged(metric: str) -> bool:
    """Tell whether drift is looked for in a metric: in an analyzer's where the best value is known, 0 or all of 1."""
    if metric in METRICS:
        return metric in JUDGED
    return described(metric).better == "lower" or described(metric).unit == "1"


def place(metric: str) -> tuple[int, str]:
    """Return where a metric stands among several that say the same: those of analyzers come last."""
    return (JUDGED.index(metric) if metric in JUDGED else len(JUDGED)), metric


def size(metric: str, value: float) -> float:
    """Return how bad a value is: 1 - value where more is better, |value| of a bias, 2^value of a logarithm."""
    if described(metric).better == "higher":
        return max(1 - value, 0.0)
    if described(metric).unit == "log2 ULP":
        return exp2(min(max(value, -MOST_LOG2), MOST_LOG2))
    return abs(value)


def ratio(now: float, before: float) -> float:
    """Return how many times larger a size is: 1 from 0 to 0, infinity from 0 to anything else."""
    if before == 0:
        return 1.0 if now == 0 else inf
    return now / before


def least_ratio(metric: str, materiality: float) -> float:
    """Return the ratio beyond which a change of a metric matters; what an analyzer measures may be a maximum."""
    return materiality if metric in MEANS else max(materiality, GUARD_FACTOR)


def value(metric: str, of_size: float) -> float:
    """Return the value that has a size: the inverse of `size`, without the sign of a bias."""
    if described(metric).better == "higher":
        return 1 - of_size
    return log2(max(of_size, exp2(-MOST_LOG2))) if described(metric).unit == "log2 ULP" else of_size


class Axis(NamedTuple):
    """Where sizes stand for statistics: on a logarithmic axis, on which noise is even, or as shares of the largest."""

    place: Callable[[float], float]
    size: Callable[[float], float]
    is_logarithmic: bool


def axis_of(sizes: Sequence[float]) -> Axis:
    """Return the logarithmic axis where all sizes are above 0, else one on which no square overflows."""
    if min(sizes) > 0:
        return Axis(log, _exp, True)
    largest = max(sizes) or 1.0
    return Axis(lambda size: size / largest, lambda place: place * largest, False)


def _exp(place: float) -> float:
    """Return e^place, at most the largest float: a line that was fitted may end beyond it."""
    return exp(min(place, HIGHEST))
