"""How is one run of an ONNX model traced: the program that really runs, node by node beside its shadow?

Values are dropped after their last use. Shares need a second pass over the windows, from the last to the first, which
starts from the values that windows share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import normpath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.shadow.onnx.exact import ExactNodes, NotShadowedError
from precreg.shadow.onnx.program import Program, session_values
from precreg.shadow.onnx.shares import ShareLedger
from precreg.shadow.onnx.values import flat, is_real, same_bits, to_narrow, to_wide
from precreg.shadow.recorder import Detail, Observed, Recorder
from precreg.shadow.sizes import bits_lost, error_size, largest_magnitude, value_range
from precreg.subject import Call, Outputs, SurroundingsRestored
from precreg.subject.onnx import (
    MODEL_FILE,
    ModelFile,
    bind_inputs,
    chosen_outputs,
    data_set_feeds,
    deployed_model,
    make_session,
    name_stored,
    name_values,
    note_model_use,
    of_data_set,
    parse_model,
    read_model,
    run_feeds,
    runtime_message,
    session_facts,
)
from precreg.types import ErrorSize, EventKind, Operation, OperationNote, TracedArray, TracedOutput, ValueRange


class OnnxTrace(NamedTuple):
    """The outputs of a traced model, their errors, and their shadows by name."""

    traced: Outputs
    outputs: tuple[TracedOutput, ...]
    shadows: dict[str, NDArray[Any]]
    # The dtype of the shadows.
    shadow: str
    # The most bytes of values and shadows that were held at once.
    held: int


class _Deployed(NamedTuple):
    """A model, the program that its session runs, and the inputs and outputs of one plain run."""

    file: ModelFile
    program: Program
    feeds: dict[str, Any]
    found: dict[str, Any]
    facts: dict[str, str]
    # Turns the outputs into arrays with names: a backend test may have texts or absent outputs.
    name: Callable[[Mapping[str, Any]], dict[str, NDArray[Any]]]


def trace_onnx_call(spec: Mapping[str, Any], call: Call, recorder: Recorder, *, shares: bool = True) -> OnnxTrace:
    """Trace the model of a specification on the inputs and params of a call.

    Raises UserError as `run_model` does, and untraceable for a model in float64.
    """
    if "precision" in spec:
        message = "expected a program that ONNX Runtime optimizes but the subject has precision: float64"
        raise UserError("untraceable", message)
    note_model_use()
    with SurroundingsRestored(), TemporaryDirectory(prefix="precreg-trace-") as folder:
        deployed = _deploy(spec, call, Path(folder))
        return _traced(deployed, recorder, spec.get("threads", 1), shares=shares)


def trace_onnx_test(spec: Mapping[str, Any], call: Call, recorder: Recorder, *, shares: bool = True) -> OnnxTrace:
    """Trace the model of a folder of ONNX's backend tests on its data sets. Raises UserError as `run_test` does."""
    note_model_use()
    folder = Path(normpath(call.directory / spec["test"]))
    model = read_model(f"{spec['test']}/{MODEL_FILE}", call.directory, call.project)
    parsed = parse_model(model)
    with SurroundingsRestored(), TemporaryDirectory(prefix="precreg-trace-") as saved:
        session = make_session(model, spec, Path(saved) / _PROGRAM)
        names = [output.name for output in session.get_outputs()]
        traces = []
        for number, feeds in data_set_feeds(folder, parsed.graph, call):
            program = Program(Path(saved) / _PROGRAM, parsed, spec)
            found = run_feeds(session, feeds, names).values
            deployed = _Deployed(model, program, feeds, found, session_facts(session, spec), name_stored)
            traces.append((number, _traced(deployed, recorder, spec.get("threads", 1), shares=shares)))
    outputs = [
        replace(output, name=next(iter(of_data_set(number, {output.name: np.zeros(0)}))))
        for number, each in traces
        for output in each.outputs
    ]
    arrays = _joined((number, each.traced.arrays) for number, each in traces)
    shadows = _joined((number, each.shadows) for number, each in traces)
    return OnnxTrace(
        Outputs(arrays, 0.0, traces[0][1].traced.facts),
        tuple(outputs),
        shadows,
        traces[0][1].shadow,
        max(each.held for _, each in traces),
    )


