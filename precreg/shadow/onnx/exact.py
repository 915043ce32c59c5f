"""What does one node give in higher precision, and which gradients does it pass back?

A node has a rule of precreg, which can be differentiated. Without one ONNX Runtime computes it in double, or else the
reference evaluator of the package onnx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.shadow.onnx.fused import BLOCKED, BLOCKED_MOVES, MICROSOFT, QUANTIZATION
from precreg.shadow.onnx.program import Program, ProgramNode
from precreg.shadow.onnx.rules import ARITHMETIC, MOVES, Attributes, Rule
from precreg.shadow.onnx.values import is_real, to_wide
from precreg.shadow.onnx.wide import Wide, gradients, join
from precreg.subject.onnx import ModelFile, NodeRunner, runtime_message, widen_node
from precreg.types import OperationNote

_BLOCKS = "com.microsoft.nchwc"
# ONNX Runtime puts this one of its own into ONNX's domain.
_OWN: Mapping[str, Rule] = {name: MICROSOFT[name] for name in ("SimplifiedLayerNormalization",)}
# Further operators that only move numbers: the places that they take follow from a run on the numbers of places.
_TAKES = frozenset(
    [
        "Compress",
        "DepthToSpace",
        "GatherElements",
        "GatherND",
        "Pad",
        "ReverseSequence",
        "ScatterElements",
        "ScatterND",
        "SpaceToDepth",
        "Tile",
        "Trilu",
    ]
)
_RANDOM = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
_CREATED = frozenset(["Constant", "ConstantOfShape", "EyeLike", "Range", "Shape", "Size"])
_OPAQUE = frozenset(["If", "Loop", "Scan", "SequenceMap"])
# Results of integers that an implementation may get wrong: saturation, overflow, the order of roundings.
_INTEGER_ARITHMETIC = frozenset(
    [
        "ConvInteger",
        "MatMulInteger",
        "QLinearAdd",
        "QLinearConv",
        "QLinearLeakyRelu",
        "QLinearMatMul",
        "QLinearMul",
        "QLinearSigmoid",
    ]
)


class NotShadowedError(Exception):
    """Nothing computes a node in higher precision, for the reason of the message."""


class NodeRule(NamedTuple):
    """The rule of a node, None without one, and its role: see OperationNote."""

    rule: Rule | None
    note: OperationNote = ""


def node_rule(node: ProgramNode) -> NodeRule:
    """Return the rule of a node by its domain and operator."""
    domain, name = node.proto.domain, node.operator
    if domain == _BLOCKS:
        return NodeRule(BLOCKED_MOVES[name], "moved") if name in BLOCKED_MOVES else NodeRule(BLOCKED.get(name))
    if domain == "com.microsoft" and name in MICROSOFT:
        return NodeRule(MICROSOFT[name])
    if (name == "Dropout" and len(node.reads) > 2) or (name == "MaxPool" and len(node.proto.output) > 1):
        return NodeRule(None, "random" if name == "Dropout" else "")
    if name in _TAKES and node.attributes.get("reduction", "none") == "none":
        return NodeRule(None, "moved")
    return _BY_NAME.get(name, NodeRule(None))


def _cast(attributes: Attributes, x: Wide, *like: Wide) -> Wide:
    if not is_real(attributes["low"][0]):
        raise NotImplementedError("a cast to integers")
    if x.value.dtype.kind == "O":
        raise NotImplementedError("a cast of texts")
    return x if x.value.dtype.kind == "f" else Wide(x.value.astype(np.float64))


def _top_k(attributes: Attributes, x: Wide, *rest: Wide) -> list[Wide]:
    """Return the values at the indices that the low-precision run found, so that both agree, and its own indices."""
    indices = attributes["low"][1]
    axis = attributes.get("axis", -1) % x.ndim
    places = np.arange(x.value.size).reshape(x.shape)
    taken = x.take(np.take_along_axis(places, indices, axis))
    if not attributes.get("sorted", 1):
        return [taken, Wide(indices)]
    order = np.argsort(-x.value if attributes.get("largest", 1) else x.value, axis, kind="stable")
    return [taken, Wide(np.take(order, range(indices.shape[axis]), axis))]


_BY_NAME: Mapping[str, NodeRule] = {
    **{name: NodeRule(rule) for name, rule in {**ARITHMETIC, **QUANTIZATION, **_OWN}.items()},
    **{name: NodeRule(rule, "moved") for name, rule in {**MOVES, "TopK": _top_k}.items()},
    **{name: NodeRule(None, "random") for name in _RANDOM},
    **{name: NodeRule(None, "created") for name in _CREATED},
    **{name: NodeRule(None, "opaque") for name in _OPAQUE},
    **dict.fromkeys(("Cast", "CastLike"), NodeRule(_cast)),
}


class ExactNodes:
    """Computes single nodes of a program on values of higher precision."""

    def __init__(self, program: Program, file: ModelFile, threads: int, dtype: np.dtype[Any]) -> None:
        self._program, self._dtype = program, dtype
        self._runner = NodeRunner(program.model, file, threads)
        self._rules = [node_rule(node) for node in program.nodes]
        self._protos: dict[int, Any] = {}

    def note(self, place: int, given: Mapping[str, Any], actual: Sequence[Any]) -> OperationNote:
        """Return the role of a node with some inputs and outputs: on integers alone most nodes only move numbers."""
        note = self._rules[place].note
        if note or self._program.nodes[place].operator in _INTEGER_ARITHMETIC:
            return note
        return "" if any(map(is_real, (*given.values(), *actual))) else "moved"

    def compute(self, place: int, given: Mapping[str, Any], low: Sequence[Any]) -> list[Any]:
        """Return the outputs of a node on wide inputs. Places that the low-precision run chose are followed.

        Raises NotShadowedError.
        """
        node = self._program.nodes[place]
        try:
            made = [each.value for each in self._by_rule(place, _arguments(node, given), low)]
            if _fits(made, low):
                return made
        # A rule that does not cover the attributes or the types of a node leaves it to the libraries.
        except Exception as error:
            reason = runtime_message(error)
        else:
            reason = "another shape"
        return self._by_library(place, given, reason)

    def pull_back(self, place: int, given: Mapping[str, Any], low: Sequence[Any], of: Sequence[str]) -> Pulled:
        """Return the outputs of a node on wide inputs, and the way back to some of these inputs by name.

        Raises NotShadowedError, if the node cannot be computed or not be differentiated.
        """
        node = self._program.nodes[place]
        wide = {
            name: Wide(np.asarray(given[name]), tracked=name in of) for name in node.reads if _is_array(given[name])
        }
        try:
            if self._rules[place].rule is None and self._rules[place].note == "moved":
                return Pulled(self._taken(place, given, wide), wide)
            found = self._by_rule(place, [wide.get(name) for name in node.proto.input], low)
        except Exception as error:
            raise NotShadowedError(runtime_message(error)) from None
        if not _fits([each.value for each in found], low):
            raise NotShadowedError("another shape")
        return Pulled(found, wide)

    def _by_rule(self, place: int, arguments: list[Wide | None], low: Sequence[Any]) -> list[Wide]:
        rule = self._rules[place].rule
        if rule is None:
            raise NotImplementedError
        found = rule({**self._program.nodes[place].attributes, "low": low}, *arguments)
        return [found] if isinstance(found, Wide) else [*found]

    def _by_library(self, place: int, given: Mapping[str, Any], reason: str) -> list[Any]:
        if self._dtype != np.float64:
            raise NotShadowedError(reason or "nothing computes it beyond float64")
        node = self._program.nodes[place]
        if place not in self._protos:
            self._protos[place] = widen_node(node.proto)
        used = {name: given[name] for name in node.reads}
        try:
            found = self._runner.compute(place, self._protos[place], used, allow_float32=False)[0]
        except UserError as error:
            raise NotShadowedError(error.message if not reason else f"{reason}; {error.message}") from None
        # A scale that quantizes to a format of 8 bits leaves its result in this format.
        return [to_wide(each, self._dtype) for each in found]

    def _taken(self, place: int, given: Mapping[str, Any], wide: Mapping[str, Wide]) -> list[Wide]:
        """Compute a node that moves numbers from the places that it moves: 0 means a number that it creates."""
        names = [name for name in wide if wide[name].value.dtype.kind == "f"]
        ends = np.cumsum([1, *(wide[name].value.size for name in names)])
        numbered = {
            name: np.arange(start, start + wide[name].value.size, dtype=np.float64).reshape(wide[name].shape)
            for name, start in zip(names, ends, strict=False)
        }
        places = np.asarray(self._by_library(place, {**given, **numbered}, "")[0]).astype(np.int64)
        flat = join([Wide(np.zeros(1)), *(wide[name].reshape([-1]) for name in names)], 0)
        return [flat.take(places)]


class Pulled(NamedTuple):
    """The outputs of a node, and its inputs by name, between which gradients can be computed."""

    outputs: list[Wide]
    inputs: Mapping[str, Wide]

    def back(self, adjoints: Sequence[NDArray[Any] | None], of: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return the gradients at some inputs for those at the outputs."""
        pairs = [(made, each) for made, each in zip(self.outputs, adjoints, strict=False) if each is not None]
        found = gradients(pairs, [self.inputs[name] for name in of])
        return {name: each for name, each in zip(of, found, strict=True) if each is not None}


def _arguments(node: ProgramNode, given: Mapping[str, Any]) -> list[Wide | None]:
    values = [given.get(name) if name else None for name in node.proto.input]
    return [None if value is None else Wide(np.asarray(value)) for value in values]


def _is_array(value: Any) -> bool:
    return value is not None and not isinstance(value, list)


def _fits(found: Sequence[Any], low: Sequence[Any]) -> bool:
    pairs = zip(found, low, strict=False)
    return all(np.shape(made) == np.shape(actual) for made, actual in pairs if made is not None and actual is not None)
