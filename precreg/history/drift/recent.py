"""Is a row of sizes worse at its end than it was before? Exactly where it repeats itself, else by statistics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import copysign, expm1, inf
from statistics import median
from typing import NamedTuple

from precreg.history.drift.record import Kind, Settings
from precreg.history.drift.sizes import HIGHEST, Axis, axis_of
from precreg.verdict.statistics import detect

LATEST = 5
"""Noisy runs of which the median is the present level; more where a change must last for more than half of them."""


MANY_LEVELS = 8
"""Changes of level from which a repeating series tells how far its changes usually go, and is judged by that too."""


LINE = 5
"""Values that a straight line needs to be told from a step."""


class Found(NamedTuple):
    """A worsening among sizes: its kind, the place of the first worse one, the levels, and the growth per run."""

    kind: Kind
    at: int
    before: float
    now: float
    a_run: float | None = None


def worse_than_before(sizes: Sequence[float], least: float, settings: Settings, *, exact: bool) -> Found | None:
    """Find a step or a creep to a level that lasts and is more than `least` times the one before."""
    latest = sizes[-settings.confirm :] if exact else [level(sizes, settings.confirm, exact=False)]
    if len(sizes) < 2 * settings.confirm or min(latest) <= least * min(sizes):
        return None
    axis = axis_of(sizes)
    values = [axis.place(size) for size in sizes]
    if not (_unusual(values) if exact else _significant(values, settings.confirm)):
        return None
    better = axis.place(min(latest) / least) if min(latest) else -inf
    shapes = (_creep(values, axis), _step(values, axis, better, settings.confirm))
    material = (found for found in shapes if found is not None and axis.place(found.before) < better)
    return next((found._replace(now=latest[-1]) for found in material), None)


def level(sizes: Sequence[float], confirm: int, *, exact: bool) -> float:
    """Return the present size: the last one, or of a noisy row the median of the last few."""
    return sizes[-1] if exact else median(sizes[-latest_runs(confirm) :])


def latest_runs(confirm: int) -> int:
    """Return of how many noisy runs the median is exceeded only if `confirm` of them exceed it."""
    return max(LATEST, 2 * confirm - 1)


def noise_beyond(sizes: Sequence[float], now: float, single: float) -> float:
    """Return how far the present level of a noisy row is from a single value, in units of what noise explains.

    Above 1 it is larger by more than the noise, below -1 smaller. Infinite where there is no noise.
    """
    axis = axis_of([*sizes, single])
    values = [axis.place(size) for size in sizes]
    away = axis.place(now) - axis.place(single)
    explained = detect.OFFSET * detect.settled(len(values)) * detect.spread(values)
    if explained and abs(away) > explained:
        explained *= detect.correlation_factor(values)
    return away / explained if explained else copysign(inf, away) if away else 0.0


def _unusual(levels: Sequence[float]) -> bool:
    """Tell whether a repeating series is worse than its usual changes: with few changes, any change counts."""
    levels = [value for value, _ in groupby(levels)]
    return len(levels) <= MANY_LEVELS or detect.shifted(levels) or detect.rising(levels) or detect.jumped(levels, 1)


def _significant(values: Sequence[float], confirm: int) -> bool:
    return detect.shifted(values) or detect.rising(values) or detect.jumped(values, max(confirm, 2))


def _step(values: Sequence[float], axis: Axis, better: float, confirm: int) -> Found | None:
    """Return the best of the steps upward from below a value, both sides of which are confirmed."""
    upward = [step for step in detect.steps(values, confirm) if step.before < min(step.after, better)]
    if not upward:
        return None
    step = min(upward, key=lambda step: step.misfit)
    return Found("step", step.at, axis.size(step.before), axis.size(step.after))


def _creep(values: Sequence[float], axis: Axis) -> Found | None:
    """Return a level and a line upward, where it fits better than any step."""
    if len(values) < LINE:
        return None
    calm = detect.calmed(values)
    ramp, step = detect.best_ramp(calm), detect.best_step(calm)
    if ramp.slope <= 0 or ramp.misfit >= step.misfit or len(values) - ramp.at < LINE:
        return None
    pace = expm1(min(ramp.slope, HIGHEST)) if axis.is_logarithmic else None
    return Found("creep", ramp.at + 1, max(axis.size(ramp.before), 0.0), axis.size(ramp.after), pace)
