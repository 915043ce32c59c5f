"""How noisy is a case, and which limits do its bounds deserve?

The case runs as it is and in replicates: with other seeds, with inputs moved in their last bits, and with sums in
another order. Every bound of the case is compared with the variation between these runs, its noise. A theoretical bound
on the rounding error of the longest sum is a second opinion (docs/calibrate.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, log, sqrt
from statistics import stdev
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from precreg.arithmetic import format_of
from precreg.measure import mean_over_seeds
from precreg.quality.bounds import (
    LAST_BIT_KIND,
    OWN_KIND,
    REORDERED_KIND,
    REPLICATE_KINDS,
    RESEEDED_KIND,
    BoundCalibration,
    BoundQuality,
    BoundReading,
    Margins,
    calibrate_bound,
    calibrated_bounds,
    read_bound,
)
from precreg.quality.variants import CaseVariant, Replicate, make_variant, run_variant
from precreg.run import Plan, run_cases
from precreg.suite.inputs import has_last_bits, is_drawn
from precreg.tolerance import resolve_tolerance, vacuous_bounds
from precreg.types import Budget, Case, Comparison, Failure, Location, LongSum, Outcome, Tier, case_chain
from precreg.verdict.statistics import MIN_REPLICATES

# Harmless changes of arithmetic/faults/table.py that change the order of a sum and nothing else.
ORDERS = ("sum_reversed", "sum_in_halves", "sum_pairwise")

# In standard deviations of the difference of two runs, as the limits of control charts.
STANDS_OUT = 3.0

# Outcomes by kind of run, in their order. No run has failed, and OWN_KIND has one run.
Runs = Mapping[str, Sequence[Outcome]]


class SumErrorBound(Struct, frozen=True):
    """Bounds on the relative error of the longest sum, rounded to the output once, and the measured error.

    `terms`, `precision` and `products` have the same meaning as in `LongSum`.
    """

    terms: int
    precision: int
    products: bool
    # gamma(m) of the m roundings; None if m u >= 1, because then no bound exists.
    gamma: float | None
    # sqrt(m) u, the order of the error if roundings are independent.
    probable: float
    # gamma and the rounding to the output together; None as gamma.
    bound: float | None
    # The largest |d| over the largest |r|.
    measured: float | None
    # `measured` over `bound`.
    ratio: float | None


def gamma(n: int, unit_roundoff: float) -> float | None:
    """Return n u / (1 - n u), or None if n u >= 1 (Higham 2002, Lemma 3.1)."""
    total = n * unit_roundoff
    return total / (1 - total) if total < 1 else None


def sum_error_bound(longest: LongSum, dtype: str, measured: float | None) -> SumErrorBound:
    """Return the bounds on the relative error of a sum in an output of that dtype.

    A sum of n terms, in any order, has an error of at most gamma(n - 1) sum |x|. A sum of n products has an error of at
    most gamma(n) sum |x y|. The error is relative to the result if all terms have one sign (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., 2002, section 4.2). Errors are of the order sqrt(n) u if roundings are
    independent with mean zero (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815).
    """
    unit_roundoff = 2.0**-longest.precision
    roundings = longest.terms if longest.products else longest.terms - 1
    sum_bound = gamma(roundings, unit_roundoff)
    output = format_of(dtype)
    is_narrower = output is not None and output.precision < longest.precision
    cast_bound = output.unit_roundoff if output is not None and is_narrower else 0.0
    # (1 + sum_bound) (1 + cast_bound) - 1, without the cancellation.
    bound = None if sum_bound is None else sum_bound + cast_bound + sum_bound * cast_bound
    return SumErrorBound(
        longest.terms,
        longest.precision,
        longest.products,
        sum_bound,
        sqrt(roundings) * unit_roundoff,
        bound,
        measured,
        measured / bound if bound and measured is not None else None,
    )


class MeanError(Struct, frozen=True):
    """Variation of the mean absolute error of an output between `n` runs on the case's own seeds.

    The figures are None below MIN_REPLICATES runs, and if a run has no error.
    """

    output: str
    n: int
    # Standard deviation of the logarithm of the mean absolute error.
    deviation: float | None
    # Ratio of two runs' mean errors whose logarithm is STANDS_OUT standard deviations of a difference.
    stands_out: float | None


class LongestSum(Struct, frozen=True):
    """Hold the longest sum that a case takes, as a bound on the error of one of its outputs."""

    output: str
    analytic: SumErrorBound


class FailedRuns(Struct, frozen=True):
    """Hold the number of failed runs of one kind, and the first failure."""

    kind: str
    failed: int
    runs: int
    first: Failure


class CaseCalibration(Struct, frozen=True):
    """Hold the noise of one case, and the comparison of its bounds with that noise."""

    case: str
    tier: Tier
    suite: str
    name: str
    source: Location
    seeds: int
    # The number of runs of each kind that show noise.
    runs: dict[str, int]
    bounds: tuple[BoundCalibration, ...]
    mean_errors: tuple[MeanError, ...]
    # Empty if no length of a sum is known. Then `no_sums` has the reason: a golden has rounding errors of its own, or
    # no sum was seen.
    sums: tuple[LongestSum, ...]
    no_sums: Literal["", "golden", "unseen"]
    notes: tuple[FailedRuns, ...]


class Uncalibrated(Struct, frozen=True):
    """Hold a case without measurable noise, and the reason: its own run failed, or no replicate differs from it.

    A case that is known to be bad, and recorded outputs without inputs, have no replicates.
    """

    case: str
    tier: Tier
    cause: Literal["known_bad", "recorded", "failed", "no_noise"]
    # Of the case's own run.
    failure: Failure | None = None
    notes: tuple[FailedRuns, ...] = ()


def calibrate_case(
    case: Case, ran: Mapping[str, Sequence[Outcome]], chain: tuple[str, ...], margins: Margins
) -> CaseCalibration | Uncalibrated:
    """Calibrate a case by its runs of each kind, in their order; OWN_KIND has the case's own run.

    `chain` has the labels of the environment.
    """
    own = ran[OWN_KIND][0]
    if own.execution.failure is not None:
        return Uncalibrated(case.id, case.tier, "failed", own.execution.failure)
    runs, notes = _distinct_runs(ran), [*_failure_notes(ran)]
    if sum(map(len, runs.values())) == 1:
        return Uncalibrated(case.id, case.tier, "no_noise", notes=tuple(notes))
    outputs = list(dict.fromkeys(comparison.output for comparison in own.comparisons))
    longest = next((o.noise.longest for o in ran.get(REORDERED_KIND, ()) if o.noise and o.noise.longest), None)
    sums, no_sums = _longest_sums(case, runs, outputs, longest)
    return CaseCalibration(
        case.id,
        case.tier,
        case.suite,
        case.name,
        case.source,
        case.seeds,
        {kind: len(outcomes) for kind, outcomes in runs.items()},
        tuple(bound for output in outputs for bound in _calibrate_bounds(case, output, runs, chain, margins)),
        tuple(_vary_mean_error(output, runs) for output in outputs),
        sums,
        no_sums,
        tuple(notes),
    )


def _distinct_runs(ran: Runs) -> dict[str, list[Outcome]]:
    """Leave out runs that failed, and runs with the inputs and outputs of an earlier one."""
    # A repeated run would make the noise look smaller than it is.
    seen: set[tuple[object, ...]] = set()
    runs: dict[str, list[Outcome]] = {kind: [] for kind in REPLICATE_KINDS}
    for kind in REPLICATE_KINDS:
        for outcome in ran.get(kind, ()):
            execution = outcome.execution
            bits = (execution.inputs, *sorted(execution.outputs.items()))
            if execution.failure is None and bits not in seen:
                seen.add(bits)
                runs[kind].append(outcome)
    return runs


def _failure_notes(ran: Runs) -> Iterable[FailedRuns]:
    for kind, outcomes in ran.items():
        failures = [outcome.execution.failure for outcome in outcomes if outcome.execution.failure is not None]
        if failures:
            yield FailedRuns(kind, len(failures), len(outcomes), failures[0])


def _comparisons_of(output: str, outcome: Outcome) -> list[Comparison]:
    """Return the comparisons of one output, seed by seed."""
    return [comparison for comparison in outcome.comparisons if comparison.output == output]


def _calibrate_bounds(
    case: Case, output: str, runs: Runs, chain: tuple[str, ...], margins: Margins
) -> Iterable[BoundCalibration]:
    first = _comparisons_of(output, runs[OWN_KIND][0])[0]
    tolerance = resolve_tolerance(case.layers, output, first.dtype, chain)
    blind = next(vacuous_bounds(tolerance, first.metrics.get("mean_magnitude")), None)
    for bound in calibrated_bounds(tolerance, first, case.role):
        readings: dict[str, list[BoundReading]] = {
            kind: [
                read_bound(bound, tolerance, _comparisons_of(output, each), _shares(output, each)) for each in outcomes
            ]
            for kind, outcomes in runs.items()
        }
        yield calibrate_bound(bound, (output, first.dtype), readings, blind, margins)


def _shares(output: str, outcome: Outcome) -> tuple[float, ...]:
    """Return the largest shares of the tolerance by seed; an outcome without noise has none to read."""
    return outcome.noise.shares[output] if outcome.noise is not None else ()


def _vary_mean_error(output: str, runs: Runs) -> MeanError:
    # Runs on the case's own seeds alone: a baseline is never judged with the inputs of other seeds.
    means = [
        mean_over_seeds([comparison.metrics.get("mean_abs_error") for comparison in _comparisons_of(output, outcome)])
        for kind in (OWN_KIND, LAST_BIT_KIND, REORDERED_KIND)
        for outcome in runs[kind]
    ]
    if len(means) < MIN_REPLICATES or not all(means):
        return MeanError(output, len(means), None, None)
    deviation = stdev([log(mean) for mean in means if mean])
    # Two runs differ by deviation sqrt(2). exp(709.8) is the largest that float64 holds.
    return MeanError(output, len(means), deviation, exp(min(STANDS_OUT * sqrt(2) * deviation, 700)))


def _longest_sums(
    case: Case, runs: Runs, outputs: Sequence[str], longest: LongSum | None
) -> tuple[tuple[LongestSum, ...], Literal["", "golden", "unseen"]]:
    if case.role != "reference":
        return (), "golden"
    if longest is None:
        return (), "unseen"
    found = [
        LongestSum(
            output,
            sum_error_bound(
                longest, _comparisons_of(output, runs[OWN_KIND][0])[0].dtype, _relative_max_error(output, runs)
            ),
        )
        for output in outputs
    ]
    return tuple(found), ""


def _relative_max_error(output: str, runs: Runs) -> float | None:
    """Return the largest |d| over the largest |r| of any run and seed; None if one of them lacks these figures."""
    figures = [
        (comparison.metrics.get("max_abs_error"), comparison.metrics.get("max_magnitude"))
        for outcomes in runs.values()
        for outcome in outcomes
        for comparison in _comparisons_of(output, outcome)
    ]
    ratios = [error / magnitude for error, magnitude in figures if error is not None and magnitude]
    return max(ratios) if len(ratios) == len(figures) else None


class ReplicateRun(NamedTuple):
    """Hold a variant to run, the case `of` that it replicates, and the kind of replicate."""

    case: CaseVariant
    of: Case
    kind: str


def run_calibrations(
    cases: Iterable[Case], plan: Plan, replicates: int, margins: Margins
) -> Iterator[CaseCalibration | Uncalibrated]:
    """Run the replicates of cases, and yield each case's calibration when its last run is there, in any order.

    Nothing is written. Raises UserError as a run does.
    """
    waiting: dict[str, list[ReplicateRun]] = {}
    for case in cases:
        cause = reason_not_replicable(case)
        if cause is not None:
            yield Uncalibrated(case.id, case.tier, cause)
        else:
            waiting[case.id] = [*replicate_runs(case, replicates)]
    by_id = {variant.case.id: variant for of_case in waiting.values() for variant in of_case}
    came: defaultdict[str, dict[str, Outcome]] = defaultdict(dict)
    plan = replace(plan, runner=run_variant)
    for outcome in run_cases([variant.case for variant in by_id.values()], plan):
        case = by_id[outcome.case].of
        came[case.id][outcome.case] = outcome
        if len(came[case.id]) == len(waiting[case.id]):
            # pop, so that memory holds the outcomes of unfinished cases alone.
            ran = _group_by_kind(waiting.pop(case.id), came.pop(case.id))
            chain = case_chain(plan.environment.chain, ran[OWN_KIND][0].execution.facts)
            yield calibrate_case(case, ran, chain, margins)


def reason_not_replicable(case: Case) -> Literal["known_bad", "recorded"] | None:
    """Return why a case has no replicates; None if it has."""
    if case.expect_failure is not None:
        return "known_bad"
    return None if case.inputs or case.subject.kind not in ("files", "table") else "recorded"


def replicate_runs(case: Case, replicates: int) -> Iterator[ReplicateRun]:
    """Yield the case's own run and its replicates, each with as many seeds as the case.

    The runs with sums in another order come last and in a row, because they share their inputs and their oracle.
    """
    # Repeats of a deterministic case give the same bits. Simulated operations take longer, so no time is judged.
    repeats = 1 if case.deterministic else case.repeats
    once = replace(case, repeats=repeats, budget=Budget())
    yield ReplicateRun(make_variant(once, OWN_KIND, replicate=Replicate()), case, OWN_KIND)
    for number in range(1, replicates + 1) if draws_inputs(case.inputs) else ():
        replicate = Replicate(first_seed=case.seeds * number)
        yield ReplicateRun(make_variant(once, f"{RESEEDED_KIND}-{number}", replicate=replicate), case, RESEEDED_KIND)
    for number in range(1, replicates + 1) if any(map(has_last_bits, case.inputs.values())) else ():
        replicate = Replicate(moved=number)
        yield ReplicateRun(make_variant(once, f"{LAST_BIT_KIND}-{number}", replicate=replicate), case, LAST_BIT_KIND)
    for name in ORDERS if case.subject.kind == "python" else ():
        yield ReplicateRun(make_variant(once, name, replicate=Replicate(), fault=name), case, REORDERED_KIND)


def draws_inputs(inputs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether another seed gives other inputs."""
    return any(map(is_drawn, inputs.values()))


