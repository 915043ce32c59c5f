"""What is added up over the pairs of two arrays. Tallies of parts merge into the tally of the whole.

A tally holds no figure that cannot be merged: counts are integers, a sum is kept exactly as a few floats that do not
overlap, maxima carry their first place, errors are counted by size. figures.py makes metrics of a tally.

Histograms of errors on a log axis: four bins an octave, added by adding their counts.

Module level stays free of numpy: reports and baselines merge and read histograms without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from precreg.types import Histogram, Scalar


class Counts(NamedTuple):
    """Pairs by kind; the names that a Comparison has are explained in metrics.COUNTS, the others here.

    `equal` counts the bit-identical of all pairs, `matching` those within rtol and atol and the matching non-finite
    ones. `thousandths` and `ten_thousandths` count relative errors above 1e-3 and 1e-4. The last six are counted by
    regions.py.
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


Expansion = tuple[float, ...]
"""An exact sum: floats whose sum it is. math.fsum rounds it once; two expansions are added by exact.expansion."""


class Sums(NamedTuple):
    """Sums over finite pairs of terms that are rounded to float64 once, d = a - r.

    |d|, d, |d|/|r| (r != 0), |d|/(|r| + 1e-7), U = |d|/ulp(r), ulp(r), |r|; of second degree d^2, r^2, r*d, |r|*|d|.
    """

    absolute: Expansion = ()
    signed: Expansion = ()
    relative: Expansion = ()
    floored: Expansion = ()
    ulps: Expansion = ()
    spacing: Expansion = ()
    magnitude: Expansion = ()
    squared_error: Expansion = ()
    squared_reference: Expansion = ()
    product: Expansion = ()
    weighted_error: Expansion = ()


class Maxima(NamedTuple):
    """The largest of |d|, |d|/|r|, |d|/(|r| + 1e-7), U, diff3's term, and |r| over finite pairs; 0.0 without any."""

    absolute: float = 0.0
    relative: float = 0.0
    floored: float = 0.0
    ulps: float = 0.0
    diff3: float = 0.0
    magnitude: float = 0.0


class Places(NamedTuple):
    """The first flat index, in C order, at which each of the first four maxima stands; -1 where it is 0."""

    absolute: int = -1
    relative: int = -1
    floored: int = -1
    ulps: int = -1


class Sketch(NamedTuple):
    """Values counted by size: int32 keys, ascending, and an int64 count for each, both little-endian.

    A value v > 0 has the key (float64 bits of v - 1) >> 45, so that a bin reaches from just above a number of 8
    significant bits up to and including the next; 0 has the key -1, infinity that of the largest float64.
    """

    keys: bytes = b""
    counts: bytes = b""


class Sketches(NamedTuple):
    """|d| of the finite pairs, |d|/|r| of those with |r| > 1e-12, and U of the finite pairs."""

    absolute: Sketch = Sketch()
    relative: Sketch = Sketch()
    ulps: Sketch = Sketch()


class NamedPairs(NamedTuple):
    """Pairs worth naming: flat index in C order, actual and reference."""

    index: list[int]  # type: ignore[assignment]
    actual: list[Scalar]
    reference: list[Scalar]


class Groups(NamedTuple):
    """Sums over finite pairs in the groups of one axis of length L: G = min(L, 16) of them, group g from g*L//G on.

    Ordinary float64 sums of |d|, d, d^2, U and log2(U* + 1/4), where U* is the upper end of the bin of U in a sketch.
    """

    n: list[int]
    absolute: list[float]
    signed: list[float]
    squared: list[float]
    ulps: list[float]
    logs: list[float]


class Tally(Struct, frozen=True):
    """All that is added up over some of the pairs of two arrays of one shape.

    `worst` names pairs by falling |d| > 0 (`errors`), then by rising index; `non_finite` names the first mismatched
    ones. `groups` has one entry per axis. `scaled` holds sums of second degree whose terms float64 cannot: by name
    in Sums and binary exponent k, the sum of term * 2**-k.
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


class MeasureRules(NamedTuple):
    """What decides: rtol and atol which elements match, `worst` how many pairs are named at most.

    `regions` are the constants of regions.py that are not those of the dtype, and their values.
    """

    rtol: float
    atol: float
    worst: int
    regions: tuple[tuple[str, float], ...] = ()


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all their errors together, in whatever order they come."""
    zeros, counts = 0, Counter[int]()
    for histogram in histograms:
        zeros += histogram.zeros
        counts.update(dict(zip(histogram.bins, histogram.counts, strict=True)))
    bins = sorted(counts)
    return Histogram(zeros, bins, [counts[bin] for bin in bins])
