"""Which nodes of a narrow model compute in float32, and which results are rounded to the narrow dtype?

A kept node computes in float32, and what kept nodes give each other stays float32. ONNX Runtime's CPU provider computes
chains of narrow nodes in float32 by itself. `round_nodes` rounds the result of each node that is not kept, as hardware
with a narrow dtype does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import count
from math import prod
from typing import Any, NamedTuple

from precreg.errors import UserError, nearest
from precreg.subject.onnx.graph import parse_model
from precreg.subject.onnx.node_runner import outer_names
from precreg.subject.onnx.session import ModelFile, onnx_package

KEEP_IN, ROUND_NODES = "keep_in", "round_nodes"
# Separates the name of a node from the kind of a cast that was added for it.
CAST_MARK = "::"
_FLOAT, _FLOAT16, _BFLOAT16 = 1, 10, 16
_NARROW = {_FLOAT16: "float16", _BFLOAT16: "bfloat16"}
# An attribute gives the type of their results, or a subgraph computes them.
_FIXED = frozenset(
    {"Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "QuantizeLinear", "DequantizeLinear"}
    | {"If", "Loop", "Scan", "SequenceMap"}
)
_SCOPES = "pkg.torch.onnx.name_scopes"


class NodeGroup(NamedTuple):
    """Nodes of one module, or one node: their names, and the elements of their narrow weights."""

    nodes: tuple[str, ...]
    weights: int
    dtype: str


def with_mixed_nodes(model: ModelFile, spec: Mapping[str, Any]) -> ModelFile:
    """Return a model whose kept nodes compute in float32, and whose other nodes round their results if `spec` says so.

    Raises UserError: bad-model; unknown-node, for a name that no node has; bad-value without a node in a narrow dtype.
    """
    parsed = parse_model(model)
    types = _narrow_types(parsed)
    kept = _kept_nodes(parsed.graph, spec.get(KEEP_IN, {}).get("float32", ()), model.name)
    if not any(_computes(node, types) for node in parsed.graph.node):
        message = f"expected nodes in float16 or bfloat16 beside {KEEP_IN} and {ROUND_NODES} but the model has none"
        raise UserError(
            "bad-value",
            message,
            file=model.name,
            hint="remove keep_in: and round_nodes:, or name a model with float16 nodes",
        )
    nodes = _Mixed(parsed.graph, types, kept, rounds=spec.get(ROUND_NODES, False)).nodes()
    parsed.graph.ClearField("node")
    parsed.graph.node.extend(nodes)
    # Inferred types of earlier values would contradict the present types.
    parsed.graph.ClearField("value_info")
    return model._replace(content=parsed.SerializeToString())


def mixed_file(model: ModelFile, keep_in: Mapping[str, Sequence[str]]) -> bytes:
    """Return the file of a model with kept nodes, with weights inside that lay in files beside the model."""
    onnx = onnx_package()
    mixed = onnx.load_model_from_string(with_mixed_nodes(model, {KEEP_IN: keep_in}).content)
    onnx.external_data_helper.load_external_data_for_model(mixed, str(model.folder))
    content: bytes = mixed.SerializeToString()
    return content


def node_groups(model: ModelFile) -> dict[str, NodeGroup]:
    """Return the nodes that can compute in float32, in groups by the module that made them.

    The exporter of torch writes the module into a node, or into the name of the node, such as /blocks.0/norm/Pow. Other
    nodes are alone.
    """
    parsed = parse_model(model)
    types = _narrow_types(parsed)
    sizes = {each.name: prod(each.dims) for each in parsed.graph.initializer if each.data_type in _NARROW}
    found: dict[str, NodeGroup] = {}
    for node in parsed.graph.node:
        if _computes(node, types):
            before = found.get(_group(node))
            dtype = _NARROW[next(types[name] for name in (*node.output, *node.input) if name in types)]
            weights = sum(sizes.get(name, 0) for name in node.input) + (before.weights if before else 0)
            found[_group(node)] = NodeGroup((*(before.nodes if before else ()), node_name(node)), weights, dtype)
    return found


def node_name(node: Any) -> str:
    """Return the name of a node, or of its first result."""
    return str(node.name or next((name for name in node.output if name), ""))


def module_path(scopes: str) -> str:
    """Return the path of the module that made a node, from the list of scopes that torch's exporter wrote."""
    names = re.findall(r"'([^']*)'", scopes)
    # The last scope is the operation itself.
    return next((name for name in reversed(names[:-1]) if name), "")


def _group(node: Any) -> str:
    scopes = next((each.value for each in node.metadata_props if each.key == _SCOPES), "")
    name = node_name(node)
    return module_path(scopes) or (name.rpartition("/")[0] if name.startswith("/") else "") or name


