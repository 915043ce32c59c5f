"""Which float64 differences and sizes do two arrays of any dtypes give, and which pairs are finite or mismatched?

Subtraction in the type of the inputs would give 255 for uint8 0 - 1, and infinity for float16 6e4 - (-6e4).
unmap_chunks also releases the pages of mapped files, so that a process does not grow by the size of its files.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import frexp, inf, ldexp
from typing import Any, Literal, NamedTuple

import numpy as np

from precreg.arithmetic import Format, dtype_name, format_of, round_to
from precreg.errors import UserError
from precreg.storage import Array

PairKind = Literal["real", "integer", "mixed", "wide"]


# float64 has every integer up to this size.
_EXACT_INTEGER = 2**53
_SMALLEST = 5e-324


class Pairing(NamedTuple):
    """The arithmetic for one pair of dtypes.

    `kind` is "real" if float64 holds every component of both, "integer" for two integers with a 64-bit one among them,
    "mixed" for a 64-bit integer and a floating-point number, and "wide" with a long double. `working` is the dtype of
    the arithmetic: float64, long double, or the complex form of one of them. `component` is the dtype of the actual, or
    of its real part, in native byte order. `format` and `reference_format` are the floating-point formats; None for
    integers.
    """

    kind: PairKind
    working: np.dtype[Any]
    component: np.dtype[Any]
    format: Format | None
    reference_format: Format | None
    dtype: str
    reference_dtype: str

    @property
    def is_complex(self) -> bool:
        """True if either side is complex."""
        return self.working.kind == "c"

    @property
    def same(self) -> bool:
        """True if every reference is a number of the output dtype, so that rounding changes none."""
        ours, theirs = self.format, self.reference_format
        if ours is None or theirs is None or ours is theirs:
            return ours is theirs
        finest = ours.min_exponent - ours.precision <= theirs.min_exponent - theirs.precision
        return finest and ours.negative_zero and ours.precision >= theirs.precision and ours.largest >= theirs.largest

    @property
    def saturates(self) -> bool:
        """True if the output's format has neither infinities nor NaN."""
        return self.format is not None and self.format.overflow == self.format.largest != inf


class ElementPairs(NamedTuple):
    """Pairs side by side, flat in C order.

    `actual` and `reference` are the numbers in the working dtype. `difference` is actual - reference as float64; for
    complex numbers it has both components in turn. `signed`, `error` and `magnitude` are d, |d| and |r| as float64.
    `wide` has |d| and |r| as long doubles if that is the working dtype.
    """

    actual: Array
    reference: Array
    difference: Array
    signed: Array
    error: Array
    magnitude: Array
    wide: tuple[Array, Array] | None = None

    def take(self, keep: Array) -> ElementPairs:
        """Return the pairs that the mask `keep` selects."""
        twice = keep if self.difference.size == keep.size else keep.repeat(2)
        parts = (self.actual[keep], self.reference[keep], self.difference[twice])
        wide = (self.wide[0][keep], self.wide[1][keep]) if self.wide else None
        return ElementPairs(*parts, self.signed[keep], self.error[keep], self.magnitude[keep], wide)


@cache
def pairing_of(actual: np.dtype[Any], reference: np.dtype[Any]) -> Pairing:
    """Choose the arithmetic for a pair of dtypes.

    Raises:
        UserError: bad-value for objects, strings, times and structures; unknown-dtype for an unknown floating-point
            format.
    """
    for dtype in (actual, reference):
        if not np.can_cast(dtype, np.clongdouble, "safe"):
            raise UserError(
                "bad-value",
                f"expected arrays of numbers but got dtype={dtype}",
                hint="convert the array to numbers: array.astype('float64')",
            )
    format, component = format_of(actual.name), _component(actual)
    if format is None and not _is_integer(actual):
        raise UserError("unknown-dtype", f"expected a number format that precreg knows but got dtype={actual.name}")
    kind = _kind(component, _component(reference))
    working = np.dtype(np.longdouble if kind == "wide" else np.float64)
    if "c" in (actual.kind, reference.kind):
        working = np.result_type(working, np.complex64)
        kind = "real" if kind != "wide" else kind
    names = dtype_name(actual), dtype_name(reference)
    return Pairing(kind, working, component, format, format_of(reference.name), *names)


def _kind(actual: np.dtype[Any], reference: np.dtype[Any]) -> PairKind:
    if any(not _is_integer(dtype) and dtype.itemsize > 8 for dtype in (actual, reference)):
        return "wide"
    if all(np.can_cast(dtype, np.float64, "safe") and not _has_64_bits(dtype) for dtype in (actual, reference)):
        return "real"
    return "integer" if _is_integer(actual) and _is_integer(reference) else "mixed"


