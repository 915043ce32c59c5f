"""How do the nodes of an ONNX model compute alone, and which model do some of them make?

ONNX Runtime runs the model as it was written, without optimizations, and gives all of its values. If that run passes,
the nodes are those of the program that ONNX Runtime makes of the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from precreg.diagnose.reduction.steps import (
    Boundary,
    ChainStep,
    ExactRun,
    KeptComputation,
    RecordedChain,
    boundary_of,
)
from precreg.errors import UserError
from precreg.shadow.onnx import ExactNodes, Program, is_real, session_values, to_wide
from precreg.subject import Call, SurroundingsRestored
from precreg.subject.onnx import (
    ModelFile,
    bind_inputs,
    chosen_outputs,
    make_session,
    note_model_use,
    onnx_package,
    parse_model,
    read_model,
    with_outputs,
)
from precreg.types import Case, TraceEngine

# Options that say which values a model returns, and how its session rewrites it.
_OF_WHOLE = ("model", "outputs", "nodes", "optimization", "free_dimensions")
_PROGRAM = "program.onnx"


class OnnxChain:
    """The nodes of a model, or of the program that ONNX Runtime made of it, as the steps of a chain."""

    engine: TraceEngine = "onnx"

    def __init__(self, program: Program, file: ModelFile, threads: int, low: Mapping[str, Any], names: Sequence[str]):
        self.program = program
        self.low: Mapping[str, Any] = {**program.weights, **low}
        self.outputs: Mapping[str, str] = {name: name for name in names}
        has_double = any(np.asarray(each).dtype == np.float64 for each in self.low.values() if is_real(each))
        self.wide = np.dtype(np.longdouble if has_double else np.float64)
        self.steps: Sequence[ChainStep] = [
            ChainStep(node.operator, node.site, node.reads, tuple(name for name in node.proto.output if name))
            for node in program.nodes
        ]
        self._exact = ExactNodes(program, file, threads, self.wide)

    def widen(self, value: Any) -> Any:
        """Return a value with its floats in the wide dtype."""
        return to_wide(value, self.wide)

    def compute(self, place: int, wide: Mapping[str, Any]) -> list[Any]:
        """Return the results of a node on wide values; random draws and indices come from the run."""
        node = self.program.nodes[place]
        actual = [self.low.get(name) for name in node.proto.output]
        given = {name: self.low[name] for name in node.reads}
        if self._exact.note(place, given, actual) == "random":
            found = [self.widen(value) for value in actual]
        else:
            found = self._exact.compute(place, wide, actual)
        return [value for name, value in zip(node.proto.output, found, strict=False) if name]


def record_onnx(case: Case, call: Call, fails: Any) -> RecordedChain:
    """Record the nodes of a case's model. `fails` says whether the outputs of a program break the case's bounds.

    Raises UserError: irreducible, and the errors of loading a model.
    """
    spec = case.subject.spec
    if case.subject.kind != "onnx" or "precision" in spec:
        message = "expected a model that ONNX Runtime computes in its own precision"
        raise UserError("irreducible", f"{message} but {case.id} has the kind {case.subject.kind}")
    note_model_use()
    with SurroundingsRestored(), TemporaryDirectory(prefix="precreg-reduce-") as folder:
        return _recorded(spec, call, Path(folder), fails)


def _recorded(spec: Mapping[str, Any], call: Call, folder: Path, fails: Any) -> RecordedChain:
    model, nodes = read_model(spec["model"], call.directory, call.project), list[str]()
    onnx = onnx_package()
    if "nodes" in spec:
        model, nodes = with_outputs(model, spec["nodes"])
    parsed = parse_model(model)
    session = make_session(model, spec, folder / f"rewritten-{_PROGRAM}")
    every = [output.name for output in session.get_outputs()]
    names, feeds = chosen_outputs(spec, every, nodes, model.name), bind_inputs(session, call, model.name)
    onnx.external_data_helper.load_external_data_for_model(parsed, str(model.folder))
    whole = onnx.inliner.inline_local_functions(parsed) if parsed.functions else parsed
    onnx.save(whole, folder / _PROGRAM)
    for saved in (folder / _PROGRAM, folder / f"rewritten-{_PROGRAM}"):
        program = Program(saved, parsed, spec)
        low = {**feeds, **session_values(program.whole_session(), feeds)}
        if fails({name: np.asarray(low[name]) for name in names}):
            # The weights of a program may be a map of its file, which goes.
            program.weights = {name: np.array(value) for name, value in program.weights.items()}
            chain = OnnxChain(program, model, spec.get("threads", 1), low, names)
            return RecordedChain(chain, partial(_kept, chain, spec))
    message = "expected nodes that fail when all of their values are returned but they pass"
    raise UserError("irreducible", f"{message}; ONNX Runtime fuses other nodes then", file=model.name)


def _kept(
    chain: OnnxChain, spec: Mapping[str, Any], exact: ExactRun, places: Sequence[int], name: str
) -> KeptComputation:
    boundary = boundary_of(chain, places)
    varying = _varying(chain)
    given = [each for each in boundary.inputs if each in varying]
    names = _plain_names((*given, *boundary.outputs))
    values = {each: _tensor(chain, each) for each in (*boundary.inputs, *boundary.outputs)}
    model = _model(chain, places, Boundary(tuple(given), boundary.outputs), names)
    options = {key: value for key, value in spec.items() if key not in _OF_WHOLE}
    own = exact.own_exact(boundary.outputs, places)
    return KeptComputation(
        subject={"onnx": f"{name}/model.onnx", "optimization": "disabled", **options},
        oracle=None,
        inputs={names[each]: values[each] for each in given},
        outputs={names[each]: values[each] for each in boundary.outputs},
        exact={names[each]: own[each] for each in boundary.outputs},
        files={f"{name}/model.onnx": model.SerializeToString()},
    )


def _varying(chain: OnnxChain) -> set[str]:
    """Return the names of the values that depend on an input of the model; all others are constants."""
    made = {name for step in chain.steps for name in step.makes}
    found = {name for name in chain.low if name not in made and name not in chain.program.weights}
    for step in chain.steps:
        if found.intersection(step.reads) or step.name.startswith(("Random", "Bernoulli", "Multinomial")):
            found.update(step.makes)
    return found


def _tensor(chain: OnnxChain, name: str) -> Any:
    value = chain.low[name]
    if value is None or isinstance(value, list):
        message = f"expected tensors at the boundary of the kept nodes but {name} is a sequence, or absent"
        raise UserError("irreducible", message)
    return np.asarray(value)


def _plain_names(names: Sequence[str]) -> dict[str, str]:
    """Return a name for each value that a file and a suite can have."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
        while plain in found.values():
            plain += "_"
        found[name] = plain
    return found


