"""Running the replicates of cases: as many of each kind as are asked for, in workers or in this process.

What theory allows of a sum: bounds on its rounding error where its length is known.

Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, Lemma 3.1 and section 4.2: a sum of n terms, in
any order, is off by at most gamma(n - 1) sum |x|, a sum of n products by at most gamma(n) sum |x y|; relative to the
result where terms have one sign. Higham and Mary, SIAM J. Sci. Comput. 41 (2019) A2815: where roundings are independent
with mean zero, errors are of the order sqrt(n) u.

One case's calibration, made of the outcomes of its runs: a pure function.

Calibrations counted: how many bounds are worth what, and the exit code that follows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, log, sqrt
from statistics import stdev
from typing import Any, NamedTuple

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
from precreg.suite.inputs import has_last_bits
from precreg.tolerance import resolve_tolerance, vacuous_bounds
from precreg.types import Budget, Case, Comparison, Location, LongSum, Outcome, Tier
from precreg.verdict.statistics import MIN_REPLICATES


class SumErrorBound(Struct, frozen=True):
    """Bounds on the relative error of the longest sum, rounded to the output once, beside what was measured.

    `gamma` and `bound` (gamma and the rounding to the output together) are None where n u >= 1: then there is none.
    `probable` is sqrt(n) u. `measured` is the largest |d| over the largest |r|, `ratio` what it is of the bound.
    """

    terms: int
    precision: int
    products: bool
    gamma: float | None
    probable: float
    bound: float | None
    measured: float | None
    ratio: float | None


def gamma(n: int, unit_roundoff: float) -> float | None:
    """Return n u / (1 - n u), or None where n u >= 1."""
    total = n * unit_roundoff
    return total / (1 - total) if total < 1 else None


def sum_error_bound(longest: LongSum, dtype: str, measured: float | None) -> SumErrorBound:
    """Put the bounds on a sum beside what was measured of an output in that dtype."""
    unit_roundoff = 2.0**-longest.precision
    roundings = longest.terms if longest.products else longest.terms - 1
    most = gamma(roundings, unit_roundoff)
    output = format_of(dtype)
    coarse = output is not None and output.precision < longest.precision
    last = output.unit_roundoff if output is not None and coarse else 0.0
    bound = None if most is None else most + last + most * last
    ratio = measured / bound if bound and measured is not None else None
    probable = sqrt(roundings) * unit_roundoff
    return SumErrorBound(longest.terms, longest.precision, longest.products, most, probable, bound, measured, ratio)


STANDS_OUT = 3.0
"""Standard deviations of a difference of two runs from which a change of the mean error stands out."""


Runs = Mapping[str, Sequence[Outcome]]
"""Outcomes by kind of run, in their order; none has failed, and the own run is there alone under OWN."""


class MeanError(Struct, frozen=True):
    """How the mean absolute error of an output varies between runs on the case's own seeds.

    `deviation` is the standard deviation of its logarithm, over `n` runs that all have an error; `stands_out` is the
    ratio of two runs' errors that is STANDS_OUT standard deviations of their difference away from 1. Both are None
    below FEWEST runs, and where a run has no error at all.
    """

    output: str
    n: int
    deviation: float | None
    stands_out: float | None


class LongestSum(Struct, frozen=True):
    """The longest sum that a case was seen to take, and what theory allows of it beside what an output's error is."""

    output: str
    analytic: SumErrorBound


class CaseCalibration(Struct, frozen=True):
    """What was found about one case. `runs` counts those of each kind that are counted, and `notes` says why not more.

    `sums` is empty, and `no_sums` says why, where no length is known.
    """

    case: str
    tier: Tier
    suite: str
    name: str
    source: Location
    seeds: int
    runs: dict[str, int]
    bounds: tuple[BoundCalibration, ...]
    mean_errors: tuple[MeanError, ...]
    sums: tuple[LongestSum, ...]
    no_sums: str
    notes: tuple[str, ...]


class Uncalibrated(Struct, frozen=True):
    """A case whose noise could not be told, and why."""

    case: str
    tier: Tier
    why: str


