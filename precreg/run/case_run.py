"""What does one case give: digests of its inputs and outputs, differences between its runs, and its errors?

Each seed goes one way: draw the inputs, run the subject and repeat it, run the oracle, measure one against the other.
`run_case` follows that way for all seeds of a case, and turns every failure of user code into a fact of the outcome.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.measure import (
    add_analyzer_metrics,
    add_benchmark,
    add_error_maps,
    add_worst_metrics,
    compare_arrays,
    compare_runs,
    require_benchmark,
)
from precreg.run.computation import (
    SEED_BYTES,
    Arrays,
    CaseComputation,
    PlainComputation,
    arithmetic_of,
    missing_requirement,
    run_on_device,
)
from precreg.run.oracle import OracleRun, copy_inputs, run_oracle, take_inputs
from precreg.run.stochastic import add_sample_digits, draw_samples
from precreg.storage import array_digest, element_bytes
from precreg.subject import (
    Activity,
    Call,
    CaseFailed,
    Outputs,
    SurroundingsRestored,
    blame_failures,
    enter_stage,
    find_row,
    is_recorded,
    subject_kind,
)
from precreg.tolerance import resolve_tolerance
from precreg.types import (
    Case,
    Comparison,
    Computation,
    Execution,
    Failure,
    Outcome,
    Reason,
    RepeatDifference,
    case_chain,
)

_PLAIN = PlainComputation()

# The name of the output in whose place a table has figures.
RECORDED_OUTPUT = "out"

# A network has hundreds of outputs.
_SHOWN_NAMES = 5


class SubjectRun(NamedTuple):
    """The arrays and digests of one run of the subject, by output."""

    arrays: Arrays
    digests: dict[str, str]


class _Actual(NamedTuple):
    """The subject's results at one seed: the runs to measure, digests, the shortest time, differences between runs.

    `runs` has the last run alone, or every run of a case that declares itself nondeterministic. `facts` are those of
    the last run.
    """

    runs: list[Arrays]
    digests: dict[str, str]
    duration_s: float
    differences: list[RepeatDifference]
    facts: Mapping[str, str]


class _Sample(NamedTuple):
    """One seed: the digest of its inputs, the subject's results, comparisons, and outputs that the subject lacks.

    `oracle` has no arrays.
    """

    inputs: str
    actual: _Actual
    comparisons: list[Comparison]
    missing: list[str]
    oracle: _Judge


@np.errstate(all="ignore")
def run_case(case: Case, project: Path, chain: tuple[str, ...], computation: CaseComputation | None = None) -> Outcome:
    """Run the subject and the oracle on every seed and measure the subject's outputs.

    `chain` has the labels of the environment. `computation` changes steps of the case for a self-test; None changes
    none. Overflow and the like raise no warnings, because the comparison counts them. Every failure of the user's code
    becomes the failure of the outcome; nothing is raised.
    """
    computation = computation or _PLAIN
    try:
        absent = [reason for needed in case.requires if (reason := missing_requirement(needed, chain))]
        if absent:
            raise CaseFailed(Failure(Reason.UNAVAILABLE, "; ".join(absent)))
        if case.subject.kind == "table":
            return _recorded_outcome(case, project)
        return _outcome(case, [*_run_seeds(case, project, chain, computation)])
    except CaseFailed as failed:
        return Outcome(case.id, case.definition, Execution(failure=failed.failure))


def _recorded_outcome(case: Case, project: Path) -> Outcome:
    """Return the figures of a table's row as the comparison of one output, with the bits of its figures."""
    with blame_failures(Reason.SUBJECT_ERROR):
        enter_stage(Activity.SUBJECT, 0)
        row = find_row(case.subject.spec, project)
    inputs = (combine_digests({"row": case.definition}),)
    shape = () if row.elements is None else (row.elements,)
    counts = {} if row.elements is None else {"n": row.elements}
    dtype = case.subject.spec["dtype"]
    comparison = Comparison(
        RECORDED_OUTPUT, 0, dtype, shape, dtype, shape, row.values, counts, described=row.described, figures=row.source
    )
    # repr gives each float64 a text of its own.
    texts = {name: repr(value) for name, value in row.values.items()} | row.source.non_finite
    digests: dict[str, tuple[str, ...]] = {RECORDED_OUTPUT: (combine_digests({**texts, "n": str(row.elements)}),)}
    return Outcome(case.id, case.definition, Execution(inputs, digests), (comparison,))


class _Started(NamedTuple):
    """One seed between its subject and its oracle: the inputs, as the subject's call has them, and the results."""

    seed: int
    call: Call
    actual: _Actual
    # Of all outputs.
    digest: str
    samples: list[Arrays]

    @property
    def size(self) -> int:
        """Return the bytes of inputs and outputs."""
        runs = (self.call.inputs, *self.actual.runs, *self.samples)
        return sum(array.nbytes for arrays in runs for array in arrays.values())


