"""Which tensors does an ONNX model quantize with QuantizeLinear and DequantizeLinear, and with which scales?

A pair of both rounds an activation. A DequantizeLinear of stored integers gives a weight; the float model has the
weights before the quantization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.quantization.arrays import channel_spread, code_histogram, figures_of, quantize_values
from precreg.quantization.model import Array, LayerFacts, compare_outputs
from precreg.quantization.onnx.graph import Feeds, Graph, ObservedTensor, layer_name, observe_tensors, run_graph
from precreg.quantization.onnx.segments import Edge, OnnxModel
from precreg.subject.onnx import onnx_package
from precreg.types import ArrayQuantization, Granularity, QuantizationEvent, QuantizedRole, Quantizer

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# Operators with integers inside: no float form of them is in the graph.
_INTEGER_OPERATORS = frozenset(
    (
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
        "DynamicQuantizeLinear",
        "MatMulNBits",
        "QGemm",
        "QAttention",
        "QLinearAdd",
        "QLinearMul",
        "QLinearSigmoid",
        "QLinearGlobalAveragePool",
    )
)
_SUFFIXES = ("_quantized", "_DequantizeLinear_Output", "_QuantizeLinear_Output")
_OUTPUT = "Output"
_RELU = "__relu"
# The float forms differ in the order of their sums. A larger difference means another model, or another operator.
_SAME_FLOAT = 1e-3


class Stored(NamedTuple):
    """Hold the parameters of a DequantizeLinear, each in the shape of the quantized tensor or to broadcast to it."""

    scale: Array
    zero_point: Array
    lowest: float
    highest: float
    quantizer: Quantizer


def has_qdq(graph: Graph) -> bool:
    """Return whether a graph has quantized tensors."""
    return any(node.op_type == _DEQUANTIZE or node.op_type in _INTEGER_OPERATORS for node in graph.graph.node)


def read_qdq(
    given: Graph, calibration: Sequence[Feeds], feeds: Sequence[Feeds], twin: Graph | None = None
) -> OnnxModel:
    """Return a model whose float form is the graph without its pairs, and which puts back those of each layer.

    `twin` is the float model. Without it, the float weights are the dequantized ones, and have no error.

    Raises UserError: bad-value for a graph without pairs around float operators, or a scale that is no constant.
    """
    graph = given._replace(model=deepcopy(given.model))
    _give_outputs_names(graph)
    edges, pairs = _find_edges(graph, twin)
    events = [
        QuantizationEvent("not_covered", layer_name(node), detail=node.op_type)
        for node in graph.graph.node
        if node.op_type in _INTEGER_OPERATORS
    ]
    if not edges:
        raise UserError(
            "bad-value",
            "expected pairs of QuantizeLinear and DequantizeLinear around float operators but got"
            f" {', '.join(sorted({each.detail for each in events})) or 'none'}",
            file=given.name,
            hint="quantize it with QuantFormat.QDQ of onnxruntime.quantization, or give the float model",
        )
    for edge in edges:
        edge.node.input[edge.place] = edge.exact
    axes = {edge.exact: _axis_of(edge.node) for edge in edges if edge.role != "weight"}
    raw = {name.removesuffix(_RELU): axis for name, axis in axes.items()}
    observed = observe_tensors(graph, calibration, axes | raw)
    restored = [name.removesuffix(_RELU) for name in axes if name.endswith(_RELU)]
    events += [QuantizationEvent("relu_restored", name) for name in restored if (observed[name].values < 0.0).any()]
    if twin is not None:
        events += _compare_twin(graph, twin, feeds)
    arrays = graph.arrays()
    layers = []
    for name in dict.fromkeys(edge.layer for edge in edges):
        own = [edge for edge in edges if edge.layer == name]
        layers.append(_facts(name, own, pairs, observed, arrays, events))
    return OnnxModel(graph, layers, edges, feeds, events, given)


def _compare_twin(graph: Graph, twin: Graph, feeds: Sequence[Feeds]) -> list[QuantizationEvent]:
    """Return the event that the graph without its pairs is not the float model."""
    given = tuple(run_graph(twin, feeds))
    own = tuple(run_graph(graph, feeds))
    if [each.shape for each in given] != [each.shape for each in own]:
        raise UserError(
            "bad-value",
            f"expected a float model with results of {own[0].shape} but got {given[0].shape}",
            file=twin.name,
            hint="give the model that was quantized",
        )
    differs = compare_outputs(given, own, None).relative
    return [] if differs <= _SAME_FLOAT else [QuantizationEvent("float_differs", "", detail=repr(differs))]


def _give_outputs_names(graph: Graph) -> None:
    """Put an Identity behind each quantized result of the graph, so that the result keeps its name in both forms."""
    makers = graph.makers()
    for output in graph.graph.output:
        maker = makers.get(output.name)
        if maker is not None and maker.op_type == _DEQUANTIZE:
            inner = f"{output.name}__quantized"
            for node in graph.graph.node:
                for place, name in enumerate(node.input):
                    if name == output.name:
                        node.input[place] = inner
            maker.output[0] = inner
            name = f"{output.name} (result)"
            graph.graph.node.append(onnx_package().helper.make_node("Identity", [inner], [output.name], name=name))


def _find_edges(graph: Graph, twin: Graph | None) -> tuple[list[Edge], dict[str, Any]]:
    """Return the inputs of float operators that are quantized, and the DequantizeLinear of each quantized tensor."""
    makers, arrays = graph.makers(), graph.arrays()
    float_arrays = {} if twin is None else twin.arrays()
    edges: list[Edge] = []
    pairs: dict[str, Any] = {}
    for node in list(graph.graph.node):
        if node.op_type in (_QUANTIZE, _DEQUANTIZE):
            continue
        for place, name in enumerate(node.input):
            pair = makers.get(name)
            if pair is None or pair.op_type != _DEQUANTIZE:
                continue
            source = pair.input[0]
            before = makers.get(source)
            if source in arrays:
                exact = _float_weight(graph, name, source, float_arrays)
                role: QuantizedRole = "weight"
            elif before is not None and before.op_type == _QUANTIZE:
                role = "weight" if before.input[0] in arrays else "input"
                exact = before.input[0] if role == "weight" else _with_relu(graph, before, arrays)
            else:
                continue
            pairs[name] = pair
            edges.append(Edge(layer_name(node), node, place, role, exact, name))
    return edges, pairs


def _with_relu(graph: Graph, pair: Any, arrays: Mapping[str, Any]) -> str:
    """Return the name of the float tensor of a QuantizeLinear, behind a Relu if its codes begin at zero.

    Such a pair has no negative results. ONNX Runtime's quantize_static therefore removes the Relu before it, which the
    float form needs again.
    """
    name = str(pair.input[0])
    zero = arrays.get(pair.input[2]) if len(pair.input) > 2 else None
    maker = graph.makers().get(name)
    if zero is None or (maker is not None and maker.op_type == "Relu"):
        return name
    values = onnx_package().numpy_helper.to_array(zero)
    lowest = _range_of(zero.data_type, pair)[0]
    if values.size != 1 or float(values.reshape(-1)[0]) != lowest:
        return name
    restored = f"{name}{_RELU}"
    if restored not in graph.makers():
        at = next(at for at, node in enumerate(graph.graph.node) if node.output[0] == pair.output[0])
        graph.graph.node.insert(at, onnx_package().helper.make_node("Relu", [name], [restored]))
    return restored


def _float_weight(graph: Graph, dequantized: str, source: str, float_arrays: Mapping[str, Any]) -> str:
    """Return the name of the float weight, which the graph gets from the float model; else the dequantized one."""
    stem = source
    for suffix in _SUFFIXES:
        stem = stem.removesuffix(suffix)
    found = float_arrays.get(stem)
    if found is None:
        return dequantized
    name = f"{stem}__float"
    if name not in graph.arrays():
        copied = graph.graph.initializer.add()
        copied.CopyFrom(found)
        copied.name = name
    return name


def _axis_of(node: Any) -> int:
    return 1 if node.op_type.startswith("Conv") or "Pool" in node.op_type else -1


def _facts(
    name: str,
    edges: Sequence[Edge],
    pairs: Mapping[str, Any],
    observed: Mapping[str, ObservedTensor],
    arrays: Mapping[str, Any],
    events: list[QuantizationEvent],
) -> LayerFacts:
    to_array = onnx_package().numpy_helper.to_array
    weight = activation = None
    parameters = 0
    for edge in edges:
        pair = pairs[str(edge.quantized)]
        if edge.role == "weight":
            found = _weight_figures(name, edge, pair, arrays, events)
            parameters += found.figures.elements
            # Biases are weights as well; the figures are those of the largest array.
            is_larger = weight is None or found.figures.elements > weight.figures.elements
            weight = found if is_larger else weight
        elif activation is None:
            values = observed[edge.exact]
            if values.left_out:
                events.append(QuantizationEvent("sampled", name, values.left_out))
            stored = _stored(pair, arrays, values.values.shape, to_array)
            activation = _measured(values.values, stored, axis=1)
            if activation.figures.relative_error is None:
                events.append(QuantizationEvent("all_zero", name))
    kind = _OUTPUT if edges[0].node.name.endswith(" (result)") else edges[0].node.op_type
    return LayerFacts(name, kind, parameters, weight, activation)


def _weight_figures(
    name: str, edge: Edge, pair: Any, arrays: Mapping[str, Any], events: list[QuantizationEvent]
) -> ArrayQuantization:
    to_array = onnx_package().numpy_helper.to_array
    if edge.exact != edge.quantized:
        exact = to_array(arrays[edge.exact])
        return _measured(exact, _stored(pair, arrays, exact.shape, to_array), axis=_axis_of_pair(pair))
    events.append(QuantizationEvent("no_float_twin", name))
    codes = to_array(arrays[pair.input[0]]).astype(np.float64)
    stored = _stored(pair, arrays, codes.shape, to_array)
    values = (codes - stored.zero_point) * stored.scale
    found = _measured(values, stored, axis=_axis_of_pair(pair))
    # The dequantized weights have no error against themselves.
    return replace(found, figures=replace(found.figures, relative_error=None, sqnr_db=None))


def _axis_of_pair(pair: Any) -> int:
    return next((each.i for each in pair.attribute if each.name == "axis"), 1)


def _stored(pair: Any, arrays: Mapping[str, Any], shape: tuple[int, ...], to_array: Any) -> Stored:
    """Return the parameters of a pair, spread over the shape of its tensor."""
    missing = [name for name in pair.input[1:3] if name and name not in arrays]
    if missing:
        raise UserError(
            "bad-value",
            f"expected constants as scale and zero point of {pair.output[0]} but got computed {', '.join(missing)}",
            hint="quantize the model statically: onnxruntime.quantization.quantize_static",
        )
    scale = to_array(arrays[pair.input[1]]).astype(np.float64)
    zero_array = arrays.get(pair.input[2]) if len(pair.input) > 2 and pair.input[2] else None
    # Without a zero point, stored codes have their own type, and those of QuantizeLinear are uint8.
    source = zero_array if zero_array is not None else arrays.get(pair.input[0])
    kind = onnx_package().TensorProto.UINT8 if source is None else source.data_type
    zero = np.zeros_like(scale) if zero_array is None else to_array(zero_array).astype(np.float64)
    lowest, highest, bits = _range_of(kind, pair)
    block = next((each.i for each in pair.attribute if each.name == "block_size"), 0)
    axis = _axis_of_pair(pair)
    granularity: Granularity = "tensor" if scale.size == 1 else ("group" if block else "channel")
    has_zero = bool(np.any(zero))
    quantizer = Quantizer(
        f"int{bits}",
        zero_point=has_zero,
        granularity=granularity,
        group=block or None,
        axis=axis,
        calibration="stored",
        bits=bits + (32 + bits * has_zero) * scale.size / max(int(np.prod(shape)), 1),
    )
    wide, shifts = _spread(scale, shape, axis, block), _spread(zero, shape, axis, block)
    return Stored(wide, shifts, lowest, highest, quantizer)


def _range_of(kind: int, pair: Any) -> tuple[float, float, int]:
    name = onnx_package().TensorProto.DataType.Name(kind)
    if not name.lstrip("U").startswith("INT"):
        raise UserError(
            "bad-value",
            f"expected integers as the codes of {pair.output[0]} but got {name.lower()}",
            hint="measure the float model in this format: precreg quantization float.onnx --weights float8_e4m3fn",
        )
    bits = int(name.lstrip("U").removeprefix("INT"))
    if name.startswith("U"):
        return 0.0, 2.0**bits - 1.0, bits
    return -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1.0, bits


def _spread(values: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    if values.size == 1:
        return values.reshape([1] * len(shape))
    axis %= len(shape)
    if block:
        repeated = np.repeat(values, block, axis=axis)
        return repeated[tuple(slice(size) for size in shape)]
    return values.reshape([-1 if at == axis else 1 for at in range(len(shape))])


def _measured(values: Array, stored: Stored, axis: int) -> ArrayQuantization:
    """Return the figures of an array with stored scales; ties go to the even code, as ONNX defines."""
    wide = values.astype(np.float64)
    codes = np.rint(wide / stored.scale) + stored.zero_point
    kept = np.clip(codes, stored.lowest, stored.highest)
    quantized = (kept - stored.zero_point) * stored.scale
    used = int(np.unique(kept).size)
    size = int(stored.highest - stored.lowest) + 1
    figures = figures_of(wide, quantized, int((codes != kept).sum()), used, size)
    found = ArrayQuantization(stored.quantizer, values.shape, values.dtype.name, figures)
    if not np.any(wide):
        return found
    plain = Quantizer("int8")
    histogram = code_histogram(wide, replace(plain, granularity="channel"), quantize_values(wide, plain))
    return replace(found, spread=channel_spread(values, axis), histogram=histogram)
