"""Histograms of errors on a log axis: four bins an octave, added by adding their counts.

Module level stays free of numpy: reports and baselines merge and read histograms without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from precreg.types.types import Histogram


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all their errors together, in whatever order they come."""
    zeros, counts = 0, Counter[int]()
    for histogram in histograms:
        zeros += histogram.zeros
        counts.update(dict(zip(histogram.bins, histogram.counts, strict=True)))
    bins = sorted(counts)
    return Histogram(zeros, bins, [counts[bin] for bin in bins])
