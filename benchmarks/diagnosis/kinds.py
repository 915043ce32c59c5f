"""Which kinds of cause exist, and which rewrites and fingerprints of precreg mean which kind?"""

from __future__ import annotations

from typing import Literal, get_args

CauseKind = Literal[
    "input_cast",  # an input passes a narrower format
    "intermediate_cast",  # a result inside the kernel passes a narrower format
    "output_cast",  # an output passes a narrower format, so it is rounded twice
    "accumulator",  # a sum or product accumulates in a narrower format
    "sum_order",  # the terms of a sum are added in another order
    "operation_order",  # multiplications, divisions or additions change their order
    "fused",  # a product and a sum are rounded once
    "epsilon",  # the epsilon is dropped, moved or changed
    "constant",  # a constant or a param has another value
    "divisor",  # a sum is divided by another count
    "term",  # an addend or a factor is dropped or comes twice
    "sign",  # a sign is wrong
    "operand",  # two operands are swapped, or another variable is used
    "transpose",  # a matrix is transposed, or an axis reversed
    "axis",  # a reduction takes another axis
    "unstable_formula",  # a formula that is equal on paper and loses digits
    "approximation",  # a cheaper formula that is not equal on paper
    "fewer_terms",  # fewer terms, coefficients or steps
    "library",  # another library function
    "channel",  # one channel, row or column is wrong
    "tail",  # the last block or the last elements are wrong
    "stale",  # values of an earlier block or step are used
    "index_shift",  # a window, mask or index is off by one
    "boundary",  # elements at an edge are treated in another way
    "rounding_mode",  # truncation, floor or ceiling in place of rounding to nearest
    "saturation",  # large values are clipped by a format
    "clip",  # a bound of a clip is wrong, dropped or added
    "flush",  # small values become zero
    "quantization_scale",  # a scale of quantization is wrong
]
KINDS: tuple[CauseKind, ...] = get_args(CauseKind)

# An answer of one of these kinds is right, too, if its place is right: the place alone decides between them.
NEAR_KINDS: dict[CauseKind, frozenset[CauseKind]] = {
    "input_cast": frozenset({"intermediate_cast"}),
    "intermediate_cast": frozenset({"input_cast", "output_cast"}),
    "output_cast": frozenset({"intermediate_cast"}),
    "saturation": frozenset({"clip"}),
    "clip": frozenset({"saturation"}),
}

