"""Which figures do the values of a tensor have, from sums that add up over calls and chunks?

Both engines, numpy for stored gradients and torch for live ones, compute the sums.
"""

from __future__ import annotations

from math import gcd, sqrt
from typing import NamedTuple

import numpy as np

from precreg.arithmetic import Format
from precreg.storage import Array
from precreg.training.magnitudes import count_crossings, format_limits, magnitude_chunks
from precreg.types import ExponentCounts, ValueFigures

# Exponents of finite float64, subnormals included: -1074 to 1023.
LOWEST_EXPONENT = -1074
_EXPONENTS = 2098


class ValueSums(NamedTuple):
    """Hold the sums of the values of a tensor, which is multiplied by the loss scale; `figures` divides by it."""

    elements: int
    measured: int
    finite: int
    total: float
    squares: float
    least: float
    greatest: float
    nan: int
    inf: int
    zeros: int
    subnormal: int
    below: int
    beyond: int
    exponents: dict[int, int]
    # Of all elements, where only some are measured.
    all_squares: float

    def plus(self, other: ValueSums) -> ValueSums:
        """Return the sums of two tensors together."""
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDITIVE}
        keys = self.exponents.keys() | other.exponents.keys()
        exponents = {key: self.exponents.get(key, 0) + other.exponents.get(key, 0) for key in keys}
        ends = {"least": min(self.least, other.least), "greatest": max(self.greatest, other.greatest)}
        return ValueSums(**added, **ends, exponents=exponents)

    def figures(self, format: str, scale: float) -> ValueFigures:
        """Return the figures without the loss scale, which is a power of two."""
        mean = self.total / self.finite if self.finite else 0.0
        variance = max(self.squares / self.finite - mean * mean, 0.0) if self.finite else 0.0
        return ValueFigures(
            format=format,
            elements=self.elements,
            measured=self.measured,
            mean=mean / scale,
            std=sqrt(variance) / scale,
            least=self.least / scale if self.finite else 0.0,
            greatest=self.greatest / scale if self.finite else 0.0,
            nan=self.nan,
            inf=self.inf,
            zeros=self.zeros,
            subnormal=self.subnormal,
            below=self.below,
            beyond=self.beyond,
            norm=sqrt(self.all_squares) / scale,
            exponents=_counts(self.exponents, exponent_of(scale)),
        )


_ADDITIVE = (
    *("elements", "measured", "finite", "total", "squares", "nan", "inf"),
    *("zeros", "subnormal", "below", "beyond", "all_squares"),
)


def exponent_of(scale: float) -> int:
    """Return floor(log2(scale)) of a positive number."""
    return int(np.frexp(scale)[1]) - 1


def _counts(exponents: dict[int, int], shift: int) -> ExponentCounts:
    known = [key for key, count in exponents.items() if count]
    if not known:
        return ExponentCounts(0, ())
    least, greatest = min(known), max(known)
    return ExponentCounts(least - shift, tuple(exponents.get(key, 0) for key in range(least, greatest + 1)))


def sample_stride(elements: int, limit: int | None) -> int:
    """Return the stride that leaves at most `limit` elements. It has no divisor in common with their number.

    A stride that divides the length of a row would take the same columns of every row.
    """
    if limit is None or elements <= limit:
        return 1
    stride = -(-elements // limit)
    while gcd(stride, elements) > 1:
        stride += 1
    return stride


def array_sums(values: Array, format: Format, limit: int | None = None) -> ValueSums:
    """Return the sums of an array of numpy, a chunk at a time; at most `limit` elements are measured.

    An array with NaN or infinities is measured whole, so that none is missed.
    """
    flat = np.asarray(values).reshape(-1)
    is_finite = np.isfinite(flat)
    if not is_finite.all():
        limit = None
    limits, total, squares = format_limits(format), 0.0, 0.0
    counts = np.zeros(_EXPONENTS, np.int64)
    zeros = subnormal = below = beyond = finite = 0
    sampled = flat[:: sample_stride(flat.size, limit)]
    for chunk in magnitude_chunks(sampled):
        found = chunk.magnitudes
        zeros, finite = zeros + chunk.zeros, finite + found.values.size + chunk.zeros
        counts += np.bincount(found.exponents() - LOWEST_EXPONENT, minlength=_EXPONENTS)
        # A magnitude has crossed a limit if it does so at an exponent of at most 0.
        nonzero, normal, over = (
            int(count_crossings(found.crossings(bound), 1, 1)[0])
            for bound in (limits.nonzero, limits.normal, limits.beyond)
        )
        below, subnormal = below + found.values.size - nonzero, subnormal + nonzero - normal
        beyond += over
    known = sampled[np.isfinite(sampled)].astype(np.float64)
    total, squares = float(known.sum()), float(np.square(known).sum())
    nan, inf = int(np.isnan(flat).sum()), int(np.isinf(flat).sum())
    wide = known if sampled.size == flat.size else flat.astype(np.float64)
    return ValueSums(
        elements=flat.size,
        measured=sampled.size,
        finite=finite,
        total=total,
        squares=squares,
        least=float(known.min()) if known.size else float("inf"),
        greatest=float(known.max()) if known.size else float("-inf"),
        nan=nan,
        inf=inf,
        zeros=zeros,
        subnormal=subnormal,
        below=below,
        beyond=beyond + inf,
        exponents={int(place) + LOWEST_EXPONENT: int(counts[place]) for place in np.flatnonzero(counts)},
        all_squares=float(np.square(wide).sum()),
    )