def _run_seeds(case: Case, project: Path, chain: tuple[str, ...], computation: CaseComputation) -> Iterator[_Sample]:
    """Run the subject on seed after seed, and the oracle on as many seeds at once as fit into SEED_BYTES."""
    waiting: list[_Started] = []
    for seed in range(computation.first_seed, computation.first_seed + case.seeds):
        waiting.append(_start_seed(case, seed, project, computation))
        if sum(started.size for started in waiting) >= SEED_BYTES:
            yield from _finish_seeds(case, waiting, chain, computation)
            waiting = []
    yield from _finish_seeds(case, waiting, chain, computation)


def _start_seed(case: Case, seed: int, project: Path, computation: CaseComputation) -> _Started:
    directory = suite_folder(project, case.directory)
    with blame_failures(Reason.SUBJECT_ERROR):
        enter_stage(Activity.DRAWING, seed)
        inputs = computation.reuse(
            "inputs", seed, lambda: computation.alter_inputs(take_inputs(case, seed, directory, project), seed)
        )
        call = Call(inputs, case.params, directory, project, arithmetic_of(case, project), case=case.id)
        actual = computation.run_subject(call, seed, lambda call: _run_subject(case, seed, call))

        def sample(call: Call) -> Arrays:
            return computation.run_sample(call, lambda call: run_subject_once(case, call)).arrays

        samples = draw_samples(case, seed, call, actual.runs[-1], sample)
        return _Started(seed, call, actual, combine_digests(actual.digests), samples)


def _finish_seeds(
    case: Case, waiting: Sequence[_Started], chain: tuple[str, ...], computation: CaseComputation
) -> Iterator[_Sample]:
    """Run the oracle on the inputs of all seeds that wait for it, and measure each seed."""
    if not waiting:
        return
    call = waiting[0].call
    # At the first seed that needs it: a self-test may have kept the outputs of all.
    seeds, inputs = [started.seed for started in waiting], [started.call.inputs for started in waiting]
    runs: list[OracleRun] = []

    def judge(place: int) -> _Judge:
        if not runs:
            runs.append(run_oracle(case, seeds, inputs, call.directory, call.project))
        return _judge(runs[0], place)

    for place, started in enumerate(waiting):
        yield _finish_seed(case, started, chain, computation, partial(judge, place))


class _Judge(NamedTuple):
    """The oracle's outputs at one seed, their digest, the project's files that its process opened so far, and facts."""

    arrays: Arrays
    digest: str
    files: tuple[str, ...]
    facts: Mapping[str, str]


def _judge(run: OracleRun, place: int) -> _Judge:
    arrays = run.outputs[place]
    return _Judge(arrays, combine_digests(array_digests(arrays)), run.files, run.facts)


def _finish_seed(
    case: Case,
    started: _Started,
    chain: tuple[str, ...],
    computation: CaseComputation,
    compute_oracle: Callable[[], _Judge],
) -> _Sample:
    seed, call, actual, actual_digest, samples = started
    # Tolerances name the measured match, and accelerators have other tolerances.
    chain = case_chain(chain, actual.facts)
    with blame_failures(Reason.REFERENCE_ERROR):
        judge = computation.reuse("oracle", seed, compute_oracle)
        oracle = judge.arrays
        enter_stage(Activity.MEASURING, seed)
        # Most planted faults leave an output's bits as they are: a self-test measures the same bits once.
        comparisons, missing = computation.reuse(
            f"measured {actual_digest}", seed, lambda: _compare_seed(case, seed, actual.runs, oracle, chain)
        )
        comparisons = add_error_maps(comparisons, actual.runs[-1], oracle, actual.digests, computation.accepted)
        comparisons = add_sample_digits(case, comparisons, actual.runs[-1], samples, oracle)
        computation.observe(actual.runs, oracle)
        # Recorded outputs count as inputs: another recording makes the baseline stale, as other inputs do.
        recorded = oracle if is_recorded(case.oracle) else {}
    if case.benchmark is not None:
        with blame_failures(Reason.BENCHMARK_ERROR):
            enter_stage(Activity.BENCHMARK, seed)
            comparisons = _add_benchmarks(case, case.benchmark, comparisons, oracle, call, chain)
    inputs = combine_digests(array_digests(call.inputs | recorded))
    # The arrays are dropped here, so that memory does not grow with the number of seeds.
    return _Sample(inputs, actual._replace(runs=[]), comparisons, missing, judge._replace(arrays={}))