def calibrate_case(
    case: Case, ran: Mapping[str, Sequence[Outcome]], chain: tuple[str, ...], margins: Margins
) -> CaseCalibration | Uncalibrated:
    """Calibrate a case by its runs of each kind, in their order, the own one under OWN.

    `chain` is the environment's.
    """
    own = ran[OWN_KIND][0]
    if own.execution.failure is not None:
        return Uncalibrated(case.id, case.tier, f"{own.execution.failure.reason}: {own.execution.failure.message}")
    runs, notes = _counted(ran), [*_failures(ran)]
    if sum(map(len, runs.values())) == 1:
        return Uncalibrated(case.id, case.tier, "; ".join(["no replicate differs from its own run", *notes]))
    outputs = list(dict.fromkeys(comparison.output for comparison in own.comparisons))
    longest = next((o.noise.longest for o in ran.get(REORDERED_KIND, ()) if o.noise and o.noise.longest), None)
    sums, no_sums = _sums(case, runs, outputs, longest)
    return CaseCalibration(
        case.id,
        case.tier,
        case.suite,
        case.name,
        case.source,
        case.seeds,
        {kind: len(outcomes) for kind, outcomes in runs.items()},
        tuple(bound for output in outputs for bound in _bounds(case, output, runs, chain, margins)),
        tuple(_mean_error(output, runs) for output in outputs),
        sums,
        no_sums,
        tuple(notes),
    )


def _counted(ran: Runs) -> dict[str, list[Outcome]]:
    """Leave out runs that failed, and those whose inputs and outputs are those of one before: they tell nothing new."""
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


def _failures(ran: Runs) -> Iterable[str]:
    for kind, outcomes in ran.items():
        failures = [outcome.execution.failure for outcome in outcomes if outcome.execution.failure is not None]
        if failures:
            first = failures[0]
            yield f"{len(failures)} of {len(outcomes)} {kind} runs failed: {first.reason}, {first.message}"


def _of(output: str, outcome: Outcome) -> list[Comparison]:
    return [comparison for comparison in outcome.comparisons if comparison.output == output]


def _bounds(
    case: Case, output: str, runs: Runs, chain: tuple[str, ...], margins: Margins
) -> Iterable[BoundCalibration]:
    first = _of(output, runs[OWN_KIND][0])[0]
    tolerance = resolve_tolerance(case.layers, output, first.dtype, chain)
    blind = next(vacuous_bounds(tolerance, first.metrics.get("mean_magnitude")), "")
    for bound in calibrated_bounds(tolerance, first, case.role):
        readings: dict[str, list[BoundReading]] = {
            kind: [read_bound(bound, tolerance, _of(output, each), _shares(output, each)) for each in outcomes]
            for kind, outcomes in runs.items()
        }
        yield calibrate_bound(bound, (output, first.dtype), readings, blind, margins)


def _shares(output: str, outcome: Outcome) -> tuple[float, ...]:
    return outcome.noise.shares[output] if outcome.noise is not None else ()


def _mean_error(output: str, runs: Runs) -> MeanError:
    """Compare runs on the same seeds alone: others have other inputs, which no baseline is ever judged with."""
    means = [
        mean_over_seeds([comparison.metrics.get("mean_abs_error") for comparison in _of(output, outcome)])
        for kind in (OWN_KIND, LAST_BIT_KIND, REORDERED_KIND)
        for outcome in runs[kind]
    ]
    if len(means) < MIN_REPLICATES or not all(means):
        return MeanError(output, len(means), None, None)
    deviation = stdev([log(mean) for mean in means if mean])
    return MeanError(output, len(means), deviation, exp(min(STANDS_OUT * sqrt(2) * deviation, 700)))


def _sums(
    case: Case, runs: Runs, outputs: Sequence[str], longest: LongSum | None
) -> tuple[tuple[LongestSum, ...], str]:
    if case.role != "reference":
        return (), "a golden has rounding errors of its own"
    if longest is None:
        return (), "no sum over axes, running sum or product of matrices was seen"
    found = [
        LongestSum(output, sum_error_bound(longest, _of(output, runs[OWN_KIND][0])[0].dtype, _measured(output, runs)))
        for output in outputs
    ]
    return tuple(found), ""


def _measured(output: str, runs: Runs) -> float | None:
    """Return the largest |d| over the largest |r| of any run and seed; None where one of them has no such figures."""
    figures = [
        (comparison.metrics.get("max_abs_error"), comparison.metrics.get("max_magnitude"))
        for outcomes in runs.values()
        for outcome in outcomes
        for comparison in _of(output, outcome)
    ]
    ratios = [error / magnitude for error, magnitude in figures if error is not None and magnitude]
    return max(ratios) if len(ratios) == len(figures) else None


DEFAULT_REPLICATES = 8
"""How often a case is reseeded, and how often its inputs are moved in their last bits."""