def _group_by_kind(ran: Sequence[ReplicateRun], came: Mapping[str, Outcome]) -> dict[str, list[Outcome]]:
    """Return outcomes by kind in the order of `ran`, whatever the order in which they came."""
    by_kind: defaultdict[str, list[Outcome]] = defaultdict(list)
    for variant in ran:
        by_kind[variant.kind].append(came[variant.case.id])
    return by_kind


def count_by_quality(found: Iterable[CaseCalibration]) -> dict[str, int]:
    """Count bounds by quality, the worst first."""
    counted = Counter(bound.quality for case in found for bound in case.bounds)
    return {str(quality): counted[quality] for quality in BoundQuality}


def calibration_exit_code(found: Iterable[CaseCalibration]) -> int:
    """Return 1 if a bound is broken or flaky, 0 otherwise."""
    # A vacuous bound fails no run by accident, so it does not stop a pipeline.
    doubtful = {BoundQuality.BROKEN, BoundQuality.FLAKY}
    return 1 if any(bound.quality in doubtful for case in found for bound in case.bounds) else 0


def unsound_bounds(case: CaseCalibration) -> list[BoundCalibration]:
    """Return the bounds of a case that are not sound."""
    return [bound for bound in case.bounds if bound.quality is not BoundQuality.SOUND]