def _outcome(case: Case, samples: list[_Sample]) -> Outcome:
    names = _union(sample.actual.digests for sample in samples)
    differences = first_differences(names, (found for sample in samples for found in sample.actual.differences))
    execution = Execution(
        inputs=tuple(sample.inputs for sample in samples),
        outputs={
            name: tuple(sample.actual.digests[name] for sample in samples if name in sample.actual.digests)
            for name in names
        },
        # The shortest time is the least disturbed by other processes.
        duration_s=min(sample.actual.duration_s for sample in samples),
        unsteady=tuple(difference.output for difference in differences),
        differences=differences,
        oracle=tuple(sample.oracle.digest for sample in samples),
        # The last seed's list has all of them: a process notes its files from its start.
        oracle_files=samples[-1].oracle.files if samples else (),
        facts={name: fact for sample in samples for name, fact in sample.actual.facts.items()},
        oracle_facts={name: fact for sample in samples for name, fact in sample.oracle.facts.items()},
    )
    comparisons = tuple(comparison for sample in samples for comparison in sample.comparisons)
    return Outcome(case.id, case.definition, execution, comparisons, _union(sample.missing for sample in samples))


def _union(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    # A dict keeps the order in which the subject gives its outputs; a set would not.
    return tuple(dict.fromkeys(name for group in names for name in group))


def _run_subject(case: Case, seed: int, call: Call) -> _Actual:
    """Run the subject `case.repeats` times, each time on copies of the call's inputs and params.

    A subject may write into its inputs (an optimizer that updates in place does), and neither its next run nor the
    oracle may see that.
    """
    durations_s, runs, facts = [], list[SubjectRun](), dict[str, str]()
    differences: list[RepeatDifference] = []
    for repeat in range(1, case.repeats + 1):
        enter_stage(Activity.SUBJECT, seed, repeat if case.repeats > 1 else 0)
        outputs = run_subject_once(case, call)
        durations_s.append(outputs.duration_s)
        facts = {**outputs.facts}
        run = SubjectRun(outputs.arrays, array_digests(outputs.arrays))
        differences += repeat_differences(runs[0] if runs else run, run, seed, repeat)
        # A deterministic case needs its first and its last run alone, so memory does not grow with its repeats.
        runs = [*runs, run] if not runs or not case.deterministic else [runs[0], run]
    digests = runs[-1].digests if case.deterministic else combined_digests(runs)
    measured = runs[-1:] if case.deterministic else runs
    return _Actual([run.arrays for run in measured], digests, min(durations_s), differences, facts)


def run_subject_once(case: Case, call: Call) -> Outputs:
    """Return the subject's outputs for copies of the call's inputs and params, which it may change.

    Raises UserError as `run_on_device` does.
    """
    own = replace(call, inputs=copy_inputs(call.inputs), params=deepcopy(call.params))
    if case.device is None:
        return _compute(case.subject, own)
    return run_on_device(case.device, own, lambda call: _compute(case.subject, call))


def _compute(computation: Computation, call: Call) -> Outputs:
    return subject_kind(computation.kind)(computation.spec, call)


def _add_benchmarks(
    case: Case,
    benchmark: Computation,
    comparisons: list[Comparison],
    oracle: Arrays,
    call: Call,
    chain: tuple[str, ...],
) -> list[Comparison]:
    """Measure the outputs of the benchmark against the oracle's, and add its ratios to the comparisons.

    The benchmark gets the inputs as the subject does, on plain arithmetic. Raises UserError: bad-outputs, for an output
    that the benchmark lacks or gives in another shape, and for NaN and infinities that the oracle does not have.
    """
    # The subject may be computed on a simulated device; the benchmark is an implementation of its own.
    own = replace(call, inputs=copy_inputs(call.inputs), params=deepcopy(case.params), arithmetic=None)
    arrays = _compute(benchmark, own).arrays
    found = []
    for comparison in comparisons:
        name = comparison.output
        if name not in arrays:
            message = f"expected the benchmark to give every output of the subject but it lacks {name}"
            raise UserError("bad-outputs", message)
        tolerance = resolve_tolerance(case.layers, name, comparison.dtype, chain)
        measured = compare_arrays(
            arrays[name],
            oracle[name],
            output=name,
            seed=comparison.seed,
            rtol=tolerance.rtol.limit,
            atol=tolerance.atol.limit,
            regions=tolerance.regions,
        )
        require_benchmark(measured, f"{name} of the benchmark")
        found.append(add_benchmark(comparison, measured))
    return found


def compare_with_oracle(
    case: Case, seed: int, actual: Arrays, oracle: Arrays, chain: tuple[str, ...]
) -> tuple[list[Comparison], list[str]]:
    """Measure every output against the oracle's, and name the oracle's outputs that `actual` lacks.

    Raises:
        UserError: bad-outputs, for an output that the oracle lacks, and if the oracle gives no output.
    """
    return _compare_seed(case, seed, [actual], oracle, chain)


def _compare_seed(
    case: Case, seed: int, runs: list[Arrays], oracle: Arrays, chain: tuple[str, ...]
) -> tuple[list[Comparison], list[str]]:
    """Measure every output of the runs of one seed, and name the oracle's outputs that any of the runs lacks."""
    for run in runs:
        _require_counterparts(case, run, oracle)
    comparisons = [
        _compare_output(case, seed, name, [run[name] for run in runs if name in run], oracle[name], chain)
        for name in _union(runs)
    ]
    return comparisons, [name for name in oracle if any(name not in run for run in runs)]


def _require_counterparts(case: Case, actual: Arrays, oracle: Arrays) -> None:
    """Refuse an output that the oracle lacks, and an oracle without outputs: nothing would judge them."""
    extra = [name for name in actual if name not in oracle]
    if extra or not oracle:
        given = ", ".join([*oracle][:_SHOWN_NAMES]) + (" and more" if len(oracle) > _SHOWN_NAMES else "")
        lacks = f"lacks {', '.join(extra)}, and gives {given}" if oracle else "gives nothing"
        raise UserError("bad-outputs", f"expected the {case.role} to give every output of the subject but it {lacks}")


def _compare_output(
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
    # An analyzer is the user's code as a subject is: its failure and its changes of the process stay its own.
    with blame_failures(Reason.ANALYZER_ERROR), SurroundingsRestored():
        return add_worst_metrics(
            measured, [add_analyzer_metrics(measured, run, oracle, case.analyzers) for run in runs]
        )


def repeat_differences(first: SubjectRun, other: SubjectRun, seed: int, repeat: int) -> Iterator[RepeatDifference]:
    """Yield the outputs whose bits in run number `repeat` differ from run 1, and where they differ."""
    for name in dict.fromkeys((*first.digests, *other.digests)):
        if first.digests.get(name) != other.digests.get(name):
            yield array_difference(name, seed, repeat, first.arrays.get(name), other.arrays.get(name))


def first_differences(outputs: Sequence[str], differences: Iterable[RepeatDifference]) -> tuple[RepeatDifference, ...]:
    """Keep the first difference of each output, in the order in which the subject gives its outputs."""
    found: dict[str, RepeatDifference] = {}
    for difference in differences:
        found.setdefault(difference.output, difference)
    return tuple(found[name] for name in dict.fromkeys((*outputs, *found)) if name in found)


def array_difference(
    output: str, seed: int, repeat: int, before: NDArray[Any] | None, after: NDArray[Any] | None
) -> RepeatDifference:
    """Locate the differences between an output of run 1 and the same output of run number `repeat`.

    Elements differ if their bits do, as in digests: zeros of different sign differ, and so do NaN of other bits. The
    place is None if one run lacks the output or gives it in another shape or dtype.
    """
    if before is None or after is None or (before.dtype, before.shape) != (after.dtype, after.shape):
        return RepeatDifference(output, seed, repeat)
    places = np.flatnonzero((element_bytes(before) != element_bytes(after)).any(axis=1))
    largest, non_finite = _largest_distance(before.reshape(-1)[places], after.reshape(-1)[places])
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


def _largest_distance(before: NDArray[Any], after: NDArray[Any]) -> tuple[float | None, int]:
    """Return the largest distance of two finite elements, None beyond float64, and the number of pairs not finite."""
    # Unsigned integers would wrap around, and float64 cannot hold every longdouble.
    wide = np.clongdouble if before.dtype.kind == "c" else np.longdouble
    with np.errstate(invalid="ignore"):
        first, other = before.astype(wide), after.astype(wide)
        distances = np.abs(other - first)
    finite = np.isfinite(first) & np.isfinite(other)
    largest = float(distances[finite].max(initial=0))
    return largest if finite.any() and isfinite(largest) else None, int(np.count_nonzero(~finite))


def combined_digests(runs: Sequence[SubjectRun]) -> dict[str, str]:
    """Return a digest for each output: the common one of all runs, or a digest of all their digests.

    The second kind has the length of a digest and belongs to no run alone.
    """
    digests = {name: [run.digests.get(name, "") for run in runs] for run in runs for name in run.digests}
    return {name: each[0] if len(set(each)) == 1 else _join_digests(each) for name, each in digests.items()}


def _join_digests(digests: Sequence[str]) -> str:
    # The longest, because a run that lacks the output has an empty digest.
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[: len(max(digests, key=len))]


def array_digests(arrays: Arrays) -> dict[str, str]:
    """Return the digest of each array by name."""
    return {name: array_digest(array) for name, array in arrays.items()}


def combine_digests(digests: dict[str, str]) -> str:
    """Return one digest for named digests: 32 hexadecimal characters."""
    lines = "".join(f"{name} {digest}\n" for name, digest in digests.items())
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


# One path for all cases and seeds of a suite.
@cache
def suite_folder(project: Path, directory: str) -> Path:
    """Return the folder of a suite."""
    return project / directory
