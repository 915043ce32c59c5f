"""Which steps does the reduction of a case take?

The subject runs twice, and its oracle once. A chain records the operations of the subject. The search keeps the errors
of fewer and fewer operations. The kept ones become a suite, which runs at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.baseline import Baselines
from precreg.diagnose.reduction.allowance import AcceptedAllowance, ErrorAllowance
from precreg.diagnose.reduction.difference import Replacement, find_differing_part, record_oracle
from precreg.diagnose.reduction.numpy_chain import NumpyChain
from precreg.diagnose.reduction.numpy_module import keep_differing, record_numpy
from precreg.diagnose.reduction.reduced_suite import bounds_of, suite_name, with_stored_oracle, write_reduced
from precreg.diagnose.reduction.search import find_smallest
from precreg.diagnose.reduction.steps import Chain, ExactRun, KeptComputation, RecordedChain
from precreg.errors import UserError
from precreg.measure import compare_arrays
from precreg.run import (
    arithmetic_of,
    array_digests,
    draw_inputs,
    prepare_cases,
    run_oracle,
    run_subject_once,
    suite_folder,
)
from precreg.shadow import require_traceable, subject_failures
from precreg.subject import Call, CaseFailed, Observer, Outputs, blame_failures, watch_case_in_process
from precreg.suite import load_cases
from precreg.types import (
    Case,
    KeptOperation,
    Reason,
    ReducedErrorKind,
    ReducedPart,
    Reduction,
    ReductionStatus,
    case_chain,
)
from precreg.vcs import git_state

Arrays = Mapping[str, NDArray[Any]]

# The search compares the losses of two halves, and needs no digits of them.
_ROUGHLY = 1.2


class ReduceSettings(NamedTuple):
    """The settings of a reduction: the folder of its project, the labels of the environment, and the limits.

    `parts` is the number of parts to find: after the first one, the others fail without it.
    """

    folder: Path
    chain: tuple[str, ...] = ()
    seed: int = 0
    runs: int = 1000
    parts: int = 1


class _Run(NamedTuple):
    """One run of a case: its call, the outputs of the subject and of its oracle, and its tolerance."""

    call: Call
    actual: Outputs
    oracle: Arrays
    allowance: ErrorAllowance | AcceptedAllowance

    @property
    def factor(self) -> float:
        return self.allowance.factor(self.actual.arrays, self.oracle)


@np.errstate(all="ignore")
def reduce_case(case: Case, project: Path, settings: ReduceSettings) -> Reduction:
    """Return the smallest parts of a case that still fail, and write a suite of each. Prints of it go to stderr.

    Raises UserError: untraceable and trace-failed as a trace does; irreducible, for operations that no suite can hold;
    and the errors of writing.
    """
    started = perf_counter()
    require_traceable(case, settings.chain)
    prepare_cases([case], project)
    with watch_case_in_process(is_first=True), redirect_stdout(sys.stderr):
        found = _Reducer(case, project, settings).reduce()
    state = git_state(project)
    return replace(found, commit="" if state is None else state.commit, seconds=perf_counter() - started)


class _Reducer:
    """The reduction of one case."""

    def __init__(self, case: Case, project: Path, settings: ReduceSettings) -> None:
        self._case, self._project, self._settings = case, project, settings
        self._found = Reduction(case=case.id, seed=settings.seed, status="passed", folder=str(settings.folder))

    def reduce(self) -> Reduction:
        """Return the reduction."""
        case, seed = self._case, self._settings.seed
        run = _run(case, self._project, seed, self._settings.chain)
        with subject_failures(case, seed, "return arrays again"):
            again = run_subject_once(case, run.call)
        if array_digests(again.arrays) != array_digests(run.actual.arrays):
            return replace(self._found, status="nondeterministic")
        if not run.allowance.breaks(run.actual.arrays, run.oracle):
            regressed = run._replace(allowance=self._accepted())
            if not regressed.allowance.breaks(run.actual.arrays, run.oracle):
                return replace(self._found, factor=run.factor)
            run, self._found = regressed, replace(self._found, limit="baseline")
        self._found = replace(self._found, factor=run.factor)
        recorded = self._record(run)
        chain = recorded.chain
        self._found = replace(self._found, engine=chain.engine, operations=len(chain.steps))
        exact = ExactRun(chain)
        self._found = replace(self._found, rounding=len(exact.rounding()))
        if case.role == "golden" and isinstance(chain, NumpyChain):
            test = Replacement(chain.low, chain.replaced, partial(_have_bits, run.oracle), True, self._settings.runs)
            if found := self._reduce_difference(run, chain, test, "order"):
                return found
        outputs = exact.outputs()
        rounding = run.allowance.factor(_known(chain, run.actual.arrays), outputs)
        if rounding > 1 and rounding >= run.allowance.factor(outputs, run.oracle):
            return self._reduce_rounding(run, recorded, exact)
        return self._reduce_formula(run, chain, exact)

    def _accepted(self) -> AcceptedAllowance:
        """Return the errors that the baseline accepted at this seed, or over all seeds if it has none for this one."""
        baseline = Baselines(self._project).lookup(self._case.baseline_id, self._settings.chain)
        outputs = {} if baseline is None else baseline.entry.outputs
        found: dict[str, float] = {}
        for name, output in outputs.items():
            errors, seed = output.metrics.get("mean_abs_error", []), self._settings.seed
            known = [each for each in (errors[seed : seed + 1] or errors) if each is not None]
            if known:
                found[name] = sum(known) / len(known)
        return AcceptedAllowance(found)

    def _record(self, run: _Run) -> RecordedChain:
        def fails(found: Arrays) -> bool:
            return run.allowance.breaks(found, run.oracle)

        def observed(observer: Observer) -> Outputs:
            with subject_failures(self._case, self._settings.seed, "return arrays when its operations are recorded"):
                return run_subject_once(self._case, replace(run.call, observer=observer))

        if self._case.subject.kind in ("onnx", "onnx_test"):
            from precreg.diagnose.reduction.onnx_graph import record_onnx

            return record_onnx(self._case, run.call, fails)
        if self._case.subject.kind == "torch":
            from precreg.diagnose.reduction.torch_graph import record_torch

            return record_torch(self._case, self._project, observed, fails)
        return record_numpy(self._case, self._project, observed, run.actual)

    def _reduce_rounding(self, run: _Run, recorded: RecordedChain, exact: ExactRun) -> Reduction:
        chain = recorded.chain
        expected, left, parts, runs, is_cut = exact.outputs(), exact.rounding(), list[ReducedPart](), 1, False

        def loss(places: frozenset[int]) -> float:
            return run.allowance.factor(exact.outputs(places), expected, _ROUGHLY)

        while len(parts) < self._settings.parts and loss(frozenset(left)) > 1:
            smallest = find_smallest(left, loss, self._settings.runs)
            runs, is_cut = runs + smallest.tries, is_cut or smallest.is_cut
            if not parts and len(smallest.items) == len(left) > 1:
                return replace(self._found, status="whole", runs=runs, out_of_runs=is_cut)
            left = [place for place in left if place not in smallest.items]
            alone = run.allowance.factor(exact.outputs(smallest.items), expected)
            others = run.allowance.factor(exact.outputs(left), expected)
            kept = tuple(KeptOperation(at + 1, chain.steps[at].name, chain.steps[at].site) for at in smallest.items)
            name = suite_name(self._case) + (f"_{len(parts) + 1}" if parts else "")
            computation = recorded.keep(exact, smallest.items, name)
            part = ReducedPart(kept=kept, alone=alone, others=others, max_ulp=_max_ulp(computation))
            parts.append(self._written(part, computation, name))
        is_proven = all(part.proof is not None for part in parts)
        status = "whole" if not parts else "reduced" if is_proven else "unproven"
        return replace(self._found, status=status, runs=runs, out_of_runs=is_cut, parts=tuple(parts))

    def _reduce_formula(self, run: _Run, chain: Chain, exact: ExactRun) -> Reduction:
        found = None
        if isinstance(chain, NumpyChain):
            values = {name: exact.value(name) for name in chain.low}

            def passes(outputs: Arrays) -> bool:
                return not run.allowance.breaks(outputs, run.oracle)

            test = Replacement(values, exact.replaced, passes, False, self._settings.runs)
            found = self._reduce_difference(run, chain, test, "formula")
        return found or replace(self._found, status="formula", error_kind="formula")

    def _reduce_difference(
        self, run: _Run, chain: NumpyChain, test: Replacement, kind: ReducedErrorKind
    ) -> Reduction | None:
        """Return the part whose operations differ from the oracle's; None if nothing pairs them."""
        oracle = record_oracle(self._case, self._settings.seed, run.call, self._project)
        broken = run.allowance.broken_outputs(_known(chain, run.actual.arrays), run.oracle)
        if oracle is None or not broken:
            return None
        part, runs = find_differing_part(chain, oracle, broken[0], test)
        self._found = replace(self._found, runs=self._found.runs + runs)
        if part is None:
            return None
        kept = tuple(KeptOperation(at + 1, chain.steps[at].name, chain.steps[at].site) for at in part.places)
        name = suite_name(self._case)
        computation = with_stored_oracle(keep_differing(chain, self._case, part, name), name, self._case.role)
        found = ReducedPart(kept=kept, alone=self._found.factor, max_ulp=_max_ulp(computation))
        done = self._proven(found, computation, name)
        status: ReductionStatus = "reduced" if done.proof is not None else "unproven"
        return replace(self._found, status=status, error_kind=kind, parts=(done,))

    def _written(self, part: ReducedPart, kept: KeptComputation, name: str) -> ReducedPart:
        """Write the suite of a part, and run it."""
        try:
            return self._proven(part, kept, name)
        except UserError:
            if kept.oracle is not None:
                raise
            # The kind's own reference cannot compute it: the exact values are stored.
            return self._proven(part, with_stored_oracle(kept, name), name)

    def _proven(self, part: ReducedPart, kept: KeptComputation, name: str) -> ReducedPart:
        folder, bounds = self._settings.folder, bounds_of(kept.outputs, kept.exact, part.alone)
        if self._case.role == "golden" and kept.oracle is not None and kept.oracle[0] == "golden":
            # The bits of a golden count.
            bounds = dict.fromkeys(bounds, (0.0, 0.0))
        files, tensors = write_reduced(folder, self._project, name, self._case, kept, bounds)
        (reduced,) = [each for each in load_cases(folder) if each.suite == name]
        run = _run(reduced, folder, 0, self._settings.chain)
        fails = run.allowance.breaks(run.actual.arrays, run.oracle)
        return replace(part, case=reduced.id, files=files, tensors=tensors, proof=run.factor if fails else None)