# The names of the tool's rewrites and the kinds that each means, filled from the names and docstrings of the
# rewrites, and completed on the half `develop` alone. An unknown rewrite has no kind and is never right.
KIND_OF_REWRITE: dict[str, frozenset[CauseKind]] = {
    "hop": frozenset({"input_cast", "output_cast"}),
    "hop_operand": frozenset({"input_cast", "intermediate_cast"}),
    "hop_result": frozenset({"intermediate_cast", "output_cast"}),
    "cast_removed": frozenset({"input_cast", "intermediate_cast", "output_cast"}),
    "truncated": frozenset({"rounding_mode"}),
    "truncated_casts": frozenset({"rounding_mode"}),
    "double_rounding": frozenset({"output_cast", "intermediate_cast"}),
    "ties_away": frozenset({"rounding_mode"}),
    "narrow_accumulator": frozenset({"accumulator"}),
    "naive_sum": frozenset({"sum_order", "accumulator"}),
    "summed_in_blocks": frozenset({"sum_order", "accumulator"}),
    "sum_reversed": frozenset({"sum_order"}),
    "sum_in_halves": frozenset({"sum_order"}),
    "sum_pairwise": frozenset({"sum_order"}),
    "sum_in_float64": frozenset({"sum_order", "accumulator"}),
    "exact": frozenset({"library", "accumulator"}),
    "another_library": frozenset({"library", "approximation"}),
    "fewer_terms": frozenset({"fewer_terms", "approximation"}),
    "fewer_newton_steps": frozenset({"fewer_terms", "approximation"}),
    "other_function": frozenset({"library", "approximation", "rounding_mode", "operand", "epsilon", "divisor"}),
    "computed_in": frozenset({"accumulator", "intermediate_cast", "input_cast"}),
    "swapped_order": frozenset({"operation_order"}),
    "by_reciprocal": frozenset({"operation_order"}),
    "by_division": frozenset({"operation_order"}),
    "fused": frozenset({"fused"}),
    "dropped_epsilon": frozenset({"epsilon"}),
    "moved_epsilon": frozenset({"epsilon"}),
    "other_constant": frozenset({"constant", "epsilon", "divisor", "clip", "quantization_scale", "term"}),
    "other_param": frozenset({"constant", "epsilon", "divisor", "clip", "quantization_scale", "fewer_terms"}),
    "scaled": frozenset({"constant", "divisor", "term", "quantization_scale"}),
    "only_operand": frozenset({"term", "operand", "clip", "fewer_terms", "unstable_formula", "sign"}),
    "other_operand": frozenset({"operand"}),
    "reassociated": frozenset({"operation_order"}),
    "all_axes": frozenset({"axis", "quantization_scale"}),
    "offset": frozenset({"constant", "term", "epsilon"}),
    "fixed_point": frozenset({"intermediate_cast", "input_cast", "output_cast"}),
    "power_of_two": frozenset({"quantization_scale"}),
    "hop_of_part": frozenset({"intermediate_cast", "input_cast", "output_cast"}),
    "moved_by_one": frozenset({"index_shift"}),
    "clipped": frozenset({"clip", "saturation"}),
    "operand_twice": frozenset({"term"}),
    # A changed statement is named by what differs in its source.
    "changed_constant": frozenset(
        {"constant", "epsilon", "divisor", "clip", "quantization_scale", "fewer_terms", "index_shift", "sum_order"}
    ),
    "changed_conversion": frozenset({"input_cast", "intermediate_cast", "output_cast", "accumulator", "rounding_mode"}),
    "changed_order": frozenset({"operation_order", "sum_order", "operand"}),
    "changed_operator": frozenset({"sign", "term", "operation_order", "epsilon"}),
    "changed_function": frozenset({"library", "approximation", "rounding_mode", "axis"}),
    "changed_index": frozenset({"index_shift", "tail", "boundary", "channel", "stale", "transpose", "fewer_terms"}),
    "changed_operand": frozenset({"operand", "stale", "sign", "term"}),
    "changed_dropped": frozenset({"term", "epsilon", "clip", "fewer_terms", "stale", "unstable_formula"}),
    "changed_added": frozenset({"term", "epsilon", "clip", "flush", "saturation", "channel", "tail", "stale"}),
    "changed_expression": frozenset(),
    "exchanged": frozenset({"operand", "sign"}),
    "transposed": frozenset({"transpose"}),
    "reversed": frozenset({"transpose"}),
    "other_axis": frozenset({"axis"}),
    "fewer_summed": frozenset({"index_shift", "boundary", "tail"}),
    "shifted": frozenset({"index_shift", "stale"}),
    "tail": frozenset({"tail", "stale"}),
    "one_index": frozenset({"channel", "stale"}),
    "stale_buffer": frozenset({"stale"}),
    "differs_between_runs": frozenset({"stale"}),
    "left_by_earlier_call": frozenset({"stale"}),
    "flushed": frozenset({"flush"}),
    "saturated": frozenset({"saturation"}),
}

# The kinds that a fingerprint hints at. Hints are counted apart, and never as a right cause.
KIND_OF_FINGERPRINT: dict[str, frozenset[CauseKind]] = {
    "constant_factor": frozenset({"constant", "divisor", "term", "quantization_scale"}),
    "constant_offset": frozenset({"constant", "term", "epsilon"}),
    "one_channel": frozenset({"channel", "stale"}),
    "last_block": frozenset({"tail", "boundary"}),
    "checkerboard": frozenset({"index_shift", "stale"}),
    "grid": frozenset({"input_cast", "intermediate_cast", "output_cast", "accumulator", "rounding_mode"}),
    "one_sign": frozenset({"rounding_mode", "sign", "term", "constant"}),
    "growth": frozenset({"accumulator", "sum_order", "stale"}),
    "at_zeros": frozenset({"flush", "epsilon"}),
    "at_large_values": frozenset({"saturation", "clip", "approximation", "fewer_terms"}),
    "at_ties": frozenset({"rounding_mode"}),
    "saturated": frozenset({"saturation", "clip"}),
    "wrapped": frozenset({"saturation", "accumulator", "clip"}),
    "flushed": frozenset({"flush"}),
    "never_written": frozenset({"channel", "tail"}),
    "moved_elements": frozenset({"transpose", "axis", "index_shift", "operand"}),
    "non_finite": frozenset({"saturation", "unstable_formula", "accumulator", "input_cast", "intermediate_cast"}),
}


def kinds_of_rewrite(rewrite: str) -> frozenset[CauseKind]:
    """Return the kinds that a rewrite means; none for an unknown one."""
    return KIND_OF_REWRITE.get(rewrite, frozenset())
