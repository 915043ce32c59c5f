"""Which nodes does a model have, and which types, shapes, constants and attributes belong to each?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from precreg.diagnose.onnx.changes import node_site, node_text
from precreg.diagnose.places import PlaceKey
from precreg.run import Arrays
from precreg.storage import Array
from precreg.subject.onnx import ModelFile, onnx_package
from precreg.types import RewrittenPlace

# Constants with more elements are weights, and no number that someone wrote.
_MOST_ELEMENTS = 1


class OnnxPlace(NamedTuple):
    """Hold a node of a graph. `value` is the name of its first result; types are numbers of ONNX.

    `constants` are the operands with one element that the model itself gives, by position.
    """

    key: PlaceKey
    node: Any
    value: str
    kinds: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    constants: dict[int, Array]
    attributes: dict[str, Any]

    @property
    def operator(self) -> str:
        """Return the type of the node, such as "MatMul"."""
        return str(self.node.op_type)

    @property
    def operands(self) -> list[str]:
        """Return the names of the operands; an empty one is left out."""
        return list(self.node.input)

    def described(self, root: str) -> RewrittenPlace:
        """Return the place as reports name it."""
        return RewrittenPlace("operation", self.operator, node_site(self.node, root), node_text(self.node))


class PlacedModel(NamedTuple):
    """Hold a parsed model, the types of its values, and its places in order."""

    model: Any
    kinds: dict[str, int]
    places: dict[PlaceKey, OnnxPlace]


def placed_model(file: ModelFile, path: str, numbers: dict[str, int], inputs: Arrays) -> PlacedModel:
    """Return the places of a model for inputs of known shapes.

    `path` is the absolute path of the file, and `numbers` the number of each node in it by the node's first result.
    """
    onnx = onnx_package()
    model = onnx.load_model_from_string(file.content)
    kinds, shapes = _types(model, inputs)
    arrays = _constants(model.graph)
    places = {}
    for node in model.graph.node:
        value = next((name for name in node.output if name), "")
        if not value or node.op_type == "Constant":
            continue
        number = numbers.get(value, 0)
        key = PlaceKey(path, number, 0, number, 0, node.op_type, ((value, 0),))
        constants = {at: arrays[name] for at, name in enumerate(node.input) if name in arrays}
        places[key] = OnnxPlace(key, node, value, kinds, shapes, constants, _attributes(node, model))
    return PlacedModel(model, kinds, places)


def _types(model: Any, inputs: Arrays) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Infer the types and shapes of all values for inputs of known shapes."""
    onnx = onnx_package()
    sized = type(model)()
    sized.CopyFrom(model)
    for each in sized.graph.input:
        if each.name in inputs:
            shape = onnx.helper.make_tensor_type_proto(each.type.tensor_type.elem_type, inputs[each.name].shape)
            each.type.CopyFrom(shape)
    for each in sized.graph.output:
        each.type.tensor_type.ClearField("shape")
    sized.graph.ClearField("value_info")
    # Inference refuses a model with operators of other domains only if it is strict.
    graph = onnx.shape_inference.infer_shapes(sized, data_prop=True).graph
    typed = [each for each in (*graph.input, *graph.value_info, *graph.output) if each.type.HasField("tensor_type")]
    kinds = {each.name: each.type.tensor_type.elem_type for each in typed}
    shapes = {
        each.name: tuple(size.dim_value for size in each.type.tensor_type.shape.dim)
        for each in typed
        if each.type.tensor_type.HasField("shape")
    }
    for tensor in graph.initializer:
        kinds[tensor.name], shapes[tensor.name] = tensor.data_type, tuple(tensor.dims)
    return kinds, shapes


def _constants(graph: Any) -> dict[str, Array]:
    """Return the constants with one element by name."""
    helper = onnx_package().numpy_helper
    found = {
        tensor.name: np.asarray(helper.to_array(tensor))
        for tensor in graph.initializer
        if int(np.prod(tensor.dims)) == _MOST_ELEMENTS and not tensor.data_location
    }
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            array = np.asarray(helper.to_array(node.attribute[0].t))
            if array.size == _MOST_ELEMENTS:
                found[node.output[0]] = array
    return found


def _attributes(node: Any, model: Any) -> dict[str, Any]:
    """Return numbers and texts among the attributes, with the defaults of those that the node leaves out."""
    onnx = onnx_package()
    versions = {each.domain: each.version for each in model.opset_import}
    found: dict[str, Any] = {}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
        given = [each.default_value for each in schema.attributes.values() if each.default_value.name]
    # The package onnx does not know the operators of other domains.
    except onnx.defs.SchemaError:
        given = []
    for attribute in (*given, *node.attribute):
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, int | float | str | list):
            found[attribute.name] = value
    return found