def _has_64_bits(dtype: np.dtype[Any]) -> bool:
    return _is_integer(dtype) and dtype.itemsize == 8


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return np.can_cast(dtype, np.int64, "safe") or np.can_cast(dtype, np.uint64, "safe")


def _component(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype.type).real.dtype


def make_pairs(actual: Array, reference: Array, pairing: Pairing, buffers: tuple[Array, ...]) -> ElementPairs:
    """Return the pairs of two flat arrays in the first five `buffers`: float64 arrays of their length or longer."""
    if pairing.is_complex:
        return _pair_complex(actual.astype(pairing.working), reference.astype(pairing.working))
    if pairing.kind == "wide":
        a, r = actual.astype(np.longdouble), reference.astype(np.longdouble)
        signed = longdouble_to_float64(a - r)
        wide = np.abs(a - r), np.abs(r)
        return ElementPairs(a, r, signed, signed, np.abs(signed), longdouble_to_float64(wide[1]), wide)
    a, r, signed, error, magnitude = (buffer[: actual.size] for buffer in buffers[:5])
    a[...] = actual
    r[...] = reference
    if pairing.kind == "real":
        np.subtract(a, r, out=signed)
    else:
        signed[...] = _exact_difference(actual, reference)
    return ElementPairs(a, r, signed, signed, np.abs(signed, out=error), np.abs(r, out=magnitude))


def _pair_complex(actual: Array, reference: Array) -> ElementPairs:
    difference = actual - reference
    error, size, magnitude = absolute_values(difference), absolute_values(actual), absolute_values(reference)
    signed = longdouble_to_float64(size - magnitude)
    wide = (error, magnitude) if magnitude.dtype != np.float64 else None
    parts = longdouble_to_float64(real_components(difference))
    return ElementPairs(
        actual, reference, parts, signed, longdouble_to_float64(error), longdouble_to_float64(magnitude), wide
    )


def absolute_values(values: Array) -> Array:
    """Return |values|; |z| is sqrt(re * re + im * im), each operation rounded, with unbounded exponents."""
    if values.dtype.kind != "c":
        size: Array = np.abs(values)
        return size
    # Scaling by powers of two rounds nothing and keeps the squares in range; numpy's own |z| rounds differently by
    # platform.
    parts = np.abs(real_components(values)).reshape(-1, 2)
    largest = np.maximum(parts[:, 0], parts[:, 1])
    exponents = np.frexp(np.where(np.isfinite(largest), largest, 1))[1]
    parts = np.ldexp(parts, -exponents[:, None])
    sizes: Array = np.ldexp(np.sqrt(parts[:, 0] * parts[:, 0] + parts[:, 1] * parts[:, 1]), exponents)
    sizes[np.isinf(largest)] = inf
    return sizes


def longdouble_to_float64(values: Array) -> Array:
    """Return long doubles as float64: infinite beyond its range, and 0 for zeros alone."""
    if values.dtype == np.float64:
        return values
    narrow: Array = values.astype(np.float64)
    lost = (narrow == 0) & (values != 0)
    if lost.any():
        narrow[lost] = np.copysign(_SMALLEST, values[lost]).astype(np.float64)
    return narrow


def _exact_difference(actual: Array, reference: Array) -> Array:
    """Return actual - reference with a 64-bit integer on one side: exact, then rounded to float64 once."""
    if actual.dtype.kind in "biu" and reference.dtype.kind in "biu":
        return _integer_difference(actual, reference)
    difference: Array = actual.astype(np.float64) - reference.astype(np.float64)
    integers = actual if actual.dtype.kind in "biu" else reference
    # Integers beyond 2^53 are rare, so exact fractions one by one are fast enough.
    beyond = (integers > _EXACT_INTEGER) | (integers < -_EXACT_INTEGER if integers.dtype.kind == "i" else False)
    for place in np.flatnonzero(beyond & np.isfinite(difference)).tolist():
        difference[place] = _quotient(actual[place]) - _quotient(reference[place])
    return difference


def _quotient(number: Any) -> Fraction:
    return Fraction(int(number)) if isinstance(number, np.integer) else Fraction(float(number))


