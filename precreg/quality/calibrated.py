"""One case's calibration, made of the outcomes of its runs: a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log, sqrt
from statistics import stdev

from msgspec import Struct

from precreg.measure.metrics import mean_over_seeds
from precreg.quality.analytic import Analytic, analytic
from precreg.quality.held import Reading, held, read
from precreg.quality.quality import KINDS, LAST_BIT, OWN, REORDERED, Judged, Margins, judged
from precreg.tolerance.pyramid import resolve
from precreg.tolerance.warnings import vacuous
from precreg.types.replicate import LongSum
from precreg.types.types import Case, Comparison, Location, Outcome, Tier
from precreg.verdict.statistics.calibration_spread import FEWEST

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


class Sum(Struct, frozen=True):
    """The longest sum that a case was seen to take, and what theory allows of it beside what an output's error is."""

    output: str
    analytic: Analytic


class Calibrated(Struct, frozen=True):
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
    bounds: tuple[Judged, ...]
    mean_errors: tuple[MeanError, ...]
    sums: tuple[Sum, ...]
    no_sums: str
    notes: tuple[str, ...]


class Uncalibrated(Struct, frozen=True):
    """A case whose noise could not be told, and why."""

    case: str
    tier: Tier
    why: str


def calibrated(
    case: Case, ran: Mapping[str, Sequence[Outcome]], chain: tuple[str, ...], margins: Margins
) -> Calibrated | Uncalibrated:
    """Calibrate a case by its runs of each kind, in their order, the own one under OWN.

    `chain` is the environment's.
    """
    own = ran[OWN][0]
    if own.execution.failure is not None:
        return Uncalibrated(case.id, case.tier, f"{own.execution.failure.reason}: {own.execution.failure.message}")
    runs, notes = _counted(ran), [*_failures(ran)]
    if sum(map(len, runs.values())) == 1:
        return Uncalibrated(case.id, case.tier, "; ".join(["no replicate differs from its own run", *notes]))
    outputs = list(dict.fromkeys(comparison.output for comparison in own.comparisons))
    longest = next((o.noise.longest for o in ran.get(REORDERED, ()) if o.noise and o.noise.longest), None)
    sums, no_sums = _sums(case, runs, outputs, longest)
    return Calibrated(
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
    runs: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
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


def _bounds(case: Case, output: str, runs: Runs, chain: tuple[str, ...], margins: Margins) -> Iterable[Judged]:
    first = _of(output, runs[OWN][0])[0]
    tolerance = resolve(case.layers, output, first.dtype, chain)
    blind = next(vacuous(tolerance, first.metrics.get("mean_magnitude")), "")
    for bound in held(tolerance, first, case.role):
        readings: dict[str, list[Reading]] = {
            kind: [read(bound, tolerance, _of(output, each), _shares(output, each)) for each in outcomes]
            for kind, outcomes in runs.items()
        }
        yield judged(bound, (output, first.dtype), readings, blind, margins)


def _shares(output: str, outcome: Outcome) -> tuple[float, ...]:
    return outcome.noise.shares[output] if outcome.noise is not None else ()


def _mean_error(output: str, runs: Runs) -> MeanError:
    """Compare runs on the same seeds alone: others have other inputs, which no baseline is ever judged with."""
    means = [
        mean_over_seeds([comparison.metrics.get("mean_abs_error") for comparison in _of(output, outcome)])
        for kind in (OWN, LAST_BIT, REORDERED)
        for outcome in runs[kind]
    ]
    if len(means) < FEWEST or not all(means):
        return MeanError(output, len(means), None, None)
    deviation = stdev([log(mean) for mean in means if mean])
    return MeanError(output, len(means), deviation, exp(min(STANDS_OUT * sqrt(2) * deviation, 700)))


def _sums(case: Case, runs: Runs, outputs: Sequence[str], longest: LongSum | None) -> tuple[tuple[Sum, ...], str]:
    if case.role != "reference":
        return (), "a golden has rounding errors of its own"
    if longest is None:
        return (), "no sum over axes, running sum or product of matrices was seen"
    found = [
        Sum(output, analytic(longest, _of(output, runs[OWN][0])[0].dtype, _measured(output, runs)))
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
