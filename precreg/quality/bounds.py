"""The bounds of a tolerance as things to be read of a run: each with a limit, a floor, and what a run makes of it.

What a bound is worth beside the noise of its case, and the limit that would fit: pure functions of readings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import inf

from msgspec import Struct

from precreg.arithmetic import format_of
from precreg.quality.scale import (
    ELEMENTS_BOUND,
    SHARE_METRICS,
    limit_for_loss,
    metric_loss,
    output_rounding_floor,
    round_limit,
)
from precreg.types import Bound, Comparison, Location, Role, Tolerance, VacuousTolerance
from precreg.verdict import satisfies_bound
from precreg.verdict.statistics import NoiseSummary, estimate_tail, max_unseen_probability, summarize_noise

ALTERNATIVES_BOUND = "alternatives"
"""The bound that all bounds of one alternative hold; its loss is that of the best alternative, its limit 1."""


class CalibratedBound(Struct, frozen=True):
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


class BoundReading(Struct, frozen=True):
    """What one run made of a bound: the largest loss over its seeds, and whether the bound held at all of them.

    The loss is infinite where the metric is not defined, and None where it has no scale.
    """

    loss: float | None
    kept: bool


def calibrated_bounds(tolerance: Tolerance, first: Comparison, role: Role) -> list[CalibratedBound]:
    """Return the bounds of an output's tolerance. `first` is the case's own comparison at its first seed.

    Against a golden rounding costs nothing: it is in the output dtype, so its bits can be met.
    """
    floor, magnitude = output_rounding_floor(first), first.metrics.get("max_magnitude", 0.0)
    reference = role == "reference"
    found = []
    for bound in tolerance.bounds:
        if bound.metric == "match_ratio" and bound.limit == 1:
            rtol, atol = tolerance.rtol, tolerance.atol
            share = floor.share(rtol.limit, atol.limit, magnitude) if reference else 0.0
            limit = 1.0 if rtol.limit or atol.limit else 0.0
            found.append(CalibratedBound(ELEMENTS_BOUND, (rtol, atol, bound), limit, share, share))
        else:
            is_share = bound.metric in SHARE_METRICS
            least = floor.loss(bound.metric) if reference or is_share else 0.0
            limit_loss = metric_loss(bound.metric, bound.limit)
            found.append(CalibratedBound(bound.metric, (bound,), limit_loss, least, 0.0 if is_share else least))
    if tolerance.alternatives:
        every = tuple(bound for alternative in tolerance.alternatives for bound in alternative)
        found.append(CalibratedBound(ALTERNATIVES_BOUND, every, 1.0, 0.0))
    return found


def read_bound(
    bound: CalibratedBound, tolerance: Tolerance, run: Sequence[Comparison], shares: Sequence[float]
) -> BoundReading:
    """Read a bound of one output in one run; `run` and `shares` have one entry per seed, of which there is one."""
    if bound.name == ALTERNATIVES_BOUND:
        return _worst([_best(tolerance, comparison) for comparison in run])
    if bound.name == ELEMENTS_BOUND:
        return BoundReading(max(shares), all(_holds(bound.bounds[-1], comparison) for comparison in run))
    return _worst([_of_metric(bound.bounds[0], comparison) for comparison in run])


def _of_metric(bound: Bound, comparison: Comparison) -> BoundReading:
    value = comparison.metrics.get(bound.metric)
    return BoundReading(inf if value is None else metric_loss(bound.metric, value), _holds(bound, comparison))


def _best(tolerance: Tolerance, comparison: Comparison) -> BoundReading:
    """Return the reading of the alternative whose worst bound uses the smallest share of its limit."""
    readings = [_worst([_share(bound, comparison) for bound in alternative]) for alternative in tolerance.alternatives]
    return min(readings, key=lambda reading: (not reading.kept, inf if reading.loss is None else reading.loss))


def _share(bound: Bound, comparison: Comparison) -> BoundReading:
    reading, limit = _of_metric(bound, comparison), metric_loss(bound.metric, bound.limit)
    if reading.loss is None or limit is None:
        return BoundReading(None, reading.kept)
    return BoundReading(reading.loss / limit if limit else (inf if reading.loss else 0.0), reading.kept)


def _worst(readings: Sequence[BoundReading]) -> BoundReading:
    """Return the largest loss, None where one has no scale, and whether all were kept."""
    losses = [reading.loss for reading in readings]
    known = [each for each in losses if each is not None]
    largest = max(known, default=0.0) if len(known) == len(losses) else None
    return BoundReading(largest, all(reading.kept for reading in readings))


def _holds(bound: Bound, comparison: Comparison) -> bool:
    value = comparison.metrics.get(bound.metric)
    return value is not None and satisfies_bound(bound, value)


MIN_FLAKY_PROBABILITY = 1e-3
"""The chance of breaking a bound in one run from which the bound is flaky."""


ESTIMATE_PROBABILITY = 0.01
"""The chance of exceeding the estimate of noise that a proposal is made from."""


_ALMOST = 1e-9


DEFAULT_SLACK = 2.0

DEFAULT_VACUOUS = 100.0


OWN_KIND, RESEEDED_KIND, LAST_BIT_KIND, REORDERED_KIND = REPLICATE_KINDS = ("own", "reseeded", "last-bit", "reordered")
"""The case's own run, and the kinds of replicate, in the order in which they run."""


