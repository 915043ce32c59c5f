"""How does an ONNX model run with some of its layers quantized, or with the results of one layer moved?

The graph is cut around each layer. Between the parts, a run chooses the float or the quantized form of each input of a
layer, so that numpy can quantize activations in every format, and each part is loaded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.quantization.arrays import relative_norm
from precreg.quantization.model import Array, LayerFacts, LayerSums, ModelResults
from precreg.quantization.onnx.graph import Feeds, Graph, run_graph
from precreg.subject.onnx import (
    ModelFile,
    make_session,
    onnx_package,
    outer_names,
    run_feeds,
    runtime_feeds,
    runtime_message,
    type_of_value,
)
from precreg.types import QuantizationEvent, QuantizedRole

Form = str | Callable[[Array], Array]
# The part of a layer's error by which its results move to both sides, for the derivative along the error. Smaller
# parts lose digits of float32, larger ones leave the line (tests/extras/quantization/onnx/test_first_order.py).
STEP = 2.0**-4
# Their results have too few digits for a difference.
_COARSE = (np.dtype(np.float16),)


class Edge(NamedTuple):
    """Hold one input of a node, with its float and its quantized form.

    `exact` names a tensor. `quantized` names one, or is a function of the float tensor.
    """

    layer: str
    node: Any
    place: int
    role: QuantizedRole
    exact: str
    quantized: Form


class _Part(NamedTuple):
    """Hold successive nodes, the names that they read and give, and the edges of the layer if it is one."""

    nodes: list[Any]
    reads: set[str]
    gives: list[str]
    layer: str | None
    # The edges by the names that the node of the layer has for them.
    edges: Mapping[str, Edge]

    @property
    def needs(self) -> set[str]:
        """Return the names that a run of the part needs, those of both forms of its edges included."""
        forms = [each for edge in self.edges.values() for each in (edge.exact, edge.quantized)]
        return self.reads | {each for each in forms if isinstance(each, str)}


class _Choice(NamedTuple):
    """Hold the layers whose weights and activations are quantized, and how far one of them goes along its error."""

    weights: Set[str]
    activations: Set[str]
    part_of_error: float = 1.0

    @property
    def single(self) -> str | None:
        """Return the only quantized layer, if it is one."""
        names = self.weights | self.activations
        return next(iter(names)) if len(names) == 1 else None


_EXACT = _Choice(frozenset(), frozenset())


class OnnxModel:
    """Run a graph on feeds with some layers quantized. The graph is precreg's own, and its nodes read the edges."""

    def __init__(
        self,
        graph: Graph,
        layers: Sequence[LayerFacts],
        edges: Sequence[Edge],
        feeds: Sequence[Feeds],
        events: Sequence[QuantizationEvent],
        given: Graph,
    ) -> None:
        """Take the layers in the order of the graph, and the inputs of nodes that a run chooses.

        `given` is the user's graph: what it refuses, it refuses with a message about its own inputs.
        """
        self._graph, self._layers, self._given = graph, layers, given
        self._feeds, self._events = feeds, events
        self._constants = {name: onnx_package().numpy_helper.to_array(each) for name, each in graph.arrays().items()}
        self._parts = _parts(graph, edges)
        self._last = {name: at for at, part in enumerate(self._parts) for name in part.needs}
        self._last |= dict.fromkeys((each.name for each in graph.graph.output), len(self._parts))
        self._sessions: dict[Any, Any] = {}

    @property
    def layers(self) -> Sequence[LayerFacts]:
        """Return the layers in the order in which they run."""
        return self._layers

    @property
    def events(self) -> Sequence[QuantizationEvent]:
        """Return the facts that weaken the figures."""
        return self._events

    def run(self, weights: Set[str], activations: Set[str]) -> ModelResults:
        """Return the results with the weights and the activations of the named layers quantized."""
        choice = _Choice(weights, activations)
        sums = dict.fromkeys([choice.single] if choice.single else [], LayerSums(0.0, 0.0))
        outputs = tuple(self._run_feed(number, choice, sums) for number in range(len(self._feeds)))
        return ModelResults(outputs, sums)

    def first_order(self, layer: str, weights: Set[str], activations: Set[str]) -> float | None:
        """Return the relative error of the results to first order in the error of one layer's own results.

        It is the norm of (f(y + s e) - f(y - s e)) / 2 s over that of f(y), with the part s = STEP of the error e.
        `weights` and `activations` have the layers that these can be quantized of. None for a layer whose results are
        no floats, or have too few digits for a small part.
        """
        own = frozenset({layer})
        noise = 0.0
        try:
            for number in range(len(self._feeds)):
                ahead, behind = (
                    self._run_feed(number, _Choice(own & weights, own & activations, part), {}).astype(np.float64)
                    for part in (STEP, -STEP)
                )
                noise += float(np.square((ahead - behind) / (2 * STEP)).sum())
        except _CoarseResultsError:
            return None
        return relative_norm(noise, self._signal)

    @cached_property
    def _signal(self) -> float:
        """Return the sum of squares of the float results."""
        exact = (self._run_feed(number, _EXACT, {}) for number in range(len(self._feeds)))
        return sum(float(np.square(each.astype(np.float64)).sum()) for each in exact)

    def _run_feed(self, number: int, choice: _Choice, sums: dict[str, LayerSums]) -> Array:
        values: dict[str, Any] = dict(self._feeds[number])
        for at, part in enumerate(self._parts):
            found = self._run_part(at, values, choice, number)
            if part.layer is not None and part.layer == choice.single:
                exact = self._run_part(at, values, _EXACT, number)
                name = part.gives[0]
                if choice.part_of_error != 1.0:
                    found[name] = _moved(exact[name], found[name], choice.part_of_error)
                elif part.layer in sums:
                    _add(sums, part.layer, exact[name], found[name])
            values |= found
            # Inner values of a deep model together may need many times the memory of its weights.
            for name in part.needs:
                if self._last[name] == at:
                    values.pop(name, None)
        return self._measured(values, number)

    def _measured(self, values: Mapping[str, Any], number: int) -> Array:
        # A result may be an input or a constant of the graph.
        results = [values.get(each.name, self._constants.get(each.name)) for each in self._graph.graph.output]
        found = next((each for each in results if getattr(each, "dtype", np.dtype(bool)).kind == "f"), None)
        if found is None:
            # The message of a run of the whole model has the types.
            run_graph(self._given, self._feeds[number : number + 1])
        return np.asarray(found)

    def _run_part(self, at: int, values: Mapping[str, Any], choice: _Choice, number: int) -> dict[str, Any]:
        part = self._parts[at]
        if not part.gives:
            return {}
        used = {name: values[name] for name in part.reads if name in values}
        used |= {name: self._value_of(edge, values, choice) for name, edge in part.edges.items()}
        try:
            session = self._session(at, used)
            return dict(run_feeds(session, runtime_feeds(used), part.gives).values)
        except UserError:
            raise
        # The classes of ONNX Runtime's errors have no common base.
        except Exception as problem:
            # The whole model names its own inputs, and the batch.
            run_graph(self._given, self._feeds[: number + 1])
            names = ", ".join(each.name or each.op_type for each in part.nodes[:3])
            raise UserError(
                "bad-model",
                f"expected nodes that run on their own but got {names}\n  {runtime_message(problem)}",
                file=self._graph.name,
                hint="leave the layer out: --layers PATTERN",
            ) from None

    def _value_of(self, edge: Edge, values: Mapping[str, Any], choice: _Choice) -> Any:
        is_chosen = edge.layer in (choice.weights if edge.role == "weight" else choice.activations)
        name = edge.quantized if is_chosen and isinstance(edge.quantized, str) else edge.exact
        found = values[name] if name in values else self._constants[name]
        return edge.quantized(found) if is_chosen and callable(edge.quantized) else found

    def _session(self, at: int, used: Mapping[str, Any]) -> Any:
        """Return the session of a part for inputs of these types, which is made once."""
        part, helper = self._parts[at], onnx_package().helper
        types = {name: type_of_value(value) for name, value in used.items()}
        key = (at, tuple((name, each.SerializeToString()) for name, each in types.items()))
        if key not in self._sessions:
            model, constants = self._graph.model, self._graph.arrays()
            inputs = [helper.make_value_info(name, each) for name, each in types.items()]
            # ONNX Runtime infers the types.
            outputs = [onnx_package().ValueInfoProto(name=name) for name in part.gives]
            own = [constants[name] for name in part.reads if name in constants and name not in used]
            made = helper.make_model(
                helper.make_graph(part.nodes, "part", inputs, outputs, own),
                opset_imports=model.opset_import,
                functions=model.functions,
                ir_version=model.ir_version,
            )
            file = ModelFile(self._graph.name, made.SerializeToString(), self._graph.folder)
            self._sessions[key] = make_session(file, {"optimization": "disabled"})
        return self._sessions[key]


