"""Bring actual and reference into one type that is wide enough, and take their difference there.

Subtracting in the type of the inputs would report 255 for uint8 0 - 1, and infinity for float16 6e4 - (-6e4).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arith.formats import Format, dtype_name, format_of
from precreg.arith.rounding import round_nearest_even
from precreg.errors import UserError

Array = NDArray[Any]


class Widening(NamedTuple):
    """How one pair of dtypes is measured.

    `working` is the dtype of the arithmetic: float64, longdouble, or the complex form of one of them. `component`
    is the dtype of the actual (of its real part where it is complex) in native byte order, and `format` its
    floating-point format, None for integers. `wide_integers` says that both sides are integers and one of them has 64
    bits, more than the working dtype can hold.
    """

    working: np.dtype[Any]
    component: np.dtype[Any]
    format: Format | None
    wide_integers: bool
    dtype: str
    reference_dtype: str


class Pairs(NamedTuple):
    """Elements side by side, flat in C order, in the working dtype.

    `rounded` is the reference as the output dtype would hold it; `difference` is actual - reference.
    """

    actual: Array
    reference: Array
    rounded: Array
    difference: Array

    def take(self, mask: Array) -> Pairs:
        """Return the pairs where `mask` is true."""
        return Pairs(*(part[mask] for part in self))


@cache
def widening(actual: np.dtype[Any], reference: np.dtype[Any]) -> Widening:
    """Choose the arithmetic for a pair of dtypes.

    Components of at most 32 bits are measured in float64, where the rounding of a difference is below 2**-29 of their
    ulp; wider ones in longdouble. On a platform whose longdouble is float64, the difference of two float64 is still
    correctly rounded. Raises UserError: bad-value for objects, strings, times and structures, unknown-dtype for a
    floating-point format that precreg does not know.
    """
    for dtype in (actual, reference):
        if not np.can_cast(dtype, np.clongdouble, "safe"):
            raise UserError("bad-value", f"expected arrays of numbers but got dtype={dtype}")
    format = format_of(actual.name)
    if format is None and not _is_integer(actual):
        raise UserError("unknown-dtype", f"expected a number format that precreg knows but got dtype={actual.name}")
    component, reference_component = _component(actual), _component(reference)
    integers = _is_integer(actual) and _is_integer(reference)
    narrow = component.itemsize <= 4 and reference_component.itemsize <= (4 if _is_integer(reference) else 8)
    working = np.dtype(np.float64 if narrow or integers else np.longdouble)
    if "c" in (actual.kind, reference.kind):
        working = np.result_type(working, np.complex64)
    wide_integers = integers and not narrow
    return Widening(working, component, format, wide_integers, dtype_name(actual), dtype_name(reference))


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return np.can_cast(dtype, np.int64, "safe") or np.can_cast(dtype, np.uint64, "safe")


def _component(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype.type).real.dtype


def promote(actual: Array, reference: Array, widening: Widening) -> Pairs:
    """Return the pairs of two arrays of one shape, whatever their memory layout and byte order."""
    flat_actual, flat_reference = actual.reshape(-1), reference.reshape(-1)
    wide_actual = flat_actual.astype(widening.working, copy=False)
    wide_reference = flat_reference.astype(widening.working, copy=False)
    rounded = _round_to_output(wide_reference, widening)
    if widening.wide_integers:
        return Pairs(wide_actual, wide_reference, rounded, _integer_difference(flat_actual, flat_reference))
    return Pairs(wide_actual, wide_reference, rounded, wide_actual - wide_reference)


def _integer_difference(actual: Array, reference: Array) -> Array:
    """Return actual - reference, exact before it becomes a float64."""
    common = np.promote_types(actual.dtype, reference.dtype)
    difference: Array
    if common.kind == "f":  # int64 and uint64 have no common integer dtype
        difference = (actual.astype(object) - reference.astype(object)).astype(np.float64)
        return difference
    a, r = actual.astype(common), reference.astype(common)
    difference = (np.maximum(a, r).view(np.uint64) - np.minimum(a, r).view(np.uint64)).astype(np.float64)
    return np.negative(difference, out=difference, where=a < r)


def _round_to_output(reference: Array, widening: Widening) -> Array:
    components = _components(reference)
    if widening.format is None:
        rounded = np.rint(components) + 0.0  # integers have one zero
    elif _numpy_rounds_once(components.dtype, widening.component):
        rounded = components.astype(widening.component).astype(components.dtype, copy=False)
    else:
        rounded = round_nearest_even(components, widening.format)
    return rounded.view(reference.dtype)


def _numpy_rounds_once(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Say whether the cast rounds once: ml_dtypes goes through float32, and longdouble to float16 through float64."""
    return narrow.isbuiltin == 1 and (wide == np.float64 or narrow != np.float16)


def _components(values: Array) -> Array:
    """Return real numbers as they are, complex ones as real and imaginary parts in turn."""
    return values.view(values.real.dtype) if values.dtype.kind == "c" else values


def identical(pairs: Pairs, widening: Widening) -> Array:
    """Tell, per element, whether actual has the bits of the rounded reference; any NaN equals any NaN."""
    same: Array
    if widening.wide_integers:
        same = pairs.difference == 0
        return same
    a, r = _components(pairs.actual), _components(pairs.rounded)
    same = ((a == r) & (np.signbit(a) == np.signbit(r))) | (np.isnan(a) & np.isnan(r))
    return same if a is pairs.actual else same[0::2] & same[1::2]


def non_finite_counts(pairs: Pairs, finite: Array) -> tuple[dict[str, int], Array]:
    """Count the pairs that are not finite on both sides, and return the places of those that do not match.

    A NaN matches a NaN; an infinity matches one of the same sign, in the same component of a complex number.
    """
    places = (~finite).nonzero()[0]
    if places.size == 0:
        return dict.fromkeys(("nan_matched", "nan_mismatched", "inf_matched", "inf_mismatched"), 0), places
    actual, rounded = pairs.actual[places], pairs.rounded[places]
    nan_actual, nan_rounded = np.isnan(actual), np.isnan(rounded)
    nan_matched, without_nan = nan_actual & nan_rounded, ~(nan_actual | nan_rounded)
    inf_matched = without_nan & (_infinities(actual) == _infinities(rounded))
    counts = {
        "nan_matched": int(np.count_nonzero(nan_matched)),
        "nan_mismatched": int(np.count_nonzero(nan_actual ^ nan_rounded)),
        "inf_matched": int(np.count_nonzero(inf_matched)),
        "inf_mismatched": int(np.count_nonzero(without_nan & ~inf_matched)),
    }
    return counts, places[~(nan_matched | inf_matched)]


def _infinities(values: Array) -> Array:
    """Return values with every finite component replaced by zero."""
    components = _components(values)
    return np.where(np.isinf(components), components, 0).view(values.dtype)
