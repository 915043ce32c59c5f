"""How is one seed of a case traced?

The subject runs as in a run: with the case's inputs, params, device and module space. It runs plainly first. The traced
run must give the same bits. Then the oracle splits the error of each output into rounding and formula.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache
from os.path import realpath
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import COMPLEX_PARTS, FORMATS, dtype_name
from precreg.errors import UserError
from precreg.measure import share_of_tolerance
from precreg.run import (
    Arrays,
    arithmetic_of,
    array_digests,
    draw_inputs,
    missing_requirement,
    prepare_cases,
    run_oracle,
    run_subject_once,
    suite_folder,
)
from precreg.shadow.dumps import DumpReader
from precreg.shadow.formula import find_formula_difference, find_order_difference
from precreg.shadow.ledger import is_formula_dominant, maker_of
from precreg.shadow.onnx import OnnxTrace, trace_onnx_call, trace_onnx_test
from precreg.shadow.recorder import Recorder
from precreg.shadow.second import with_shadow_errors
from precreg.shadow.sizes import error_size
from precreg.shadow.tracer import Tracer
from precreg.storage import array_digest
from precreg.subject import (
    Call,
    CaseFailed,
    Outputs,
    blame_failures,
    opaque_form,
    parts_command,
    watch_case_in_process,
)
from precreg.tolerance import resolve_tolerance
from precreg.types import (
    Case,
    ErrorSize,
    Failure,
    FormulaDifference,
    OpaqueForm,
    OperationPlace,
    OrderDifference,
    Reason,
    Site,
    Trace,
    TracedOutput,
    case_chain,
)
from precreg.vcs import git_state

# Kinds of precreg that compute in this process, so that an engine sees their operations. An installed kind may call a
# Python function as they do.
_HINTS: dict[OpaqueForm, str] = {
    "program": "find the line of the change: precreg bisect CASE --good COMMIT --bad . (or --flags '-O3 -ffast-math')",
    "recorded": "trace the Python function that computed the arrays, or compare them: precreg compare y.npy golden.npy",
    "figures": "measure the parts of its run, as the documentation of its kind describes",
}
TRACEABLE_KINDS = ("python", "torch", "onnx", "onnx_test")


class TraceSettings(NamedTuple):
    """The settings of one trace beside its recorder.

    `dtype` is the one that the user declares; None takes the case's own. `chain` has the labels of the environment.
    `dumps` reads the stored tensors of another machine, and listens to the recorder.
    """

    dtype: str | None = None
    shares: bool = True
    chain: tuple[str, ...] = ()
    dumps: DumpReader | None = None


_DEFAULTS = TraceSettings()
_Difference = TypeVar("_Difference", FormulaDifference, OrderDifference)


class _TracedCall(NamedTuple):
    """The call of a case, the outputs of a plain and of the traced run, and the tracer's records."""

    call: Call
    plain: Outputs
    traced: Outputs
    tracer: Tracer | OnnxTrace


@np.errstate(all="ignore")
def trace_case(case: Case, project: Path, seed: int, recorder: Recorder, settings: TraceSettings = _DEFAULTS) -> Trace:
    """Trace the subject of a case on the inputs of one seed. Prints of the subject go to stderr.

    Raises UserError: untraceable, for a case that cannot be traced or cannot run here; trace-failed, for any exception
    of the subject.
    """
    require_traceable(case, settings.chain)
    prepare_cases([case], project)
    with watch_case_in_process(is_first=True), redirect_stdout(sys.stderr), _exits_raised():
        run = _run_traced(case, project, seed, recorder, settings)
        has_same_bits = _same_bits(run.plain, run.traced)
        repeats = None if has_same_bits else _repeats(case, seed, run)
        oracle, problem = _run_oracle(case, seed, run)
        outputs = tuple(_split_error(case, each, run, oracle, recorder, settings.chain) for each in run.tracer.outputs)
        formula = _formula_difference(case, seed, run, outputs)
        dtype = settings.dtype or _own_dtype(case, run)
        order = None if formula is not None else _order_difference(case, seed, run, outputs, oracle, dtype)
    trace = Trace(
        case=case.id,
        definition=case.definition,
        seed=seed,
        commit=_commit(project),
        dtype=dtype,
        shadow=run.tracer.shadow,
        facts={"numpy": np.__version__, **run.traced.facts},
        same_bits=has_same_bits,
        repeats=repeats,
        oracle=case.role if oracle else "",
        oracle_problem=problem,
        operations=tuple(recorder.operations),
        events=recorder.events,
        outputs=outputs,
        formula=formula,
        order=order,
        dumps=None if settings.dumps is None else settings.dumps.finish(),
    )
    return with_relative_files(trace, project)


