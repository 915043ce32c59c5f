"""Which program does ONNX Runtime run for a model, and how are all of its values seen?

ONNX Runtime rewrites a graph before it runs it, and the rewritten program rounds differently. So the session saves its
program, and windows of its nodes run as sessions of their own, without further optimization. Their weights stay in the
saved file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precreg.subject.onnx import (
    FOLDER_OF_WEIGHTS,
    module_path,
    onnx_package,
    outer_names,
    provider_list,
    run_feeds,
    runtime,
    runtime_feeds,
    type_of_value,
)
from precreg.types import Site

# A window holds the results of its nodes. With 8 an encoder of 6 layers holds a quarter of a dump of all values,
# shadows included (benchmarks/shadow/onnx_models.py). Smaller windows make more sessions, which take time.
WINDOW = 8
_EXTERNAL = 1
# The domain of the operators on images whose channels are stored in blocks.
_BLOCKS = "com.microsoft.nchwc"


class ProgramNode(NamedTuple):
    """One node of a program, its attributes, and all names that it reads, also in its subgraphs."""

    proto: Any
    attributes: dict[str, Any]
    reads: tuple[str, ...]
    site: Site

    @property
    def operator(self) -> str:
        """Return the name of the operator."""
        return str(self.proto.op_type)


class Program:
    """The nodes of the program of a session, in their order, with its weights.

    `last` has the place of the last node that reads a value.
    """

    def __init__(self, saved: Path, original: Any, options: Mapping[str, Any]) -> None:
        onnx = onnx_package()
        model = onnx.load(saved, load_external_data=False)
        self._folder = saved.parent
        # Each refers to the file beside the program, or holds a small weight.
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.weights = {name: _weight(tensor, saved.parent) for name, tensor in self._tensors.items()}
        self.outputs = [value.name for value in model.graph.output]
        model.graph.ClearField("initializer")
        self.model = model
        self._options = options
        self._opsets = {each.domain: each.version for each in model.opset_import}
        origins = _Origins(original)
        self._blocked: set[str] = set()
        self.nodes = [self._node(node, origins) for node in model.graph.node]
        self.last = {name: place for place, node in enumerate(self.nodes) for name in node.reads}

    def _node(self, node: Any, origins: _Origins) -> ProgramNode:
        attributes = {each.name: _attribute(each) for each in node.attribute}
        attributes |= {"outputs": len(node.output), "opset": self._opsets.get(node.domain, 1)}
        if node.domain == _BLOCKS:
            attributes |= {"block": block_size(), "blocked": node.input[0] in self._blocked}
        # Operations on elements leave the order of channels as it is.
        if node.op_type != "ReorderOutput" and (node.domain == _BLOCKS or self._blocked.intersection(node.input)):
            self._blocked.update(node.output)
        reads = dict.fromkeys(name for name in (*node.input, *sorted(outer_names(node))) if name)
        return ProgramNode(node, attributes, tuple(reads), origins.site(node))

    @property
    def windows(self) -> list[range]:
        """Return the places of the nodes of each window."""
        count = len(self.nodes)
        return [range(start, min(count, start + WINDOW)) for start in range(0, count, WINDOW)]

    def needs(self, window: range) -> list[str]:
        """Return the names of the values that a window reads and does not make, weights included."""
        made: set[str] = set()
        needed: dict[str, None] = {}
        for place in window:
            needed |= dict.fromkeys(name for name in self.nodes[place].reads if name not in made)
            made.update(self.nodes[place].proto.output)
        return list(needed)

    def run(self, window: range, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values that the nodes of a window make."""
        nodes = [self.nodes[place].proto for place in window]
        # A session is not kept: its kernels may hold copies of their weights in another order.
        return self.run_nodes(nodes, {name: self.value(name, values) for name in self.needs(window)})

    def run_nodes(self, nodes: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values that some nodes make from values by name, with the weights of the program."""
        session = self._session(nodes, given)
        return session_values(session, {name: value for name, value in given.items() if name not in self.weights})

    def value(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return a value or a weight by name."""
        return values[name] if name in values else self.weights[name]

    def _session(self, nodes: Sequence[Any], given: Mapping[str, Any]) -> Any:
        """Return a session of some nodes that returns all of their values; its inputs have the types of values.

        Weights are constants, as in the program, because kernels may prepare constants and round otherwise then.
        """
        onnx = onnx_package()
        constants = [self._tensors[name] for name in given if name in self._tensors]
        inputs = [
            onnx.helper.make_value_info(name, type_of_value(value))
            for name, value in given.items()
            if name not in self._tensors
        ]
        made = dict.fromkeys(name for node in nodes for name in node.output if name)
        outputs = [onnx.ValueInfoProto(name=name) for name in made]
        graph = onnx.helper.make_graph(nodes, "window", inputs, outputs, constants)
        model = onnx.helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        return window_session(model.SerializeToString(), self._options, self._folder)

    def whole_session(self) -> Any:
        """Return a session of the whole program that returns all of its values."""
        model = type(self.model)()
        model.CopyFrom(self.model)
        model.graph.initializer.extend(self._tensors.values())
        returned = {value.name for value in model.graph.output}
        for name in dict.fromkeys(name for node in model.graph.node for name in node.output if name):
            if name not in returned:
                model.graph.output.add().name = name
        return window_session(model.SerializeToString(), self._options, self._folder)


def window_session(content: bytes, options: Mapping[str, Any], folder: Path) -> Any:
    """Load a part of a program: without optimization, and without an arena, which would keep the memory of a run."""
    ort = runtime()
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = options.get("threads", 1)
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry(FOLDER_OF_WEIGHTS, str(folder))
    settings.use_deterministic_compute = options.get("deterministic", False)
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.enable_cpu_mem_arena = settings.enable_mem_pattern = False
    return ort.InferenceSession(content, settings, providers=provider_list(options))


def session_values(session: Any, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return all outputs of a session by name."""
    names = [each.name for each in session.get_outputs()]
    kept = {name: value if _is_passed(value) else np.asarray(value) for name, value in feeds.items()}
    return run_feeds(session, runtime_feeds(kept), names).values


def _is_passed(value: Any) -> bool:
    return value is None or isinstance(value, list)


@cache
def block_size() -> int:
    """Return how many channels ONNX Runtime stores together on this processor: it moves the channels of two pixels."""
    onnx = onnx_package()
    helper = onnx.helper
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=_BLOCKS)
    x = np.arange(128, dtype=np.float32).reshape(1, 64, 1, 2)
    inputs = [helper.make_value_info("x", type_of_value(x))]
    graph = helper.make_graph([node], "block", inputs, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_BLOCKS, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    made = session_values(window_session(model.SerializeToString(), {}, Path()), {"x": x})["y"]
    # The second pixel of the first channel follows all first pixels of its block.
    return int(np.flatnonzero(made.reshape(-1) == 1)[0])


def _weight(tensor: Any, folder: Path) -> Any:
    """Return a weight: one in the file beside the program is a map of the file, so that it needs no copy."""
    onnx = onnx_package()
    if tensor.data_location != _EXTERNAL:
        return onnx.numpy_helper.to_array(tensor)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    # Elements of 4 bits share bytes.
    if int(entries["length"]) != int(np.prod(shape)) * dtype.itemsize:
        onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        return onnx.numpy_helper.to_array(tensor)
    return np.memmap(folder / entries["location"], dtype, "r", int(entries.get("offset", 0)), shape)


def _attribute(attribute: Any) -> Any:
    found = onnx_package().helper.get_attribute_value(attribute)
    return found.decode(errors="replace") if isinstance(found, bytes) else found


class _Origins:
    """The places of the nodes of a model as it was written, by the names of nodes and outputs."""

    def __init__(self, original: Any) -> None:
        nodes = [*original.graph.node]
        self._by_name = {node.name: node for node in nodes if node.name}
        self._by_output = {name: node for node in nodes for name in node.output if name}

    def site(self, node: Any) -> Site:
        """Return the place of a node of the program, from the node of the model that it represents."""
        name = node.name or next((name for name in node.output if name), "")
        origin = next((found for tensor in node.output if (found := self._by_output.get(tensor))), None)
        origin = origin or self._by_name.get(name) or self._by_prefix(name)
        written = {each.key: each.value for source in (origin, node) if source for each in source.metadata_props}
        file, line, code = exported_line(written.get("pkg.torch.onnx.stack_trace", ""))
        return Site(file, line, code, module_path(written.get("pkg.torch.onnx.name_scopes", "")) or name)

    def _by_prefix(self, name: str) -> Any:
        # ONNX Runtime names a fused node after one of its nodes, such as "Relu_16_nchwc".
        shorter = (name[: at.start()] for at in reversed([*re.finditer("[_/]", name)]))
        return next((self._by_name[each] for each in shorter if each in self._by_name), None)


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n\s+([^\n]*))?')
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]torch[/\\](?:nn|_dynamo|fx|export|onnx)[/\\]")


@lru_cache(maxsize=4096)
def exported_line(stack: str) -> tuple[str, int, str]:
    """Return the file, the line and its text of the last frame outside of libraries that torch's exporter wrote.

    The file may be one of another machine, and is not read.
    """
    frames = [(file, int(line), code.strip()) for file, line, code in _FRAME.findall(stack)]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    return own[-1] if own else ("", 0, "")
