"""Which rewrites can alter a node of a graph?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import log2
from typing import Any

import numpy as np

from precreg.arithmetic import format_of
from precreg.diagnose.onnx import edits
from precreg.diagnose.onnx.changes import ChangedAttribute, ChangedWeights
from precreg.diagnose.onnx.places import OnnxPlace
from precreg.diagnose.rewrites import Hypothesis, other_numbers

_HOPS = ("float16", "bfloat16", "float32")
_NAMES = {kind: name for name, kind in edits.KINDS.items()}
_PAIRS = frozenset({"Add", "Sub", "Mul", "Div"})
# Types of weights in a model and operators that scale by them.
_QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})
# Operators with a bias as their operand of this position.
_BIASES = {"Gemm": 2, "Conv": 2, "ConvTranspose": 2, "LayerNormalization": 2}
# Operators that models take for each other, by their number of operands.
_ALIKE = (
    ("Relu", "Gelu", "Sigmoid", "Tanh", "Softplus", "HardSwish", "Elu"),
    ("Floor", "Ceil", "Round"),
    ("Exp", "Softplus"),
    ("Max", "Min", "Add"),
    ("Add", "Sub"),
    ("Mul", "Div"),
    ("Sin", "Cos"),
    ("ReduceMean", "ReduceSum", "ReduceMax"),
    ("MaxPool", "AveragePool"),
)
# Texts that attributes have.
_TEXTS = {
    "approximate": ("none", "tanh"),
    "mode": ("nearest", "linear", "cubic"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
}
# Attributes that are an axis, and those that are switches.
_AXES = frozenset({"axis"})
_SWITCHES = frozenset({"transA", "transB", "count_include_pad", "ceil_mode", "exclusive", "reverse", "saturate"})


def node_hypotheses(place: OnnxPlace, nodes: dict[str, Any]) -> Iterator[Hypothesis]:
    """Yield every rewrite of a node; `nodes` are all nodes by the values that they give."""
    own = _NAMES.get(place.kinds.get(place.value, 0))
    yield from _of_attributes(place)
    yield from _of_constants(place)
    if place.operator == "DequantizeLinear" and _gives(nodes, place.operands[0]) == "QuantizeLinear":
        yield _made(place, "quantization_removed", 1, edits.quantization_removed)
    if own is None:
        return
    if place.operator == "Cast":
        yield _made(place, "cast_removed", 0, edits.node_removed)
    for format in _narrower(own):
        yield _made(place, "hop_result", 1, edits.node_result_through, format=format)
        if place.operator not in ("Cast", *_QUANTIZERS):
            yield _made(place, "computed_in", 1, edits.node_computed_in, format=format)
    yield from _of_operands(place)
    if place.operator not in ("Cast", *_QUANTIZERS):
        yield _made(place, "exact", 4, edits.node_computed_in, format="float64")._replace(options={})
    if place.operator in _PAIRS:
        yield from _of_pairs(place, nodes)
    for function in _others_of(place.operator):
        yield _made(place, "other_function", 2, edits.node_other_function, function=function)
    yield from _of_products(place)
    yield _fit(place, "scaled", 4, edits.node_scaled, "factor", 1.0)
    yield _fit(place, "offset", 4, edits.node_offset, "value", 0.0)


def _gives(nodes: dict[str, Any], value: str) -> str:
    made = nodes.get(value)
    return "" if made is None else str(made.op_type)


def _made(place: OnnxPlace, rewrite: str, rank: int, alter: Callable[..., None], /, **options: Any) -> Hypothesis:
    named = {name: value if isinstance(value, int | float) else str(value) for name, value in options.items()}
    bound = partial(_applied, alter, place.value, options)
    return Hypothesis(rewrite, named, "operation", rank, (place.key,), place.operator, alter=bound)


def _applied(alter: Callable[..., None], value: str, options: dict[str, Any], edit: edits.GraphEdit) -> None:
    alter(edit, value, **options)


def _fit(
    place: OnnxPlace, rewrite: str, rank: int, alter: Callable[..., None], fitted: str, start: float, /, **options: Any
) -> Hypothesis:
    """Return a hypothesis that alters nothing yet: a search fits the number of the option `fitted` to the errors."""

    def with_number(number: float) -> Hypothesis:
        return _made(place, rewrite, rank, alter, **options, **{fitted: number})

    return with_number(start)._replace(number=start, refit=with_number)


def _narrower(dtype: str) -> Iterator[str]:
    own = format_of(dtype)
    for name in _HOPS:
        narrow = format_of(name)
        if own is not None and narrow is not None and narrow.precision < own.precision:
            yield name


def _of_operands(place: OnnxPlace) -> Iterator[Hypothesis]:
    if place.operator == "Cast":
        return
    for operand, value in enumerate(place.operands):
        dtype = _NAMES.get(place.kinds.get(value, 0))
        for format in _narrower(dtype) if dtype is not None else ():
            yield _made(place, "hop_operand", 1, edits.node_operand_through, operand=operand, format=format)
    bias = _BIASES.get(place.operator)
    if bias is not None and len(place.operands) > bias:
        yield _made(place, "dropped_operand", 2, edits.node_dropped_operand, operand=bias)
        if not place.operator.startswith("Conv"):
            yield _made(place, "operand_twice", 2, edits.node_bias_twice, operand=bias)


def _of_attributes(place: OnnxPlace) -> Iterator[Hypothesis]:
    for option, value in place.attributes.items():
        if isinstance(value, float):
            yield _fit(place, "other_option", 2, edits.node_attribute, "value", value, option=option)
        rank = 2 if isinstance(value, float) else 3 if option in _AXES else 1
        for other in _other_values(place, option, value):
            yield _made(place, "other_option", rank, edits.node_attribute, option=option, value=other)


def _other_values(place: OnnxPlace, option: str, value: Any) -> Iterator[float | str]:
    if isinstance(value, float):
        yield from map(float, other_numbers(value))
    elif isinstance(value, str):
        yield from (text for text in _TEXTS.get(option, ()) if text != value)
    elif option in _SWITCHES:
        yield int(not value)
    elif option in _AXES and isinstance(value, int):
        rank = len(place.shapes.get(place.operands[0], ()))
        yield from (axis for axis in range(-rank, 0) if (axis - value) % rank)


def _of_constants(place: OnnxPlace) -> Iterator[Hypothesis]:
    for operand, array in place.constants.items():
        if _is_floating(array):
            yield from _other_numbers([place], operand, array)
        elif array.dtype.kind in "iu" and place.operator in _QUANTIZERS:
            yield from _of_zero_point(place, operand, array)
        elif array.dtype.kind in "iu" and place.operator.startswith("Reduce"):
            yield from _of_axes(place, operand, array)


def _is_floating(array: Any) -> bool:
    return bool(array.dtype.kind == "f" or array.dtype.name == "bfloat16")


def shared_hypotheses(places: Sequence[OnnxPlace]) -> Iterator[Hypothesis]:
    """Yield other numbers in the place of constants that several nodes read, such as scales of quantization."""
    readers: dict[str, list[OnnxPlace]] = {}
    for place in places:
        for operand, array in place.constants.items():
            if _is_floating(array):
                readers.setdefault(place.operands[operand], []).append(place)
    for name, group in readers.items():
        if len(group) > 1:
            operand = group[0].operands.index(name)
            yield from _other_numbers(group, operand, group[0].constants[operand])


def _other_numbers(group: Sequence[OnnxPlace], operand: int, array: Any) -> Iterator[Hypothesis]:
    """Yield other numbers in the place of a constant, for all nodes of a group that read it."""
    first, value = group[0], float(array.reshape(()))
    name, keys = first.operands[operand], tuple(place.key for place in group)
    alter = edits.node_number if len(group) == 1 else partial(edits.shared_number, name=name)

    def with_number(number: float) -> Hypothesis:
        made = _made(first, "other_constant", 2, alter, operand=operand, value=number)
        return made._replace(keys=keys)

    yield with_number(value)._replace(number=value, refit=with_number)
    powers = _powers_of_two(value) if first.operator in _QUANTIZERS else ()
    yield from map(with_number, (*other_numbers(value), *powers))


def _powers_of_two(value: float) -> Iterator[float]:
    if value > 0:
        exponent = log2(value)
        yield from {2.0 ** int(np.floor(exponent)), 2.0 ** int(np.ceil(exponent))} - {value}


def _of_zero_point(place: OnnxPlace, operand: int, array: Any) -> Iterator[Hypothesis]:
    limits = np.iinfo(array.dtype)
    now = int(array.reshape(()))
    for value in dict.fromkeys((now + 1, now - 1, 0, 128, -128)):
        if value != now and limits.min <= value <= limits.max:
            hypothesis = _made(place, "other_constant", 2, edits.node_number, operand=operand, value=value)
            yield hypothesis


def _of_axes(place: OnnxPlace, operand: int, array: Any) -> Iterator[Hypothesis]:
    rank, now = len(place.shapes.get(place.operands[0], ())), int(array.reshape(()))
    for axis in range(-rank, 0):
        if (axis - now) % rank:
            other = np.full(array.shape, axis, array.dtype)
            made = _made(place, "other_axis", 3, edits.node_array, operand=operand, array=other)
            yield made._replace(options={"axis": axis})


def _of_pairs(place: OnnxPlace, nodes: dict[str, Any]) -> Iterator[Hypothesis]:
    if place.operator in ("Mul", "Div"):
        for form, expression in enumerate(edits.swapped_forms(nodes, place.node)):
            made = _made(place, "swapped_order", 0, edits.node_order, expression=expression)
            yield made._replace(options={"form": form})
    if place.operator != "Sub":
        for form, expression in enumerate(edits.reassociated_forms(nodes, place.node)):
            made = _made(place, "reassociated", 1, edits.node_order, expression=expression)
            yield made._replace(options={"form": form})
    if place.operator == "Div":
        yield _made(place, "by_reciprocal", 1, edits.node_by_reciprocal)
    if place.operator in ("Sub", "Div"):
        yield _made(place, "exchanged", 3, edits.node_exchanged)
    for operand in (0, 1):
        yield _made(place, "only_operand", 2, edits.node_only_operand, operand=operand)
        yield _made(place, "operand_twice", 3, edits.node_operand_twice, operand=operand)


def _of_products(place: OnnxPlace) -> Iterator[Hypothesis]:
    if place.operator not in ("MatMul", "Gemm"):
        return
    shapes = [place.shapes.get(name, ()) for name in place.operands[:2]]
    for operand, shape in enumerate(shapes):
        if len(shape) > 1 and shape[-1] == shape[-2]:
            made = _made(place, "transposed", 1, edits.node_transposed, operand=operand, rank=len(shape))
            yield made._replace(options={"operand": operand})
    if shapes[0] == shapes[1]:
        yield _made(place, "exchanged", 2, edits.node_exchanged)


def _others_of(operator: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in _ALIKE if operator in group for each in group if each != operator))


def weights_hypothesis(place: OnnxPlace, changed: ChangedWeights) -> Hypothesis:
    """Return the hypothesis that the present weights alone give the result."""
    options: dict[str, float | str] = {"name": changed.name, "changed": changed.changed}
    if changed.present.size == 1 and changed.present.dtype.kind == "f":
        operand = place.operands.index(changed.name)
        options = {"operand": operand, "value": float(changed.present.reshape(()))}
    made = _made(place, "other_weights", 0, edits.other_initializer, name=changed.name, array=changed.present)
    return made._replace(rewrite="other_constant" if "value" in options else "other_weights", options=options)


def attribute_hypothesis(place: OnnxPlace, changed: ChangedAttribute) -> Hypothesis:
    """Return the hypothesis that the present value of an attribute alone gives the result."""
    return _made(place, "other_option", 0, edits.node_attribute, option=changed.name, value=changed.present)
