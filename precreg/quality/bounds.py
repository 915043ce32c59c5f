"""How far is each bound of a tolerance above the noise of its case, and which limit would fit?

All figures are losses (scale.py): sizes of error of at least 0. Every function is pure: readings of runs go in, a
judgement of the bound comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import inf

from msgspec import Struct

from precreg.arithmetic import format_of
from precreg.measure import metric_named
from precreg.quality.scale import (
    ELEMENTS_BOUND,
    limit_for_loss,
    metric_loss,
    output_rounding_floor,
    round_limit,
)
from precreg.types import Bound, Comparison, Fact, Location, MetricDescription, Role, Tolerance, VacuousTolerance
from precreg.verdict import satisfies_bound
from precreg.verdict.statistics import NoiseSummary, estimate_tail, max_unseen_probability, summarize_noise

# The bound that at least one alternative of a standard holds. Its loss is the largest share of a limit within the best
# alternative, so its limit is 1.
ALTERNATIVES_BOUND = "alternatives"

# A daily run with fresh inputs breaks such a bound once in three years.
MIN_FLAKY_PROBABILITY = 1e-3

# A proposal is made from the loss that another run exceeds with this probability. The tail is exact enough there: of
# normal and of Gumbel noise, 0.4 % and 1.4 % of the runs exceed it (docs/calibrate.md).
ESTIMATE_PROBABILITY = 0.01

# A loss that equals the rounding of the output differs from it by the rounding of a few float64 operations.
_FLOAT64_SLACK = 1e-9

# Defaults of --replicates, --slack and --vacuous. With 8 reseeded and 8 last-bit runs a case has 20 runs. If none
# breaks a bound, counting alone excludes a probability above 14 %, and the estimated tail goes further.
DEFAULT_REPLICATES = 8
DEFAULT_SLACK = 2.0
DEFAULT_VACUOUS = 100.0

# The case's own run, and the kinds of replicate, in the order in which they run.
OWN_KIND, RESEEDED_KIND, LAST_BIT_KIND, REORDERED_KIND = REPLICATE_KINDS = ("own", "reseeded", "last-bit", "reordered")


class CalibratedBound(Struct, frozen=True):
    """Hold one bound with its limit and floor as losses, and the tolerance's bounds that form it."""

    # A metric, ELEMENTS_BOUND or ALTERNATIVES_BOUND.
    name: str
    bounds: tuple[Bound, ...]
    # None for a bound without a scale. For ELEMENTS_BOUND 1, or 0 if only equal elements pass.
    limit: float | None
    # The smallest limit that a proposal may have.
    floor: float
    # The largest loss of a result whose only error is the rounding of its output; 0 if unknown.
    end: float = 0.0
    described: tuple[MetricDescription, ...] = ()


class BoundReading(Struct, frozen=True):
    """Hold the largest loss of one bound over the seeds of one run; `kept` is True if no seed broke it."""

    # Infinite if the metric is not defined, None if it has no scale.
    loss: float | None
    kept: bool


def calibrated_bounds(tolerance: Tolerance, first: Comparison, role: Role) -> list[CalibratedBound]:
    """Return the bounds of an output's tolerance. `first` is the case's own comparison at its first seed."""
    floor, magnitude = output_rounding_floor(first), first.metrics.get("max_magnitude", 0.0)
    # A golden has the dtype of the output, so an output can have its bits: rounding costs nothing.
    reference = role == "reference"
    found = []
    for bound in tolerance.bounds:
        if bound.metric == "match_ratio" and bound.limit == 1:
            rtol, atol = tolerance.rtol, tolerance.atol
            share = floor.share(rtol.limit, atol.limit, magnitude) if reference else 0.0
            limit = 1.0 if rtol.limit or atol.limit else 0.0
            found.append(CalibratedBound(ELEMENTS_BOUND, (rtol, atol, bound), limit, share, share))
        else:
            metric = metric_named(bound.metric, first.described)
            is_share = metric.family == "share"
            least = floor.loss(metric) if reference or is_share else 0.0
            limit_loss = metric_loss(metric, bound.limit)
            end = 0.0 if is_share else least
            found.append(CalibratedBound(bound.metric, (bound,), limit_loss, least, end, first.described))
    if tolerance.alternatives:
        every = tuple(bound for alternative in tolerance.alternatives for bound in alternative)
        found.append(CalibratedBound(ALTERNATIVES_BOUND, every, 1.0, 0.0))
    return found


