"""Which computations of a case can be rewritten, and which result do they explain?"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.arithmetic import format_of
from precreg.arithmetic.devices import Arithmetic, NumpyArithmetic
from precreg.diagnose.engine import (
    ArrayRewriting,
    PlainRewriting,
    Rewriting,
)
from precreg.diagnose.evidence import ErrorToExplain, error_to_explain, with_ordinary_rounding
from precreg.diagnose.locations import error_locations
from precreg.diagnose.onnx import OnnxRewriting
from precreg.diagnose.places import ComputedPlace, PlaceKey
from precreg.diagnose.rewrites import Hypothesis, Params, all_hypotheses, located_hypotheses
from precreg.diagnose.search import Base
from precreg.run import (
    Arrays,
    arithmetic_of,
    draw_inputs,
    promote_inputs,
    run_oracle,
    run_subject_once,
    suite_folder,
)
from precreg.subject import Call, Observer, blame_failures, is_recorded
from precreg.types import Case, DiagnosisBase, Reason, ReferenceDtype


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
    return CaseRun(case, call, actual, again, oracle_outputs(case, call, seed))


def oracle_outputs(case: Case, call: Call, seed: int) -> Arrays:
    """Return the outputs of a case's oracle for the inputs of a call. Raises CaseFailed."""
    with blame_failures(Reason.REFERENCE_ERROR):
        return run_oracle(case, [seed], [call.inputs], call.directory, call.project).outputs[0]


class PreparedBase(NamedTuple):
    """Hold a base, its outputs, its places, and the error to explain."""

    base: Base
    error: ErrorToExplain
    places: Mapping[PlaceKey, ComputedPlace]
    outputs: Arrays


def subject_base(name: DiagnosisBase, case: Case, call: Call) -> Base:
    """Return the base that runs the subject of a case in the call's project."""
    return Base(name, _engine(case, call), call.inputs, call.params, os.path.realpath(call.project) + os.sep)


# Rewrites that the shape of the error suggests come first, after the rewrites of places that a change touched.
_SUGGESTED = -5


def hypotheses_of(prepared: PreparedBase, suggested: frozenset[str] = frozenset()) -> list[Hypothesis]:
    """Return all rewrites of a base, the likely ones first; `suggested` are names of rewrites."""
    base, outputs = prepared.base, prepared.outputs
    locations = error_locations(prepared.error)
    of_places = [*base.engine.hypotheses(prepared.places.values(), base.inputs, locations), *_of_changes(base)]
    located = located_hypotheses((), base.inputs, outputs, locations)
    is_changed = any(base.is_in_changed_file(key) for key in prepared.places)
    found = all_hypotheses(
        of_places, base.inputs, base.params, outputs, base.is_touched, located, is_changed=is_changed
    )
    usual = [each for each in found if not _is_ordinary(each, prepared.error)]
    ranked = [each._replace(rank=each.rank + _SUGGESTED) if each.rewrite in suggested else each for each in usual]
    return sorted(ranked, key=lambda each: each.rank)


def _is_ordinary(hypothesis: Hypothesis, error: ErrorToExplain) -> bool:
    """Return whether a rewrite of an exact computation rounds to the dtype of the subject itself."""
    format = format_of(str(hypothesis.options.get("format", "")))
    if not error.ordinary or format is None:
        return False
    own = (format_of(array.dtype.name) for array in error.target.values())
    return all(each is not None and format.precision >= each.precision for each in own)


def _of_changes(base: Base) -> list[Hypothesis]:
    """Return the changed weights and attributes of a model file as rewrites of its accepted version."""
    if base.changes is None or not isinstance(base.engine, OnnxRewriting):
        return []
    present = base.changes.counterpart(base.engine.path)
    return [] if present is None else base.engine.of_changes(present)


def _engine(case: Case, call: Call) -> Rewriting:
    def run(inputs: Arrays, params: Params, arithmetic: Arithmetic | None) -> Arrays:
        own = replace(call, inputs=inputs, params=params, arithmetic=arithmetic)
        return run_subject_once(case, own).arrays

    def run_observed(inputs: Arrays, params: Params, observer: Observer) -> Arrays:
        own = replace(call, inputs=inputs, params=params, observer=observer)
        return run_subject_once(case, own).arrays

    if case.subject.kind == "python":
        return ArrayRewriting(run, call.arithmetic or NumpyArithmetic())
    if case.subject.kind == "onnx" and "precision" not in case.subject.spec:
        return OnnxRewriting(case.subject.spec, call)
    if case.subject.kind == "torch":
        from precreg.diagnose.torch import TorchRewriting

        def run_compiled(inputs: Arrays, params: Params) -> Arrays:
            # A run with rewritten operators makes the compiler skip these functions until it is reset.
            sys.modules["torch"].compiler.reset()
            return run(inputs, params, None)

        return TorchRewriting(run_observed, run_compiled if "compile" in case.subject.spec else None)
    return PlainRewriting(run)


def oracle_base(case: Case, call: Call) -> Base | None:
    """Return the base that runs the oracle of a case as a subject. Recorded outputs run no code.

    A golden gets the inputs as they are. A reference gets them in float64: its result is then nearly exact, so a
    rewrite of it has the error of the rewrite alone.
    """
    if is_recorded(case.oracle):
        return None
    own = replace(case, subject=case.oracle, device=None)
    if case.role == "golden":
        return subject_base("golden", own, replace(call, arithmetic=None))
    inputs = promote_inputs(call.inputs, ReferenceDtype("float64"), narrow_too=True)
    return subject_base("reference", own, replace(call, inputs=inputs, arithmetic=None))


def prepare_base(base: Base, target: Arrays, *, is_exact: bool = False) -> PreparedBase:
    """Run a base once without an alteration, and note its places. Raises any exception of the computation.

    `is_exact` is true if one of base and target is nearly exact, so that they differ by ordinary rounding, too.
    """
    outputs, places = base.engine.record(base.inputs, base.params)
    error = error_to_explain(target, outputs)
    return PreparedBase(base, with_ordinary_rounding(error) if is_exact else error, places, outputs)


def gives_target(prepared: PreparedBase, target: Arrays) -> bool:
    """Return whether a base gives the result to explain without an alteration, maybe in its compiled form."""
    if prepared.error.differing == 0:
        return True
    base = prepared.base
    plain = getattr(base.engine, "plain", None)
    return plain is not None and error_to_explain(target, plain(base.inputs, base.params)).differing == 0