def _model(chain: OnnxChain, places: Sequence[int], boundary: Boundary, names: Mapping[str, str]) -> Any:
    """Return a model of some nodes, whose inputs and outputs have plain names."""
    onnx = onnx_package()
    nodes = [chain.program.nodes[place] for place in sorted(places)]
    made = {name for node in nodes for name in node.proto.output}
    constants = dict.fromkeys(
        name for node in nodes for name in node.reads if name not in made and name not in boundary.inputs
    )
    # A node reads and makes values by the names of the whole graph, and so do its subgraphs.
    first = [
        onnx.helper.make_node("Identity", [names[name]], [name]) for name in boundary.inputs if names[name] != name
    ]
    last = [
        onnx.helper.make_node("Identity", [name], [names[name]]) for name in boundary.outputs if names[name] != name
    ]
    graph = onnx.helper.make_graph(
        [*first, *(node.proto for node in nodes), *last],
        "reduced",
        [_value(names[name], chain.low[name]) for name in boundary.inputs],
        [_value(names[name], chain.low[name]) for name in boundary.outputs],
        [onnx.numpy_helper.from_array(_tensor(chain, name), name) for name in constants],
    )
    whole = chain.program.model
    return onnx.helper.make_model(
        graph, opset_imports=whole.opset_import, functions=whole.functions, ir_version=whole.ir_version
    )


def _value(name: str, value: Any) -> Any:
    helper, array = onnx_package().helper, np.asarray(value)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
