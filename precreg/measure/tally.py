"""Which figures of the pairs of two arrays are added up, so that tallies of parts merge into the tally of the whole?

Every figure merges: counts are integers, a sum is an exact expansion, a maximum has its first place, and a sketch
counts errors by size. figures.py computes metrics from a tally. This module does not import numpy, because reports
and baselines merge histograms without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import fsum, inf, isfinite, nan
from typing import NamedTuple

from msgspec import Struct

from precreg.types import AxisGroups, Histogram, Positions, Scalar


class Counts(NamedTuple):
    """Counts of pairs by kind; COUNT_DESCRIPTIONS explains the names that a Comparison has.

    `equal` counts bit-identical pairs. `matching` counts pairs within rtol and atol, and matching non-finite pairs.
    `thousandths` and `ten_thousandths` count relative errors above 1e-3 and 1e-4. The last six follow from Regions.
    """

    n: int = 0
    finite: int = 0
    nan_matched: int = 0
    nan_mismatched: int = 0
    plus_inf_matched: int = 0
    minus_inf_matched: int = 0
    plus_inf_mismatched: int = 0
    minus_inf_mismatched: int = 0
    zero_references: int = 0
    actual_subnormals: int = 0
    reference_subnormals: int = 0
    flushed_subnormals: int = 0
    exact_matches: int = 0
    zero_sign_differences: int = 0
    above: int = 0
    below: int = 0
    equal: int = 0
    matching: int = 0
    thousandths: int = 0
    ten_thousandths: int = 0
    small_values: int = 0
    small_value_errors: int = 0
    cancellations: int = 0
    cancellation_errors: int = 0
    relative_violations: int = 0
    absolute_violations: int = 0


# An exact sum as floats that do not overlap. math.fsum rounds it once.
Expansion = tuple[float, ...]


class Sums(NamedTuple):
    """Exact sums over finite pairs of terms that are rounded to float64 once, with d = a - r.

    First degree: |d|, d, d sign(r), |d|/|r| (r != 0), |d|/(|r| + 1e-7), U = |d|/ulp(r), U^2, ulp(r), |r|. Second
    degree: d^2, r^2, r*d, |r|*|d|.
    """

    absolute: Expansion = ()
    signed: Expansion = ()
    outward: Expansion = ()
    relative: Expansion = ()
    floored: Expansion = ()
    ulps: Expansion = ()
    squared_ulps: Expansion = ()
    spacing: Expansion = ()
    magnitude: Expansion = ()
    squared_error: Expansion = ()
    squared_reference: Expansion = ()
    product: Expansion = ()
    weighted_error: Expansion = ()


class Maxima(NamedTuple):
    """The maxima of |d|, |d|/|r|, |d|/(|r| + 1e-7), U, diff3's term and |r| over finite pairs; 0.0 without a pair."""

    absolute: float = 0.0
    relative: float = 0.0
    floored: float = 0.0
    ulps: float = 0.0
    diff3: float = 0.0
    magnitude: float = 0.0


class Places(NamedTuple):
    """The first flat C-order index of each of the first four maxima; -1 for a maximum of 0."""

    absolute: int = -1
    relative: int = -1
    floored: int = -1
    ulps: int = -1


# The metrics whose places a Comparison has, in the order of Places.
PLACE_NAMES = ("max_abs_error", "max_rel_error", "mare", "max_ulp")


class Sketch(NamedTuple):
    """Values counted by size: int32 keys, ascending, and an int64 count for each, both little-endian.

    A value v > 0 has the key (float64 bits of v - 1) >> 45. So a bin begins just above a number of 8 significant bits
    and ends with the next. 0 has the key -1, and infinity the key of the largest float64.
    """

    keys: bytes = b""
    counts: bytes = b""


class Sketches(NamedTuple):
    """|d| of the finite pairs, |d|/|r| of those with |r| > 1e-12, and U of the finite pairs."""

    absolute: Sketch = Sketch()
    relative: Sketch = Sketch()
    ulps: Sketch = Sketch()


class NamedPairs(NamedTuple):
    """The named pairs: flat C-order index, actual and reference."""

    index: list[int]  # type: ignore[assignment]  # tuples have a method of this name, which nobody calls here
    actual: list[Scalar]
    reference: list[Scalar]


class Groups(NamedTuple):
    """Sums over finite pairs in the G = min(L, 16) groups of one axis of length L; group g begins at g*L//G.

    They are ordinary float64 sums of |d|, d, d sign(r), d^2, U, U^2 and log2(U* + 1/4). U* is the upper end of U's bin
    in a sketch.
    """

    n: list[int]
    absolute: list[float]
    signed: list[float]
    outward: list[float]
    squared: list[float]
    ulps: list[float]
    squared_ulps: list[float]
    logs: list[float]


class Tally(Struct, frozen=True):
    """The figures of some of the pairs of two arrays of one shape.

    `worst` names pairs by decreasing |d| > 0 (`errors`), then by increasing index. `non_finite` names the first
    mismatched pairs. `groups` has one entry per axis. `scaled` has the sums of terms beyond the range of float64: by
    name in Sums and binary exponent k, the sum of term * 2**-k.
    """

    counts: Counts = Counts()
    sums: Sums = Sums()
    maxima: Maxima = Maxima()
    places: Places = Places()
    sketches: Sketches = Sketches()
    errors: list[float] = []
    worst: NamedPairs = NamedPairs([], [], [])
    non_finite: NamedPairs = NamedPairs([], [], [])
    groups: tuple[Groups, ...] = ()
    scaled: dict[tuple[str, int], Expansion] = {}


class MeasuredFields(NamedTuple):
    """The fields of a Comparison that a tally gives, in their order there."""

    metrics: dict[str, float]
    counts: dict[str, int]
    worst: Positions | None
    non_finite: Positions | None
    histogram: Histogram | None
    heat: list[float] | None
    places: dict[str, int]
    groups: tuple[AxisGroups, ...]


class MeasureRules(NamedTuple):
    """The settings of a measurement: rtol and atol of matching elements, and the number of pairs to name.

    `regions` has the constants of Regions that a standard changes, with their values.
    """

    rtol: float
    atol: float
    worst: int
    regions: tuple[tuple[str, float], ...] = ()


def round_expansion(parts: Iterable[float]) -> float:
    """Return the sum of the parts, rounded once: infinite beyond float64, NaN for opposite infinities."""
    parts = tuple(parts)
    try:
        return fsum(parts)
    except ValueError:
        return nan
    except OverflowError:  # fsum overflows in between; the sum itself may be finite
        return _round_fraction(sum(map(Fraction, parts), Fraction(0)))


def make_expansion(parts: Iterable[float]) -> Expansion:
    """Return the canonical expansion of a sum: each float is the rounded remainder after those before it.

    It is the same for every order and grouping of the parts. An infinite sum or a NaN is the only float.
    """
    rest, found = list(parts), []
    while first := round_expansion(rest):
        found.append(first)
        if not isfinite(first):
            return (first,)
        rest.append(-first)
    return tuple(found)


def add_expansions(first: Expansion, second: Expansion) -> Expansion:
    """Return the exact sum of two expansions."""
    if not first or not second:
        return first or second
    return make_expansion((*first, *second))


def _round_fraction(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all errors of several histograms, the same in every order."""
    zeros, counts = 0, Counter[int]()
    for histogram in histograms:
        zeros += histogram.zeros
        counts.update(dict(zip(histogram.bins, histogram.counts, strict=True)))
    bins = sorted(counts)
    return Histogram(zeros, bins, [counts[bin] for bin in bins])
