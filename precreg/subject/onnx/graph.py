"""Which tensors of a graph can a user name, and how does a model return them?

A name is that of a tensor, or of a node, which stands for the outputs of the node. Patterns have the wildcards * ? [].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from precreg.errors import UserError, nearest
from precreg.subject.onnx.session import ModelFile, onnx_package


def parse_model(model: ModelFile) -> Any:
    """Parse a model without its external data. Raises UserError: bad-model."""
    onnx = onnx_package()
    try:
        parsed = onnx.load_model_from_string(model.content)
    # protobuf's error is another class in each of its implementations.
    except Exception as error:
        message = f"expected a model of ONNX but got no protobuf of one: {' '.join(str(error).split())[:200]}"
        raise UserError("bad-model", message, file=model.name) from None
    if not parsed.HasField("graph") or not parsed.graph.node:
        raise UserError("bad-model", "expected a model of ONNX but got one without nodes", file=model.name)
    return parsed


def with_outputs(model: ModelFile, wanted: Sequence[str]) -> tuple[ModelFile, list[str]]:
    """Return a copy of a model that returns further tensors, and their names in the order of execution.

    Raises UserError: bad-model, unknown-node.
    """
    parsed = parse_model(model)
    names = find_tensors(parsed.graph, wanted, model.name)
    returned = {output.name for output in parsed.graph.output}
    for name in names:
        if name not in returned:
            # ONNX Runtime infers the type.
            parsed.graph.output.add().name = name
    return model._replace(content=parsed.SerializeToString()), names


def find_tensors(graph: Any, wanted: Iterable[str], model: str) -> list[str]:
    """Return the tensors that names or patterns name, in the order of execution.

    Raises UserError: unknown-node.
    """
    places = [(node.name, tensor) for node in graph.node for tensor in node.output if tensor]
    found: set[str] = set()
    for pattern in wanted:
        exact = {tensor for node, tensor in places if pattern in (node, tensor)}
        # Exporters write names with brackets, too, so an exact name comes first.
        matched = exact or {
            tensor for node, tensor in places if fnmatchcase(tensor, pattern) or (node and fnmatchcase(node, pattern))
        }
        if not matched:
            known = dict.fromkeys(name for pair in reversed(places) for name in pair if name)
            message = f"expected a node or a tensor of the graph but got node={pattern}{nearest(pattern, known)}"
            raise UserError("unknown-node", message, file=model)
        found |= matched
    return list(dict.fromkeys(tensor for _, tensor in places if tensor in found))


def ordered_tensor_names(content: bytes, shown: str) -> list[str]:
    """Return the names of a model's tensors in the order of its nodes, which ONNX requires to be topological.

    The tensors of a subgraph come before the outputs of the node that runs it. Raises UserError (bad-model).
    """
    parsed = parse_model(ModelFile(shown, content, Path()))
    inputs = (value.name for value in parsed.graph.input)
    return list(dict.fromkeys(name for name in (*inputs, *_tensor_names(parsed.graph)) if name))


def _tensor_names(graph: Any) -> Iterator[str]:
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensor_names(inner)
        yield from node.output
