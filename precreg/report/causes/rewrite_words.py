"""Which words name a rewrite, and what should the reader do about it?

A rewrite has a name, and its words are in the tables below. A rewrite without an entry is named by its slug.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from precreg.types import Cause, format_number


class CauseFamily(NamedTuple):
    """Hold the name of a group of causes, and what to do about one at a place."""

    name: str
    to_do: str
    # The result may be as accurate as before, so its bits may be accepted.
    may_be_accepted: bool = False


_CONVERSION = CauseFamily("conversion", "remove the conversion, or compute this step in the wider dtype")
_LOST_CONVERSION = CauseFamily("conversion", "put the conversion back, or compute this step in the wider dtype")
_ACCUMULATOR = CauseFamily("accumulator", "accumulate in a wider dtype, such as float32 for float16 inputs")
_SUM = CauseFamily("order of a sum", "sum in the former order", may_be_accepted=True)
_ORDER = CauseFamily("order of operations", "restore the former order of the operations", may_be_accepted=True)
_BUFFER = CauseFamily("stale buffer", "initialize the buffer before its first use")
_INDEX = CauseFamily("index", "check the offset, the stride and the length of the last block")
_TRUNCATION = CauseFamily("truncation", "round to nearest in place of cutting bits off")
_FLUSH = CauseFamily("flush", "keep subnormal numbers, or scale the values before this step")
_EPSILON = CauseFamily("epsilon", "put the epsilon back where the reference has it")
_APPROXIMATION = CauseFamily("approximation", "take as many terms or steps as the dtype needs")
_ROUNDING = CauseFamily("double rounding", "round once, from the wide result to the output's dtype")
_SPECIAL = CauseFamily("special values", "propagate NaN and infinity as the reference does")
_FUSION = CauseFamily("fused multiply-add", "compile with the former contraction of products", may_be_accepted=True)
_LIBRARY = CauseFamily("library", "compare the versions of the library in both environments", may_be_accepted=True)
_SCALE = CauseFamily("scale", "check the scale and the zero point of this step")
_FORMULA = CauseFamily("formula", "compare the expression with the formula of the reference")
_CONSTANT = CauseFamily("constant", "put the former number back")
_TIES = CauseFamily("ties", "round ties as the reference does")
_REPEATS = CauseFamily("nondeterminism", "fix the order of this operation, its seed, or its reads from outside")
_OTHER = CauseFamily("other", "compare this place with the accepted version")


class _Words(NamedTuple):
    """Hold the noun phrase of a rewrite, without and with its options, and its family."""

    plain: str
    family: CauseFamily
    with_options: str = ""


# By the name of a rewrite. Phrases name the altered form, so one phrase serves a cause and its reversal.
_REWRITES = {
    "hop_float16": _Words("cast to float16", _CONVERSION),
    "hop_bfloat16": _Words("cast to bfloat16", _CONVERSION),
    "hop_functions": _Words("cast of the result", _CONVERSION, "cast of the result to {format}"),
    "hop_sums": _Words("cast of the sum", _CONVERSION, "cast of the sum to {format}"),
    "naive_sum": _Words("accumulation term after term", _ACCUMULATOR),
    "stale_buffer": _Words("sum that begins with a part of the previous sum", _BUFFER),
    "misaligned_tail": _Words("tail that is read one element too early", _INDEX),
    "narrow_bfloat16": _Words("bfloat16 accumulator", _ACCUMULATOR),
    "narrow_float16": _Words("float16 accumulator", _ACCUMULATOR),
    "truncated_results": _Words("results without their last bits", _TRUNCATION, "results without {bits} last bits"),
    "truncated_casts": _Words("conversion that cuts bits off", _TRUNCATION),
    "flushed": _Words("subnormal results flushed to zero", _FLUSH),
    "dropped_epsilon": _Words("dropped epsilon", _EPSILON),
    "moved_epsilon": _Words("epsilon on the other side of the square root", _EPSILON),
    "swapped_order": _Words("swapped multiply and divide", _ORDER),
    "fewer_terms": _Words("series with a term less", _APPROXIMATION),
    "fewer_newton_steps": _Words("Newton iteration with a step less", _APPROXIMATION),
    "one_step_less": _Words("one step less", _APPROXIMATION),
    "double_rounding": _Words("double rounding", _ROUNDING),
    "swallowed_nan": _Words("skipped NaN", _SPECIAL),
    "saturated": _Words("largest number in place of infinity", _SPECIAL),
    "sum_reversed": _Words("sum from the last term to the first", _SUM),
    "sum_in_halves": _Words("sum in two halves", _SUM),
    "sum_pairwise": _Words("pairwise sum", _SUM),
    "sum_in_float64": _Words("float64 accumulator", _ACCUMULATOR),
    "fused": _Words("fused multiply-add", _FUSION),
    "another_library": _Words("function that is computed in float64 and rounded once", _LIBRARY),
    "hop": _Words("cast to another format", _CONVERSION, "cast to {format}"),
    "hop_result": _Words("cast of the result", _CONVERSION, "cast of the result to {format}"),
    "hop_operand": _Words("cast of an operand", _CONVERSION, "cast of operand {operand} to {format}"),
    "cast_removed": _Words("removed conversion", _CONVERSION),
    "truncated": _Words("last bits cut off", _TRUNCATION, "last {bits} bits cut off"),
    "exact": _Words("exact operation, rounded once", _APPROXIMATION),
    "narrow_accumulator": _Words("narrow accumulator", _ACCUMULATOR, "{format} accumulator"),
    "summed_in_blocks": _Words("sum in blocks", _SUM, "sum in blocks of {block}"),
    "other_axis": _Words("reduction along another axis", _INDEX, "reduction along axis {axis}"),
    "fewer_summed": _Words("sum without its first or last terms", _INDEX, "sum over terms {start} to {stop}"),
    "transposed": _Words("transposition", _INDEX, "transposition of operand {operand}"),
    "exchanged": _Words("exchanged operands", _FORMULA),
    "by_reciprocal": _Words("multiplication by the rounded reciprocal", _ORDER),
    "by_division": _Words("division by the rounded reciprocal", _ORDER),
    "only_operand": _Words("operand in place of the result", _FORMULA, "operand {operand} in place of the result"),
    "operand_twice": _Words("operand that is applied twice", _FORMULA, "operand {operand} that is applied twice"),
    "ties_away": _Words("ties away from zero, or to even where they were not", _TIES),
    "other_function": _Words("another function", _FORMULA, "{function} in place of the function"),
    "other_constant": _Words("another constant", _CONSTANT, "constant {value}"),
    "other_param": _Words("another value of the param", _CONSTANT, "value {value}"),
    "scaled": _Words("constant factor", _SCALE, "factor {factor}"),
    "tail": _Words("other elements beyond the last full block", _INDEX),
    "shifted": _Words("elements moved along an axis", _INDEX, "elements moved by {by} along axis {axis}"),
    "reversed": _Words("reversed last axis", _INDEX),
    "other_option": _Words("another option", _FORMULA, "{option} {value}"),
    "left_by_earlier_call": _Words("value that an earlier call left", _BUFFER),
    "differs_between_runs": _Words("other result in another run", _REPEATS),
    "one_index": _Words("other values at an index", _INDEX, "other values at index {indices} of axis {axis}"),
    "hop_of_part": _Words("cast of a part", _CONVERSION, "cast of index {indices} of axis {axis} to {format}"),
    "moved_by_one": _Words("integers moved by one", _INDEX, "integers moved by {value}"),
    "computed_in": _Words("computation in a narrower format", _CONVERSION, "computation in {format}"),
    "fixed_point": _Words("fixed-point grid", _SCALE, "fixed-point grid of {bits} bits"),
    "reassociated": _Words("other order of the terms", _ORDER),
    "all_axes": _Words("reduction along all axes", _INDEX),
    "other_operand": _Words("another operand", _FORMULA, "{input} in place of operand {operand}"),
    "power_of_two": _Words("size rounded to a power of two", _SCALE, "size rounded to a power of two, {way}"),
    "dropped_operand": _Words("operand that is left out", _FORMULA, "operand {operand} that is left out"),
    "unfused": _Words("bias that is added after a rounding", _ORDER),
    "quantization_removed": _Words("no quantization", _SCALE),
    "other_weights": _Words("other weights", _CONSTANT, "other weights {name}, {changed} elements"),
    "offset": _Words("constant offset", _CONSTANT, "offset {value}"),
    "changed_constant": _Words("other number", _CONSTANT),
    "changed_conversion": _Words("other conversion", _CONVERSION),
    "changed_order": _Words("other order", _ORDER),
    "changed_operator": _Words("other operator", _FORMULA),
    "changed_function": _Words("other function", _FORMULA),
    "changed_index": _Words("other index", _INDEX),
    "changed_operand": _Words("other operand", _FORMULA),
    "changed_dropped": _Words("dropped part", _FORMULA),
    "changed_added": _Words("added part", _FORMULA),
    "changed_expression": _Words("other expression", _FORMULA),
}
# By the option `way` of a rewrite of a tail or of an index.
_WAYS = {
    ("tail", "early"): "elements beyond the last full block of {block} read one too early",
    ("tail", "zero"): "zeros beyond the last full block of {block}",
    ("tail", "stale"): "elements of the block before, beyond the last full block of {block}",
    ("tail", "aligned"): "elements beyond the last full block of {block} read from an aligned address before",
    ("tail", "before"): "values of the elements before at index {indices} of axis {axis}",
    ("tail", "after"): "values of the elements after at index {indices} of axis {axis}",
    ("tail", "repeated"): "one element repeated beyond the last full block of {block}",
    ("one_index", "zero"): "zeros at index {indices} of axis {axis}",
    ("one_index", "before"): "values of the index before at index {indices} of axis {axis}",
    ("one_index", "after"): "values of the index after at index {indices} of axis {axis}",
}
# The family of a rewrite without an entry, by the first part of its name that is known.
_FAMILY_PARTS = {
    "cast|hop|through|dtype|convert": _CONVERSION,
    "narrow|accum|wide|naive": _ACCUMULATOR,
    "swap|order|reassoc": _ORDER,
    "sum|pairwise|halves|chunk": _SUM,
    "stale|buffer": _BUFFER,
    "eps": _EPSILON,
    "tail|block|shift|index|transpos|channel|axis|perm": _INDEX,
    "scale|factor|quant": _SCALE,
    "flush|subnormal": _FLUSH,
    "trunc": _TRUNCATION,
    "term|step|newton|approx": _APPROXIMATION,
    "satur|nan|inf": _SPECIAL,
    "round": _ROUNDING,
    "fuse|fma": _FUSION,
    "librar": _LIBRARY,
}

# The form that the rewrite of a product or of a quotient makes.
_SWAPS = {
    **dict.fromkeys(("multiply", "aten.mul.Tensor", "aten.mul.Scalar", "Mul"), "multiply before divide"),
    **dict.fromkeys(("divide", "aten.div.Tensor", "aten.div.Scalar", "Div"), "divide before multiply"),
}


def cause_phrase(cause: Cause) -> str:
    """Name a rewrite by a noun phrase with its options."""
    if cause.rewrite == "swapped_order" and cause.place.name in _SWAPS:
        return _SWAPS[cause.place.name]
    words = _REWRITES.get(cause.rewrite)
    if words is None:
        return cause.rewrite.replace("_", " ") + format_figures(cause.options)
    options = {name: format_figure(value) for name, value in cause.options.items()}
    template = _WAYS.get((cause.rewrite, options.get("way", "")), words.with_options)
    # A record of another version may lack an option.
    known = set(re.findall(r"{(\w+)}", template)) <= set(options)
    phrase = (template.format_map(options) if known else "") or words.plain
    return f"{phrase}, {options['rounding'].replace('_', ' ')}" if "rounding" in options else phrase


def cause_family(cause: Cause) -> CauseFamily:
    """Return the family of a cause; a name without words is searched for known parts."""
    # The failing code lacks a conversion, unless the rewrite removes one from it.
    if cause.rewrite == "cast_removed" and not cause.reverses:
        return _LOST_CONVERSION
    if cause.rewrite in _REWRITES:
        return _REWRITES[cause.rewrite].family
    return next((family for parts, family in _FAMILY_PARTS.items() if re.search(parts, cause.rewrite)), _OTHER)


def format_figures(values: Mapping[str, float | str]) -> str:
    """Write named figures in parentheses after a space; empty without any."""
    listed = ", ".join(f"{name} {format_figure(value)}" for name, value in values.items())
    return f" ({listed})" if listed else ""


def format_figure(value: float | str) -> str:
    """Write a figure; a text stays as it is."""
    return value if isinstance(value, str) else format_number(value)
