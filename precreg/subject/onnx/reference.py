"""What does a model give in float64?

ONNX Runtime computes the widened graph if it has a kernel for each node. Otherwise nodes are computed one by one: by
ONNX Runtime in float64 where it can, else by the reference evaluator of the package onnx. A node that neither computes
in float64 ends the case, unless its suite says fallback: float32.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np

from precreg.errors import UserError
from precreg.subject.call import Call, Outputs, check_outputs
from precreg.subject.onnx.double import widen_model
from precreg.subject.onnx.graph import find_tensors, parse_model
from precreg.subject.onnx.node_runner import FLOAT32, RUNTIME, NodeRunner
from precreg.subject.onnx.outputs import chosen_outputs, name_values
from precreg.subject.onnx.session import (
    KeptObjects,
    ModelFile,
    convert_exactly,
    make_session,
    model_signature,
    note_model_use,
    onnx_package,
    read_model,
    require_shape,
    run_feeds,
    runtime,
)
from precreg.subject.onnx.tensors import BY_NUMBER, element_dtype, runtime_feeds
from precreg.subject.surroundings import SurroundingsRestored
from precreg.types import NARROW_FACT

# Their weights are in float64.
_MAX_REFERENCES = 4
_references = KeptObjects(_MAX_REFERENCES)
_WITHOUT_OPTIMIZATION = {"optimization": "disabled"}


class _Reference:
    """A widened model, its session if ONNX Runtime computes all of it, and the runner of its nodes otherwise."""

    def __init__(self, file: ModelFile, wide: Any, session: Any, outputs: list[str], threads: int) -> None:
        self.file, self.graph, self.outputs = file, wide.graph, outputs
        self._wide, self._session, self._threads = wide, session, threads
        self._runner: NodeRunner | None = None

    def compute(
        self, inputs: dict[str, Any], *, allow_float32: bool
    ) -> tuple[Mapping[str, Any], Mapping[str, Counter[str]]]:
        """Return the outputs by name, and by the place of computation, the number of nodes of each operator.

        Raises UserError: unsupported-model.
        """
        if self._session is not None:
            try:
                found = run_feeds(self._session, runtime_feeds(inputs), self.outputs)
            # Some kernels refuse float64 only when they run: GRU and LSTM do.
            except Exception:
                self._session = None
            else:
                return found.values, {RUNTIME: Counter(node.op_type for node in self.graph.node)}
        if self._runner is None:
            self._runner = NodeRunner(self._wide, self.file, self._threads)
        values, where = self._runner.run(inputs, self.outputs, allow_float32=allow_float32)
        return {name: values[name] for name in self.outputs}, where


def run_reference(spec: dict[str, Any], call: Call) -> Outputs:
    """Compute a model in float64 on the inputs and params of a call.

    Raises UserError: bad-model, unsupported-model, bad-model-inputs, missing-file, outside-project, unknown-node,
    bad-outputs.
    """
    note_model_use()
    with SurroundingsRestored():
        key = (json.dumps(spec, sort_keys=True), str(call.project), model_signature(spec["model"], call.directory))
        reference: _Reference | None = _references.find(key)
        if reference is None:
            reference = _prepare(spec, call)
            _references.keep(key, reference)
        inputs = _bind_wide(reference, call)
        started = perf_counter_ns()
        values, where = reference.compute(inputs, allow_float32="fallback" in spec)
        duration_s = (perf_counter_ns() - started) / 1e9
    facts = {"onnxruntime": runtime().__version__, "onnx": onnx_package().__version__, "onnx precision": "float64"}
    return check_outputs(Outputs(name_values(values), duration_s, facts | _describe(where)))


def _prepare(spec: dict[str, Any], call: Call) -> _Reference:
    model = read_model(spec["model"], call.directory, call.project)
    parsed = parse_model(model)
    tensors = find_tensors(parsed.graph, spec.get("nodes", ()), model.name)
    every = [output.name for output in parsed.graph.output]
    outputs = chosen_outputs(spec, [*every, *(name for name in tensors if name not in every)], tensors, model.name)
    onnx = onnx_package()
    # The checker of the package is stricter than ONNX Runtime, which reports mistakes itself.
    onnx.external_data_helper.load_external_data_for_model(parsed, str(model.folder))
    # A reference of a broken model must fail, also where each node alone would compute.
    make_session(model, _WITHOUT_OPTIMIZATION)
    # Functions of the model become nodes of the graph, so that each node is computed where it can be in float64.
    wide = widen_model(onnx.inliner.inline_local_functions(parsed) if parsed.functions else parsed)
    session = _whole_session(model, wide, outputs, spec)
    return _Reference(model, wide, session, outputs, spec.get("threads", 1))


def _whole_session(model: ModelFile, wide: Any, outputs: Iterable[str], spec: Mapping[str, Any]) -> Any:
    """Return a session of the widened graph; None if ONNX Runtime lacks a kernel, or a type, for one of its nodes."""
    copied = type(wide)()
    copied.CopyFrom(wide)
    returned = {output.name for output in copied.graph.output}
    for name in outputs:
        if name not in returned:
            copied.graph.output.add().name = name
    options = {**_WITHOUT_OPTIMIZATION, "threads": spec.get("threads", 1)}
    try:
        return make_session(model._replace(content=copied.SerializeToString()), options)
    # ValueError: a message of protobuf has at most 2 GiB, and the weights have twice their size here.
    except (UserError, ValueError):
        return None


def _bind_wide(reference: _Reference, call: Call) -> dict[str, Any]:
    """Return the inputs of the widened graph by name. Raises UserError: bad-model-inputs."""
    constants = {tensor.name for tensor in reference.graph.initializer}
    wanted = {value.name: value for value in reference.graph.input if value.name not in constants}
    given = {**call.params, **call.inputs}
    missing, extra = [name for name in wanted if name not in given], [name for name in given if name not in wanted]
    if missing or extra:
        lacks = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has also {', '.join(extra)}"] * bool(extra)
        message = f"expected the inputs of the model ({', '.join(wanted)}) but the case {' and '.join(lacks)}"
        raise UserError("bad-model-inputs", message, file=reference.file.name)
    sizes: dict[str, tuple[int, str]] = {}
    bound = {}
    for name, value in wanted.items():
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or tensor.elem_type not in BY_NUMBER:
            message = f"expected inputs that are tensors but {name} is none; name a reference: or golden:"
            raise UserError("bad-model-inputs", message, file=reference.file.name)
        array = np.asarray(given[name])
        dtype = element_dtype(BY_NUMBER[tensor.elem_type])
        # The extra bits of a longdouble are not part of a float64 input.
        array = array.astype(dtype) if array.dtype == np.longdouble else array
        bound[name] = convert_exactly(array, dtype, name, reference.file.name)
        require_shape(name, array.shape, _dimensions(tensor), reference.file.name, sizes)
    return bound


def _dimensions(tensor: Any) -> list[int | str | None]:
    return [size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim]


def _describe(where: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Write the facts: how many nodes were computed where, and the operators of all but ONNX Runtime's own."""
    facts = {}
    for place, operators in where.items():
        if total := sum(operators.values()):
            named = "" if place == RUNTIME else f": {', '.join(sorted(operators))}"
            facts[f"onnx nodes by {place}"] = f"{total}{named}"
            if place == FLOAT32:
                facts[NARROW_FACT] = f"float32, nodes of {', '.join(sorted(operators))}"
    return facts
