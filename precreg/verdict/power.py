"""What would be caught? The smallest loss that the rules would tell from noise, from what a baseline keeps.

The rule tests mean_abs_error against what two draws of the baseline's own errors differ by, so that what a run must
exceed is known before there is one. Other averages are tested against the spread of the change itself, of which the
baseline tells what it is for independent draws, and how far off that is. docs/power.md derives both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import hypot, inf, isfinite, log, prod, sqrt
from statistics import fmean
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.measure import group_sizes, metric_named, read_group_sums
from precreg.types import RULES, STATISTIC, AxisSums, BaselineEntry, BaselineOutput, Case, Role, Tolerance
from precreg.verdict.growth import MAXIMUM_METRICS, MIN_ELEMENTS, ROUNDING_FLOOR_ULP, allowed_ratio
from precreg.verdict.regression import min_relevant_growth, other_environment_ulp
from precreg.verdict.statistics import (
    FRESH_INPUT_METRICS,
    INTERVAL_ALPHA,
    MEAN_MEASURES,
    MIN_SAMPLES,
    TESTS_PER_OUTPUT,
    Measure,
    Sample,
    StandardError,
    fresh_inputs_error,
    largest_standard_error,
    ratio_from_log,
    sum_from_mean,
    t_quantile,
)

POWER = 0.9
"""The chance with which the loss that is told would be caught."""


SCALING_MEASURES = tuple(measure for measure in MEAN_MEASURES if measure.metric != "mean_log2_ulp")
"""The averages that grow as every error does; of a mean of log2(ULP + 1/4) a baseline cannot tell by how much."""


class LossReason(StrEnum):
    """The reason why a loss has no figure, or why any loss is detected; report/power.py has the sentences."""

    DECLARED_EXACT = "declared_exact"
    EXACT = "exact"
    EXACT_BUT_ROUNDING = "exact_but_rounding"
    WITHIN_SPREAD = "within_spread"
    FEW_SEEDS = "few_seeds"
    FEW_SAMPLES = "few_samples"
    STATISTIC_OFF = "statistic_off"
    UNKNOWN_SPREAD = "unknown_spread"


class PowerGap(Struct, frozen=True):
    """The reason why nothing is known of a case, and its place: environments without a baseline, or the file."""

    kind: Literal["no_baseline", "redefined", "expected_failure"]
    place: str = ""


class DetectableLoss(Struct, frozen=True):
    """The smallest loss of one output that would be caught: so many times the baseline's errors, with chance POWER.

    `metric` is the average that catches it, by `rule`, from `units` samples along `axis` (None: seeds), and `error` is
    the standard error of the logarithm of its ratio. `ratio` is None where no figure is known, for the reason `reason`;
    it is 1 where any error is caught. `bounds` are the metrics with a bound, and `guards` the ratios to the baseline
    beyond which other metrics are caught, 1 for any loss.
    """

    output: str
    ratio: float | None
    reason: LossReason | None = None
    metric: str = ""
    rule: str = ""
    units: int = 0
    axis: int | None = None
    error: float | None = None
    bounds: tuple[str, ...] = ()
    guards: dict[str, float] = field(default_factory=dict)


class CasePower(Struct, frozen=True):
    """What would be caught of one case, output by output; `gap` is set where nothing is known of it.

    `alike` tells that the baseline was accepted on the same fingerprint.
    """

    case: str
    losses: tuple[DetectableLoss, ...] = ()
    gap: PowerGap | None = None
    alike: bool = True

    @property
    def worst(self) -> float | None:
        """The largest of the smallest losses of its outputs, None where an output has none."""
        ratios = [loss.ratio for loss in self.losses]
        known = [ratio for ratio in ratios if ratio is not None]
        return max(known) if known and len(known) == len(ratios) else None


class PowerTerms(Struct, frozen=True):
    """How one output is judged: seeds that both sides have, the error level of one change, and the tolerance.

    `alike` tells that the baseline was accepted on the same fingerprint, so that no rounding of libraries differs, and
    `by_chance` that runs need not repeat, so that seeds must be a sample by themselves.
    """

    seeds: int
    level: float
    tolerance: Tolerance
    role: Role
    alike: bool
    by_chance: bool


def detectable_losses(
    case: Case, entry: BaselineEntry, tolerances: Mapping[str, Tolerance], *, level: float, alike: bool
) -> tuple[DetectableLoss, ...]:
    """Return the smallest loss of each output that would be caught; `level` is the case's error level."""
    share = level / (TESTS_PER_OUTPUT * len(entry.outputs))
    seeds = min(case.seeds, len(entry.inputs))
    found = []
    for name, accepted in entry.outputs.items():
        terms = PowerTerms(seeds, share, tolerances[name], case.role, alike, not case.deterministic)
        bounds = _bounds(tolerances[name])
        if certain := _certain(case, accepted, terms):
            found.append(DetectableLoss(name, 1.0, certain, rule="hard", bounds=bounds))
        else:
            told = _told(name, accepted, entry.groups.get(name, ()), terms)
            found.append(replace(told, bounds=bounds, guards=_guards(accepted, terms)))
    return tuple(found)