def _have_bits(expected: Arrays, outputs: Arrays) -> bool:
    return all(np.array_equal(outputs[name], expected[name], equal_nan=True) for name in outputs)


def _max_ulp(kept: KeptComputation) -> float | None:
    """Return the largest error of floating-point outputs in ULP."""
    compared = [compare_arrays(kept.outputs[name], kept.exact[name], rtol=0.0, atol=0.0) for name in kept.outputs]
    return max((each.metrics["max_ulp"] for each in compared if "max_ulp" in each.metrics), default=None)


def _known(chain: Chain, arrays: Arrays) -> Arrays:
    """Return the outputs that the chain made."""
    return {name: array for name, array in arrays.items() if name in chain.outputs}


def _run(case: Case, project: Path, seed: int, chain: tuple[str, ...]) -> _Run:
    """Run a case and its oracle. Raises UserError: trace-failed."""
    directory = suite_folder(project, case.directory)
    with subject_failures(case, seed, "return arrays"):
        inputs = draw_inputs(case, seed, directory, project)
        call = Call(inputs, case.params, directory, project, arithmetic_of(case, project))
        actual = run_subject_once(case, call)
    with _oracle_failures(case, seed):
        oracle = run_oracle(case, [seed], [inputs], directory, project).outputs[0]
    dtypes = {name: array.dtype for name, array in actual.arrays.items()}
    return _Run(call, actual, oracle, ErrorAllowance(case, case_chain(chain, actual.facts), dtypes))


@contextmanager
def _oracle_failures(case: Case, seed: int) -> Iterator[None]:
    try:
        with blame_failures(Reason.REFERENCE_ERROR):
            yield
    except CaseFailed as failed:
        message = f"expected the {case.role} of {case.id} to return arrays at seed {seed} but it failed"
        raise UserError("trace-failed", f"{message}: {failed.failure.message}") from None
