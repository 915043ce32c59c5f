"""Where does the formula of a subject differ from that of its oracle?

A shadow computes the formula of the subject, so it cannot show that an epsilon or a mask is missing. The oracle is
traced, too, and the exact values of both are compared.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from precreg.run import Arrays, run_oracle, run_subject_once
from precreg.shadow.alignment import (
    Sketch,
    SketchedTrace,
    SketchListener,
    find_parting,
    match_tolerance,
    place_of,
    sketch_of,
)
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.tracer import Tracer
from precreg.subject import Call, CaseFailed, Observer, blame_failures
from precreg.types import Case, FormulaDifference, Reason, TracedOutput


def find_formula_difference(case: Case, seed: int, call: Call, output: TracedOutput) -> FormulaDifference:
    """Trace the oracle of a case and the subject once more, and line their operations up for one output."""
    try:
        own = sketch_subject(case, call)
        other = sketched(
            lambda observer: run_oracle(case, [seed], [call.inputs], call.directory, call.project, observer)
        )
    except CaseFailed as failed:
        return FormulaDifference(other=case.role, problem=failed.failure.message)
    return line_up(own, other, known_values(call.inputs), output, FormulaDifference(other=case.role))


def sketch_subject(case: Case, call: Call) -> SketchedTrace:
    """Trace the subject of a case with a sketch of each exact value. Raises CaseFailed."""
    return sketched(lambda observer: run_subject_once(case, replace(call, observer=observer)))


def sketched(run: Callable[[Observer], object]) -> SketchedTrace:
    """Run a computation with an observer, and return its operations with the sketches. Raises CaseFailed."""
    listener = SketchListener()
    recorder = Recorder(Detail.TOTALS, [listener])
    with blame_failures(Reason.REFERENCE_ERROR):
        run(Tracer(recorder, shares=False))
    return listener.trace_of(recorder.operations)


def known_values(inputs: Arrays) -> list[Sketch]:
    """Return the sketches of the inputs: every computation of a case starts from them."""
    return [sketch for array in inputs.values() if (sketch := sketch_of(array)) is not None]


def line_up(
    own: SketchedTrace, other: SketchedTrace, known: list[Sketch], output: TracedOutput, found: FormulaDifference
) -> FormulaDifference:
    """Return `found` with the operations at which two computations of one output part."""
    if not other.operations:
        # The oracle is a file, a program or numbers of mpmath: nothing saw its operations.
        return replace(found, operations=len(own.operations))
    error = output.formula.relative if output.formula is not None else 0.0
    parting = find_parting(own, other, known, output.number, match_tolerance(error))
    return replace(
        found,
        first=place_of(own, parting.first),
        counterpart=place_of(other, parting.counterpart),
        operations=len(own.operations),
        matched=parting.matched,
        other_operations=len(other.operations),
    )