def _parts(graph: Graph, edges: Sequence[Edge]) -> list[_Part]:
    """Return the parts of a graph: each layer alone, and the nodes between two layers."""
    of_layer: dict[str, dict[str, Edge]] = {}
    for number, edge in enumerate(edges):
        name = f"edge {number}"
        edge.node.input[edge.place] = name
        of_layer.setdefault(_key(edge.node), {})[name] = edge
    groups: list[list[Any]] = [[]]
    for node in graph.graph.node:
        if _key(node) in of_layer:
            groups += [[node], []]
        else:
            groups[-1].append(node)
    results = {each.name for each in graph.graph.output}
    found: list[_Part] = []
    later = set(results)
    for nodes in reversed([each for each in groups if each]):
        own = of_layer.get(_key(nodes[0]), {})
        made = [name for node in nodes for name in node.output if name]
        # The first result of a layer is compared with the float one.
        gives = [name for at, name in enumerate(made) if name in later or (own and at == 0)]
        reads = {name for node in nodes for name in (*node.input, *outer_names(node)) if name}
        layer = next(iter(own.values())).layer if own else None
        found.append(_Part(nodes, reads - set(made) - set(own), gives, layer, own))
        later |= found[-1].needs
    return found[::-1]


def _key(node: Any) -> str:
    """Return a name of a node that no other node has."""
    return str(next(name for name in node.output if name))


class _CoarseResultsError(Exception):
    """Report that the results of a layer have no small differences."""


def _moved(exact: Array, quantized: Array, part: float) -> Array:
    if exact.dtype.kind != "f" or exact.dtype in _COARSE:
        raise _CoarseResultsError
    wide = exact.astype(np.float64)
    moved: Array = (wide + part * (quantized.astype(np.float64) - wide)).astype(exact.dtype)
    return moved


def _add(sums: dict[str, LayerSums], name: str, exact: Array, quantized: Array) -> None:
    if exact.dtype.kind != "f":
        del sums[name]
        return
    wide, before = exact.astype(np.float64), sums[name]
    noise = float(np.square(quantized.astype(np.float64) - wide).sum())
    sums[name] = LayerSums(before.signal + float(np.square(wide).sum()), before.noise + noise)