class BoundQuality(StrEnum):
    """What a bound is worth. Broken: the case's own run breaks it; flaky: noise does, or is likely to.

    Vacuous: it is far above all noise, or lets a result pass that is wrong by 100 %.
    """

    BROKEN = "broken"
    FLAKY = "flaky"
    VACUOUS = "vacuous"
    SOUND = "sound"


class Margins(Struct, frozen=True):
    """How far above noise a limit is proposed, and how far above it one is vacuous."""

    slack: float = DEFAULT_SLACK
    vacuous: float = DEFAULT_VACUOUS


class BoundCalibration(Struct, frozen=True):
    """One bound of one output beside its noise; sizes are losses (docs/calibrate.md).

    `limits` are its settings by name as they stand, `proposal` as they would fit; empty where there is nothing to
    propose. `noise` describes the readings of all runs, `largest` the worst of each kind, and `breaks` counts the runs
    that broke the bound. `estimate` is the loss that another run exceeds with a chance of ESTIMATED, `chance` that it
    breaks the bound, None of too few runs. `not_excluded` is the chance that counting alone leaves open. `headroom` is
    the limit over the largest noise; None where that is nothing or the bound has no scale.
    """

    output: str
    dtype: str
    bound: str
    limits: dict[str, float]
    layer: str
    source: Location
    limit: float | None
    floor: float
    noise: NoiseSummary | None
    largest: dict[str, float]
    breaks: int
    estimate: float | None
    chance: float | None
    not_excluded: float
    headroom: float | None
    quality: BoundQuality
    why: str
    proposal: dict[str, float]
    # Set where `why` is empty: report/ writes the sentence of a fact.
    vacuous: VacuousTolerance | None = None


def calibrate_bound(
    bound: CalibratedBound,
    output: tuple[str, str],
    readings: Mapping[str, Sequence[BoundReading]],
    blind: VacuousTolerance | None,
    margins: Margins,
) -> BoundCalibration:
    """Judge a bound by the readings of each kind, the own one alone under OWN; `output` is its name and dtype.

    `blind` has the limits that admit a result that is wrong by 100 %, None if the output's tolerance admits none.
    """
    every = [reading for of_kind in readings.values() for reading in of_kind]
    losses = [reading.loss for reading in every if reading.loss is not None]
    noise = summarize_noise(losses) if len(losses) == len(every) else None
    breaks = sum(not reading.kept for reading in every)
    estimate, chance = (None, None) if noise is None else _extrapolated(bound, losses)
    chance = breaks / len(every) if breaks else chance
    quality, why = _quality(bound, readings, noise, chance or 0.0, blind, margins)
    setter = bound.bounds[0]
    return BoundCalibration(
        *output,
        bound.name,
        _limits(bound),
        setter.layer,
        setter.source,
        bound.limit,
        bound.floor,
        noise,
        {kind: _largest(of_kind) for kind, of_kind in readings.items() if of_kind and noise is not None},
        breaks,
        estimate,
        chance,
        max_unseen_probability(len(every)),
        bound.limit / noise.largest if noise is not None and noise.largest and bound.limit is not None else None,
        quality,
        why,
        {}
        if noise is None
        else propose_limit(bound, noise.largest, estimate or noise.largest, margins.slack, output[1]),
        blind if quality is BoundQuality.VACUOUS and not why else None,
    )