def _integer_difference(actual: Array, reference: Array) -> Array:
    a, r = (values.astype(np.int64) if values.dtype.kind == "b" else values for values in (actual, reference))
    common = np.promote_types(a.dtype, r.dtype)
    difference: Array
    if common.kind == "f":  # int64 and uint64 have no common integer dtype
        difference = (a.astype(object) - r.astype(object)).astype(np.float64)
        return difference
    # A difference of two 64-bit integers always fits into uint64: subtract the smaller from the larger.
    a, r = a.astype(common), r.astype(common)
    difference = (np.maximum(a, r).view(np.uint64) - np.minimum(a, r).view(np.uint64)).astype(np.float64)
    return np.negative(difference, out=difference, where=a < r)


def real_components(values: Array) -> Array:
    """Return real numbers unchanged, and complex ones as real and imaginary parts in turn."""
    return values.view(values.real.dtype) if values.dtype.kind == "c" else values


def round_references(reference: Array, pairing: Pairing) -> Array:
    """Return references in the working dtype, rounded to the output dtype."""
    if pairing.same:
        return reference
    parts = real_components(reference)
    if pairing.format is None:
        rounded = np.rint(parts) + 0.0  # integers have one zero
    elif _numpy_rounds_once(parts.dtype, pairing.component):
        rounded = parts.astype(pairing.component).astype(parts.dtype, copy=False)
    else:
        rounded = round_to(parts, pairing.format)
    return rounded.view(reference.dtype)


def _numpy_rounds_once(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Return True if numpy's cast rounds once."""
    # ml_dtypes goes through float32, and long double to float16 goes through float64: both round twice.
    return narrow.isbuiltin == 1 and (wide == np.float64 or narrow != np.float16)


def bits_equal(actual: Array, rounded: Array) -> Array:
    """Return a mask of the pairs with the same bits, in the working dtype; any NaN equals any NaN."""
    a, r = real_components(actual), real_components(rounded)
    same: Array = ((a == r) & (np.signbit(a) == np.signbit(r))) | (np.isnan(a) & np.isnan(r))
    return same if a is actual else same[0::2] & same[1::2]


class NonFinite(NamedTuple):
    """Pairs with a non-finite side: their counts by the names of tally.Counts, and the places of mismatched ones."""

    counts: dict[str, int]
    mismatched: Array


def count_non_finite(actual: Array, rounded: Array) -> NonFinite:
    """Count pairs with at least one side that is not finite.

    A NaN matches a NaN. An infinity matches an infinity of the same sign in the same component. A pair counts by the
    sign of the reference's first infinite component, or else of the actual's.
    """
    nan_actual, nan_rounded = np.isnan(actual), np.isnan(rounded)
    nan_matched, without_nan = nan_actual & nan_rounded, ~(nan_actual | nan_rounded)
    inf_matched = without_nan & (_infinities(actual) == _infinities(rounded))
    inf_mismatched = without_nan & ~inf_matched
    minus = _is_minus(actual, rounded)
    counted = {
        "nan_matched": nan_matched,
        "nan_mismatched": nan_actual ^ nan_rounded,
        "plus_inf_matched": inf_matched & ~minus,
        "minus_inf_matched": inf_matched & minus,
        "plus_inf_mismatched": inf_mismatched & ~minus,
        "minus_inf_mismatched": inf_mismatched & minus,
    }
    counts = {name: int(np.count_nonzero(mask)) for name, mask in counted.items()}
    return NonFinite(counts, (~(nan_matched | inf_matched)).nonzero()[0])


def _infinities(values: Array) -> Array:
    """Return values with every finite component replaced by zero."""
    parts = real_components(values)
    return np.where(np.isinf(parts), parts, parts.dtype.type(0)).view(values.dtype)


def _is_minus(actual: Array, rounded: Array) -> Array:
    """Return True where the first infinite component of the reference, or else of the actual, is negative."""
    sides = [_infinities(side).reshape(-1, 1).view(real_components(side).dtype) for side in (rounded, actual)]
    parts = np.concatenate(sides, axis=1)
    first = np.argmax(parts != 0, axis=1)
    minus: Array = np.take_along_axis(parts, first[:, None], axis=1)[:, 0] < 0
    return minus


def common_quantum(format: Format | None, smallest: float) -> float:
    """Return a power of two that divides all numbers of a format from `smallest` on.

    It is 1 for integers, and infinite if `smallest` is infinite, which means that there are no numbers.
    """
    if format is None:
        return 1.0
    if smallest == inf:
        return inf
    return ldexp(1.0, max(frexp(smallest)[1] - 1, format.min_exponent) - format.precision + 1)
