"""Where two runs of a subject on the same inputs differ, output by output.

One case from its definition to its outcome: draw, compute, compute again, hold against the oracle, measure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name, format_of
from precreg.arithmetic.faults import OperationKind, fault_named
from precreg.errors import UserError
from precreg.measure import add_analyzer_metrics, add_worst_metrics, compare_arrays, compare_runs, share_of_tolerance
from precreg.run.computation import arithmetic_of, cached_computation, missing_requirement, with_fault, with_recorder
from precreg.storage import array_digest, element_bytes
from precreg.subject import Call, CaseFailed, Outputs, SurroundingsRestored, blame_failures, subject_kind
from precreg.suite.inputs import draw_input, has_last_bits, move_last_bits, parse_input
from precreg.tolerance import resolve_tolerance
from precreg.types import (
    Case,
    Comparison,
    Computation,
    Execution,
    Failure,
    LongSum,
    Noise,
    Outcome,
    Reason,
    RepeatDifference,
)

Arrays = dict[str, NDArray[Any]]


class SubjectRun(NamedTuple):
    """What one run of the subject gave: arrays and digests by output."""

    arrays: Arrays
    digests: dict[str, str]


def repeat_differences(first: SubjectRun, other: SubjectRun, seed: int, repeat: int) -> Iterator[RepeatDifference]:
    """Yield the outputs of which run number `repeat` gave other bits than run 1, and where."""
    for name in dict.fromkeys((*first.digests, *other.digests)):
        if first.digests.get(name) != other.digests.get(name):
            yield array_difference(name, seed, repeat, first.arrays.get(name), other.arrays.get(name))


def combined_digests(runs: Sequence[SubjectRun]) -> dict[str, str]:
    """Return a digest for each output: that of all runs where they agree, else one that no run has of its own."""
    digests = {name: [run.digests.get(name, "") for run in runs] for run in runs for name in run.digests}
    return {name: each[0] if len(set(each)) == 1 else _joined(each) for name, each in digests.items()}


def _joined(digests: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[: len(max(digests, key=len))]


def first_differences(outputs: Sequence[str], differences: Iterable[RepeatDifference]) -> tuple[RepeatDifference, ...]:
    """Keep the first difference of each output, in the order in which the subject gives its outputs."""
    found: dict[str, RepeatDifference] = {}
    for one in differences:
        found.setdefault(one.output, one)
    return tuple(found[name] for name in dict.fromkeys((*outputs, *found)) if name in found)


def array_difference(
    output: str, seed: int, repeat: int, before: NDArray[Any] | None, after: NDArray[Any] | None
) -> RepeatDifference:
    """Say where two arrays differ that run 1 and run number `repeat` gave, of which not all bits are the same.

    Elements differ where their bits do, as digests see it: zeros of either sign, and NaN of other bits, too.
    """
    if before is None or after is None or (before.dtype, before.shape) != (after.dtype, after.shape):
        return RepeatDifference(output, seed, repeat)
    places = np.flatnonzero((element_bytes(before) != element_bytes(after)).any(axis=1))
    largest, non_finite = _largest(before.reshape(-1)[places], after.reshape(-1)[places])
    return RepeatDifference(
        output,
        seed,
        repeat,
        place=tuple(int(index) for index in np.unravel_index(places[0], before.shape)),
        differing=len(places),
        size=before.size,
        largest=largest,
        non_finite=non_finite,
    )


def _largest(before: NDArray[Any], after: NDArray[Any]) -> tuple[float | None, int]:
    """Return the largest distance of two finite elements, None beyond float64, and how many pairs are not finite."""
    wide = np.clongdouble if before.dtype.kind == "c" else np.longdouble
    with np.errstate(invalid="ignore"):
        first, other = before.astype(wide), after.astype(wide)
        distances = np.abs(other - first)
    finite = np.isfinite(first) & np.isfinite(other)
    largest = float(distances[finite].max(initial=0))
    return largest if finite.any() and isfinite(largest) else None, int(np.count_nonzero(~finite))


class _Actual(NamedTuple):
    """What the subject gave at one seed: arrays of the runs that are measured, digests, and where runs differ.

    The last run alone is measured, or every run where the case declares that they may differ.
    """

    runs: list[Arrays]
    digests: dict[str, str]
    duration_s: float
    differences: list[RepeatDifference]
    longest: LongSum | None = None


class _Sample(NamedTuple):
    """What one seed gave; `shares` is filled of replicates alone."""

    inputs: str
    actual: _Actual
    comparisons: list[Comparison]
    missing: list[str]
    shares: dict[str, float]


@np.errstate(all="ignore")
def run_case(case: Case, project: Path, chain: tuple[str, ...]) -> Outcome:
    """Run the subject and the oracle on every seed and measure their outputs. `chain` is the environment's.

    The subject, and then the oracle, get copies of the inputs, so either may write into its own (an optimizer that
    updates in place is a sound subject) and neither can change what the other sees. Overflow and the like raise no
    warnings: they are facts, and the comparison counts them.

    Whatever goes wrong in the user's code is a failure within the outcome; nothing is raised.
    """
    try:
        _require(case, chain)
        first = 0 if case.replicate is None else case.replicate.first_seed
        return _outcome(case, [_sample(case, seed, project, chain) for seed in range(first, first + case.seeds)])
    except CaseFailed as failed:
        return Outcome(case.id, case.definition, Execution(failure=failed.failure))


def _require(case: Case, chain: tuple[str, ...]) -> None:
    absent = [reason for needed in case.requires if (reason := missing_requirement(needed, chain))]
    if absent:
        raise CaseFailed(Failure(Reason.UNAVAILABLE, "; ".join(absent)))


def _outcome(case: Case, samples: list[_Sample]) -> Outcome:
    names = _union(sample.actual.digests for sample in samples)
    differences = first_differences(names, (found for sample in samples for found in sample.actual.differences))
    execution = Execution(
        inputs=tuple(sample.inputs for sample in samples),
        outputs={name: _over_seeds(samples, name) for name in names},
        duration_s=min(sample.actual.duration_s for sample in samples),
        unsteady=tuple(difference.output for difference in differences),
        differences=differences,
    )
    comparisons = tuple(comparison for sample in samples for comparison in sample.comparisons)
    missing_outputs = _union(sample.missing for sample in samples)
    noise = None if case.replicate is None else _noise(samples)
    return Outcome(case.id, case.definition, execution, comparisons, missing_outputs, noise)


def _noise(samples: list[_Sample]) -> Noise:
    names = _union(sample.shares for sample in samples)
    return Noise(
        {name: tuple(sample.shares[name] for sample in samples if name in sample.shares) for name in names},
        samples[0].actual.longest,
    )


def _over_seeds(samples: list[_Sample], output: str) -> tuple[str, ...]:
    return tuple(sample.actual.digests[output] for sample in samples if output in sample.actual.digests)


def _union(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in names for name in group))


def _sample(case: Case, seed: int, project: Path, chain: tuple[str, ...]) -> _Sample:
    directory = _directory(project, case.directory)
    with blame_failures(Reason.SUBJECT_ERROR):
        inputs = cached_computation("inputs", case, seed, project, lambda: _drawn(case, seed, directory, project))
        call = Call(inputs, case.params, directory, project, arithmetic_of(case, project))
        actual = _actual(case, seed, call) if case.fault is None else _with_fault(case, case.fault, seed, call)
    with blame_failures(Reason.REFERENCE_ERROR):
        oracle = cached_computation("oracle", case, seed, project, lambda: _oracle(case, inputs, directory, project))
        of_these_bits = f"measured {combine_digests(actual.digests)}"
        comparisons, missing_outputs = cached_computation(
            of_these_bits, case, seed, project, lambda: _held_against(case, seed, actual.runs, oracle, chain)
        )
        shares = {} if case.replicate is None else _shares(case, actual.runs, oracle, chain)
    recorded = oracle if case.oracle.kind == "files" else {}
    return _Sample(combine_digests(array_digests(inputs | recorded)), actual, comparisons, missing_outputs, shares)


def _drawn(case: Case, seed: int, directory: Path, project: Path) -> Arrays:
    drawn = {
        name: draw_input(name, parse_input(name, mapping, case.source), seed, directory, project)
        for name, mapping in case.inputs.items()
    }
    number = None if case.replicate is None else case.replicate.moved
    if number is not None:
        movable = [name for name, mapping in case.inputs.items() if has_last_bits(mapping)]
        drawn |= {name: move_last_bits(drawn[name], name, seed, number) for name in movable}
    return drawn


def _oracle(case: Case, inputs: Arrays, directory: Path, project: Path) -> Arrays:
    prepare = _copies if case.role == "golden" else _promoted
    return _compute(case.oracle, Call(prepare(inputs), deepcopy(case.params), directory, project)).arrays


def compare_with_oracle(
    case: Case, seed: int, actual: Arrays, oracle: Arrays, chain: tuple[str, ...]
) -> tuple[list[Comparison], list[str]]:
    """Measure every output against the oracle's, and name those that the oracle has and `actual` lacks.

    Raises:
        UserError: bad-outputs, for an output without counterpart, and where there is none at all.
    """
    return _held_against(case, seed, [actual], oracle, chain)


def _held_against(
    case: Case, seed: int, runs: list[Arrays], oracle: Arrays, chain: tuple[str, ...]
) -> tuple[list[Comparison], list[str]]:
    """Measure every output of one run or more; an output that any of them lacks is named as one that is not there."""
    for run in runs:
        _require_every_output(case, run, oracle)
    comparisons = [
        _compared(case, seed, name, [run[name] for run in runs if name in run], oracle[name], chain)
        for name in _union(runs)
    ]
    return comparisons, [name for name in oracle if any(name not in run for run in runs)]


def _with_fault(case: Case, name: str, seed: int, call: Call) -> _Actual:
    """Run the subject with a fault; what it gives without stands where it meets nothing that the fault can alter."""
    fault = fault_named(name)
    without, met = cached_computation("actual", case, seed, call.project, lambda: _recorded(case, seed, call))
    if fault.place == "operations" and met.isdisjoint(fault.needs):
        return without
    return _actual(case, seed, with_fault(call, fault))._replace(longest=without.longest)


def _recorded(case: Case, seed: int, call: Call) -> tuple[_Actual, set[OperationKind]]:
    """Run the subject without its fault, and return the kinds of operation that it met, too."""
    call, recorder = with_recorder(call)
    actual = _actual(case, seed, call)
    return actual._replace(longest=recorder.longest), recorder.met


def _actual(case: Case, seed: int, call: Call) -> _Actual:
    """Run the subject as often as the case says, with copies of the call's inputs and params."""
    durations_s, runs = [], list[SubjectRun]()
    differences: list[RepeatDifference] = []
    for repeat in range(1, case.repeats + 1):
        outputs = _compute(case.subject, replace(call, inputs=_copies(call.inputs), params=deepcopy(call.params)))
        durations_s.append(outputs.duration_s)
        run = SubjectRun(outputs.arrays, array_digests(outputs.arrays))
        differences += repeat_differences(runs[0] if runs else run, run, seed, repeat)
        runs = [*runs, run] if not runs or not case.deterministic else [runs[0], run]
    digests = runs[-1].digests if case.deterministic else combined_digests(runs)
    measured = runs[-1:] if case.deterministic else runs
    return _Actual([run.arrays for run in measured], digests, min(durations_s), differences)


