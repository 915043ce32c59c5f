"""Where does the formula of a subject differ from that of its oracle?

A shadow computes the formula of the subject, so it cannot show that an epsilon or a mask is missing. The oracle is
traced, too, and the exact values of both are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from precreg.run import Arrays, run_oracle, run_subject_once
from precreg.shadow.alignment import (
    SketchedTrace,
    SketchListener,
    ValueSketch,
    find_parting,
    find_reordering,
    match_tolerance,
    place_of,
    sketch_of,
)
from precreg.shadow.ledger import unit_of
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.tracer import Tracer
from precreg.subject import Call, CaseFailed, Observer, blame_failures
from precreg.types import Case, FormulaDifference, OrderDifference, Reason, TracedOutput


def find_formula_difference(case: Case, seed: int, call: Call, output: TracedOutput) -> FormulaDifference:
    """Trace the oracle of a case and the subject once more, and line their operations up for one output."""
    try:
        own, other = _sketch_both(case, seed, call, Detail.TOTALS)
    except CaseFailed as failed:
        return FormulaDifference(other=case.role, problem=failed.failure.message)
    return line_up(own, other, known_values(call.inputs), output, FormulaDifference(other=case.role))


def _sketch_both(case: Case, seed: int, call: Call, detail: Detail) -> tuple[SketchedTrace, SketchedTrace]:
    """Trace the subject of a case and its oracle with a sketch of each exact value. Raises CaseFailed."""
    own = sketched(lambda observer: run_subject_once(case, replace(call, observer=observer)), detail)
    other = sketched(
        lambda observer: run_oracle(case, [seed], [call.inputs], call.directory, call.project, observer), detail
    )
    return own, other


def find_order_difference(
    case: Case, seed: int, call: Call, outputs: Sequence[TracedOutput], dtype: str
) -> OrderDifference | None:
    """Trace the golden of a case and the subject once more, and name the first operation that the golden has not.

    `outputs` are those with other bits than the golden's. Return None if the golden takes the same steps, or nothing
    saw them. `problem` has the reason if the subject or the golden fails when it is traced for this.
    """
    found = OrderDifference(other="golden", output=outputs[0].name)
    try:
        # Own errors say which operations round.
        own, other = _sketch_both(case, seed, call, Detail.OWN)
    except CaseFailed as failed:
        return replace(found, problem=failed.failure.message)
    return order_difference(own, other, known_values(call.inputs), outputs, dtype, found)


def order_difference(
    own: SketchedTrace,
    other: SketchedTrace,
    known: list[ValueSketch],
    outputs: Sequence[TracedOutput],
    dtype: str,
    found: OrderDifference,
) -> OrderDifference | None:
    """Return `found` with the operations of the first output that the two computations compute in other steps."""
    for output in outputs:
        steps = find_reordering(own, other, known, output.number, unit_of(dtype)) if output.number else None
        if steps is not None:
            return replace(
                found,
                output=output.name,
                first=place_of(own, next(iter(steps.own), None)),
                counterpart=place_of(other, steps.counterpart),
                own_steps=len(steps.own),
                other_steps=len(steps.other),
            )
    return None


def sketched(run: Callable[[Observer], object], detail: Detail = Detail.TOTALS) -> SketchedTrace:
    """Run a computation with an observer, and return its operations with the sketches. Raises CaseFailed."""
    listener = SketchListener()
    recorder = Recorder(detail, [listener])
    with blame_failures(Reason.REFERENCE_ERROR):
        run(Tracer(recorder, shares=False))
    return listener.trace_of(recorder.operations)


def known_values(inputs: Arrays) -> list[ValueSketch]:
    """Return the sketches of the inputs: every computation of a case starts from them."""
    return [sketch for array in inputs.values() if (sketch := sketch_of(array)) is not None]


def line_up(
    own: SketchedTrace, other: SketchedTrace, known: list[ValueSketch], output: TracedOutput, found: FormulaDifference
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
