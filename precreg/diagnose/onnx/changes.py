"""Which nodes and weights of a model changed between two versions of its file?"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.storage import Array
from precreg.subject.onnx import ModelFile, module_path, onnx_package, parse_model
from precreg.types import Site

_SCOPES = "pkg.torch.onnx.name_scopes"


class ChangedWeights(NamedTuple):
    """Hold an initializer that both versions have in one shape and dtype, with the elements of the present one."""

    name: str
    present: Array
    changed: int


class ChangedAttribute(NamedTuple):
    """Hold an attribute of the node that gives a value, as the present version has it."""

    value: str
    name: str
    present: Any


def node_text(node: Any) -> str:
    """Return a node as a call, such as "Add(h, b)"."""
    return f"{node.op_type}({', '.join(node.input)})"


def node_site(node: Any, root: str = "") -> Site:
    """Return the module that made a node, or the name of the node or of its first result."""
    scopes = next((each.value for each in node.metadata_props if each.key == _SCOPES), "")
    name = module_path(scopes) or node.name or next((each for each in node.output if each), "")
    return Site(code=f"{', '.join(node.output)} = {node_text(node)}", module=name)


def loaded_model(path: Path) -> Any:
    """Parse a model file with its weights. Raises UserError (bad-model), and OSError for files that are missing."""
    model = parse_model(ModelFile(path.name, path.read_bytes(), path.parent))
    onnx_package().external_data_helper.load_external_data_for_model(model, str(path.parent))
    return model


def model_nodes(path: Path) -> list[Any]:
    """Return the nodes of a model file in order; none for a file that is not a model."""
    try:
        return list(loaded_model(path).graph.node)
    except (OSError, UserError, ValueError):
        return []


def node_lines(path: Path) -> list[str]:
    """Return a text for each node, which differs if an operand, an attribute or a weight of the node does."""
    try:
        model = loaded_model(path)
    except (OSError, UserError, ValueError):
        return []
    digests = {each.name: _digest(each) for each in model.graph.initializer}
    return [_line(node, digests) for node in model.graph.node]


def _line(node: Any, digests: dict[str, str]) -> str:
    attributes = sorted(each.SerializeToString(deterministic=True).hex() for each in node.attribute)
    weights = [digests[name] for name in node.input if name in digests]
    return f"{', '.join(node.output)} = {node.domain}.{node_text(node)} {' '.join((*attributes, *weights))}"


def _digest(tensor: Any) -> str:
    array = np.ascontiguousarray(onnx_package().numpy_helper.to_array(tensor))
    return blake2b(array.tobytes(), digest_size=16, person=str(array.dtype).encode()[:16]).hexdigest()


def changed_weights(accepted: Any, present: Any) -> Iterator[ChangedWeights]:
    """Yield the weights of two models that have one name and shape and other elements."""
    helper = onnx_package().numpy_helper
    former = {each.name: each for each in accepted.graph.initializer}
    for tensor in present.graph.initializer:
        before = former.get(tensor.name)
        if before is None or before.data_type != tensor.data_type or list(before.dims) != list(tensor.dims):
            continue
        old, new = np.asarray(helper.to_array(before)), np.asarray(helper.to_array(tensor))
        if old.tobytes() != new.tobytes():
            yield ChangedWeights(tensor.name, new, int(np.count_nonzero(old != new)))


def changed_attributes(accepted: Any, present: Any) -> Iterator[ChangedAttribute]:
    """Yield the attributes that differ between nodes which give one value by one operator."""
    former = {name: node for node in accepted.graph.node for name in node.output[:1]}
    for node in present.graph.node:
        before = former.get(node.output[0]) if node.output else None
        if before is None or before.op_type != node.op_type:
            continue
        old = {each.name: each for each in before.attribute}
        for attribute in node.attribute:
            if attribute.name not in old or old[attribute.name] != attribute:
                value = onnx_package().helper.get_attribute_value(attribute)
                shown = value.decode(errors="replace") if isinstance(value, bytes) else value
                yield ChangedAttribute(node.output[0], attribute.name, shown)