ORDERS = ("sum_reversed", "sum_in_halves", "sum_pairwise")
"""The harmless changes of fault/table.py that only add up in another order."""


_DRAWN = frozenset({"normal", "uniform", "log_uniform", "integers", "ill_conditioned_sum"})
"""Distributions whose numbers follow from the seed; a special one has them where it has a share of the others."""


class Variant(NamedTuple):
    """A case to be run, the case `of` whose replicate it is, and of which kind."""

    case: CaseVariant
    of: Case
    kind: str


def run_calibrations(
    cases: Iterable[Case], plan: Plan, replicates: int, margins: Margins
) -> Iterator[CaseCalibration | Uncalibrated]:
    """Run the replicates of cases and yield what is found of each case as it is complete, in no promised order.

    Nothing is written. Raises UserError as a run does.
    """
    waiting: dict[str, list[Variant]] = {}
    for case in cases:
        if why := reason_not_replicable(case):
            yield Uncalibrated(case.id, case.tier, why)
        else:
            waiting[case.id] = [*case_variants(case, replicates)]
    by_id = {variant.case.id: variant for of_case in waiting.values() for variant in of_case}
    came: defaultdict[str, dict[str, Outcome]] = defaultdict(dict)
    plan = replace(plan, runner=run_variant)
    for outcome in run_cases([variant.case for variant in by_id.values()], plan):
        case = by_id[outcome.case].of
        came[case.id][outcome.case] = outcome
        if len(came[case.id]) == len(waiting[case.id]):
            yield calibrate_case(
                case, _by_kind(waiting.pop(case.id), came.pop(case.id)), plan.environment.chain, margins
            )


def reason_not_replicable(case: Case) -> str:
    """Return why a case has no replicates, or nothing."""
    if case.expect_failure is not None:
        return "it is known to be bad"
    return "" if case.inputs or case.subject.kind != "files" else "recorded outputs have no inputs to perturb"


def case_variants(case: Case, replicates: int) -> Iterator[Variant]:
    """Yield the case's own run, and its replicates: those that add up otherwise last, one after the other.

    Each run has as many seeds as the case, and an id of its own: a case's id has two slashes. Time is not asked for,
    and repeats only where they may differ and are measured together.
    """
    repeats = 1 if case.deterministic else case.repeats
    once = replace(case, repeats=repeats, budget=Budget())
    yield Variant(make_variant(once, OWN_KIND, replicate=Replicate()), case, OWN_KIND)
    for number in range(1, replicates + 1) if draws_inputs(case.inputs) else ():
        replicate = Replicate(first_seed=case.seeds * number)
        yield Variant(make_variant(once, f"{RESEEDED_KIND}-{number}", replicate=replicate), case, RESEEDED_KIND)
    for number in range(1, replicates + 1) if any(map(has_last_bits, case.inputs.values())) else ():
        replicate = Replicate(moved=number)
        yield Variant(make_variant(once, f"{LAST_BIT_KIND}-{number}", replicate=replicate), case, LAST_BIT_KIND)
    for name in ORDERS if case.subject.kind == "python" else ():
        yield Variant(make_variant(once, name, replicate=Replicate(), fault=name), case, REORDERED_KIND)


def draws_inputs(inputs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether another seed gives other inputs."""
    return any(_DRAWN & spec.keys() or "rest" in (spec.get("special") or {}) for spec in inputs.values())


def _by_kind(ran: Sequence[Variant], came: Mapping[str, Outcome]) -> dict[str, list[Outcome]]:
    by_kind: defaultdict[str, list[Outcome]] = defaultdict(list)
    for variant in ran:
        by_kind[variant.kind].append(came[variant.case.id])
    return by_kind


def count_by_quality(found: Iterable[CaseCalibration]) -> dict[str, int]:
    """Count bounds by quality, the worst first."""
    counted = Counter(bound.quality for case in found for bound in case.bounds)
    return {str(quality): counted[quality] for quality in BoundQuality}


def calibration_exit_code(found: Iterable[CaseCalibration]) -> int:
    """Return 1 where a bound is broken or flaky, else 0: a vacuous bound judges wrongly, but always alike."""
    doubtful = {BoundQuality.BROKEN, BoundQuality.FLAKY}
    return 1 if any(bound.quality in doubtful for case in found for bound in case.bounds) else 0


def unsound_bounds(case: CaseCalibration) -> list[BoundCalibration]:
    """Return the bounds of a case that are not sound."""
    return [bound for bound in case.bounds if bound.quality is not BoundQuality.SOUND]
