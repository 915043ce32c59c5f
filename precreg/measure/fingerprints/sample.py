"""Which elements of an output do the detectors of shapes look at, and which errors do these have?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import gcd, prod, sqrt
from typing import Any

import numpy as np

from precreg.arithmetic import FORMATS, Format, dtype_name, format_named, round_to, ulp
from precreg.measure.pairing import pairing_of
from precreg.storage import Array


class ErrorSample:
    """The finite pairs of an output, flat in C order, and their errors.

    `index` has the flat index of each pair. The two parts of a complex number are pairs of one index. `actual` and
    `exact` are float64, or long doubles where float64 would lose bits. `format` is None for integers.
    """

    def __init__(self, actual: Array, exact: Array, dtype: str | None, most: int) -> None:
        """Take at most so many elements of two arrays of one shape. `dtype` names the format that arrays simulate.

        Raises UserError: bad-value or unknown-dtype for other arrays than of numbers, unknown-format.
        """
        pairing = pairing_of(actual.dtype, exact.dtype)
        self.shape = actual.shape
        self.whole = (actual, exact)
        self.is_integer = pairing.format is None and dtype is None
        self.is_bool = actual.dtype == bool
        self.is_complex = pairing.is_complex
        self.dtype = dtype or dtype_name(actual.dtype)
        self.format: Format | None = pairing.format if dtype is None else format_named(dtype)
        wide = pairing.kind != "real"
        self.working: np.dtype[Any] = np.dtype(np.longdouble if wide else np.float64)
        own, other = pairing.format, pairing.reference_format
        # Only a wider oracle shows how the output was rounded.
        self.is_exact = other is not None and (own is None or other.precision > own.precision or dtype is not None)
        places = sample_indices(actual.size, most)
        self.is_complete = places is None
        index = np.arange(actual.size) if places is None else places
        self.all_actual, self.all_exact, self.all_index = (
            self._flat(actual, places),
            self._flat(exact, places),
            index.repeat(2) if self.is_complex else index,
        )
        with np.errstate(all="ignore"):
            rounded = self.round(self.all_exact)
            finite = np.isfinite(self.all_actual) & np.isfinite(rounded)
        self.beyond = ~finite
        self.actual, self.exact, self.rounded = (side[finite] for side in (self.all_actual, self.all_exact, rounded))
        self.index = self.all_index[finite]

    def _flat(self, array: Array, places: Array | None) -> Array:
        """Return the chosen elements in the working dtype, with both parts of each complex number."""
        flat = array.reshape(-1) if places is None else array[np.unravel_index(places, array.shape)]
        if self.is_complex:
            wide = np.result_type(self.working, np.complex64)
            return np.ascontiguousarray(flat.astype(wide)).view(self.working)
        return flat.astype(self.working)

    def round(self, values: Array) -> Array:
        """Return values rounded to the output's format, or to integers."""
        return np.rint(values) if self.format is None else round_to(values, self.format)

    @cached_property
    def spacing(self) -> Array:
        """The distance of neighbours of the format at each exact value; 1 for integers."""
        if self.format is None:
            return np.ones_like(self.exact)
        return ulp(self.rounded, self.format)

    @cached_property
    def error(self) -> Array:
        """Actual minus exact, in the working dtype."""
        with np.errstate(over="ignore"):
            return self.actual - self.exact

    @cached_property
    def squares(self) -> Array:
        """The squared errors as float64, over the largest, so that none overflows."""
        squares: Array = _scaled(self.error) ** 2
        return squares

    @cached_property
    def powers(self) -> Array:
        """The squared exact values as float64, over the largest."""
        powers: Array = _scaled(self.exact) ** 2
        return powers

    @cached_property
    def ulps(self) -> Array:
        """The errors in units of the spacing, without sign."""
        with np.errstate(all="ignore"):
            ulps: Array = (np.abs(self.error) / self.spacing).astype(np.float64)
        return ulps

    @cached_property
    def differs(self) -> Array:
        """The elements that are not correctly rounded."""
        differs: Array = self.actual != self.rounded
        return differs

    @cached_property
    def count(self) -> int:
        """The number of elements that are not correctly rounded."""
        return int(np.count_nonzero(self.differs))

    @cached_property
    def scale(self) -> float:
        """The standard deviation of the exact values."""
        if not self.exact.size:
            return 0.0
        return float(_scaled(self.exact).std() * np.abs(self.exact).max())

    def share(self, mask: Array) -> float:
        """Return the share of the squared errors at the elements of a mask."""
        total = float(self.squares.sum())
        # Sums in another order may exceed 1 by a rounding.
        return min(float(self.squares[mask].sum()) / total, 1.0) if total > 0 else 0.0

    def explained(self, left: Array, mask: Array | None = None) -> float:
        """Return the share of the squared errors, at a mask's elements, that is absent from the errors `left`."""
        errors = self.error if mask is None else self.error[mask]
        largest = np.abs(errors).max(initial=0)
        if largest == 0 or not np.isfinite(largest) or not np.isfinite(left).all():
            return 0.0
        before, after = ((part / largest).astype(np.float64) for part in (errors, left))
        return 1 - float(np.dot(after, after)) / float(np.dot(before, before))

    def coordinate(self, axis: int) -> Array:
        """Return the index of each pair on an axis."""
        coordinate: Array = self.index // prod(self.shape[axis + 1 :]) % self.shape[axis]
        return coordinate

    def rows(self, axis: int) -> Array:
        """Return for each pair the number of its row: all pairs that differ in the index on `axis` alone are one."""
        below = prod(self.shape[axis + 1 :])
        row: Array = self.index // (below * self.shape[axis]) * below + self.index % below
        return row

    def axes(self, least: int = 2) -> Iterator[int]:
        """Yield the axes of at least so many elements."""
        yield from (axis for axis, length in enumerate(self.shape) if length >= least)


def sample_indices(size: int, most: int) -> Array | None:
    """Return at most `most` flat indices, evenly over an array of `size` elements, in order; None for all of them.

    The step is near the golden section of the size and has no common divisor with it, so that every axis is covered.
    """
    if size <= most:
        return None
    step = int(size * (sqrt(5) - 1) / 2)
    while gcd(step, size) != 1:
        step += 1
    # The product stays below 2**63 up to 2**43 elements.
    return np.sort(np.arange(most, dtype=np.int64) * step % size)


def _scaled(values: Array) -> Array:
    largest = np.abs(values).max(initial=0)
    scaled: Array = (values / largest if largest > 0 else values).astype(np.float64)
    return scaled


def formats_narrower(than: Format) -> list[Format]:
    """Return the formats that devices and files use, with less precision than a format, the widest first."""
    names = ("float32", "float32_m20", "float16", "tf32", "bfloat16", "float8_e3m4", "float8_e4m3fn", "float8_e5m2")
    known = [FORMATS[name] if name in FORMATS else format_named(name) for name in names]
    return [format for format in known if format.precision < than.precision]
