"""Which computations of a case can be rewritten, and which result do they explain?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from precreg.arithmetic.devices import Arithmetic, NumpyArithmetic, is_floating
from precreg.diagnose.evidence import ErrorToExplain, error_to_explain
from precreg.diagnose.places import Place, PlaceKey, PlaceRecorder
from precreg.diagnose.search import Base
from precreg.run import Arrays, arithmetic_of, draw_inputs, run_oracle, run_subject_once, suite_folder
from precreg.subject import Call, blame_failures, is_recorded
from precreg.types import Case, DiagnosisBase, Reason

# Kinds whose operations numpy's protocols lead to an arithmetic. Other kinds have inputs, params and outputs alone.
_NUMPY_KINDS = ("python",)


class CaseRun(NamedTuple):
    """Hold one seed of a case: its call, the subject's outputs from two runs, and the oracle's outputs."""

    case: Case
    call: Call
    actual: Arrays
    again: Arrays
    oracle: Arrays

    @property
    def repeats(self) -> bool:
        """Return whether both runs of the subject gave the same bits."""
        return all(
            name in self.again and array.tobytes() == self.again[name].tobytes() for name, array in self.actual.items()
        )


def case_call(case: Case, project: Path, seed: int) -> Call:
    """Draw the inputs of a case at one seed. Raises UserError as `draw_inputs` and `arithmetic_of` do."""
    directory = suite_folder(project, case.directory)
    inputs = draw_inputs(case, seed, directory, project)
    return Call(inputs, case.params, directory, project, arithmetic_of(case, project))


def run_case_at(case: Case, project: Path, seed: int) -> CaseRun:
    """Run the subject of a case twice, and its oracle. Raises CaseFailed with the reason of the first failure."""
    with blame_failures(Reason.SUBJECT_ERROR):
        call = case_call(case, project, seed)
        actual, again = (run_subject_once(case, call).arrays for _ in range(2))
    with blame_failures(Reason.REFERENCE_ERROR):
        oracle = run_oracle(case, [seed], [call.inputs], call.directory, project).outputs[0]
    return CaseRun(case, call, actual, again, oracle)


class PreparedBase(NamedTuple):
    """Hold a base, its outputs, its places, and the error to explain."""

    base: Base
    error: ErrorToExplain
    places: dict[PlaceKey, Place]
    outputs: Arrays


def subject_base(name: DiagnosisBase, case: Case, call: Call) -> Base:
    """Return the base that runs the subject of a case in the call's project."""
    kind = case.subject.kind

    def run(inputs: Arrays, params: dict[str, Any], arithmetic: Arithmetic) -> Arrays:
        own = replace(call, inputs=inputs, params=params)
        if kind in _NUMPY_KINDS:
            own = replace(own, arithmetic=arithmetic)
        return run_subject_once(case, own).arrays

    arithmetic = call.arithmetic or NumpyArithmetic()
    return Base(name, run, call.inputs, call.params, arithmetic, os.path.realpath(call.project) + os.sep)


def oracle_base(case: Case, call: Call) -> Base | None:
    """Return the base that runs the oracle of a case as a subject: on the same inputs, in their dtypes.

    Recorded outputs run no code.
    """
    if is_recorded(case.oracle):
        return None
    name: DiagnosisBase = "golden" if case.role == "golden" else "reference"
    return subject_base(name, replace(case, subject=case.oracle), call)


def prepare_base(base: Base, target: Arrays) -> PreparedBase:
    """Run a base once without an alteration, and note its places. Raises any exception of the computation."""
    outputs, places = _recorded(base)
    chosen = PreparedBase(base, error_to_explain(target, outputs), places, outputs)
    if base.name != "reference" or not any(_widens(place) for place in places.values()):
        return chosen
    # A reference that widens its inputs itself has no rounding of the subject's dtype at all.
    narrow = base._replace(arithmetic=_Unwidened(base.arithmetic))
    outputs, places = _recorded(narrow)
    return PreparedBase(narrow, error_to_explain(target, outputs), places, outputs)


def _recorded(base: Base) -> tuple[Arrays, dict[PlaceKey, Place]]:
    recorder = PlaceRecorder(base.arithmetic)
    with np.errstate(all="ignore"):
        outputs = base.run(base.inputs, base.params, recorder)
    return outputs, recorder.places


def _widens(place: Place) -> bool:
    narrow = place.operands.get(0)
    return place.function is None and narrow is not None and place.dtype.itemsize > narrow.itemsize


class _Unwidened:
    """Compute by another arithmetic, and leave numbers in their dtype where the code widens them."""

    def __init__(self, inner: Arithmetic) -> None:
        self.inner = inner

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a method of a ufunc in the dtype of its operands."""
        return self.inner.ufunc(function, method, inputs, _without_wider(inputs, options))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a compiled function."""
        return self.inner.contraction(function, inputs, options)

    def cast(self, values: Any, dtype: np.dtype[Any]) -> Any:
        """Convert to narrower dtypes alone."""
        return values if dtype.itemsize > values.dtype.itemsize else self.inner.cast(values, dtype)


def _without_wider(inputs: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    dtype = options.get("dtype")
    floating = [each.dtype for each in inputs if isinstance(each, np.ndarray) and is_floating(each.dtype)]
    if dtype is None or not floating or np.dtype(dtype).itemsize <= max(each.itemsize for each in floating):
        return options
    return {name: value for name, value in options.items() if name != "dtype"}
