"""Which rewrites does the shape of an error suggest?"""

from __future__ import annotations

from collections.abc import Iterable

from precreg.types import Fingerprint, FingerprintKind

_CASTS = frozenset(
    {"hop", "hop_result", "hop_operand", "computed_in", "narrow_accumulator", "cast_removed", "fixed_point"}
)
# An epsilon has the rank of a structural change, so it runs before the numbers that a search fits.
_EPSILON = frozenset({"dropped_epsilon", "moved_epsilon"})
_SUGGESTED: dict[FingerprintKind, frozenset[str]] = {
    "constant_factor": frozenset({"scaled", "other_constant", "other_param", *_EPSILON}),
    "constant_offset": frozenset({"offset", "other_constant", "other_param", *_EPSILON}),
    "one_channel": frozenset({"one_index", "hop_of_part"}),
    "last_block": frozenset({"tail", "one_index", "fewer_summed"}),
    "checkerboard": frozenset({"hop_of_part", "one_index"}),
    "grid": _CASTS,
    "one_sign": frozenset({"truncated", "truncated_casts", "flushed"}),
    "growth": frozenset({"narrow_accumulator", "naive_sum", "sum_in_float64", "summed_in_blocks"}),
    "at_ties": frozenset({"ties_away", "double_rounding", "truncated_casts"}),
    "saturated": frozenset({"saturated", *_CASTS}),
    "flushed": frozenset({"flushed"}),
    "moved_elements": frozenset({"shifted", "transposed", "reversed", "exchanged"}),
    "non_finite": frozenset({"saturated", "swallowed_nan", *_CASTS}),
}
# A shape of a smaller part of the errors suggests nothing.
_LEAST_CERTAINTY = 0.5


def suggested_rewrites(fingerprints: Iterable[Fingerprint]) -> frozenset[str]:
    """Return the names of the rewrites that make errors of these shapes."""
    sure = (each for each in fingerprints if each.certainty >= _LEAST_CERTAINTY)
    return frozenset(name for each in sure for name in _SUGGESTED.get(each.kind, ()))
