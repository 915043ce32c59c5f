"""Histograms of errors on a log axis: four bins an octave, added by adding their counts.

Module level stays free of numpy: reports and baselines merge and read histograms without it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from precreg.types import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

BIN_SHIFT = 50
"""Of the 52 mantissa bits of a float64, a bin keeps the upper two."""


def count_errors(ordered: NDArray[Any]) -> Histogram:
    """Count errors given in ascending order: |a-r| >= 0, float64 or longdouble.

    Errors beyond the largest float64 are counted in its bin.
    """
    import numpy as np

    zeros = int(ordered.searchsorted(0, side="right"))
    if zeros == ordered.size:
        return Histogram(zeros, [], [])
    errors = np.minimum(ordered[zeros:], sys.float_info.max).astype(np.float64)
    keys = errors.view(np.int64) >> BIN_SHIFT
    first = keys[0]
    counts = np.bincount(keys - first)
    filled = counts.nonzero()[0]
    return Histogram(zeros, (filled + first).tolist(), counts[filled].tolist())


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all their errors together, in whatever order they come."""
    zeros, counts = 0, Counter[int]()
    for histogram in histograms:
        zeros += histogram.zeros
        counts.update(dict(zip(histogram.bins, histogram.counts, strict=True)))
    bins = sorted(counts)
    return Histogram(zeros, bins, [counts[bin] for bin in bins])