def _compute(computation: Computation, call: Call) -> Outputs:
    return subject_kind(computation.kind)(computation.spec, call)


def _require_every_output(case: Case, actual: Arrays, oracle: Arrays) -> None:
    """Refuse an output without counterpart, and a case without outputs: nobody would judge them."""
    extra = [name for name in actual if name not in oracle]
    if extra or not oracle:
        lacks = f"lacks {', '.join(extra)}" if extra else "gives nothing"
        raise UserError("bad-outputs", f"expected the {case.role} to give every output of the subject but it {lacks}")


def _compared(
    case: Case, seed: int, output: str, runs: list[NDArray[Any]], oracle: NDArray[Any], chain: tuple[str, ...]
) -> Comparison:
    tolerance = resolve_tolerance(case.layers, output, dtype_name(runs[0].dtype), chain)
    rtol, atol, regions = tolerance.rtol.limit, tolerance.atol.limit, tolerance.regions
    if case.deterministic:
        measured = compare_arrays(runs[-1], oracle, output=output, seed=seed, rtol=rtol, atol=atol, regions=regions)
    else:
        measured = compare_runs(runs, oracle, output=output, seed=seed, rtol=rtol, atol=atol, regions=regions)
    if not case.analyzers:
        return measured
    with blame_failures(Reason.ANALYZER_ERROR), SurroundingsRestored():
        return add_worst_metrics(
            measured, [add_analyzer_metrics(measured, run, oracle, case.analyzers) for run in runs]
        )