def _joined(parts: Iterable[tuple[int, dict[str, NDArray[Any]]]]) -> dict[str, NDArray[Any]]:
    return {name: array for number, each in parts for name, array in of_data_set(number, each).items()}


_PROGRAM = "program.onnx"


def _traced(deployed: _Deployed, recorder: Recorder, threads: int, *, shares: bool) -> OnnxTrace:
    run = _Run(deployed, recorder, threads, shares=shares and recorder.detail >= Detail.OWN)
    try:
        run.forward()
        return run.finish()
    # It computed in a plain run. The classes of ONNX Runtime's errors have no common base.
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        message = f"expected the model to compute but: {runtime_message(error)}"
        raise UserError("model-failed", message, file=deployed.file.name) from None


def _deploy(spec: Mapping[str, Any], call: Call, folder: Path) -> _Deployed:
    """Load the model as a run does, save its program, and run it once."""
    model, nodes = deployed_model(spec, call)
    parsed = parse_model(model)
    session = make_session(model, spec, folder / _PROGRAM)
    every = [output.name for output in session.get_outputs()]
    names = chosen_outputs(spec, every, nodes, model.name)
    feeds = bind_inputs(session, call, model.name)
    found = run_feeds(session, feeds, names).values
    program = Program(folder / _PROGRAM, parsed, spec)
    return _Deployed(model, program, feeds, found, session_facts(session, spec), name_values)


class _Exact(NamedTuple):
    """The outputs of a node in higher precision: on its own inputs, None if not computed, and on their shadows."""

    own: Sequence[Any] | None
    total: Sequence[Any]
    note: OperationNote


