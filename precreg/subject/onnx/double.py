"""How does a graph compute in float64?

Tensors, attributes and types of float32, float16 and bfloat16 become float64. Formats of 8 and 4 bits stay: a graph
that quantizes has them as a part of its function, with the integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from precreg.subject.onnx.session import onnx_package

_FLOAT, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 10, 11, 16
NARROW = frozenset({_FLOAT, _FLOAT16, _BFLOAT16})

# Attributes that name the type of an output, by operator; the operators of quantization name a type of theirs, too.
_TYPE_ATTRIBUTES = frozenset(
    {"to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision", "qk_matmul_precision"}
)
# Their attributes of type name how the operator itself computes; 0 leaves it to the inputs.
_PRECISIONS = frozenset({"stash_type", "softmax_precision", "qk_matmul_precision"})


def widen_model(model: Any) -> Any:
    """Return a copy of a parsed model, with its external data in memory, that computes in float64."""
    wide = type(model)()
    wide.CopyFrom(model)
    widen_graph(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
        for value in function.value_info:
            _widen_type(value.type)
    return wide


def widen_node(node: Any) -> Any:
    """Return a copy of a node that computes in float64."""
    wide = type(node)()
    wide.CopyFrom(node)
    _widen_nodes([wide])
    return wide


def widen_graph(graph: Any) -> None:
    """Change a graph and its subgraphs in place, so that they compute in float64."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for sparse in graph.sparse_initializer:
        _widen_tensor(sparse.values)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(value.type)
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[Any]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            _widen_attribute(node, attribute)
        if node.op_type == "Constant":
            _widen_constant(node)
        if node.op_type == "ConstantOfShape" and not node.attribute:
            # Without a value it gives zeros of float32.
            node.attribute.append(onnx_package().helper.make_attribute("value", _tensor(np.zeros(1))))


def _widen_attribute(node: Any, attribute: Any) -> None:
    if attribute.name in _TYPE_ATTRIBUTES and attribute.i in NARROW and not attribute.ref_attr_name:
        # Its type of computation may not be float64 in the operator's definition, and float32 is the widest then.
        attribute.i = _DOUBLE if attribute.name not in _PRECISIONS else attribute.i
    if attribute.HasField("t"):
        _widen_tensor(attribute.t)
    for tensor in attribute.tensors:
        _widen_tensor(tensor)
    if attribute.HasField("g"):
        widen_graph(attribute.g)
    for graph in attribute.graphs:
        widen_graph(graph)


def _widen_constant(node: Any) -> None:
    """Replace an attribute that is a number, or numbers, by a tensor: numbers in attributes are float32."""
    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            value = onnx_package().helper.make_attribute("value", _tensor(np.array(numbers, np.float64)))
            attribute.CopyFrom(value)


def _tensor(array: Any) -> Any:
    return onnx_package().numpy_helper.from_array(array)


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type in NARROW:
        array = np.asarray(onnx_package().numpy_helper.to_array(tensor)).astype(np.float64)
        name = tensor.name
        tensor.CopyFrom(_tensor(array))
        tensor.name = name


def _widen_type(kind: Any) -> None:
    """Change the element type inside a type, at any depth of sequences and optionals."""
    field = kind.WhichOneof("value")
    if field in ("tensor_type", "sparse_tensor_type"):
        own = getattr(kind, field)
        own.elem_type = _DOUBLE if own.elem_type in NARROW else own.elem_type
    elif field in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, field).elem_type)
    elif field == "map_type":
        _widen_type(kind.map_type.value_type)