def _narrow_types(parsed: Any) -> dict[str, int]:
    """Return the narrow types of values by name."""
    onnx = onnx_package()
    inferred = onnx.shape_inference.infer_shapes(parsed).graph
    typed = {
        value.name: value.type.tensor_type.elem_type
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    } | {tensor.name: tensor.data_type for tensor in inferred.initializer}
    return {name: kind for name, kind in typed.items() if kind in _NARROW}


def _computes(node: Any, types: Mapping[str, int]) -> bool:
    """Return whether a node computes in a narrow dtype: it has narrow values, and no attribute fixes their type."""
    return node.op_type not in _FIXED and any(name in types for name in (*node.input, *node.output))


def _kept_nodes(graph: Any, patterns: Sequence[str], model: str) -> set[int]:
    """Return the places of the nodes that names or patterns name. Raises UserError: unknown-node."""
    names = [node_name(node) for node in graph.node]
    found: set[int] = set()
    for pattern in patterns:
        exact = {place for place, name in enumerate(names) if name == pattern}
        matched = exact or {place for place, name in enumerate(names) if fnmatchcase(name, pattern)}
        if not matched:
            message = f"expected a node of the graph but got {KEEP_IN}={pattern}{nearest(pattern, names)}"
            raise UserError("unknown-node", message, file=model)
        found |= matched
    return found


class _Mixed:
    """Write the nodes of a graph again. A narrow value x also has the float32 form x::float32, if a node needs it."""

    def __init__(self, graph: Any, types: Mapping[str, int], kept: set[int], *, rounds: bool) -> None:
        self._graph, self._types, self._rounds = graph, types, rounds
        computing = {place for place, node in enumerate(graph.node) if _computes(node, types)}
        self._kept = kept & computing
        # They read and write float32, and round their results.
        self._rounding = computing - self._kept if rounds else set()
        self._made_wide = {name for place in self._kept for name in graph.node[place].output if name in types}
        self._needed = self._needed_narrow()
        self._nodes: list[Any] = []
        self._raised: set[str] = set()
        # The names of a model that was mixed before are taken.
        self._taken = {name for node in graph.node for name in (*node.input, *node.output)}
        self._added: dict[str, str] = {}

    def _needed_narrow(self) -> set[str]:
        """Return the values that anything but a kept node reads."""
        needed = {value.name for value in self._graph.output}
        for place, node in enumerate(self._graph.node):
            needed |= outer_names(node) | (set() if place in self._kept else set(node.input))
        return needed

    def nodes(self) -> list[Any]:
        """Return the nodes with their casts, in order of execution."""
        for place, node in enumerate(self._graph.node):
            if place not in self._kept and place not in self._rounding:
                self._nodes.append(node)
                continue
            wide = type(node)()
            wide.CopyFrom(node)
            wide.ClearField("input")
            wide.input.extend([self._wide(name, place in self._kept, node) for name in node.input])
            wide.ClearField("output")
            wide.output.extend([self._result(name, place in self._kept) for name in node.output])
            self._nodes.append(wide)
            for name in node.output:
                if name in self._types and (place in self._rounding or name in self._needed):
                    self._cast(self._result(name, place in self._kept), name, self._types[name], node)
        return self._nodes

    def _wide(self, name: str, is_kept: bool, node: Any) -> str:
        """Return the float32 form of an input: exact, or for a kept reader the result of a kept node as it is."""
        if name not in self._types:
            return name
        if is_kept and name in self._made_wide:
            return self._result(name, True)
        raised = self._name(name, "raised")
        if raised not in self._raised:
            self._raised.add(raised)
            self._cast(name, raised, _FLOAT, node)
        return raised

    def _result(self, name: str, is_kept: bool) -> str:
        if name not in self._types:
            return name
        return self._name(name, "float32" if is_kept else "unrounded")

    def _name(self, value: str, form: str) -> str:
        """Return the name of a further form of a value, which no value of the graph has."""
        wanted = f"{value}{CAST_MARK}{form}"
        if wanted not in self._added:
            self._added[wanted] = next(
                free for number in count() if (free := wanted + f"{number or ''}") not in self._taken
            )
        return self._added[wanted]

    def _cast(self, source: str, target: str, kind: int, node: Any) -> None:
        name = f"{node_name(node)}{CAST_MARK}{target}"
        cast = onnx_package().helper.make_node("Cast", [source], [target], name, to=kind)
        cast.metadata_props.extend(node.metadata_props)
        self._nodes.append(cast)
