"""Which rewrites can alter an operator of torch at one place?"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from precreg.arithmetic import format_of
from precreg.diagnose.places import PlaceKey, expression_at
from precreg.diagnose.rewrites import BLOCKS, Hypothesis, other_numbers, tail_of
from precreg.diagnose.torch import alterations
from precreg.types import RewrittenPlace, Site

_HOPS = ("float16", "bfloat16", "float32")
_PAIRS = ("aten.add.", "aten.sub.", "aten.mul.", "aten.div.")
# Functions that modules take for each other.
_ALIKE = (
    ("gelu", "silu", "relu", "sigmoid", "tanh", "softplus", "hardswish"),
    ("exp", "exp2", "expm1"),
    ("log", "log2", "log1p"),
    ("sqrt", "rsqrt"),
    ("sin", "cos"),
    ("floor", "ceil", "round", "trunc"),
)
_SUMS = ("aten.sum.", "aten.mean.")


class TorchPlace(NamedTuple):
    """Hold an operator as its first execution met it. Tensors among `args` are pairs of dtype and shape.

    `options` are all arguments without a position, with the defaults of those that the call left out. `names` are those
    of the arguments by position, and `optional` the positions of tensors that a call may leave out.
    """

    key: PlaceKey
    name: str
    dtype: str
    shape: tuple[int, ...]
    args: tuple[Any, ...]
    options: dict[str, Any]
    optional: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    module: str = ""
    executions: int = 1

    def code(self) -> str:
        """Return the line of the source."""
        return linecache.getline(self.key.file, self.key.line).strip() if self.key.file else ""

    def described(self, root: str) -> RewrittenPlace:
        """Return the place as reports name it, with a file relative to a folder."""
        site = Site(self.key.file.removeprefix(root), self.key.line, self.code(), self.module)
        return RewrittenPlace("operation", self.name, site, expression_at(self.key), self.executions)

    def tensors(self) -> dict[int, tuple[str, tuple[int, ...]]]:
        """Return dtype and shape of the tensors among the arguments, by position."""
        return {at: each for at, each in enumerate(self.args) if isinstance(each, tuple) and len(each) == 2}


def torch_hypotheses(place: TorchPlace) -> list[Hypothesis]:
    """Return every rewrite of an operator of torch."""
    return list(_rewrites(place))


def _rewrites(place: TorchPlace) -> Iterator[Hypothesis]:
    if place.name == alterations.CAST:
        yield _made(place, "cast_removed", 0, alterations.tensor_without_rounding)
        yield from _hops_of_results(place)
        return
    yield from _hops_of_results(place)
    yield from _hops_of_operands(place)
    for format in _narrower(place.dtype):
        yield _made(place, "computed_in", 1, alterations.tensor_computed_in, format=format)
    yield _made(place, "exact", 4, alterations.tensor_exact)
    yield from _of_numbers(place)
    yield from _of_optional(place)
    for function in _others_of(place.name):
        yield _made(place, "other_function", 2, alterations.tensor_other_function, function=function)
    if place.name.startswith(_PAIRS):
        yield from _of_pairs(place)
    if alterations.is_product(place.name) or place.name.startswith(_SUMS):
        yield from _of_sums(place)
    yield from _of_indices(place)


def _made(place: TorchPlace, rewrite: str, rank: int, alter: Callable[..., Any], **options: Any) -> Hypothesis:
    # Answers of workers hold numbers and texts, and no truth values.
    named = {name: str(value) if isinstance(value, bool) else value for name, value in options.items()}
    return Hypothesis(rewrite, named, "operation", rank, (place.key,), place.name, alter=partial(alter, **options))


def _narrower(dtype: str) -> Iterator[str]:
    own = format_of(dtype)
    for name in _HOPS:
        narrow = format_of(name)
        if own is not None and narrow is not None and narrow.precision < own.precision:
            yield name


def _hops_of_results(place: TorchPlace) -> Iterator[Hypothesis]:
    for format in _narrower(place.dtype):
        yield _made(place, "hop_result", 1, alterations.tensor_result_through, format=format)


def _hops_of_operands(place: TorchPlace) -> Iterator[Hypothesis]:
    for operand, (dtype, _) in place.tensors().items():
        for format in _narrower(dtype):
            yield _made(place, "hop_operand", 1, alterations.tensor_operand_through, operand=operand, format=format)


def _of_numbers(place: TorchPlace) -> Iterator[Hypothesis]:
    """Yield other values of floats, truth values and texts among the arguments."""
    for operand, value in enumerate(place.args):
        if isinstance(value, bool):
            yield _made(place, "other_constant", 2, alterations.other_argument, operand=operand, value=not value)
        elif isinstance(value, float):
            yield from _of_number(place, operand, value)
        elif isinstance(value, int | list) and place.names[operand : operand + 1] == ("dim",):
            yield from _of_axes(place, operand, value)
    for option, value in place.options.items():
        yield from _of_option(place, option, value)


def _of_axes(place: TorchPlace, operand: int, value: Any) -> Iterator[Hypothesis]:
    rank = len(place.args[0][1]) if isinstance(place.args[0], tuple) else 0
    now = value[0] if isinstance(value, list) and len(value) == 1 else value
    for axis in range(-rank, 0) if isinstance(now, int) else ():
        if (axis - now) % rank:
            alter = partial(
                alterations.other_argument, operand=operand, value=[axis] if isinstance(value, list) else axis
            )
            yield Hypothesis("other_axis", {"axis": axis}, "operation", 3, (place.key,), place.name, alter=alter)


def _of_option(place: TorchPlace, option: str, value: Any) -> Iterator[Hypothesis]:
    made = partial(_made, place, "other_option", alter=alterations.other_option, option=option)
    if option == "approximate":
        yield made(rank=1, value="tanh" if value == "none" else "none")
    elif isinstance(value, bool):
        yield made(rank=2, value=not value)
    elif isinstance(value, int | float):
        yield from (made(rank=3, value=each) for each in other_numbers(value))
    elif option == "scale" and value is None and place.shape:
        # Attention divides by the root of the length of a query without this option.
        usual = place.shape[-1] ** -0.5
        yield made(rank=2, value=usual)._replace(number=usual, refit=lambda number: made(rank=2, value=number))
        yield made(rank=2, value=1.0)


def _of_optional(place: TorchPlace) -> Iterator[Hypothesis]:
    """Yield operators without a weight or a bias, and with a bias that is added twice or after a rounding."""
    tensors = place.tensors()
    for operand in sorted(place.optional & set(tensors)):
        yield _made(place, "dropped_operand", 2, alterations.tensor_dropped_operand, operand=operand)
    if alterations.is_linear(place.name):
        yield _made(place, "dropped_operand", 2, alterations.tensor_dropped_operand, operand=0)
        yield _made(place, "operand_twice", 2, alterations.tensor_bias_twice, operand=0)
        yield _made(place, "unfused", 1, alterations.tensor_unfused)


def _others_of(name: str) -> tuple[str, ...]:
    """Return the functions that modules take for an operator of one operand."""
    own = name.removeprefix("aten.").removesuffix(".default")
    return next((tuple(each for each in group if each != own) for group in _ALIKE if own in group), ())


def _of_number(place: TorchPlace, operand: int, value: float) -> Iterator[Hypothesis]:
    def with_number(number: float) -> Hypothesis:
        return _made(place, "other_constant", 2, alterations.other_argument, operand=operand, value=number)

    yield with_number(value)._replace(number=value, refit=with_number)
    yield from map(with_number, other_numbers(value))


def _of_pairs(place: TorchPlace) -> Iterator[Hypothesis]:
    if place.name.startswith(("aten.mul.", "aten.div.")):
        for factor in (0, 1):
            yield _made(place, "swapped_order", 0, alterations.swapped_order, factor=factor)
    if place.name.startswith(("aten.add.", "aten.mul.", "aten.div.")):
        for form in (0, 1):
            yield _made(place, "reassociated", 1, alterations.tensor_reassociated, form=form)
    if place.name.startswith("aten.div."):
        yield _made(place, "by_reciprocal", 1, alterations.tensor_by_reciprocal)
    if len(place.tensors()) == 2:
        if place.name.startswith(("aten.sub.", "aten.div.")):
            yield _made(place, "exchanged", 3, alterations.tensor_exchanged_operands)
        for operand in (0, 1):
            yield _made(place, "operand_twice", 3, alterations.tensor_operand_twice, operand=operand)
    for operand in place.tensors():
        yield _made(place, "only_operand", 2, alterations.tensor_only_operand, operand=operand)


def _of_sums(place: TorchPlace) -> Iterator[Hypothesis]:
    yield _made(place, "sum_reversed", 1, alterations.reversed_sum)
    if not alterations.is_product(place.name):
        return
    tensors = place.tensors()
    first = min(at for at in tensors if len(tensors[at][1]) > 1 and (at > 0 or "addmm" not in place.name))
    for operand in (first, first + 1):
        shape = tensors[operand][1]
        if shape[-1] == shape[-2]:
            yield _made(place, "transposed", 1, alterations.tensor_transposed_operand, operand=operand)
    for block in (*BLOCKS, 512):
        if tensors[first][1][-1] > block:
            yield _made(place, "summed_in_blocks", 2, alterations.tensor_summed_in_blocks, block=block)
            for format in _narrower(place.dtype):
                yield _made(
                    place, "summed_in_blocks", 2, alterations.tensor_summed_in_blocks, block=block, format=format
                )


def _of_indices(place: TorchPlace) -> Iterator[Hypothesis]:
    if not place.shape:
        return
    for block in BLOCKS:
        if tail_of(place.shape[-1], block)[1]:
            for way in ("early", "zero", "stale", "repeated"):
                yield _made(place, "tail", 2, alterations.tensor_result_tail, block=block, way=way)
    for axis in range(-min(len(place.shape), 2), 0):
        for by in (1, -1):
            yield _made(place, "shifted", 3, alterations.tensor_shifted, axis=axis, by=by)
    scaled = partial(_made, place, "scaled", 4, alterations.tensor_scaled_result)
    yield scaled(factor=1.0)._replace(number=1.0, refit=lambda factor: scaled(factor=factor))
