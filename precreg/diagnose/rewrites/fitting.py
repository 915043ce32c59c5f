"""Which number in the place of a constant reproduces an error?

To first order the error grows in proportion to the change of a constant, so one altered run shows how far to go. A few
secant steps follow, and then decimals near the number: people write few digits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from precreg.diagnose.evidence import ErrorToExplain, measure_evidence, scaled_errors, strength
from precreg.diagnose.rewrites.constants import nearby_numbers
from precreg.diagnose.rewrites.hypothesis import Hypothesis
from precreg.run import Arrays
from precreg.types import Evidence

# The relative change of a constant for the first response: far above the rounding of float32, and nearly linear.
_STEP = 2.0**-6
# A response with a smaller correlation to the error has another shape, and no number helps.
_LEAST_CORRELATION = 0.7
_SECANT_STEPS = 4


def fit_number(
    hypothesis: Hypothesis, error: ErrorToExplain, run: Callable[[Hypothesis], Arrays | None]
) -> Hypothesis | None:
    """Return the hypothesis with the number that explains the error best, or None if the number has no such effect."""
    assert hypothesis.refit is not None
    assert hypothesis.number is not None
    refit, start = hypothesis.refit, hypothesis.number
    step = _STEP * abs(start) if start else _STEP
    wanted = scaled_errors(error, error.target)

    def errors_at(number: float) -> NDArray[np.float64] | None:
        made = run(refit(number))
        return None if made is None else scaled_errors(error, made)

    response = errors_at(start + step)
    if response is None or _correlation(response, wanted) ** 2 < _LEAST_CORRELATION**2:
        return None
    number = _solve(start, step, response, wanted, errors_at)
    candidates = [number, *nearby_numbers(number, abs(number - start)), *_neighbours(number)]
    judged = [
        (strength(evidence), place)
        for place, each in enumerate(candidates)
        if (evidence := _evidence(refit(each), error, run))
    ]
    if not judged:
        return None
    best = candidates[min(judged)[1]]
    return refit(best)._replace(number=best)


# A number that the code computes of others has no short decimal, and a fit ends a few numbers of float32 beside it.
_NEIGHBOURS = 4


def _neighbours(number: float) -> list[float]:
    """Return the numbers of float32 near a fitted one."""
    with np.errstate(all="ignore"):
        nearest = np.float32(number)
        step = float(np.spacing(nearest))
    return [float(nearest) + each * step for each in range(-_NEIGHBOURS, _NEIGHBOURS + 1)] if isfinite(step) else []


def _evidence(
    hypothesis: Hypothesis, error: ErrorToExplain, run: Callable[[Hypothesis], Arrays | None]
) -> Evidence | None:
    made = run(hypothesis)
    return None if made is None else measure_evidence(error, made)


def _solve(
    start: float,
    step: float,
    response: NDArray[np.float64],
    wanted: NDArray[np.float64],
    errors_at: Callable[[float], NDArray[np.float64] | None],
) -> float:
    """Return the number at which the projection of the errors on the wanted ones is theirs, by secant steps."""
    square = float(wanted @ wanted)
    last, last_value = start, -1.0
    now, value = start + step, float(response @ wanted) / square - 1
    for _ in range(_SECANT_STEPS):
        if value == last_value or not isfinite(value):
            break
        following = now - value * (now - last) / (value - last_value)
        made = errors_at(following) if isfinite(following) else None
        if made is None:
            break
        last, last_value, now, value = now, value, following, float(made @ wanted) / square - 1
    return now


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    sizes = float(first @ first) * float(second @ second)
    return float(first @ second) / sizes**0.5 if sizes > 0 else 0.0