def _shares(case: Case, runs: list[Arrays], oracle: Arrays, chain: tuple[str, ...]) -> dict[str, float]:
    """Return by output the largest share of its tolerance that an element of any run takes."""
    found: dict[str, float] = {}
    for name, array in ((name, array) for run in runs for name, array in run.items()):
        tolerance = resolve_tolerance(case.layers, name, dtype_name(array.dtype), chain)
        share = share_of_tolerance(array, oracle[name], tolerance.rtol.limit, tolerance.atol.limit)
        found[name] = max(found.get(name, 0.0), share)
    return found


def _copies(inputs: Arrays) -> Arrays:
    return {name: array.copy("K") for name, array in inputs.items()}


def _promoted(inputs: Arrays) -> Arrays:
    return {name: array.astype(_wider(array.dtype)) for name, array in inputs.items()}


@cache
def _wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which a reference computes: float64, longdouble for float64 itself; integers stay."""
    number_format = format_of(dtype.name)
    if number_format is None:
        return dtype
    wide = np.float64 if number_format.precision < np.finfo(np.float64).nmant + 1 else np.longdouble
    return np.result_type(wide, np.complex64) if dtype.kind == "c" else np.dtype(wide)


@cache
def _directory(project: Path, directory: str) -> Path:
    return project / directory


def array_digests(arrays: Arrays) -> dict[str, str]:
    """Return each array's digest by name."""
    return {name: array_digest(array) for name, array in arrays.items()}


def combine_digests(digests: dict[str, str]) -> str:
    """Return one digest for named digests."""
    lines = "".join(f"{name} {digest}\n" for name, digest in digests.items())
    return hashlib.sha256(lines.encode()).hexdigest()[:32]