def read_bound(
    bound: CalibratedBound, tolerance: Tolerance, run: Sequence[Comparison], shares: Sequence[float]
) -> BoundReading:
    """Read a bound of one output in one run; `run` and `shares` have one entry for each seed, and at least one."""
    if bound.name == ALTERNATIVES_BOUND:
        return _worst([_best(tolerance, comparison) for comparison in run])
    if bound.name == ELEMENTS_BOUND:
        return BoundReading(max(shares), all(_holds(bound.bounds[-1], comparison) for comparison in run))
    return _worst([_of_metric(bound.bounds[0], comparison) for comparison in run])


def _of_metric(bound: Bound, comparison: Comparison) -> BoundReading:
    value, metric = comparison.metrics.get(bound.metric), metric_named(bound.metric, comparison.described)
    return BoundReading(inf if value is None else metric_loss(metric, value), _holds(bound, comparison))


def _best(tolerance: Tolerance, comparison: Comparison) -> BoundReading:
    """Return the reading of the alternative whose worst bound uses the smallest share of its limit."""
    readings = [_worst([_share(bound, comparison) for bound in alternative]) for alternative in tolerance.alternatives]
    return min(readings, key=lambda reading: (not reading.kept, inf if reading.loss is None else reading.loss))


def _share(bound: Bound, comparison: Comparison) -> BoundReading:
    reading = _of_metric(bound, comparison)
    limit = metric_loss(metric_named(bound.metric, comparison.described), bound.limit)
    if reading.loss is None or limit is None:
        return BoundReading(None, reading.kept)
    return BoundReading(reading.loss / limit if limit else (inf if reading.loss else 0.0), reading.kept)


def _worst(readings: Sequence[BoundReading]) -> BoundReading:
    """Return the largest loss, None if one of them has no scale, and whether all readings were kept."""
    losses = [reading.loss for reading in readings]
    known = [each for each in losses if each is not None]
    largest = max(known, default=0.0) if len(known) == len(losses) else None
    return BoundReading(largest, all(reading.kept for reading in readings))


def _holds(bound: Bound, comparison: Comparison) -> bool:
    value = comparison.metrics.get(bound.metric)
    return value is not None and satisfies_bound(bound, value, comparison.described)


class BoundQuality(StrEnum):
    """Name the quality of a bound, from the worst to the best."""

    # The case's own run breaks it.
    BROKEN = "broken"
    # A replicate breaks it, or another run probably would.
    FLAKY = "flaky"
    # It is far above all noise, or admits a result that is wrong by 100 %.
    VACUOUS = "vacuous"
    SOUND = "sound"


class OwnRunBreaks(Fact, frozen=True, tag="own_run_breaks"):
    """A bound that the case's own run breaks."""


class RunsBreak(Fact, frozen=True, tag="runs_break"):
    """A bound that replicates break: by kind, the runs that break it, and all runs."""

    runs: tuple[tuple[str, int, int], ...]


class LikelyBreak(Fact, frozen=True, tag="likely_break"):
    """A bound that another run breaks with an estimated probability."""

    probability: float


class NoError(Fact, frozen=True, tag="no_error"):
    """A bound above 0 of a case without any error."""


class FarAboveNoise(Fact, frozen=True, tag="far_above_noise"):
    """A limit of so many times the largest noise."""

    times: float


BoundFault = OwnRunBreaks | RunsBreak | LikelyBreak | NoError | FarAboveNoise | VacuousTolerance


class Margins(Struct, frozen=True):
    """Ratios of a limit to the noise: `slack` for a proposal, and `vacuous` for a limit that is too loose."""

    slack: float = DEFAULT_SLACK
    vacuous: float = DEFAULT_VACUOUS


class BoundCalibration(Struct, frozen=True):
    """Hold one bound of one output, compared with its noise; limits and noise are losses (docs/calibrate.md)."""

    output: str
    dtype: str
    bound: str
    # The present settings by name.
    limits: dict[str, float]
    layer: str
    source: Location
    limit: float | None
    floor: float
    # Of all runs; None if the bound has no scale.
    noise: NoiseSummary | None
    # The largest loss of each kind of run.
    largest: dict[str, float]
    # The number of runs that broke the bound.
    breaks: int
    # The loss that another run exceeds with ESTIMATE_PROBABILITY; None for too few runs.
    estimate: float | None
    # The probability that another run breaks the bound; None for too few runs.
    chance: float | None
    # The largest probability that counting the runs alone does not exclude.
    not_excluded: float
    # The limit over the largest noise; None without noise, and without a scale.
    headroom: float | None
    quality: BoundQuality
    # None for a sound bound; report/ writes the sentence.
    fault: BoundFault | None
    # The settings that would fit, by name; empty if none is proposed.
    proposal: dict[str, float]


