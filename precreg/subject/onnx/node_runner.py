"""How is a graph computed node by node in float64, and which library computed each node?

A node becomes a model of its own, whose inputs are the values that the nodes before it gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.subject.onnx.double_operators import operators_in_double
from precreg.subject.onnx.session import ModelFile, make_session, onnx_package, run_feeds, runtime_message
from precreg.subject.onnx.tensors import runtime_feeds

RUNTIME, EVALUATOR, FLOAT32 = "onnxruntime", "onnx.reference", "onnxruntime in float32 only"
_FLOATS = (np.dtype(np.float16), np.dtype(np.float32))
Values = dict[str, Any]


class _Way(NamedTuple):
    """A function that computes a node from its inputs by name, and its place for the facts."""

    compute: Callable[[Mapping[str, Any]], list[Any]]
    place: str


class NodeRunner:
    """Computes the nodes of a widened model in their order, and keeps for each node the way that worked."""

    def __init__(self, model: Any, file: ModelFile, threads: int) -> None:
        onnx = onnx_package()
        self._model, self._file, self._threads = model, file, threads
        self._constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._ways: dict[tuple[int, Any], _Way] = {}

    def run(
        self, inputs: Mapping[str, Any], wanted: list[str], *, allow_float32: bool
    ) -> tuple[Values, dict[str, Counter[str]]]:
        """Return the values of the graph by name, and the operators that each place computed.

        Raises UserError: unsupported-model, for a node that nothing computes in float64.
        """
        values: Values = {**self._constants, **inputs}
        where: dict[str, Counter[str]] = {}
        nodes = self._model.graph.node
        last = {name: place for place, node in enumerate(nodes) for name in (*node.input, *outer_names(node))}
        for place, node in enumerate(nodes):
            used = {name: values[name] for name in (*node.input, *outer_names(node)) if name and name in values}
            found, at = self.compute(place, node, used, allow_float32=allow_float32)
            values |= {name: value for name, value in zip(node.output, found, strict=False) if name}
            where.setdefault(at, Counter())[node.op_type] += 1
            # Inner values of a deep model together may need many times the memory of its weights.
            for name in used:
                if last[name] == place and name not in wanted:
                    del values[name]
        return values, where

    def compute(self, place: int, node: Any, used: Mapping[str, Any], *, allow_float32: bool) -> tuple[list[Any], str]:
        """Return the outputs of a widened node in their order, and the place of computation.

        `place` stands for the node; `used` has its inputs by name. Raises UserError: unsupported-model.
        """
        key = (place, tuple((name, _signature(value)) for name, value in used.items()))
        if key in self._ways:
            way = self._ways[key]
            return way.compute(used), way.place
        reasons = []
        for make in (self._by_runtime, self._by_evaluator, self._in_float32):
            if make == self._in_float32 and not allow_float32:
                break
            try:
                way = make(node, used)
                found = way.compute(used)
            # Whatever a library raises, the next way is tried; the last message has all reasons.
            except Exception as error:
                reasons.append(runtime_message(error))
                continue
            if _lost_precision(way, used, found):
                reasons.append(f"{way.place} computes it in float32")
                continue
            self._ways[key] = way
            return found, way.place
        name = node.name or ", ".join(node.output)
        advice = "name another reference:, or add precision: float64 and fallback: float32 to it"
        message = f"expected {node.op_type} ({name}) in float64 but: {'; '.join(reasons)[:300]}; {advice}"
        raise UserError("unsupported-model", message, file=self._file.name)

    def _by_runtime(self, node: Any, used: Mapping[str, Any]) -> _Way:
        session = self._session(node, used)
        names = [output.name for output in session.get_outputs()]
        return _Way(lambda values: _in_order(node, names, _run(session, names, values)), RUNTIME)

    def _by_evaluator(self, node: Any, used: Mapping[str, Any]) -> _Way:
        alone = self._alone(node, used)
        evaluator = onnx_package().reference.ReferenceEvaluator(alone, new_ops=operators_in_double())
        names = [name for name in node.output if name]
        return _Way(lambda values: _in_order(node, names, evaluator.run(names, dict(values))), EVALUATOR)

    def _in_float32(self, node: Any, used: Mapping[str, Any]) -> _Way:
        session = self._session(node, {name: _narrowed(value) for name, value in used.items()})
        names = [output.name for output in session.get_outputs()]

        def compute(values: Mapping[str, Any]) -> list[Any]:
            found = _run(session, names, {name: _narrowed(value) for name, value in values.items()})
            return _in_order(node, names, [_widened(value) for value in found])

        return _Way(compute, FLOAT32)

    def _session(self, node: Any, used: Mapping[str, Any]) -> Any:
        alone = self._file._replace(content=self._alone(node, used).SerializeToString())
        return make_session(alone, {"optimization": "disabled", "threads": self._threads})

    def _alone(self, node: Any, used: Mapping[str, Any]) -> Any:
        """Return a model of one node, with the functions and opsets of the whole model."""
        onnx = onnx_package()
        inputs = [onnx.helper.make_value_info(name, type_of_value(value)) for name, value in used.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", inputs, outputs)
        return onnx.helper.make_model(
            graph,
            opset_imports=self._model.opset_import,
            functions=self._model.functions,
            ir_version=self._model.ir_version,
        )


def _run(session: Any, names: list[str], values: Mapping[str, Any]) -> list[Any]:
    """Run a session of one node; a number that the evaluator gave is an array of no axis."""
    arrays = {
        name: value if value is None or isinstance(value, list) else np.asarray(value) for name, value in values.items()
    }
    return [*run_feeds(session, runtime_feeds(arrays), names).values.values()]


def outer_names(node: Any) -> set[str]:
    """Return the names that the subgraphs of a node take from the graph around it."""
    graphs = [graph for attribute in node.attribute for graph in (*attribute.graphs, attribute.g) if graph.node]
    found: set[str] = set()
    for graph in graphs:
        own = {value.name for value in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            found |= {name for name in (*inner.input, *outer_names(inner)) if name and name not in own}
            own.update(inner.output)
        found |= {output.name for output in graph.output} - own
    return found


def type_of_value(value: Any) -> Any:
    """Return the type of a value in ONNX, with the rank of an array and no sizes."""
    helper = onnx_package().helper
    if isinstance(value, list):
        inner = type_of_value(value[0]) if value else helper.make_tensor_type_proto(_DOUBLE, None)
        return helper.make_sequence_type_proto(inner)
    if value is None:
        return helper.make_optional_type_proto(helper.make_tensor_type_proto(_DOUBLE, None))
    array = np.asarray(value)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)


_DOUBLE = 11


def _signature(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_signature, value[:1]))
    return None if value is None else (np.asarray(value).dtype.str, np.ndim(value))


def _in_order(node: Any, names: list[str], found: list[Any]) -> list[Any]:
    """Return the values in the order of the node's outputs; None for an output that the graph leaves out."""
    by_name = dict(zip(names, found, strict=True))
    return [by_name.get(name) for name in node.output]