@contextmanager
def _exits_raised() -> Iterator[None]:
    """Let os._exit of the subject raise SystemExit, because it would end the command without a word.

    Processes that the subject forks end as usual.
    """
    process, usual = os.getpid(), os._exit

    def leave(status: int) -> NoReturn:
        if os.getpid() == process:
            raise SystemExit(status)
        usual(status)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = usual


def _commit(project: Path) -> str:
    """Return the commit of the project, as records have it; empty without one."""
    state = git_state(project)
    return "" if state is None else state.commit


def require_traceable(case: Case, chain: tuple[str, ...]) -> None:
    """Refuse a case that no engine can see, and one that cannot run here. Raises UserError: untraceable."""
    kind = case.subject.kind
    form = opaque_form(case.subject)
    if form is not None:
        expected = f"a subject of the kinds {', '.join(TRACEABLE_KINDS)}"
        command = parts_command(case.subject, case.directory)
        hint = f"measure its parts: precreg {join(command)}" if command else _HINTS[form]
        raise UserError("untraceable", f"expected {expected} but {case.id} has the kind {kind}", hint=hint)
    absent = [reason for needed in case.requires if (reason := missing_requirement(needed, chain))]
    if absent:
        raise UserError("untraceable", f"expected a case that can run here but {case.id} {'; '.join(absent)}")


def _run_traced(case: Case, project: Path, seed: int, recorder: Recorder, settings: TraceSettings) -> _TracedCall:
    directory = suite_folder(project, case.directory)
    tracer = Tracer(recorder, shares=settings.shares, dumps=settings.dumps)
    with subject_failures(case, seed, "return arrays"):
        inputs = draw_inputs(case, seed, directory, project)
        call = Call(inputs, case.params, directory, project, arithmetic_of(case, project))
        plain = run_subject_once(case, call)
    with subject_failures(case, seed, "return arrays when it is traced, as it did before,"):
        if case.subject.kind in ("onnx", "onnx_test"):
            # A model of ONNX calls no function: the program that ONNX Runtime runs is traced.
            trace_model = trace_onnx_call if case.subject.kind == "onnx" else trace_onnx_test
            found = trace_model(case.subject.spec, call, recorder, shares=settings.shares)
            return _TracedCall(call, plain, found.traced, found)
        traced = run_subject_once(case, replace(call, observer=tracer))
    if not tracer.outputs:
        message = f"expected a subject that calls a Python function but {case.id} has the kind {case.subject.kind}"
        raise UserError("untraceable", message)
    with subject_failures(case, seed, "return arrays when it is traced again,"):
        tracer.outputs = with_shadow_errors(
            tracer, lambda second: run_subject_once(case, replace(call, observer=second))
        )
    return _TracedCall(call, plain, traced, tracer)


@contextmanager
def subject_failures(case: Case, seed: int, expected: str) -> Iterator[None]:
    """Turn every failure of user code inside into a UserError: untraceable if the case cannot run, or trace-failed."""
    try:
        with blame_failures(Reason.SUBJECT_ERROR):
            yield
    except CaseFailed as failed:
        failure = failed.failure
        if failure.reason is Reason.UNAVAILABLE:
            message = f"expected a case that can run here but {case.id} {failure.message}"
            raise UserError("untraceable", message) from None
        message = f"expected the subject of {case.id} to {expected} at seed {seed} but it failed"
        raise UserError("trace-failed", f"{message}: {failure.message}{_traceback(failure)}") from None


def _traceback(failure: Failure) -> str:
    """Return the lines of the traceback that lie in the subject; none where precreg refused its outputs."""
    lines = failure.detail.splitlines()
    has_traceback = bool(lines) and lines[0].startswith("Traceback")
    return "".join(f"\n  {line}" for line in lines) if has_traceback else ""


def _same_bits(plain: Outputs, traced: Outputs) -> bool:
    return array_digests(plain.arrays) == array_digests(traced.arrays)


def _repeats(case: Case, seed: int, run: _TracedCall) -> bool:
    """Return whether a second plain run has the bits of the first one: then the trace itself changed them."""
    with subject_failures(case, seed, "return arrays again"):
        return _same_bits(run.plain, run_subject_once(case, run.call))


def _run_oracle(case: Case, seed: int, run: _TracedCall) -> tuple[Arrays, str]:
    """Return the outputs of the oracle, or no output and the reason. A trace is of use without an oracle, too."""
    try:
        with blame_failures(Reason.REFERENCE_ERROR):
            found = run_oracle(case, [seed], [run.call.inputs], run.call.directory, run.call.project)
            return found.outputs[0], ""
    except CaseFailed as failed:
        return {}, failed.failure.message


