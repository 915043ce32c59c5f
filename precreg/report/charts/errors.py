"""The axis of error sizes that histogram and cumulative curve share: zeros apart, all others by their logarithm."""

from __future__ import annotations

import struct
from collections import Counter
from math import log10
from typing import NamedTuple

from precreg.report.charts.scale import LARGEST, LogScale, around
from precreg.report.charts.svg import Box, line, text
from precreg.types.types import Histogram

BIN_SHIFT = 50
"""Of the 52 bits of a float64's fraction, the number of a bin has the upper two: see types.Histogram."""


BOX = Box(480, 250, 58, 14, 14, 46)

MOST_BARS = 120

ZERO_WIDTH = 26

ZERO_GAP = 12


_SMALLEST = log10(5e-324)


class Bar(NamedTuple):
    """A bin of errors between two sizes, given as decimal logarithms, and how many there are."""

    low: float
    high: float
    elements: int


def edge(bin: int, shift: int = BIN_SHIFT) -> float:
    """Return the decimal logarithm of the lower end of a bin, whose number is the upper bits of a float64."""
    (value,) = struct.unpack("<d", struct.pack("<Q", max(bin, 0) << shift))
    return _SMALLEST if value == 0 else min(log10(value), LARGEST) if value < float("inf") else LARGEST


def bars(histogram: Histogram) -> list[Bar]:
    """Return the errors above 0 by size; neighbouring bins are put together until at most MOST_BARS places are left."""
    if not histogram.bins:
        return []
    halvings = 0
    while (histogram.bins[-1] >> halvings) - (histogram.bins[0] >> halvings) >= MOST_BARS:
        halvings += 1
    counts = Counter[int]()
    for bin, count in zip(histogram.bins, histogram.counts, strict=True):
        counts[bin >> halvings] += count
    shift = BIN_SHIFT + halvings
    return [Bar(edge(bin, shift), edge(bin + 1, shift), counts[bin]) for bin in sorted(counts)]


def across(found: list[Bar], zeros: int) -> LogScale:
    """Return the scale of sizes, which leaves room for the zeros where there are any."""
    start = BOX.left + (ZERO_WIDTH + ZERO_GAP if zeros else 0)
    return LogScale(*span(found), start, BOX.east)


def span(found: list[Bar]) -> tuple[float, float]:
    """Return the decimal logarithms between which the errors lie, a decade at least."""
    return around([found[0].low, found[-1].high] if found else [-1.0, 0.0])


def axis(scale: LogScale, zeros: int) -> list[str]:
    """Draw the axis of sizes below the chart, with a place of its own for zero."""
    parts = [line(scale.start, BOX.south, scale.end, BOX.south, "edge")]
    for tick in scale.ticks():
        x = scale.at(tick.at)
        parts += [line(x, BOX.south, x, BOX.south + 4, "edge"), text(tick.text, x, BOX.south + 16)]
    if zeros:
        middle = BOX.left + ZERO_WIDTH / 2
        parts += [
            line(BOX.left, BOX.south, BOX.left + ZERO_WIDTH, BOX.south, "edge"),
            text("0", middle, BOX.south + 16),
        ]
    words = "|actual − reference|, in the output's unit"
    return [*parts, text(words, (scale.start + scale.end) / 2, BOX.height - 8)]