def _lost_precision(way: _Way, used: Mapping[str, Any], found: list[Any]) -> bool:
    """Return whether a library computed a node in less than float64, though it got float64."""
    if way.place != EVALUATOR or not any(_dtype(value) == np.float64 for value in used.values()):
        return False
    if any(_dtype(value) in _FLOATS for value in found):
        return True
    # Some operators of the evaluator compute in float32 and return that as float64. Then all results are numbers of
    # float32, even if no input is. Whole numbers say nothing: they count, or are results of rounding.
    # The first float input has the data. Others may be scales or sizes, at which a function may have a kink.
    name = next(name for name, value in used.items() if _dtype(value) == np.float64)
    whole = _moved(used[name], _STEP) is used[name]
    steps = [{**used, name: _moved(used[name], step, whole=whole)} for step in (_STEP, 2 * _STEP)]
    try:
        first, second = (way.compute(values) for values in steps)
    # A moved size or scale may be no valid input, and then nothing is known.
    except Exception:
        return False
    return any(map(_is_all_float32, first)) or any(map(_is_rough, found, first, second))


# A step of 16 ULP of float32 for most numbers, whose square is far below the rounding of float32. The second term takes
# small whole numbers out of float32.
_STEP = 2.0**-20 + 5 * 2.0**-43
# Second differences of a smooth function are about 2**-40 of its value, and the rounding of float32 is 2**-24.
_ROUGHNESS = 2.0**-31
_MANY = 1 / 8


def _moved(value: Any, step: float, *, whole: bool = False) -> Any:
    """Return floats at a relative step from the given ones. Whole numbers, which may be sizes, move only if asked."""
    if isinstance(value, list):
        moved = [_moved(each, step, whole=whole) for each in value]
        return value if all(new is old for new, old in zip(moved, value, strict=True)) else moved
    if _dtype(value) != np.float64:
        return value
    moves = np.isfinite(value) & (whole | (value != np.rint(value)))
    return np.where(moves, value * (1 + step), value) if moves.any() else value


def _is_rough(at: Any, near: Any, far: Any) -> bool:
    """Return whether many results at three equal steps lie farther from a line than a smooth function's."""
    arrays = [at, near, far]
    if any(isinstance(each, list) or _dtype(each) != np.float64 or np.shape(each) != np.shape(at) for each in arrays):
        return False
    start, middle, end = map(np.asarray, arrays)
    usable = np.isfinite(start) & np.isfinite(middle) & np.isfinite(end) & (start != middle)
    bends = np.abs(start - 2 * middle + end)[usable] > _ROUGHNESS * np.abs(middle)[usable]
    return bool(bends.size) and float(bends.mean()) > _MANY


def _is_all_float32(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_all_float32, value))
    if _dtype(value) != np.float64:
        return False
    parts = np.asarray(value)[np.isfinite(value) & (value != np.rint(value))]
    return bool(parts.size) and bool((parts.astype(np.float32) == parts).all())


def _dtype(value: Any) -> Any:
    if isinstance(value, list):
        return _dtype(value[0]) if value else None
    return None if value is None else np.asarray(value).dtype


def _narrowed(value: Any) -> Any:
    if isinstance(value, list):
        return [_narrowed(each) for each in value]
    return value.astype(np.float32) if _dtype(value) == np.float64 else value


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(each) for each in value]
    return value.astype(np.float64) if _dtype(value) in _FLOATS else value
