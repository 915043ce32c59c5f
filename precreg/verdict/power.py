"""Which loss would the rules detect in a case, from its baseline alone?

The rule for mean_abs_error uses the standard error of fresh inputs, which follows from the baseline. So the ratio that
a run must exceed is known before there is a run. The other averages use the standard error of the change itself. Its
expected value for independent draws follows from the baseline, and so does its deviation. docs/power.md derives both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import hypot, inf, isfinite, log, prod, sqrt
from statistics import fmean
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.measure import METRICS, metric_named
from precreg.types import (
    RULES,
    STATISTIC,
    AxisSums,
    BaselineEntry,
    BaselineOutput,
    Case,
    MetricDescription,
    Role,
    Tolerance,
)
from precreg.verdict.limits import (
    MIN_ELEMENTS,
    ROUNDING_FLOOR_ULP,
    SMALL_OUTPUT_METRICS,
    allowed_ratio,
    small_output_ratio,
)
from precreg.verdict.regression import min_relevant_growth, other_environment_ulp
from precreg.verdict.statistics import (
    INTERVAL_ALPHA,
    MEAN_MEASURES,
    MIN_SAMPLES,
    TESTS_PER_OUTPUT,
    Measure,
    Sample,
    StandardError,
    baseline_sample_by_seed,
    baseline_samples,
    fresh_inputs_error,
    largest_standard_error,
    ratio_from_log,
    t_half_width,
    t_quantile,
)

# Probability with which the reported loss is detected. benchmarks/power.py measures 90 % to 100 % for six operators.
POWER = 0.9

# The averages that grow as every error does. The growth of a mean of log2(ULP + 1/4) does not follow from a baseline.
SCALING_MEASURES = tuple(measure for measure in MEAN_MEASURES if METRICS[measure.metric].scale == "linear")


class LossReason(StrEnum):
    """The reason why a loss has no figure, or why any loss is detected; report/detection.py has the sentences."""

    DECLARED_EXACT = "declared_exact"
    EXACT = "exact"
    EXACT_BUT_ROUNDING = "exact_but_rounding"
    WITHIN_SPREAD = "within_spread"
    FEW_SEEDS = "few_seeds"
    FEW_SAMPLES = "few_samples"
    STATISTIC_OFF = "statistic_off"
    FIGURES_ALONE = "figures_alone"
    UNKNOWN_SPREAD = "unknown_spread"


class PowerGap(Struct, frozen=True):
    """The reason why nothing is known of a case, and its place: environments without a baseline, or the file."""

    kind: Literal["no_baseline", "redefined", "expected_failure"]
    place: str = ""


class DetectableLoss(Struct, frozen=True):
    """The smallest loss of one output that the rules detect, as a ratio to the baseline's errors, with power POWER.

    `metric` is the average that detects it, by `rule`, from `units` samples along `axis` (None: seeds); `error` is the
    standard error of the logarithm of its ratio. `bounds` are the metrics with a bound.
    """

    output: str
    # None if no figure is known, for the reason in `reason`; 1 if the rules detect any error.
    ratio: float | None
    reason: LossReason | None = None
    metric: str = ""
    rule: str = ""
    units: int = 0
    axis: int | None = None
    error: float | None = None
    bounds: tuple[str, ...] = ()
    # By metric, the ratio to the baseline beyond which a threshold fails the case; 1 for any loss. JSON
    # keeps the name of the first version.
    thresholds: dict[str, float] = field(default_factory=dict, name="guards")


class CasePower(Struct, frozen=True):
    """The smallest losses that the rules detect in one case, output by output, or the `gap` that leaves none."""

    case: str
    losses: tuple[DetectableLoss, ...] = ()
    gap: PowerGap | None = None
    # The baseline knows the environment. JSON keeps the name of the first version.
    same_environment: bool = field(default=True, name="alike")

    @property
    def worst(self) -> float | None:
        """Return the largest of the smallest losses of its outputs; None if an output has none."""
        ratios = [loss.ratio for loss in self.losses]
        known = [ratio for ratio in ratios if ratio is not None]
        return max(known) if known and len(known) == len(ratios) else None


class PowerTerms(Struct, frozen=True):
    """The terms on which one output is judged: seeds that both sides have, the error level of a test, the tolerance."""

    seeds: int
    alpha: float
    tolerance: Tolerance
    role: Role
    # Otherwise the rounding of libraries differs, and a loss must exceed it.
    same_environment: bool
    # Runs need not repeat, so seeds must be a sample by themselves.
    nondeterministic: bool


def detectable_losses(
    case: Case, entry: BaselineEntry, tolerances: Mapping[str, Tolerance], *, alpha: float, same_environment: bool
) -> tuple[DetectableLoss, ...]:
    """Return the smallest loss of each output that the rules detect; `alpha` is the case's error level."""
    test_alpha = alpha / (TESTS_PER_OUTPUT * len(entry.outputs))
    seeds = min(case.seeds, len(entry.inputs))
    found = []
    for name, accepted in entry.outputs.items():
        terms = PowerTerms(
            seeds, test_alpha, tolerances[name], case.role, same_environment, nondeterministic=not case.deterministic
        )
        bounds = tolerances[name].bounded
        if case.subject.kind == "table":
            thresholds = {name: 1 + growth for name, growth in sorted(_recorded_growths(accepted, terms).items())}
            loss = DetectableLoss(name, None, LossReason.FIGURES_ALONE)
            found.append(replace(loss, bounds=bounds, thresholds=thresholds))
        elif certain := _certain(case, accepted, terms):
            found.append(DetectableLoss(name, 1.0, certain, rule="hard", bounds=bounds))
        else:
            loss = _detectable_loss(name, accepted, entry.groups.get(name, ()), terms)
            found.append(replace(loss, bounds=bounds, thresholds=_thresholds(accepted, entry.described, terms)))
    return tuple(found)