def _split_error(
    case: Case, output: TracedOutput, run: _TracedCall, oracle: Arrays, recorder: Recorder, chain: tuple[str, ...]
) -> TracedOutput:
    """Add the errors against the oracle, the share of the tolerance, and the number of the operation that made it."""
    number = output.number or maker_of(recorder.operations, output)
    actual, exact = run.traced.arrays.get(output.name), oracle.get(output.name)
    digest = "" if actual is None else array_digest(actual)
    found = replace(output, number=number, digest=digest)
    if actual is None or exact is None or actual.shape != exact.shape:
        return found
    shadow = run.tracer.shadows.get(output.name)
    tolerance = resolve_tolerance(case.layers, output.name, output.dtype, case_chain(chain, run.traced.facts))
    return replace(
        found,
        formula=None if shadow is None else _size(shadow, exact),
        whole=_size(actual, exact, elements=True),
        tolerances=share_of_tolerance(actual, exact, tolerance.rtol.limit, tolerance.atol.limit),
    )


def _size(actual: NDArray[Any], exact: NDArray[Any], *, elements: bool = False) -> ErrorSize:
    # An oracle may return integers, and a golden numbers of the output's dtype.
    wide = np.result_type(exact.dtype, np.float64)
    return error_size(actual, exact.astype(wide), elements=elements)


def _own_dtype(case: Case, run: _TracedCall) -> str:
    """Return the dtype whose rounding is normal in a case.

    A module of torch may declare it. Otherwise it is the coarsest floating dtype among the inputs and outputs, because
    a kernel for numbers of float16 may round to float16 anywhere.
    """
    spec: Mapping[str, Any] = case.subject.spec if isinstance(case.subject.spec, dict) else {}
    if declared := spec.get("autocast") or spec.get("dtype"):
        return str(declared)
    arrays = [*run.call.inputs.values(), *run.traced.arrays.values()]
    return coarsest_dtype([dtype_name(array.dtype) for array in arrays])


def coarsest_dtype(names: list[str]) -> str:
    """Return the name of a floating or complex dtype with the fewest bits of precision; float64 without one."""
    known = {name: FORMATS[part].precision for name in names if (part := COMPLEX_PARTS.get(name, name)) in FORMATS}
    return min(known, key=lambda name: known[name], default="float64")


def _formula_difference(
    case: Case, seed: int, run: _TracedCall, outputs: Sequence[TracedOutput]
) -> FormulaDifference | None:
    """Return the place where the formula differs, for the output with the largest error of the formula."""
    dominated = [output for output in outputs if is_formula_dominant(output, case.role)]
    if not dominated:
        return None
    worst = max(dominated, key=lambda output: output.formula.relative if output.formula is not None else 0.0)
    return find_formula_difference(case, seed, run.call, worst)


def _order_difference(
    case: Case, seed: int, run: _TracedCall, outputs: Sequence[TracedOutput], oracle: Arrays, dtype: str
) -> OrderDifference | None:
    """Return the place where the order of operations differs from the golden's, if an output has other bits.

    A reference computes in higher precision, so its bits differ in any order.
    """
    if case.role != "golden":
        return None
    changed = {
        output.name: _changed(run.traced.arrays[output.name], oracle[output.name])
        for output in outputs
        if output.whole is not None and output.whole.relative != 0
    }
    worst = sorted((each for each in outputs if changed.get(each.name)), key=lambda each: -changed[each.name])
    found = find_order_difference(case, seed, run.call, worst, dtype) if worst else None
    if found is None:
        return None
    return replace(found, changed=changed[found.output], elements=run.traced.arrays[found.output].size)


def _changed(actual: NDArray[Any], golden: NDArray[Any]) -> int:
    """Return the number of elements that differ from the golden's, rounded to the output's dtype; NaN are equal."""
    rounded = golden.astype(actual.dtype)
    return int(np.count_nonzero((actual != rounded) & ~((actual != actual) & (rounded != rounded))))


def with_relative_files(trace: Trace, project: Path) -> Trace:
    """Return the trace with files relative to the project, wherever its checkout lies."""
    root = Path(realpath(project))
    return replace(
        trace,
        operations=tuple(replace(each, site=relative_site(each.site, root)) for each in trace.operations),
        events=tuple(replace(each, site=relative_site(each.site, root)) for each in trace.events),
        formula=_places_inside(trace.formula, root),
        order=_places_inside(trace.order, root),
    )


def _places_inside(found: _Difference | None, root: Path) -> _Difference | None:
    if found is None:
        return None
    return replace(found, first=_inside(found.first, root), counterpart=_inside(found.counterpart, root))


def _inside(place: OperationPlace | None, root: Path) -> OperationPlace | None:
    return None if place is None else replace(place, site=relative_site(place.site, root))


# A computation has few lines and many operations.
@lru_cache(maxsize=4096)
def relative_site(site: Site, root: Path) -> Site:
    """Return a site with its file relative to a folder without links, if the file lies inside."""
    file = Path(realpath(site.file)) if site.file and not site.file.startswith("<") else None
    if file is None or not file.is_relative_to(root):
        return site
    return replace(site, file=file.relative_to(root).as_posix())
