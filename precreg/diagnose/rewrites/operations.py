"""Which rewrites can alter the operation at one place?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from precreg.arithmetic import format_of
from precreg.arithmetic.devices import is_floating
from precreg.arithmetic.faults import FAULTS, HARMLESS_CHANGES, ArithmeticLayer, Fault, plant_fault
from precreg.diagnose.places import SourcePlace
from precreg.diagnose.rewrites import alterations
from precreg.diagnose.rewrites.constants import other_numbers
from precreg.diagnose.rewrites.hypothesis import Alter, AlteredOperation, Hypothesis
from precreg.diagnose.rewrites.orders import FORMS, Reassociated
from precreg.run import Arrays

# Formats that copies pass through, the most frequent first.
HOP_FORMATS = ("float16", "bfloat16", "float32", "tf32", "float8_e4m3fn", "float8_e5m2")
# So coarse a format has the effect of other causes, too, such as a dropped small term: it is tried after them.
COARSE = frozenset({"float8_e4m3fn", "float8_e5m2"})
COARSE_RANK = 4
# Lengths of vectors and tiles of units: a tail is what remains beyond full blocks.
BLOCKS = (16, 8, 32, 64, 128, 256, 4, 2)
TAIL_WAYS = ("early", "zero", "stale", "repeated", "aligned")

# Functions that kernels take for each other.
_TAKEN_FOR_EACH_OTHER = (
    ("maximum", "minimum"),
    ("maximum", "add"),
    ("maximum", "fmax"),
    ("minimum", "fmin"),
    ("add", "subtract"),
    ("multiply", "divide"),
    ("rint", "floor"),
    ("rint", "trunc"),
    ("floor", "trunc"),
    ("floor", "ceil"),
    ("exp", "exp2"),
    ("exp", "expm1"),
    ("log", "log1p"),
    ("log", "log2"),
    ("sqrt", "cbrt"),
    ("square", "absolute"),
    ("sin", "cos"),
    ("sinh", "cosh"),
    ("tanh", "arctan"),
)
_OTHERS: dict[str, tuple[str, ...]] = {}
for _first, _second in _TAKEN_FOR_EACH_OTHER:
    _OTHERS[_first] = (*_OTHERS.get(_first, ()), _second)
    _OTHERS[_second] = (*_OTHERS.get(_second, ()), _first)

# Fraction bits of fixed-point weights and coordinates, and the smallest normal numbers of float16 and float8 formats.
_GRID_BITS = (8, 7, 4, 10, 12, 15, 16)
_FLUSHED_BELOW = (2.0**-14, 2.0**-6, 2.0**-8)

_ELEMENTWISE_PAIRS = frozenset({np.add, np.subtract, np.multiply, np.divide})
_APPROXIMATED: frozenset[Any] = frozenset(
    {
        *(np.sqrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.power, np.cbrt),
        *(np.sin, np.cos, np.tan, np.tanh, np.sinh, np.cosh, np.arctan),
    }
)


class PlaceRewrites:
    """Make the hypotheses of one place. Each carries a rank: the causes that occur most often have the lowest."""

    def __init__(self, place: SourcePlace, inputs: Arrays) -> None:
        self.place, self.inputs = place, inputs
        self.function = place.function
        self.is_call = isinstance(place.function, np.ufunc) and place.method == "__call__"
        self.is_elementwise = self.is_call and getattr(place.function, "signature", None) is None

    def all(self) -> Iterator[Hypothesis]:
        """Yield every rewrite that fits the operation."""
        if self.function is None:
            yield from self._of_casts()
            return
        if not is_floating(self.place.dtype):
            return
        if self.place.method == "at":
            for format in self.narrower():
                yield self._made("narrow_accumulator", 1, alterations.added_at, format=format)
            return
        yield from self._precision()
        yield from self._of_faults()
        yield from self._of_orders()
        if self.place.executions > 1:
            yield from self._of_executions()
        if self.place.is_sum:
            yield from self._of_sums()
        if self.place.method == "reduce":
            yield from self._of_reductions()
        if self.is_elementwise:
            yield from self._of_functions()
            yield from self._constants()
        yield from self._of_indices()

    def _made(self, rewrite: str, rank: int, alter: Callable[..., Any], **options: Any) -> Hypothesis:
        bound: Alter = partial(alter, **options) if options else alter
        rank += COARSE_RANK if options.get("format") in COARSE else 0
        return self._layered(rewrite, rank, lambda inner: AlteredOperation(inner, bound), options)

    def _once(self, rewrite: str, alter: Callable[..., Any], which: str, **options: Any) -> Hypothesis:
        """Alter the first or the last execution alone."""
        bound: Alter = partial(alter, **options) if options else alter
        number = 0 if which == "first" else self.place.executions - 1
        named = {**options, "execution": which}
        rank = 3 + (COARSE_RANK if options.get("format") in COARSE else 0)
        return self._layered(rewrite, rank, lambda inner: AlteredOperation(inner, bound, number), named)

    def _layered(
        self, rewrite: str, rank: int, layer: Callable[[Any], ArithmeticLayer], options: dict[str, Any]
    ) -> Hypothesis:
        return Hypothesis(rewrite, dict(options), "operation", rank, (self.place.key,), self.place.key.name, layer)

    def narrower(self) -> Iterator[str]:
        """Yield the formats with less precision than the result."""
        yield from self._narrower(self.place.dtype)

    def _narrower(self, dtype: np.dtype[Any]) -> Iterator[str]:
        own = format_of(dtype.name)
        for name in HOP_FORMATS:
            format = format_of(name)
            if own is not None and format is not None and format.precision < own.precision:
                yield name

    def _of_casts(self) -> Iterator[Hypothesis]:
        narrow = self.place.operands.get(0)
        if narrow is None or not is_floating(self.place.dtype):
            return
        yield self._made("cast_removed", 0, alterations.without_rounding)
        for format in self._narrower(self.place.dtype):
            yield self._made("hop_result", 1, alterations.result_through, format=format)
        yield from self._planted("truncated_casts", 1)
        for bits in (1, 2, 3, 8):
            yield self._planted_with("double_rounding", 1, extra_bits=bits)

    def _of_orders(self) -> Iterator[Hypothesis]:
        if self.is_call and self.function in (np.add, np.multiply, np.divide):
            for form in FORMS:
                layer = partial(Reassociated, form=form)
                yield self._layered("reassociated", 1, layer, {"form": form})

    def _of_executions(self) -> Iterator[Hypothesis]:
        """Yield rewrites of the first or the last step of a loop: a step is missing, or its block is another one."""
        for which in ("last", "first"):
            if self.is_elementwise and self.function in _ELEMENTWISE_PAIRS:
                for operand in (0, 1):
                    yield self._once("only_operand", alterations.only_operand, which, operand=operand)
            for format in self._narrower(self.place.dtype):
                yield self._once("hop_result", alterations.result_through, which, format=format)
                for operand in self.place.operands:
                    yield self._once("hop_operand", alterations.operand_through, which, operand=operand, format=format)

    def _precision(self) -> Iterator[Hypothesis]:
        place = self.place
        yield from self._of_formats()
        for bits in _cut_bits(place.dtype):
            yield self._made("truncated", 2, alterations.bits_cut, bits=bits)
        for bits in _GRID_BITS:
            yield self._made("fixed_point", 3, alterations.result_on_grid, bits=bits)
        for least in _FLUSHED_BELOW:
            yield self._made("flushed", 3, alterations.flushed_below, least=least)
        yield self._made("sum_in_float64" if place.is_sum else "exact", 4, alterations.exact)

    def _of_formats(self) -> Iterator[Hypothesis]:
        place = self.place
        # A result that the next step of a loop adds to is an accumulator.
        name = "narrow_accumulator" if place.is_running else "hop_result"
        for format in self.narrower():
            yield self._made(name, 1, alterations.result_through, format=format)
            yield self._made("computed_in", 1, alterations.computed_in, format=format)
            yield self._made("hop_result", 3, alterations.result_through, format=format, rounding="toward_zero")
            for operand in place.scalars:
                yield self._made("hop_operand", 2, alterations.operand_through, operand=operand, format=format)
        for operand, dtype in place.operands.items():
            for format in self._narrower(dtype) if is_floating(dtype) else ():
                yield self._made("hop_operand", 1, alterations.operand_through, operand=operand, format=format)

    def _of_faults(self) -> Iterator[Hypothesis]:
        function = self.function
        if self.is_call and function in (np.multiply, np.divide):
            yield from self._planted("swapped_order", 0)
        if self.is_call and function in (np.sqrt, np.log, np.divide, np.reciprocal, np.power):
            yield from self._planted("dropped_epsilon", 0)
        if self.is_call and function in (np.sqrt, np.add):
            yield from self._planted("moved_epsilon", 0)
        if self.is_call and function in (np.add, np.subtract):
            yield from self._planted("fused", 1)
        if self.is_elementwise and function in _APPROXIMATED:
            yield from self._planted("another_library", 2)
            yield from self._planted("fewer_terms", 1)
        if self.is_call and function in (np.divide, np.reciprocal, np.sqrt):
            yield from self._planted("fewer_newton_steps", 1)
        yield from self._planted("flushed", 2)
        yield from self._planted("saturated", 2)
        yield from self._planted("swallowed_nan", 2)

    def _planted(self, name: str, rank: int) -> Iterator[Hypothesis]:
        fault = FAULTS.get(name) or HARMLESS_CHANGES[name]
        yield self._layered(name, rank, partial(_layer_of, fault=fault), dict(fault.options))

    def _planted_with(self, name: str, rank: int, **options: Any) -> Hypothesis:
        from msgspec.structs import replace

        fault = replace(FAULTS[name], options=options)
        return self._layered(name, rank, partial(_layer_of, fault=fault), options)

    def _of_sums(self) -> Iterator[Hypothesis]:
        for name in ("sum_reversed", "sum_in_halves", "sum_pairwise", "sum_in_float64", "naive_sum"):
            yield from self._planted(name, 1)
        for format in self._narrower(self.place.dtype):
            yield self._planted_with("narrow_float16", 1, format=format)._replace(rewrite="narrow_accumulator")
        yield from self._planted("stale_buffer", 2)
        for block in (*BLOCKS, 512, 1024):
            if self._summed_length() > block:
                yield self._made("summed_in_blocks", 2, alterations.summed_in_blocks, block=block)
                for format in self._narrower(self.place.dtype):
                    yield self._made("summed_in_blocks", 3, alterations.summed_in_blocks, block=block, format=format)
        if self.place.function is np.matmul or self.place.method == "":
            yield from self._of_products()

    def _summed_length(self) -> int:
        shapes = self.place.shapes
        if self.place.method:
            return max(shapes[0], default=0) if self.place.method != "__call__" else (shapes[0] or (0,))[-1]
        return (shapes[0] or (0,))[-1]

    def _of_reductions(self) -> Iterator[Hypothesis]:
        terms = len(self.place.shapes[0])
        for axis in range(-terms, 0):
            yield self._made("other_axis", 3, alterations.other_axis, axis=axis)
        if terms > 1:
            yield self._made("all_axes", 3, alterations.all_axes)
        for start, stop in ((1, 0), (0, -1), (1, -1)):
            yield self._made("fewer_summed", 2, alterations.fewer_summed, start=start, stop=stop)
        length = self._summed_length()
        for stop in dict.fromkeys([*(length % block for block in BLOCKS), *BLOCKS, length // 2]):
            if 1 < stop < length:
                yield self._made("fewer_summed", 3, alterations.fewer_summed, start=0, stop=-stop)

    def _of_products(self) -> Iterator[Hypothesis]:
        shapes = self.place.shapes
        for operand in (0, 1):
            if len(shapes) > operand and len(shapes[operand]) > 1 and shapes[operand][-1] == shapes[operand][-2]:
                yield self._made("transposed", 1, alterations.transposed_operand, operand=operand)
        if len(shapes) == 2 and shapes[0] == shapes[1]:
            yield self._made("exchanged", 2, alterations.exchanged_operands)

    def _of_functions(self) -> Iterator[Hypothesis]:
        function, place = self.function, self.place
        name = getattr(function, "__name__", "")
        if function in _ELEMENTWISE_PAIRS:
            yield from self._of_pairs()
        if len(place.shapes) == 1 and place.operands:
            yield self._made("only_operand", 3, alterations.only_operand, operand=0)
        yield from self._of_operands()
        if name in ("rint", "floor", "round"):
            yield self._made("ties_away", 1, alterations.away_from_zero)
        for other in _OTHERS.get(name, ()):
            yield self._made("other_function", 2, alterations.other_function, function=other)

    def _of_pairs(self) -> Iterator[Hypothesis]:
        function = self.function
        if function is np.divide:
            yield self._made("by_reciprocal", 1, alterations.by_reciprocal)
        if function is np.multiply and self.place.scalars:
            yield self._made("by_division", 1, alterations.by_division)
        if function in (np.subtract, np.divide):
            yield self._made("exchanged", 3, alterations.exchanged_operands)
        for operand in (0, 1):
            yield self._made("only_operand", 2, alterations.only_operand, operand=operand)
            yield self._made("operand_twice", 3, alterations.operand_twice, operand=operand)
        if function in (np.divide, np.multiply):
            for way in ("above", "nearest", "below"):
                yield self._made("power_of_two", 4, alterations.power_of_two, way=way)

    def _of_operands(self) -> Iterator[Hypothesis]:
        """Yield other inputs of one shape and dtype in the place of operands."""
        operands = tuple(self.place.operands)
        for name, array in self.inputs.items():
            same = tuple(
                at for at in operands if (self.place.shapes[at], self.place.operands[at]) == (array.shape, array.dtype)
            )
            for chosen in dict.fromkeys((each,) for each in same) | ({same: None} if len(same) > 1 else {}):
                alter = partial(alterations.other_operand, array=array, operands=chosen)
                options = {"operand": chosen[0] if len(chosen) == 1 else "both", "input": name}
                yield self._layered("other_operand", 3, partial(AlteredOperation, alter=alter), options)

    def _constants(self) -> Iterator[Hypothesis]:
        for operand, value in self.place.scalars.items():
            yield self._fit("other_constant", 2, alterations.other_constant, "value", value, operand=operand)
            for other in other_numbers(value):
                yield self._made("other_constant", 2, alterations.other_constant, operand=operand, value=other)

    def _of_indices(self) -> Iterator[Hypothesis]:
        shape = self.place.shape
        if not shape:
            return
        for block in BLOCKS:
            if alterations.tail_of(shape[-1], block)[1]:
                for way in TAIL_WAYS:
                    yield self._made("tail", 2, alterations.result_tail, block=block, way=way)
        for axis in range(-min(len(shape), 2), 0):
            for by in (1, -1):
                yield self._made("shifted", 3, alterations.shifted, axis=axis, by=by)
        for operand in self.place.operands if self.is_elementwise else ():
            yield self._fit("offset", 4, alterations.operand_offset, "value", 0.0, operand=operand)
            yield self._fit("scaled", 4, alterations.operand_scaled, "factor", 1.0, operand=operand)
        yield self._fit("offset", 4, alterations.offset_result, "value", 0.0)
        yield self._fit("scaled", 4, alterations.scaled_result, "factor", 1.0)

    def _fit(
        self, rewrite: str, rank: int, alter: Callable[..., Any], option: str, start: float, **options: Any
    ) -> Hypothesis:
        """Return a hypothesis that alters nothing yet: a search fits the number of one option to the errors."""

        def with_number(number: float) -> Hypothesis:
            return self._made(rewrite, rank, alter, **options, **{option: number})

        return with_number(start)._replace(number=start, refit=with_number)


def narrower_together(group: Sequence[SourcePlace]) -> Iterator[Hypothesis]:
    """Yield hypotheses that compute several operations in one narrower format; the last one names the place."""
    keys = tuple(place.key for place in reversed(group))
    for format in PlaceRewrites(group[-1], {}).narrower():
        alter = partial(alterations.computed_in, format=format)
        yield Hypothesis(
            "computed_in",
            {"format": format},
            "operations",
            2,
            keys,
            keys[0].name,
            partial(AlteredOperation, alter=alter),
        )


def _layer_of(inner: Any, *, fault: Fault) -> Any:
    return plant_fault(inner, fault)


def _cut_bits(dtype: np.dtype[Any]) -> tuple[int, ...]:
    return {"float32": (3, 1, 13, 16), "float16": (1, 3), "bfloat16": (1,), "float64": (29, 3)}.get(dtype.name, ())