def calibrate_bound(
    bound: CalibratedBound,
    output: tuple[str, str],
    readings: Mapping[str, Sequence[BoundReading]],
    blind: VacuousTolerance | None,
    margins: Margins,
) -> BoundCalibration:
    """Compare a bound with its readings by kind of run; `output` is the output's name and dtype.

    `blind` has the limits that admit a result that is wrong by 100 %, None if the output's tolerance admits none.
    """
    every = [reading for of_kind in readings.values() for reading in of_kind]
    losses = [reading.loss for reading in every if reading.loss is not None]
    noise = summarize_noise(losses) if len(losses) == len(every) else None
    breaks = sum(not reading.kept for reading in every)
    estimate, probability = (None, None) if noise is None else _extrapolate(bound, losses)
    probability = breaks / len(every) if breaks else probability
    quality, fault = _quality(bound, readings, noise, probability or 0.0, blind, margins)
    # The first of several bounds: rtol of the elements, which a reader looks for first.
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
        probability,
        max_unseen_probability(len(every)),
        bound.limit / noise.largest if noise is not None and noise.largest and bound.limit is not None else None,
        quality,
        fault,
        {}
        if noise is None
        else propose_limit(bound, noise.largest, estimate or noise.largest, margins.slack, output[1]),
    )


def _extrapolate(bound: CalibratedBound, losses: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the loss that another run exceeds with ESTIMATE_PROBABILITY, and the probability that it breaks the bound.

    Both are None for too few runs.
    """
    beyond = estimate_tail(losses)
    if beyond is None or bound.limit is None:
        return None, None
    # The rounding of the output has a largest error, so such noise has no tail beyond it.
    if max(losses) <= min(bound.end * (1 + _FLOAT64_SLACK), bound.limit):
        return bound.end, 0.0
    return max(beyond.exceedance_quantile(ESTIMATE_PROBABILITY), *losses), beyond.exceedance_probability(
        max(bound.limit, beyond.start)
    )


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
    probability: float,
    blind: VacuousTolerance | None,
    margins: Margins,
) -> tuple[BoundQuality, BoundFault | None]:
    """Return the quality of a bound and the reason: the worst quality whose condition it meets."""
    if not all(reading.kept for reading in readings[OWN_KIND]):
        return BoundQuality.BROKEN, OwnRunBreaks()
    broken = {kind: sum(not reading.kept for reading in of_kind) for kind, of_kind in readings.items()}
    if any(broken.values()):
        runs = tuple((kind, count, len(readings[kind])) for kind, count in broken.items() if count)
        return BoundQuality.FLAKY, RunsBreak(runs)
    if probability > MIN_FLAKY_PROBABILITY:
        return BoundQuality.FLAKY, LikelyBreak(probability)
    if blind is not None:
        return BoundQuality.VACUOUS, blind
    if (
        noise is not None
        and bound.limit is not None
        and bound.limit > margins.vacuous * max(noise.largest, bound.floor)
    ):
        if not noise.largest:
            return BoundQuality.VACUOUS, NoError()
        return BoundQuality.VACUOUS, FarAboveNoise(bound.limit / noise.largest)
    return BoundQuality.SOUND, None


def propose_limit(
    bound: CalibratedBound, largest: float, estimate: float, slack: float, dtype: str
) -> dict[str, float]:
    """Return the settings of a limit at `slack` times the estimate of noise, not below the floor, rounded up.

    The settings are empty if the bound keeps a limit of 0, if there is neither noise nor a floor, and if noise is
    infinite. The alternatives of a standard get no proposal, because the standard publishes them.
    """
    size = max(slack * estimate, bound.floor)
    kept_at_zero = not bound.limit and not largest
    if kept_at_zero or not 0 < size < float("inf") or bound.name == ALTERNATIVES_BOUND:
        return {}
    if bound.name == ELEMENTS_BOUND:
        return _scale_elements(bound, size, dtype)
    limit = limit_for_loss(metric_named(bound.name, bound.described), size)
    return {} if limit is None else {bound.name: limit}


def _scale_elements(bound: CalibratedBound, factor: float, dtype: str) -> dict[str, float]:
    """Return rtol and atol times the factor."""
    rtol, atol = bound.bounds[0].limit, bound.bounds[1].limit
    number_format = format_of(dtype)
    # 1 ULP, which is 2 u: a neighbour of the correctly rounded result must pass.
    min_rtol = 2 * number_format.unit_roundoff if number_format is not None and rtol else 0.0
    return {"rtol": round_limit(max(rtol * factor, min_rtol), up=True), "atol": round_limit(atol * factor, up=True)}
