"""How is a float ONNX model quantized in simulation, by options?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from msgspec.structs import replace

from precreg.errors import UserError, nearest
from precreg.quantization.arrays import channel_rows, measure_array, quantize_values, row_rounding
from precreg.quantization.codes import change_format, short_group_events
from precreg.quantization.model import Array, LayerFacts
from precreg.quantization.onnx.graph import (
    Feeds,
    Graph,
    ObservedTensor,
    from_rows,
    layer_name,
    observe_tensors,
)
from precreg.quantization.onnx.segments import Edge, Form, OnnxModel
from precreg.subject.onnx import onnx_package
from precreg.types import ArrayQuantization, QuantizationEvent, Quantizer

_KINDS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def simulate_graph(
    given: Graph,
    calibration: Sequence[Feeds],
    feeds: Sequence[Feeds],
    weights: Quantizer | None,
    activations: Quantizer | None,
    patterns: Sequence[str] = (),
    *,
    format_of: Callable[[str], str | None] | None = None,
    details: bool = True,
) -> OnnxModel:
    """Return a model whose Conv, ConvTranspose, Gemm and MatMul can be quantized, or those that patterns name.

    `format_of` and `details` are those of `simulate_module`.

    Raises UserError: unknown-node for a pattern without a layer; bad-value for a graph without such layers.
    """
    graph = given._replace(model=deepcopy(given.model))
    chosen = _choose_nodes(graph, patterns)
    arrays = graph.arrays()
    read = {
        (layer_name(node), place): node.input[place]
        for node in chosen
        for place in (0, 1)
        if node.input[place] not in arrays
    }
    axes = {
        node.input[place]: _channel_axis(node)
        for node in chosen
        for place in (0, 1)
        if (layer_name(node), place) in read
    }
    observed = observe_tensors(graph, calibration, axes) if activations is not None else {}
    maker = _Maker(weights, activations, observed, details=details)
    for node in chosen:
        maker.add(node, arrays, format_of)
    return OnnxModel(graph, maker.layers, maker.edges, feeds, maker.events, given)


def _choose_nodes(graph: Graph, patterns: Sequence[str]) -> list[Any]:
    nodes = [node for node in graph.graph.node if node.op_type in _KINDS]
    if not nodes:
        found = ", ".join(sorted({node.op_type for node in graph.graph.node}))
        message = f"expected Conv, Gemm or MatMul in the graph but got {found}"
        raise UserError("bad-value", message, file=graph.name, hint="give a model whose layers are not in a subgraph")
    known = [layer_name(node) for node in nodes]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            message = f"expected a layer of the graph but got layers={pattern}{nearest(pattern, known)}"
            raise UserError("unknown-node", message, file=graph.name, hint=f"write --layers {known[0]}")
    chosen = patterns or ("*",)
    return [node for node in nodes if any(fnmatchcase(layer_name(node), pattern) for pattern in chosen)]


def _channel_axis(node: Any) -> int:
    return 1 if node.op_type.startswith("Conv") else -1


def _weight_axis(node: Any) -> int:
    """Return the axis of the channels of a weight: the results of the layer."""
    if node.op_type == "Gemm":
        return 0 if next((each.i for each in node.attribute if each.name == "transB"), 0) else 1
    return {"Conv": 0, "ConvTranspose": 1}.get(node.op_type, -1)


class _Maker:
    """Makes the quantized forms of tensors, and collects layers, edges and events."""

    def __init__(
        self,
        weights: Quantizer | None,
        activations: Quantizer | None,
        observed: dict[str, ObservedTensor],
        *,
        details: bool,
    ) -> None:
        self._weights, self._activations = weights, activations
        self._observed, self._details = observed, details
        self._rounded: dict[str, tuple[ArrayQuantization, Form] | None] = {}
        self.layers: list[LayerFacts] = []
        self.edges: list[Edge] = []
        self.events: list[QuantizationEvent] = []

    def add(self, node: Any, arrays: dict[str, Any], format_of: Callable[[str], str | None] | None) -> None:
        """Add one layer, in the format of its own."""
        name, weights = layer_name(node), self._weights
        if format_of is not None:
            own = format_of(name)
            if own is None or weights is None:
                return
            weights = change_format(weights, own)
        weight = activation = None
        parameters = 0
        for place in (0, 1):
            tensor = node.input[place]
            if tensor in arrays:
                array = onnx_package().numpy_helper.to_array(arrays[tensor])
                parameters += array.size
                if weights is not None and array.dtype.kind == "f":
                    weight, quantized = self._quantize_weight(name, array, replace(weights, axis=_weight_axis(node)))
                    self.edges.append(Edge(name, node, place, "weight", tensor, quantized))
            elif self._activations is not None:
                rounded = self._round(tensor, name, _channel_axis(node))
                if rounded is not None:
                    activation = activation or rounded[0]
                    self.edges.append(Edge(name, node, place, "input", tensor, rounded[1]))
        if weight is not None or activation is not None:
            self.layers.append(LayerFacts(name, node.op_type, parameters, weight, activation))

    def _quantize_weight(self, name: str, array: Array, quantizer: Quantizer) -> tuple[ArrayQuantization, Form]:
        found = measure_array(array, quantizer, details=self._details)
        self.events += short_group_events(name, array.shape, quantizer)
        values = quantize_values(array, quantizer).values.reshape(array.shape).astype(array.dtype)
        return found, lambda _: values

    def _round(self, tensor: str, name: str, axis: int) -> tuple[ArrayQuantization, Form] | None:
        """Return the figures and the rounding of an activation, which is made once; None for zeros alone."""
        if tensor not in self._rounded:
            assert self._activations is not None
            # The observed rows have their channels last. Blocks run along the channels of each row.
            of_rows = replace(self._activations, axis=0 if self._activations.calibration == "block" else 1)
            seen = self._observed[tensor]
            if seen.left_out:
                self.events.append(QuantizationEvent("sampled", name, seen.left_out))
            if not np.any(seen.values):
                self.events.append(QuantizationEvent("all_zero", name))
                self._rounded[tensor] = None
            else:
                found = measure_array(seen.values, of_rows, details=self._details, channel_axis=1)
                change = row_rounding(seen.values, of_rows)
                self._rounded[tensor] = (found, _on_channels(change, axis))
        return self._rounded[tensor]


def _on_channels(change: Callable[[Array], Array], axis: int) -> Callable[[Array], Array]:
    """Return the function of an array whose rows of channels another function changes."""
    return lambda array: from_rows(change(channel_rows(array, axis)), array, axis)
