"""The bounds of a tolerance as things to be read of a run: each with a limit, a floor, and what a run makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec import Struct

from precreg.quality.scale import ELEMENTS, SHARES, floor_of, loss
from precreg.types.types import Bound, Comparison, Role, Tolerance
from precreg.verdict.bounds import holds

ALTERNATIVES = "alternatives"
"""The bound that all bounds of one alternative hold; its loss is that of the best alternative, its limit 1."""


class Held(Struct, frozen=True):
    """One bound: its name (a metric, ELEMENTS or ALTERNATIVES), the bounds it consists of, its limit and floor.

    `limit`, `floor` and `end` are losses; a bound without a scale has no limit. That of ELEMENTS is 1, or 0 where
    nothing but equality is let pass. No limit is proposed below the floor. Rounding alone never exceeds the end, which
    is 0 where nothing such is known.
    """

    name: str
    bounds: tuple[Bound, ...]
    limit: float | None
    floor: float
    end: float = 0.0


class Reading(Struct, frozen=True):
    """What one run made of a bound: the largest loss over its seeds, and whether the bound held at all of them.

    The loss is infinite where the metric is not defined, and None where it has no scale.
    """

    loss: float | None
    kept: bool


def held(tolerance: Tolerance, first: Comparison, role: Role) -> list[Held]:
    """Return the bounds of an output's tolerance. `first` is the case's own comparison at its first seed.

    Against a golden rounding costs nothing: it is in the output dtype, so its bits can be met.
    """
    floor, magnitude = floor_of(first), first.metrics.get("max_magnitude", 0.0)
    reference = role == "reference"
    found = []
    for bound in tolerance.bounds:
        if bound.metric == "match_ratio" and bound.limit == 1:
            rtol, atol = tolerance.rtol, tolerance.atol
            share = floor.share(rtol.limit, atol.limit, magnitude) if reference else 0.0
            limit = 1.0 if rtol.limit or atol.limit else 0.0
            found.append(Held(ELEMENTS, (rtol, atol, bound), limit, share, share))
        else:
            is_share = bound.metric in SHARES
            least = floor.loss(bound.metric) if reference or is_share else 0.0
            limit_loss = loss(bound.metric, bound.limit)
            found.append(Held(bound.metric, (bound,), limit_loss, least, 0.0 if is_share else least))
    if tolerance.alternatives:
        every = tuple(bound for alternative in tolerance.alternatives for bound in alternative)
        found.append(Held(ALTERNATIVES, every, 1.0, 0.0))
    return found


def read(bound: Held, tolerance: Tolerance, run: Sequence[Comparison], shares: Sequence[float]) -> Reading:
    """Read a bound of one output in one run; `run` and `shares` have one entry per seed, of which there is one."""
    if bound.name == ALTERNATIVES:
        return _worst([_best(tolerance, comparison) for comparison in run])
    if bound.name == ELEMENTS:
        return Reading(max(shares), all(_holds(bound.bounds[-1], comparison) for comparison in run))
    return _worst([_of_metric(bound.bounds[0], comparison) for comparison in run])


def _of_metric(bound: Bound, comparison: Comparison) -> Reading:
    value = comparison.metrics.get(bound.metric)
    return Reading(inf if value is None else loss(bound.metric, value), _holds(bound, comparison))


def _best(tolerance: Tolerance, comparison: Comparison) -> Reading:
    """Return the reading of the alternative whose worst bound uses the smallest share of its limit."""
    readings = [_worst([_share(bound, comparison) for bound in alternative]) for alternative in tolerance.alternatives]
    return min(readings, key=lambda reading: (not reading.kept, inf if reading.loss is None else reading.loss))


def _share(bound: Bound, comparison: Comparison) -> Reading:
    reading, limit = _of_metric(bound, comparison), loss(bound.metric, bound.limit)
    if reading.loss is None or limit is None:
        return Reading(None, reading.kept)
    return Reading(reading.loss / limit if limit else (inf if reading.loss else 0.0), reading.kept)


def _worst(readings: Sequence[Reading]) -> Reading:
    """Return the largest loss, None where one has no scale, and whether all were kept."""
    losses = [reading.loss for reading in readings]
    known = [each for each in losses if each is not None]
    largest = max(known, default=0.0) if len(known) == len(losses) else None
    return Reading(largest, all(reading.kept for reading in readings))


def _holds(bound: Bound, comparison: Comparison) -> bool:
    value = comparison.metrics.get(bound.metric)
    return value is not None and holds(bound, value)