def _recorded_growths(accepted: BaselineOutput, terms: PowerTerms) -> dict[str, float]:
    """Return the allowed growth of each figure that the baseline has."""
    known = (name for name, values in accepted.metrics.items() if values and values[0] is not None)
    return {name: terms.tolerance.regression[name] for name in known if name in terms.tolerance.regression}


def _certain(case: Case, accepted: BaselineOutput, terms: PowerTerms) -> LossReason | None:
    """Return why a hard rule detects any loss; None if none applies."""
    if case.exact:
        return LossReason.DECLARED_EXACT
    errors = _metric(accepted, "mean_abs_error", terms.seeds)
    if errors and not any(errors):
        return LossReason.EXACT if terms.same_environment else LossReason.EXACT_BUT_ROUNDING
    return None


def _detectable_loss(
    name: str, accepted: BaselineOutput, groups: Sequence[AxisSums], terms: PowerTerms
) -> DetectableLoss:
    """Return the smallest loss that the statistic or a threshold on an average detects, or why it is unknown."""
    found: list[DetectableLoss] = []
    for measure in SCALING_MEASURES:
        sets = _sample_sets(measure, accepted, groups, terms)
        errors = [error for each in sets if (error := ratio_standard_error(measure, each)) is not None]
        if len(errors) == len(sets):
            found += _detected(name, measure, accepted, errors, terms)
    if found and all(loss.ratio is None for loss in found):
        return DetectableLoss(name, None, LossReason.WITHIN_SPREAD)
    unknown = DetectableLoss(name, None, _why_unknown(accepted, groups, terms))
    return min(found, key=lambda loss: loss.ratio or inf, default=unknown)