def _bounds(tolerance: Tolerance) -> tuple[str, ...]:
    alternatives = (bound for branch in tolerance.alternatives for bound in branch)
    return tuple(dict.fromkeys(bound.metric for bound in (*tolerance.bounds, *alternatives)))


def _certain(case: Case, accepted: BaselineOutput, terms: PowerTerms) -> LossReason | None:
    """Return why any loss is caught, by a hard rule; None where none holds."""
    if case.exact:
        return LossReason.DECLARED_EXACT
    errors = _metric(accepted, "mean_abs_error", terms.seeds)
    if errors and not any(errors):
        return LossReason.EXACT if terms.alike else LossReason.EXACT_BUT_ROUNDING
    return None


def _told(name: str, accepted: BaselineOutput, groups: Sequence[AxisSums], terms: PowerTerms) -> DetectableLoss:
    """Return the smallest loss that the statistic or a threshold on an average catches, or why there is no figure."""
    found: list[DetectableLoss] = []
    for measure in SCALING_MEASURES:
        sets = _sets(measure, accepted, groups, terms)
        spreads = [spread for each in sets if (spread := ratio_standard_error(measure, each)) is not None]
        if len(spreads) == len(sets):
            found += _caught(name, measure, accepted, spreads, terms)
    if found and all(loss.ratio is None for loss in found):
        return DetectableLoss(name, None, LossReason.WITHIN_SPREAD)
    return min(
        found, key=lambda loss: loss.ratio or inf, default=DetectableLoss(name, None, _nothing(accepted, groups, terms))
    )


def _guards(accepted: BaselineOutput, terms: PowerTerms) -> dict[str, float]:
    """Return the ratios beyond which the growth of single metrics is caught; of a golden any lost match is."""
    thresholds = terms.tolerance.regression if _enough(accepted, terms) else {}
    others = {metric: growth for metric, growth in thresholds.items() if metric not in RULES}
    if terms.role == "golden" and not terms.by_chance:
        others = {metric: others[metric] for metric in others.keys() - MAXIMUM_METRICS} | {"match_ratio": 0.0}
    return {metric: allowed_ratio(metric, growth) for metric, growth in sorted(others.items())}


def _enough(accepted: BaselineOutput, terms: PowerTerms) -> bool:
    """Tell whether there are so many elements that thresholds are asked."""
    return prod(accepted.shape) * terms.seeds >= MIN_ELEMENTS


def _nothing(accepted: BaselineOutput, groups: Sequence[AxisSums], terms: PowerTerms) -> LossReason:
    """Return the reason for a missing figure."""
    if terms.by_chance and terms.seeds < MIN_SAMPLES:
        return LossReason.FEW_SEEDS
    sets = [each for measure in SCALING_MEASURES for each in _sets(measure, accepted, groups, terms)]
    units = [len(sample.n) for each in sets for sample in each]
    if max(units, default=0) < MIN_SAMPLES:
        return LossReason.FEW_SAMPLES
    if STATISTIC not in terms.tolerance.regression:
        return LossReason.STATISTIC_OFF
    return LossReason.UNKNOWN_SPREAD


def _caught(
    name: str, measure: Measure, accepted: BaselineOutput, spreads: Sequence[StandardError], terms: PowerTerms
) -> Iterator[DetectableLoss]:
    """Yield what the statistic of a measure catches, and what a threshold on it does, where there is one."""
    regression = terms.tolerance.regression
    if STATISTIC in regression:
        explained = other_environment_ulp(measure.metric, accepted.dtype)
        least = 0.0 if terms.alike else _growth(accepted, measure.metric, terms.seeds, explained)
        growth = log(1 + min_relevant_growth(terms.tolerance, measure.metric, accepted.dtype, alike=terms.alike))
        known = measure.metric in FRESH_INPUT_METRICS and not terms.by_chance
        off = [0.0 if known else pairing_deviation(spread) for spread in spreads]
        shifts = [
            detectable_log_ratio(spread, terms.level, growth, least, own)
            for spread, own in zip(spreads, off, strict=True)
        ]
        yield _loss(name, measure, "statistic", shifts, spreads)
    if measure.metric in regression and _enough(accepted, terms):
        rounding = _growth(accepted, measure.metric, terms.seeds, ROUNDING_FLOOR_ULP)
        least = max(log(1 + regression[measure.metric]), rounding)
        yield _loss(name, measure, "guard", [least + power_shortfall(spread) for spread in spreads], spreads)


