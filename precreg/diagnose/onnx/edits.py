"""What does a rewrite make of one node of a graph?

Each function here changes a copy of the model at the node that gives a value, whose name is `at`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from precreg.storage import Array
from precreg.subject.onnx import onnx_package

# Element types of ONNX by their dtypes.
KINDS = {"float32": 1, "float16": 10, "float64": 11, "bfloat16": 16}

# A value by its name, or an operator with its operands, which may be expressions.
Expression = Any


class GraphEdit:
    """Change a copy of a model, whose values have known element types."""

    def __init__(self, model: Any, kinds: dict[str, int]) -> None:
        self.model = type(model)()
        self.model.CopyFrom(model)
        # Types of earlier values would contradict the present types.
        self.model.graph.ClearField("value_info")
        self._kinds = kinds
        graph = self.model.graph
        self._taken = {name for node in graph.node for name in (*node.input, *node.output)}
        self._taken |= {each.name for each in (*graph.initializer, *graph.input)}

    def kind_of(self, value: str) -> int:
        """Return the element type of a value of the model as it was."""
        return self._kinds[value]

    def place_of(self, value: str) -> int:
        """Return the place of the node that gives a value."""
        return next(place for place, node in enumerate(self.model.graph.node) if value in node.output)

    def node_of(self, value: str) -> Any:
        """Return the node that gives a value."""
        return self.model.graph.node[self.place_of(value)]

    def constant(self, array: Array) -> str:
        """Add a constant, and return its name."""
        name = self._free("constant")
        self.model.graph.initializer.append(onnx_package().numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float, like: str) -> str:
        """Add a number in the type of another value, and return its name."""
        name = self._free("number")
        tensor = onnx_package().helper.make_tensor(name, self.kind_of(like), [], [value])
        self.model.graph.initializer.append(tensor)
        return name

    def behind(self, at: str) -> tuple[str, int]:
        """Give the result of a node another name; return it, and the place behind the node."""
        place = self.place_of(at)
        node, raw = self.model.graph.node[place], self._free(at)
        named = [raw if name == at else name for name in node.output]
        del node.output[:]
        node.output.extend(named)
        return raw, place + 1

    def replace(self, at: str, expression: Expression) -> None:
        """Replace the node that gives a value by an expression."""
        place = self.place_of(at)
        del self.model.graph.node[place]
        self.insert(place, at, expression)

    def insert(self, place: int, output: str, expression: Expression) -> int:
        """Insert the nodes of an expression at a place, and return the place behind them."""
        operator, *operands = expression
        attributes = operands.pop() if operands and isinstance(operands[-1], dict) else {}
        names = []
        for each in operands:
            if isinstance(each, str):
                names.append(each)
            else:
                names.append(self._free(output))
                place = self.insert(place, names[-1], each)
        node = onnx_package().helper.make_node(operator, names, [output], self._free(f"{operator}"), **attributes)
        self.model.graph.node.insert(place, node)
        return place + 1

    def _free(self, name: str) -> str:
        found = next(free for number in count() if (free := f"{name}::{number}") not in self._taken)
        self._taken.add(found)
        return found


def _cast(value: Expression, kind: int) -> Expression:
    return ("Cast", value, {"to": kind})


def node_result_through(edit: GraphEdit, at: str, *, format: str) -> None:
    """Pass the result through a narrower type."""
    raw, place = edit.behind(at)
    edit.insert(place, at, _cast(_cast(raw, KINDS[format]), edit.kind_of(at)))


def node_operand_through(edit: GraphEdit, at: str, *, operand: int, format: str) -> None:
    """Pass one operand through a narrower type."""
    value = edit.node_of(at).input[operand]
    node_other_operand(edit, at, operand, _cast(_cast(value, KINDS[format]), edit.kind_of(value)))


def node_other_operand(edit: GraphEdit, at: str, operand: int, expression: Expression) -> None:
    """Compute with an expression in the place of an operand."""
    place = edit.place_of(at)
    name = edit.node_of(at).input[operand]
    made = f"{name}::operand{operand}::{at}"
    behind = edit.insert(place, made, expression)
    edit.model.graph.node[behind].input[operand] = made


def node_computed_in(edit: GraphEdit, at: str, *, format: str) -> None:
    """Convert all floating-point operands to another type, compute in it, and convert the result back."""
    for operand, value in enumerate(list(edit.node_of(at).input)):
        if value and edit.kind_of(value) in KINDS.values():
            node_other_operand(edit, at, operand, _cast(value, KINDS[format]))
    raw, place = edit.behind(at)
    edit.insert(place, at, _cast(raw, edit.kind_of(at)))


def node_removed(edit: GraphEdit, at: str) -> None:
    """Give the first operand in place of the result."""
    edit.replace(at, ("Identity", edit.node_of(at).input[0]))


def quantization_removed(edit: GraphEdit, at: str) -> None:
    """Give the numbers that a pair of nodes quantizes and returns as they are."""
    quantized = edit.node_of(edit.node_of(at).input[0])
    edit.replace(at, ("Identity", quantized.input[0]))


def node_only_operand(edit: GraphEdit, at: str, *, operand: int) -> None:
    """Give one operand in place of the result, in the shape of the result."""
    first, second = edit.node_of(at).input
    chosen, other = (first, second) if operand == 0 else (second, first)
    edit.replace(at, ("Expand", chosen, ("Shape", other)))


def node_operand_twice(edit: GraphEdit, at: str, *, operand: int) -> None:
    """Apply the operation to its result and one of its operands once more."""
    node = edit.node_of(at)
    operator, value = node.op_type, node.input[operand]
    raw, place = edit.behind(at)
    edit.insert(place, at, (operator, raw, value) if operand == 1 else (operator, value, raw))


def node_bias_twice(edit: GraphEdit, at: str, *, operand: int) -> None:
    """Add a bias along the last axis once more."""
    value = edit.node_of(at).input[operand]
    raw, place = edit.behind(at)
    edit.insert(place, at, ("Add", raw, value))


def node_dropped_operand(edit: GraphEdit, at: str, *, operand: int) -> None:
    """Leave an optional operand out, such as a bias."""
    node = edit.node_of(at)
    node.input[operand] = ""
    while node.input and not node.input[-1]:
        del node.input[-1]


def node_exchanged(edit: GraphEdit, at: str) -> None:
    """Exchange both operands."""
    node = edit.node_of(at)
    node.input[0], node.input[1] = node.input[1], node.input[0]


def node_other_function(edit: GraphEdit, at: str, *, function: str) -> None:
    """Compute another operator of the same operands, without attributes."""
    edit.replace(at, (function, *edit.node_of(at).input))


def node_by_reciprocal(edit: GraphEdit, at: str) -> None:
    """Multiply by a rounded reciprocal in place of dividing."""
    dividend, divisor = edit.node_of(at).input
    edit.replace(at, ("Mul", dividend, ("Reciprocal", divisor)))


def node_transposed(edit: GraphEdit, at: str, *, operand: int, rank: int) -> None:
    """Exchange the last two axes of one operand."""
    value = edit.node_of(at).input[operand]
    axes = [*range(rank - 2), rank - 1, rank - 2]
    node_other_operand(edit, at, operand, ("Transpose", value, {"perm": axes}))


def node_number(edit: GraphEdit, at: str, *, operand: int, value: float) -> None:
    """Compute with another number in the place of a constant."""
    node = edit.node_of(at)
    node.input[operand] = edit.number(value, node.input[operand])


def shared_number(edit: GraphEdit, at: str, *, operand: int, value: float, name: str) -> None:
    """Compute with another number in the place of a constant, at every node that reads it."""
    number = edit.number(value, name)
    for node in edit.model.graph.node:
        for place, given in enumerate(node.input):
            if given == name:
                node.input[place] = number


def node_array(edit: GraphEdit, at: str, *, operand: int, array: Array) -> None:
    """Compute with another array in the place of an operand."""
    edit.node_of(at).input[operand] = edit.constant(array)


def node_attribute(edit: GraphEdit, at: str, *, option: str, value: Any) -> None:
    """Compute with another value of an attribute."""
    node = edit.node_of(at)
    kept = [each for each in node.attribute if each.name != option]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx_package().helper.make_attribute(option, value)])


def other_initializer(edit: GraphEdit, at: str, *, name: str, array: Array) -> None:
    """Compute with another array in the place of weights."""
    for tensor in edit.model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(onnx_package().numpy_helper.from_array(array, name))


def node_scaled(edit: GraphEdit, at: str, *, factor: float) -> None:
    """Multiply the result by a constant."""
    raw, place = edit.behind(at)
    edit.insert(place, at, ("Mul", raw, edit.number(factor, at)))


def node_offset(edit: GraphEdit, at: str, *, value: float) -> None:
    """Add a constant to the result."""
    raw, place = edit.behind(at)
    edit.insert(place, at, ("Add", raw, edit.number(value, at)))


def node_order(edit: GraphEdit, at: str, *, expression: Expression) -> None:
    """Compute an equal expression in place of the node."""
    edit.replace(at, expression)


def swapped_forms(nodes: dict[str, Any], node: Any) -> Iterator[Expression]:
    """Yield the other orders of a product and a quotient; `nodes` give the values by name."""
    first, second = node.input
    if node.op_type == "Mul":
        for operand, other in ((first, second), (second, first)):
            if made := _operands(nodes, operand, "Div"):
                yield ("Div", ("Mul", made[0], other), made[1])
                yield ("Mul", made[0], ("Div", other, made[1]))
    elif made := _operands(nodes, first, "Mul"):
        yield ("Mul", made[0], ("Div", made[1], second))
        yield ("Mul", ("Div", made[0], second), made[1])


def reassociated_forms(nodes: dict[str, Any], node: Any) -> Iterator[Expression]:
    """Yield sums and products of three operands in another order, and quotients by one divisor or by two."""
    first, second = node.input
    if node.op_type == "Div":
        if made := _operands(nodes, second, "Mul"):
            yield ("Div", ("Div", first, made[0]), made[1])
            yield ("Div", ("Div", first, made[1]), made[0])
        if made := _operands(nodes, first, "Div"):
            yield ("Div", made[0], ("Mul", made[1], second))
        return
    own = node.op_type
    for operand, other in ((first, second), (second, first)):
        if made := _operands(nodes, operand, own):
            yield (own, made[0], (own, made[1], other))
            yield (own, made[1], (own, made[0], other))


def _operands(nodes: dict[str, Any], value: str, operator: str) -> tuple[str, ...]:
    made = nodes.get(value)
    return tuple(made.input) if made is not None and made.op_type == operator else ()