def _thresholds(
    accepted: BaselineOutput, described: Sequence[MetricDescription], terms: PowerTerms
) -> dict[str, float]:
    """Return the ratios beyond which thresholds on single metrics fail the case."""
    thresholds = terms.tolerance.regression if _has_enough_elements(accepted, terms) else {}
    others = {metric_named(name, described): growth for name, growth in thresholds.items() if name not in RULES}
    # A hard rule detects any lost match of a golden, and thresholds on maxima do not apply to it.
    if terms.role == "golden" and not terms.nondeterministic:
        others = {metric: growth for metric, growth in others.items() if not metric.maximum}
        others[METRICS["match_ratio"]] = 0.0
    ratios = {m.name: allowed_ratio(m, growth) for m, growth in others.items()}
    # The rule for small outputs applies in the baseline's environment alone.
    is_small = prod(accepted.shape) < MIN_ELEMENTS
    if is_small and terms.same_environment and STATISTIC in terms.tolerance.regression:
        limit = small_output_ratio(terms.seeds)
        ratios |= {name: min(limit, ratios.get(name, limit)) for name in SMALL_OUTPUT_METRICS}
    return dict(sorted(ratios.items()))


def has_few_samples(entry: BaselineEntry, output: str) -> bool:
    """Return whether an output that is not exact has too few samples for a statistic, whatever its tolerance."""
    accepted, groups, seeds = entry.outputs[output], entry.groups.get(output, ()), len(entry.inputs)
    errors = _metric(accepted, "mean_abs_error", seeds)
    along = (each for measure in SCALING_MEASURES for each in baseline_samples(measure, accepted, groups, seeds))
    is_exact = bool(errors) and not any(errors)
    return not is_exact and max((seeds, *(len(sample.n) for sample in along))) < MIN_SAMPLES


def _has_enough_elements(accepted: BaselineOutput, terms: PowerTerms) -> bool:
    return prod(accepted.shape) * terms.seeds >= MIN_ELEMENTS


def _why_unknown(accepted: BaselineOutput, groups: Sequence[AxisSums], terms: PowerTerms) -> LossReason:
    """Return the reason for a missing figure."""
    if terms.nondeterministic and terms.seeds < MIN_SAMPLES:
        return LossReason.FEW_SEEDS
    sets = [each for measure in SCALING_MEASURES for each in _sample_sets(measure, accepted, groups, terms)]
    units = [len(sample.n) for each in sets for sample in each]
    if max(units, default=0) < MIN_SAMPLES:
        return LossReason.FEW_SAMPLES
    if STATISTIC not in terms.tolerance.regression:
        return LossReason.STATISTIC_OFF
    return LossReason.UNKNOWN_SPREAD


def _detected(
    name: str, measure: Measure, accepted: BaselineOutput, errors: Sequence[StandardError], terms: PowerTerms
) -> Iterator[DetectableLoss]:
    """Yield the losses that the statistic of a measure, and a threshold on it, detect."""
    regression, metric = terms.tolerance.regression, measure.metric
    if STATISTIC in regression:
        explained = other_environment_ulp(metric, accepted.dtype)
        minimum = 0.0 if terms.same_environment else _log_growth(accepted, metric, terms.seeds, explained)
        min_growth = min_relevant_growth(
            terms.tolerance, metric, accepted.dtype, same_environment=terms.same_environment
        )
        # Only the standard error of fresh inputs is known beforehand; another one is the run's own.
        is_known = METRICS[metric].stable and not terms.nondeterministic
        log_ratios = [
            detectable_log_ratio(
                error, terms.alpha, log(1 + min_growth), minimum, 0.0 if is_known else pairing_deviation(error)
            )
            for error in errors
        ]
        yield _loss(name, measure, "statistic", log_ratios, errors)
    if metric in regression and _has_enough_elements(accepted, terms):
        rounding = _log_growth(accepted, metric, terms.seeds, ROUNDING_FLOOR_ULP)
        minimum = max(log(1 + regression[metric]), rounding)
        yield _loss(name, measure, "guard", [minimum + power_shortfall(error) for error in errors], errors)


