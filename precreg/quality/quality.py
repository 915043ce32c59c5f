"""What a bound is worth beside the noise of its case, and the limit that would fit: pure functions of readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from precreg.arithmetic.formats import format_of
from precreg.quality.held import ALTERNATIVES, Held, Reading
from precreg.quality.scale import ELEMENTS, limit_of, rounded
from precreg.types.types import Location
from precreg.verdict.statistics.calibration_spread import Spread, not_excluded, spread, tail

MOST_LIKELY = 1e-3
"""The chance of breaking a bound in one run from which the bound is flaky."""


ESTIMATED = 0.01
"""The chance of exceeding the estimate of noise that a proposal is made from."""


_ALMOST = 1e-9


SLACK = 2.0

VACUOUS = 100.0


OWN, RESEEDED, LAST_BIT, REORDERED = KINDS = ("own", "reseeded", "last-bit", "reordered")
"""The case's own run, and the kinds of replicate, in the order in which they run."""


class Quality(StrEnum):
    """What a bound is worth. Broken: the case's own run breaks it; flaky: noise does, or is likely to.

    Vacuous: it is far above all noise, or lets a result pass that is wrong by 100 %.
    """

    BROKEN = "broken"
    FLAKY = "flaky"
    VACUOUS = "vacuous"
    SOUND = "sound"


class Margins(Struct, frozen=True):
    """How far above noise a limit is proposed, and how far above it one is vacuous."""

    slack: float = SLACK
    vacuous: float = VACUOUS


class Judged(Struct, frozen=True):
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
    noise: Spread | None
    largest: dict[str, float]
    breaks: int
    estimate: float | None
    chance: float | None
    not_excluded: float
    headroom: float | None
    quality: Quality
    why: str
    proposal: dict[str, float]


def judged(
    bound: Held,
    output: tuple[str, str],
    readings: Mapping[str, Sequence[Reading]],
    blind: str,
    margins: Margins,
) -> Judged:
    """Judge a bound by the readings of each kind, the own one alone under OWN; `output` is its name and dtype.

    `blind` says why a result that is wrong by 100 % passes the output's tolerance; empty where it does not.
    """
    every = [reading for of_kind in readings.values() for reading in of_kind]
    losses = [reading.loss for reading in every if reading.loss is not None]
    noise = spread(losses) if len(losses) == len(every) else None
    breaks = sum(not reading.kept for reading in every)
    estimate, chance = (None, None) if noise is None else _extrapolated(bound, losses)
    chance = breaks / len(every) if breaks else chance
    quality, why = _quality(bound, readings, noise, chance or 0.0, blind, margins)
    setter = bound.bounds[0]
    return Judged(
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
        not_excluded(len(every)),
        bound.limit / noise.largest if noise is not None and noise.largest and bound.limit is not None else None,
        quality,
        why,
        {} if noise is None else proposed(bound, noise.largest, estimate or noise.largest, margins.slack, output[1]),
    )


def _extrapolated(bound: Held, losses: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the loss that another run exceeds with a chance of ESTIMATED, and the chance that it breaks the bound.

    Noise that is no more than rounding to the output can be has the end that rounding has. Nothing is known of too few.
    """
    beyond = tail(losses)
    if beyond is None or bound.limit is None:
        return None, None
    if max(losses) <= min(bound.end * (1 + _ALMOST), bound.limit):
        return bound.end, 0.0
    return max(beyond.reached(ESTIMATED), *losses), beyond.chance(max(bound.limit, beyond.start))


def _largest(readings: Sequence[Reading]) -> float:
    return max(reading.loss for reading in readings if reading.loss is not None)


def _limits(bound: Held) -> dict[str, float]:
    if bound.name == ELEMENTS:
        return {"rtol": bound.bounds[0].limit, "atol": bound.bounds[1].limit}
    return {} if bound.name == ALTERNATIVES else {bound.name: bound.bounds[0].limit}


def _quality(
    bound: Held,
    readings: Mapping[str, Sequence[Reading]],
    noise: Spread | None,
    chance: float,
    blind: str,
    margins: Margins,
) -> tuple[Quality, str]:
    """Return what a bound is worth, and why, of the first thing that is found against it."""
    if not all(reading.kept for reading in readings[OWN]):
        return Quality.BROKEN, "the case's own run breaks it"
    broken = {kind: sum(not reading.kept for reading in of_kind) for kind, of_kind in readings.items()}
    if any(broken.values()):
        counts = ", ".join(f"{count} of {len(readings[kind])} {kind}" for kind, count in broken.items() if count)
        return Quality.FLAKY, f"{counts} runs break it"
    if chance > MOST_LIKELY:
        return Quality.FLAKY, f"a run breaks it with an estimated chance of {chance:.2g}"
    if blind:
        return Quality.VACUOUS, blind
    if (
        noise is not None
        and bound.limit is not None
        and bound.limit > margins.vacuous * max(noise.largest, bound.floor)
    ):
        if not noise.largest:
            return Quality.VACUOUS, "no run has any error, so none need be let pass"
        return Quality.VACUOUS, f"it is {bound.limit / noise.largest:.3g} times the largest noise"
    return Quality.SOUND, ""


def proposed(bound: Held, largest: float, estimate: float, slack: float, dtype: str) -> dict[str, float]:
    """Return the settings of a limit at `slack` times the estimate of noise, not below the floor, rounded up.

    Of elements, rtol and atol are scaled alike, and rtol stays at 1 ULP of the output or more. Nothing is proposed
    where a limit of 0 is kept, where there is no noise and no floor, where noise has no end, and for alternatives,
    which a standard publishes.
    """
    size = max(slack * estimate, bound.floor)
    kept_at_zero = not bound.limit and not largest
    if kept_at_zero or not 0 < size < float("inf") or bound.name == ALTERNATIVES:
        return {}
    if bound.name == ELEMENTS:
        return _scaled(bound, size, dtype)
    limit = limit_of(bound.name, size)
    return {} if limit is None else {bound.name: limit}


def _scaled(bound: Held, factor: float, dtype: str) -> dict[str, float]:
    rtol, atol = bound.bounds[0].limit, bound.bounds[1].limit
    number_format = format_of(dtype)
    least = 2 * number_format.unit_roundoff if number_format is not None and rtol else 0.0
    return {"rtol": rounded(max(rtol * factor, least), up=True), "atol": rounded(atol * factor, up=True)}