def _loss(
    name: str, measure: Measure, rule: str, shifts: Sequence[float], spreads: Sequence[StandardError]
) -> DetectableLoss:
    """Return the loss that the largest of the shifts asks for."""
    shift = max(shifts)
    told = spreads[shifts.index(shift)]
    ratio = ratio_from_log(shift)
    return DetectableLoss(
        name, ratio if isfinite(ratio) else None, None, measure.metric, rule, told.units, told.axis, told.error
    )


def _growth(accepted: BaselineOutput, metric: str, seeds: int, ulps: float) -> float:
    """Return the logarithm of the growth of an average by so many ULP."""
    mean = fmean(_metric(accepted, metric, seeds) or [0.0])
    ulp = 1.0 if metric_named(metric).unit == "ULP" else fmean(_metric(accepted, "ulp_scale", seeds) or [0.0])
    return log(1 + ulps * ulp / mean) if mean > 0 else 0.0


def _metric(accepted: BaselineOutput, metric: str, seeds: int) -> list[float]:
    """Return a metric seed by seed; nothing where a seed leaves it undefined."""
    values = accepted.metrics.get(metric, [])[:seeds]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _sets(
    measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], terms: PowerTerms
) -> list[list[Sample]]:
    """Return the samples of which the widest counts, as in a verdict; two sets where runs need not repeat."""
    along, by_seed = [*_along(measure, accepted, groups, terms.seeds)], [_by_seed(measure, accepted, terms.seeds)]
    if terms.by_chance:
        return [along, by_seed] if groups else [by_seed]
    return [[sample for sample in (*along, *by_seed) if len(sample.n) > 1]]


def ratio_standard_error(measure: Measure, samples: Sequence[Sample]) -> StandardError | None:
    """Return the standard error of the logarithm of a ratio of two draws of the baseline's errors, as in a verdict.

    None where there are too few samples, or no errors.
    """
    if max((len(sample.n) for sample in samples), default=0) < MIN_SAMPLES:
        return None
    errors = [spread for sample in samples if (spread := fresh_inputs_error(sample, measure)) is not None]
    found = largest_standard_error(errors) if errors else None
    return found if found is not None and isfinite(found.error) else None


def _along(measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], seeds: int) -> Iterator[Sample]:
    """Yield the sums along each axis that is kept."""
    for kept in groups:
        read = [read_group_sums(kept, seed, measure.sums) for seed in range(seeds)]
        known = [sums for sums in read if sums is not None]
        if known and len(known) == len(read):
            sums = [number for each in known for number in each]
            yield _own(kept.axis, sums, group_sizes(accepted.shape, kept) * len(known))


def _by_seed(measure: Measure, accepted: BaselineOutput, seeds: int) -> Sample:
    n, means = prod(accepted.shape), _metric(accepted, measure.metric, seeds)
    return _own(None, [sum_from_mean(mean, measure, n) for mean in means], [n] * len(means))


def _own(axis: int | None, sums: list[float], n: list[int]) -> Sample:
    """Return the baseline's sums beside themselves: what is redrawn looks at these alone."""
    return Sample(axis, sums, sums, n, sums)


def detectable_log_ratio(spread: StandardError, level: float, growth: float, least: float, off: float = 0.0) -> float:
    """Return the logarithm of the smallest ratio that is caught with chance POWER.

    It is caught if it exceeds what noise reaches with chance `level`, if its lower confidence bound is above `growth`,
    and if it is above `least`; both are logarithms of ratios. What a run must exceed is known, as the error is that of
    the baseline; what it draws about the true ratio, in units of that error, is Student's t. Where the error is the
    run's own, `off` is by how much it is off from that, as a share of it: one more normal part of what is drawn.
    """
    significant, doubt = (t_quantile(chance, spread.units - 1) for chance in (level, INTERVAL_ALPHA / TESTS_PER_OUTPUT))
    must = max(significant * spread.error, growth + doubt * spread.error, least)
    return must + hypot(1.0, off * max(significant, doubt)) * power_shortfall(spread)


def pairing_deviation(spread: StandardError) -> float:
    """Return the deviation of the logarithm of a paired error from that of an error that the baseline redraws.

    Of f + 1 units each, drawn independently: the run's own spread adds 1 / (2 sqrt(f)), and its covariance with the
    baseline's, which is not quite 0, as much again.
    """
    return 1 / sqrt(2 * (spread.units - 1))


def power_shortfall(spread: StandardError) -> float:
    """Return by how much less than the true ratio a run draws with chance 1 - POWER, as a logarithm."""
    return t_quantile(1 - POWER, spread.units - 1) * spread.error
