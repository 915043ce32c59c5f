"""How does a self-test change the run of a case: by a planted fault, by other seeds, or by moved inputs?

A variant is a case with its change. `run_variant` runs variants in the place of `run_case`. Its module reaches a worker
by name, together with the variants, so that workers of a plain run load neither this room nor the faults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from precreg.arithmetic import dtype_name
from precreg.arithmetic.devices import NumpyArithmetic
from precreg.arithmetic.faults import Fault, OperationRecorder, alter_inputs, alter_params, fault_named, plant_fault
from precreg.measure import share_of_tolerance
from precreg.run import Arrays, run_case
from precreg.subject import Call
from precreg.suite.inputs import has_last_bits, move_last_bits
from precreg.tolerance import resolve_tolerance
from precreg.types import Case, LongSum, Noise, Outcome

_T = TypeVar("_T")


class Replicate(Struct, frozen=True):
    """Hold a run of a case with other random numbers, which shows the variation of its figures.

    `first_seed` is the first of the seeds that inputs are drawn from. `moved` is the number of a random move: it moves
    some of the elements that inputs/last_bits.py may move to a neighbour. None moves none.
    """

    first_seed: int = 0
    moved: int | None = None


class CaseVariant(Case, frozen=True):
    """Hold a case as a self-test changes it, with an id of its own.

    `fault` is the name of a planted fault or harmless change. The outcome of a variant with a `replicate` has `noise`.
    """

    fault: str | None = None
    replicate: Replicate | None = None


def make_variant(case: Case, name: str, **changes: Any) -> CaseVariant:
    """Return a variant of the case with other fields, and with the name as the last part of its id.

    The id of a case has two slashes, so a variant's id with three meets no other.
    """
    return replace(CaseVariant(**asdict(case)), id=f"{case.id}/{name}", **changes)


def run_variant(case: Case, project: Path, chain: tuple[str, ...]) -> Outcome:
    """Run a variant as `run_case` runs a case; any other case runs plainly."""
    if not isinstance(case, CaseVariant):
        return run_case(case, project, chain)
    computation = VariantComputation(case, project, chain)
    outcome = run_case(case, project, chain, computation)
    if case.replicate is None or outcome.execution.failure is not None:
        return outcome
    return replace(outcome, noise=computation.noise())


class VariantComputation:
    """Changes the steps of one variant, and collects its noise (a `CaseComputation` of run/)."""

    # A self-test has thousands of variants, and no report draws one.
    accepted: Sequence[str] | None = None

    def __init__(self, variant: CaseVariant, project: Path, chain: tuple[str, ...]) -> None:
        self.first_seed = 0 if variant.replicate is None else variant.replicate.first_seed
        self._variant, self._chain = variant, chain
        # Whatever else differs (tolerance, repeats, analyzers, ...) makes another case with results of its own.
        self._unfaulted = (project, replace(variant, id="", fault=None))
        self._shares: defaultdict[str, list[float]] = defaultdict(list)
        self._longest: LongSum | None = None

    def reuse(self, step: str, seed: int, compute: Callable[[], _T]) -> _T:
        """Return `compute()`, or its result for the same case with another fault, which must not be written to.

        Results of a variant without a fault are not kept: no other variant has its inputs.
        """
        if self._variant.fault is None:
            return compute()
        found: _T = _unfaulted_steps.reuse(self._unfaulted, (step, seed), compute)
        return found

    def alter_inputs(self, inputs: Arrays, seed: int) -> Arrays:
        """Return the inputs with their last bits moved, if the variant is a replicate that moves them."""
        replicate = self._variant.replicate
        if replicate is None or replicate.moved is None:
            return inputs
        movable = [name for name, spec in self._variant.inputs.items() if has_last_bits(spec)]
        return inputs | {name: move_last_bits(inputs[name], name, seed, replicate.moved) for name in movable}

    def run_subject(self, call: Call, seed: int, run: Callable[[Call], _T]) -> _T:
        """Run the subject with the variant's fault.

        A fault that acts on operations alters nothing in a subject without operations of its kinds. Such a subject
        does not run again: the result without a fault is the result.
        """
        if self._variant.fault is None:
            return run(call)
        fault = fault_named(self._variant.fault)
        # All faults of a case share this run, which costs about as much as one of them.
        unfaulted, recorder = self.reuse("actual", seed, lambda: _run_recorded(call, run))
        # Every seed has the same shapes, and so the same sums.
        if seed == self.first_seed:
            self._longest = recorder.longest
        if fault.place == "operations" and recorder.met.isdisjoint(fault.needs):
            return unfaulted
        return run(with_fault(call, fault))

    def run_sample(self, call: Call, run: Callable[[Call], _T]) -> _T:
        """Run a sample under random noise with the variant's fault."""
        return run(call if self._variant.fault is None else with_fault(call, fault_named(self._variant.fault)))

    def observe(self, runs: list[Arrays], oracle: Arrays) -> None:
        """Note for each output the largest share of its tolerance that an element of any run takes."""
        if self._variant.replicate is None:
            return
        found: dict[str, float] = {}
        for name, array in ((name, array) for run in runs for name, array in run.items()):
            tolerance = resolve_tolerance(self._variant.layers, name, dtype_name(array.dtype), self._chain)
            share = share_of_tolerance(array, oracle[name], tolerance.rtol.limit, tolerance.atol.limit)
            found[name] = max(found.get(name, 0.0), share)
        for name, share in found.items():
            self._shares[name].append(share)

    def noise(self) -> Noise:
        """Return the shares of the tolerance by output and seed, and the longest sum of the first seed."""
        return Noise({name: tuple(shares) for name, shares in self._shares.items()}, self._longest)


def with_fault(call: Call, fault: Fault) -> Call:
    """Return a call whose inputs, params or arithmetic have a fault.

    The arithmetic may remember its operations (a stale buffer does), so one call serves all repeats.
    """
    if fault.place == "operations":
        return replace(call, arithmetic=plant_fault(call.arithmetic or NumpyArithmetic(), fault))
    return replace(call, inputs=alter_inputs(call.inputs, fault), params=alter_params(call.params, fault))


def _run_recorded(call: Call, run: Callable[[Call], _T]) -> tuple[_T, OperationRecorder]:
    """Run the subject without a fault, and return the record of its operations too."""
    recorder = OperationRecorder(call.arithmetic or NumpyArithmetic())
    return run(replace(call, arithmetic=recorder)), recorder


class _StepResults:
    """Results of the steps of one case without a fault, which all its faulted variants share."""

    def __init__(self) -> None:
        self._case: object = None
        self._results: dict[tuple[str, int], Any] = {}

    def reuse(self, case: object, step: tuple[str, int], compute: Callable[[], Any]) -> Any:
        """Return the kept result of a step, or compute and keep it; another case drops all results."""
        if case != self._case:
            self._results.clear()
            self._case = case
        if step not in self._results:
            self._results[step] = compute()
        return self._results[step]


# One case at a time, because its arrays fill memory. A worker mostly has the variants of a case in a row.
_unfaulted_steps = _StepResults()