def _extrapolated(bound: CalibratedBound, losses: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the loss that another run exceeds with a chance of ESTIMATED, and the chance that it breaks the bound.

    Noise that is no more than rounding to the output can be has the end that rounding has. Nothing is known of too few.
    """
    beyond = estimate_tail(losses)
    if beyond is None or bound.limit is None:
        return None, None
    if max(losses) <= min(bound.end * (1 + _ALMOST), bound.limit):
        return bound.end, 0.0
    return max(beyond.reached(ESTIMATE_PROBABILITY), *losses), beyond.chance(max(bound.limit, beyond.start))


def _largest(readings: Sequence[BoundReading]) -> float:
    return max(reading.loss for reading in readings if reading.loss is not None)


def _limits(bound: CalibratedBound) -> dict[str, float]:
    if bound.name == ELEMENTS_BOUND:
        return {"rtol": bound.bounds[0].limit, "atol": bound.bounds[1].limit}
    return {} if bound.name == ALTERNATIVES_BOUND else {bound.name: bound.bounds[0].limit}


def _quality(
    bound: CalibratedBound,
    readings: Mapping[str, Sequence[BoundReading]],
    noise: NoiseSummary | None,
    chance: float,
    blind: VacuousTolerance | None,
    margins: Margins,
) -> tuple[BoundQuality, str]:
    """Return the quality of a bound, and the first reason against it; the fact `blind` has no words here."""
    if not all(reading.kept for reading in readings[OWN_KIND]):
        return BoundQuality.BROKEN, "the case's own run breaks it"
    broken = {kind: sum(not reading.kept for reading in of_kind) for kind, of_kind in readings.items()}
    if any(broken.values()):
        counts = ", ".join(f"{count} of {len(readings[kind])} {kind}" for kind, count in broken.items() if count)
        return BoundQuality.FLAKY, f"{counts} runs break it"
    if chance > MIN_FLAKY_PROBABILITY:
        return BoundQuality.FLAKY, f"a run breaks it with an estimated chance of {chance:.2g}"
    if blind is not None:
        return BoundQuality.VACUOUS, ""
    if (
        noise is not None
        and bound.limit is not None
        and bound.limit > margins.vacuous * max(noise.largest, bound.floor)
    ):
        if not noise.largest:
            return BoundQuality.VACUOUS, "no run has any error, so none need be let pass"
        return BoundQuality.VACUOUS, f"it is {bound.limit / noise.largest:.3g} times the largest noise"
    return BoundQuality.SOUND, ""


def propose_limit(
    bound: CalibratedBound, largest: float, estimate: float, slack: float, dtype: str
) -> dict[str, float]:
    """Return the settings of a limit at `slack` times the estimate of noise, not below the floor, rounded up.

    Of elements, rtol and atol are scaled alike, and rtol stays at 1 ULP of the output or more. Nothing is proposed
    where a limit of 0 is kept, where there is no noise and no floor, where noise has no end, and for alternatives,
    which a standard publishes.
    """
    size = max(slack * estimate, bound.floor)
    kept_at_zero = not bound.limit and not largest
    if kept_at_zero or not 0 < size < float("inf") or bound.name == ALTERNATIVES_BOUND:
        return {}
    if bound.name == ELEMENTS_BOUND:
        return _scaled(bound, size, dtype)
    limit = limit_for_loss(bound.name, size)
    return {} if limit is None else {bound.name: limit}


def _scaled(bound: CalibratedBound, factor: float, dtype: str) -> dict[str, float]:
    rtol, atol = bound.bounds[0].limit, bound.bounds[1].limit
    number_format = format_of(dtype)
    least = 2 * number_format.unit_roundoff if number_format is not None and rtol else 0.0
    return {"rtol": round_limit(max(rtol * factor, least), up=True), "atol": round_limit(atol * factor, up=True)}