def _loss(
    name: str, measure: Measure, rule: str, log_ratios: Sequence[float], errors: Sequence[StandardError]
) -> DetectableLoss:
    """Return the loss of the largest ratio, which all sets of samples must exceed."""
    log_ratio = max(log_ratios)
    widest = errors[log_ratios.index(log_ratio)]
    ratio = ratio_from_log(log_ratio)
    return DetectableLoss(
        name, ratio if isfinite(ratio) else None, None, measure.metric, rule, widest.units, widest.axis, widest.error
    )


def _log_growth(accepted: BaselineOutput, metric: str, seeds: int, ulps: float) -> float:
    """Return the logarithm of the ratio by which so many ULP raise an average."""
    mean = fmean(_metric(accepted, metric, seeds) or [0.0])
    ulp = 1.0 if METRICS[metric].unit == "ULP" else fmean(_metric(accepted, "ulp_scale", seeds) or [0.0])
    return log(1 + ulps * ulp / mean) if mean > 0 else 0.0


def _metric(accepted: BaselineOutput, metric: str, seeds: int) -> list[float]:
    """Return a metric seed by seed; an empty list if a seed leaves it undefined."""
    values = accepted.metrics.get(metric, [])[:seeds]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _sample_sets(
    measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], terms: PowerTerms
) -> list[list[Sample]]:
    """Return sets of samples, as a verdict forms them; the largest standard error of each set counts."""
    along = [*baseline_samples(measure, accepted, groups, terms.seeds)]
    means = _metric(accepted, measure.metric, terms.seeds)
    by_seed = baseline_sample_by_seed(measure, means, prod(accepted.shape))
    # All groups of one run share its nondeterminism, so seeds are a second set that must show the loss, too.
    if terms.nondeterministic:
        return [along, [by_seed]] if groups else [[by_seed]]
    return [[sample for sample in (*along, by_seed) if len(sample.n) > 1]]


def ratio_standard_error(measure: Measure, samples: Sequence[Sample]) -> StandardError | None:
    """Return the standard error of the logarithm of a ratio of two draws of the baseline's errors, as in a verdict.

    None if there are too few samples, or no errors.
    """
    if max((len(sample.n) for sample in samples), default=0) < MIN_SAMPLES:
        return None
    errors = [error for sample in samples if (error := fresh_inputs_error(sample, measure)) is not None]
    largest = largest_standard_error(errors) if errors else None
    return largest if largest is not None and isfinite(largest.error) else None


def detectable_log_ratio(
    spread: StandardError, alpha: float, growth: float, minimum: float, deviation: float = 0.0
) -> float:
    """Return the logarithm of the smallest true ratio that the statistic detects with power POWER.

    A run detects it if its own ratio is significant at `alpha` and above `minimum`, and its lower confidence bound is
    above `growth`. Both limits are logarithms of ratios. `deviation` is the relative deviation of the run's standard
    error from `spread`, 0 if they are the same (docs/power.md, "How it is found").
    """
    significance_t = t_quantile(alpha, spread.units - 1)
    confidence_t = t_quantile(INTERVAL_ALPHA / TESTS_PER_OUTPUT, spread.units - 1)
    required = max(significance_t * spread.error, growth + confidence_t * spread.error, minimum)
    # To first order, a standard error that varies is one more normal part of the ratio that a run draws.
    return required + hypot(1.0, deviation * max(significance_t, confidence_t)) * power_shortfall(spread)


def pairing_deviation(spread: StandardError) -> float:
    """Return the deviation of the logarithm of a paired standard error from the one of fresh inputs.

    With k units drawn independently, the run's own spread adds 1 / (2 sqrt(k - 1)). Its covariance with the baseline's,
    which is not quite 0, adds as much again (docs/power.md).
    """
    return 1 / sqrt(2 * (spread.units - 1))


def power_shortfall(spread: StandardError) -> float:
    """Return the amount by which a run's log ratio falls below the true one with probability 1 - POWER."""
    return t_half_width(spread.error, spread.units, 1 - POWER)