class _Run:
    """The values of one traced run: `low` as the program has them, and `shadows` where they differ from these."""

    def __init__(self, deployed: _Deployed, recorder: Recorder, threads: int, *, shares: bool) -> None:
        self._deployed, self._program, self._recorder = deployed, deployed.program, recorder
        self._low: dict[str, Any] = dict(deployed.feeds)
        self._shadows: dict[str, Any] = {}
        # The relative total errors of values, and the numbers of the operations that made them.
        self._errors: dict[str, float] = {}
        self._makers: dict[str, int] = {}
        program = deployed.program
        given = [*deployed.feeds.values(), *program.weights.values()]
        self._dtype = np.dtype(np.longdouble if any(_has_dtype(each, np.float64) for each in given) else np.float64)
        self._exact = ExactNodes(program, deployed.file, threads, self._dtype)
        self._ledger = ShareLedger(program, self._exact, recorder, self._dtype) if shares else None
        self._kept = {*deployed.found}
        # Outputs of integers, as the shadow would have them.
        self._flipped: dict[str, Any] = {}
        self._most = 0
        self._whole: dict[str, Any] | None = None

    def forward(self) -> None:
        """Run the windows in order, and record each node beside its shadow."""
        self._whole = self._choose_way()
        for window in self._program.windows:
            if self._ledger is not None:
                needed = self._program.needs(window)
                self._ledger.keep(window, {name: self._low[name] for name in needed if name in self._low})
            made = self._program.run(window, self._low) if self._whole is None else self._whole
            names = [name for place in window for name in self._program.nodes[place].proto.output if name]
            self._low |= {name: made[name] for name in names}
            self._count_held()
            for place in window:
                self._see(place)
                self._drop(self._shadows, place)
            self._drop(self._low, window.stop - 1)

    def _count_held(self) -> None:
        entries = [] if self._ledger is None else self._ledger.kept()
        # A value in several of these is one array.
        arrays = {
            id(each): each.nbytes
            for each in (*self._low.values(), *self._shadows.values(), *entries)
            if _is_array(each)
        }
        self._most = max(self._most, sum(arrays.values()))

    def _drop(self, values: dict[str, Any], place: int) -> None:
        for name in [name for name in values if self._program.last.get(name, -1) <= place and name not in self._kept]:
            # An input of the model that no node reads has no last use.
            del values[name]

    def _choose_way(self) -> dict[str, Any] | None:
        """Return None if the windows give the bits of the deployed session, and else all values of one run.

        Kernels may prepare constant weights, and round otherwise then. If neither way has the bits, note it.
        """
        low = dict(self._deployed.feeds)
        for window in self._program.windows:
            low |= self._program.run(window, low)
            self._drop(low, window.stop - 1)
        found = {name: self._value(name, low) for name in self._kept}
        if same_bits(found, self._deployed.found):
            return None
        whole = session_values(self._program.whole_session(), self._deployed.feeds)
        if same_bits({name: self._value(name, whole) for name in self._kept}, self._deployed.found):
            return whole
        self._note_rerouted(found)
        return None

    def _value(self, name: str, low: Mapping[str, Any]) -> Any:
        return self._program.value(name, {**self._deployed.feeds, **low})

    def _note_rerouted(self, found: Mapping[str, Any]) -> None:
        for name, expected in self._deployed.found.items():
            if is_real(expected) and not same_bits({"": found[name]}, {"": expected}):
                size = error_size(found[name], np.asarray(expected, self._dtype))
                changed = int(np.sum(found[name] != expected))
                site = self._program.nodes[-1].site
                detail = f"{size.relative:.2g}"
                self._recorder.note_event("rerouted", name, site, changed, expected.size, detail)

    # One node

    def _see(self, place: int) -> None:
        node = self._program.nodes[place]
        given = {name: self._program.value(name, self._low) for name in node.reads}
        actual = [self._low.get(name) for name in node.proto.output]
        exact = self._shadow(place, given, actual)
        before = max((self._errors.get(name, 0.0) for name in node.reads), default=0.0)
        sources = tuple(dict.fromkeys(self._makers.get(name, 0) for name in node.reads))
        chosen = self._choose_output(actual, exact)
        shown, sizes = actual[chosen], self._measure(actual[chosen], exact, chosen)
        shape = () if shown is None else flat(shown, self._dtype).shape
        number, values = self._recorder.next_number(), self._range(actual[chosen], exact, chosen)
        operation = Operation(
            number=number,
            name=node.operator,
            engine="onnx",
            site=node.site,
            dtype=_dtype_of(actual[chosen]),
            shape=shape,
            inputs=tuple(
                TracedArray(_dtype_of(value), np.shape(value)) for value in given.values() if _is_array(value)
            ),
            own=sizes.own,
            inherited=sizes.inherited,
            total=sizes.total,
            amplification=sizes.inherited.relative / before if sizes.inherited is not None and before > 0.0 else None,
            range=values,
            lost_bits=None if values is None else _lost_bits(node.operator, given.values(), values),
            note=exact.note,
            sources=sources,
        )
        own = None if exact.own is None else exact.own[chosen]
        self._recorder.record(Observed(operation, actual[chosen], exact.total[chosen], own))
        self._keep(place, actual, exact, number)

    def _shadow(self, place: int, given: Mapping[str, Any], actual: Sequence[Any]) -> _Exact:
        """Return the outputs of a node in higher precision; its own ones if nothing computes it so."""
        node, note = self._program.nodes[place], self._exact.note(place, given, actual)
        same = [to_wide(value, self._dtype) for value in actual]
        follows = {name: self._shadows[name] for name in node.reads if name in self._shadows}
        if note in ("created", "random") or (note == "moved" and not follows):
            return _Exact(same if note == "moved" else None, same, note)
        wide = {name: to_wide(value, self._dtype) for name, value in given.items()}
        try:
            if note == "moved":
                return _Exact(same, self._exact.compute(place, {**wide, **follows}, actual), note)
            is_needed = self._recorder.detail >= Detail.OWN or not follows
            own = self._exact.compute(place, wide, actual) if is_needed else None
            total = own if own is not None and not follows else self._exact.compute(place, {**wide, **follows}, actual)
            return _Exact(own, total, note)
        except NotShadowedError as error:
            self._recorder.note_event("not_shadowed", node.operator, node.site, detail=str(error)[:200])
            return _Exact(None, self._on_rounded_shadows(place, given, follows, same), "not_shadowed")

    def _on_rounded_shadows(
        self, place: int, given: Mapping[str, Any], follows: Mapping[str, Any], same: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the outputs of a node itself on the rounded shadows of its inputs."""
        if not follows:
            return same
        node = self._program.nodes[place]
        feeds = {**given, **{name: to_narrow(value, given[name]) for name, value in follows.items()}}
        try:
            found = self._program.run_nodes([node.proto], feeds)
        # It ran before on other numbers; some operators refuse numbers such as indices out of range.
        except Exception:
            self._recorder.note_event("cut", node.operator, node.site)
            return same
        return [to_wide(found.get(name), self._dtype) for name in node.proto.output]

    def _keep(self, place: int, actual: Sequence[Any], exact: _Exact, number: int) -> None:
        """Keep the shadows of the outputs. Integers and truth values must equal the run's; different ones are flips."""
        node = self._program.nodes[place]
        outputs = [*node.proto.output]
        for name, value, shadow in zip(outputs, actual, [*exact.total, *[None] * len(outputs)], strict=False):
            if not name:
                continue
            self._makers[name] = number
            if value is None or (not is_real(value) and shadow is None):
                continue
            if shadow is None or np.shape(flat(shadow, self._dtype)) != np.shape(flat(value, self._dtype)):
                # The computation in higher precision would have gone another way, or nothing is known about it.
                kind: EventKind = "cut" if shadow is None else "flip"
                elements = flat(value, self._dtype).size
                self._recorder.note_event(kind, node.operator, node.site, elements, elements)
            elif not is_real(value):
                self._note_flips(place, name, value, shadow)
            elif not np.array_equal(flat(to_wide(value, self._dtype), self._dtype), flat(shadow, self._dtype)):
                self._shadows[name] = shadow
                self._errors[name] = _size(value, shadow, self._dtype, elements=False).relative

            self._note_overflow(place, value, shadow)

    def _note_flips(self, place: int, name: str, value: Any, shadow: Any) -> None:
        node = self._program.nodes[place]
        if not isinstance(value, list) and value.dtype.kind in "iub":
            changed = int(np.sum(np.asarray(shadow) != value))
            if changed:
                self._recorder.note_event("flip", node.operator, node.site, changed, value.size)
                if name in self._kept:
                    self._flipped[name] = np.asarray(shadow)

    def _note_overflow(self, place: int, value: Any, shadow: Any) -> None:
        node = self._program.nodes[place]
        if _is_plain_real(value) and shadow is not None and np.shape(shadow) == value.shape:
            changed = int(np.sum(np.isfinite(shadow) & ~np.isfinite(value.astype(self._dtype))))
            if changed:
                self._recorder.note_event("overflow", node.operator, node.site, changed, value.size)

    def _choose_output(self, actual: Sequence[Any], exact: _Exact) -> int:
        """Return the place of the output with the largest own error, or of the first one."""
        if len(actual) == 1 or exact.own is None:
            return next((place for place, value in enumerate(actual) if value is not None), 0)
        sizes = [
            _size(value, own, self._dtype, elements=False).relative if is_real(value) and own is not None else -1.0
            for value, own in zip(actual, [*exact.own, *[None] * len(actual)], strict=False)
        ]
        return int(np.argmax(sizes))

    def _measure(self, actual: Any, exact: _Exact, chosen: int) -> _Sizes:
        detail = self._recorder.detail
        own = None if exact.own is None else exact.own[chosen]
        total = exact.total[chosen] if chosen < len(exact.total) else None
        if not is_real(actual):
            # Integers that another rounding changes are flips, and have no size.
            is_same = own is not None and not isinstance(actual, list) and np.array_equal(own, actual)
            return _Sizes(ErrorSize(0.0) if is_same else None, None, None)
        if detail < Detail.TOTALS or total is None:
            return _Sizes(None, None, None)
        elements = detail >= Detail.ELEMENTS
        whole = _size(actual, total, self._dtype, elements=elements)
        if exact.note == "moved":
            return _Sizes(ErrorSize(0.0), whole, whole)
        if own is None or detail < Detail.OWN:
            return _Sizes(None, None, whole)
        if own is total:
            return _Sizes(whole, ErrorSize(0.0), whole)
        inherited = error_size(flat(own, self._dtype), flat(total, self._dtype))
        return _Sizes(_size(actual, own, self._dtype, elements=elements), inherited, whole)

    def _range(self, actual: Any, exact: _Exact, chosen: int) -> ValueRange | None:
        total = exact.total[chosen] if chosen < len(exact.total) else None
        if self._recorder.detail < Detail.TOTALS or exact.note == "moved" or not _is_plain_real(actual):
            return None
        return value_range(actual, total)

    # The end

    def finish(self) -> OnnxTrace:
        """Return the outputs with their errors, after the second pass for shares."""
        deployed = self._deployed
        found = {name: self._value(name, self._low) for name in deployed.found}
        shadows = {name: self._shadows.get(name, to_wide(value, self._dtype)) for name, value in found.items()}
        errors = {
            name: flat(to_wide(value, self._dtype), self._dtype) - flat(shadows[name], self._dtype)
            for name, value in found.items()
            if _is_plain_real(value)
        }
        sums: dict[str, float] = {}
        if self._ledger is not None:
            sums = self._ledger.settle(errors, self._makers, self._whole)
        arrays, wide = deployed.name(found), deployed.name({**shadows, **self._flipped})
        outputs = tuple(
            TracedOutput(
                name=name,
                dtype=dtype_name(array.dtype),
                shape=array.shape,
                rounding=error_size(
                    array, np.asarray(wide[name], np.result_type(wide[name], np.float64)), elements=True
                ),
                number=self._makers.get(name),
                sum_of_shares=sums.get(name),
                range=value_range(array),
            )
            for name, array in arrays.items()
        )
        return OnnxTrace(
            Outputs(arrays, 0.0, deployed.facts),
            outputs,
            wide,
            "longdouble" if self._dtype.itemsize > 8 else "float64",
            self._most,
        )


class _Sizes(NamedTuple):
    own: ErrorSize | None
    inherited: ErrorSize | None
    total: ErrorSize | None


def _size(actual: Any, exact: Any, dtype: np.dtype[Any], *, elements: bool) -> ErrorSize:
    if isinstance(actual, list):
        return error_size(flat(actual, dtype), flat(exact, dtype))
    return error_size(actual, exact, elements=elements)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _is_plain_real(value: Any) -> bool:
    return is_real(value) and not isinstance(value, list)


def _has_dtype(value: Any, dtype: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == dtype


def _dtype_of(value: Any) -> str:
    if isinstance(value, list):
        return _dtype_of(value[0]) if value else ""
    return "" if value is None else dtype_name(np.asarray(value).dtype)


def _lost_bits(operator: str, given: Iterable[Any], result: ValueRange) -> float | None:
    """Return the lost bits of additions and subtractions."""
    if operator not in ("Add", "Sub", "Sum"):
        return None
    operands = (largest_magnitude(value) for value in given if _is_plain_real(value))
    return bits_lost(max(operands, default=0.0), result)
