"""Which sizes do the values have, in powers of two, and which of them does a format hold?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from typing import NamedTuple

from precreg.arithmetic import Format
from precreg.report.charts.svg import DrawingBox, svg_drawing, svg_line, svg_rectangle, svg_text

MAX_BINS = 50
_BOX = DrawingBox(760, 190, 56, 16, 34, 40)


class BinadeCounts(NamedTuple):
    """Hold counts of values by floor(log2(size)): `counts[i]` are those with the exponent `least` + i."""

    least: int
    counts: Sequence[int]


class BinadeBin(NamedTuple):
    """Hold one bar: the first and the last exponent, and the number of values."""

    first: int
    last: int
    number: int


def binade_bins(found: BinadeCounts, first: int, last: int) -> list[BinadeBin]:
    """Return at most MAX_BINS bars of equal width from the exponent `first` to `last`; none is lost."""
    width = -(-(last - first + 1) // MAX_BINS)
    bins = []
    for start in range(first, last + 1, width):
        places = range(max(start - found.least, 0), min(start + width - found.least, len(found.counts)))
        bins.append(BinadeBin(start, start + width - 1, sum(found.counts[place] for place in places)))
    return bins


def draw_binades(found: BinadeCounts, format: Format, words: str) -> str:
    """Draw a histogram over powers of two, with the smallest subnormal, the smallest normal and the largest number."""
    limits = _limits(format)
    known = [found.least + place for place, count in enumerate(found.counts) if count]
    ends = [*known, *(int(each) for _, each in limits)]
    # The range of bfloat16 and float32 is five times that of the values, which would shrink to a few bars.
    if known and format.max_exponent - format.min_exponent > 2 * MAX_BINS:
        ends = known
    first, last = min(ends) - 1, max(ends) + 1
    bins = binade_bins(found, first, last)
    parts = [*_bars(bins, first, last, format), *_axis(first, last), *_range(limits, first, last)]
    return svg_drawing(_BOX, describe_binades(found, format, words), *parts)


def describe_binades(found: BinadeCounts, format: Format, words: str) -> str:
    """Write one sentence: the number of values, their range, and the range of the format."""
    known = [found.least + place for place, count in enumerate(found.counts) if count]
    sizes = f"{sum(found.counts):,} values from 2^{min(known)} to 2^{max(known) + 1}" if known else "no nonzero value"
    limits = ", ".join(f"{name} 2^{exponent:g}" for name, exponent in _limits(format))
    return f"histogram of {words}: {sizes}; {format.name}: {limits}"


def _limits(format: Format) -> list[tuple[str, float]]:
    found = [("smallest normal", float(format.min_exponent)), ("largest", round(log2(format.largest), 2))]
    if format.subnormals:
        found.insert(0, ("smallest subnormal", float(format.min_exponent - format.precision + 1)))
    return found


def _x(exponent: float, first: int, last: int) -> float:
    return _BOX.left + (exponent - first) / (last + 1 - first) * (_BOX.east - _BOX.left)


def _bars(bins: Sequence[BinadeBin], first: int, last: int, format: Format) -> Iterator[str]:
    most, total = max((each.number for each in bins), default=0), sum(each.number for each in bins)
    lowest = format.min_exponent - (format.precision - 1 if format.subnormals else 0)
    for each in bins:
        if each.number:
            x, east = _x(each.first, first, last), _x(min(each.last, last) + 1, first, last)
            height = max(each.number / most * (_BOX.south - _BOX.top), 1.0)
            sizes = f"2^{each.first} to 2^{each.last + 1}"
            tooltip = f"{sizes}: {each.number:,} of {total:,} ({each.number / total:.2%})"
            # Below the smallest subnormal the upper half of a binade still rounds up. The exact share is in the table.
            kind = "bin lost" if each.last < lowest or each.first > format.max_exponent else "bin"
            kind = "bin subnormal" if kind == "bin" and each.last < format.min_exponent else kind
            yield svg_rectangle(x, _BOX.south - height, east - x, height, kind, tooltip)


def _axis(first: int, last: int) -> Iterator[str]:
    yield svg_line(_BOX.left, _BOX.south, _BOX.east, _BOX.south, "edge")
    every = max(1, (last - first) // 10)
    for exponent in range(first - first % every, last + 2, every):
        if first <= exponent <= last + 1:
            x = _x(exponent, first, last)
            yield svg_line(x, _BOX.south, x, _BOX.south + 4, "edge")
            yield svg_text(f"2^{exponent}", x, _BOX.south + 17)


def _range(limits: Sequence[tuple[str, float]], first: int, last: int) -> Iterator[str]:
    for place, (name, exponent) in enumerate(limits):
        if first <= exponent <= last + 1:
            x = _x(exponent, first, last)
            yield svg_line(x, _BOX.top - 2, x, _BOX.south, "level")
            # Each label has a row of its own, because the first two limits may touch.
            anchor, gap = ("end", -4) if exponent > (first + last) / 2 else ("start", 4)
            yield svg_text(name, x + gap, 10 + 11.0 * (place % 2), anchor)
