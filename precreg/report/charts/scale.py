"""Logarithmic scales: places of numbers on a chart, ticks that can be read, and the strength of a colour."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

MOST_LABELS = 7

COLOURED_DECADES = 6

FAINTEST = 0.1


LARGEST = log10(sys.float_info.max)


def size(logarithm: float) -> float:
    """Return the number of a decimal logarithm; the largest float64 for those that round to beyond it."""
    return 10**logarithm if logarithm < LARGEST else sys.float_info.max


class Tick(NamedTuple):
    """A place on an axis, as a decimal logarithm, and its number."""

    at: float
    text: str


class LogScale(NamedTuple):
    """Decimal logarithms from `low` to `high` on a line of the drawing from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, logarithm: float) -> float:
        """Return the place of a number given as its decimal logarithm; beyond the ends, the nearer end."""
        share = (logarithm - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[Tick]:
        """Return powers of ten, at most MOST_LABELS of them; 1, 2 and 5 times them where the scale spans few."""
        every = max(1, ceil((self.high - self.low) / MOST_LABELS))
        digits = (1, 2, 5) if self.high - self.low <= 2 else (1,)
        decades = range(floor(self.low / every) * every, floor(self.high) + 1, every)
        ticks = (Tick(log10(digit) + decade, _number(digit, decade)) for decade in decades for digit in digits)
        return [tick for tick in ticks if self.low <= tick.at <= self.high]


def _number(digit: int, decade: int) -> str:
    """Write digit * 10**decade: plainly near 1, else as 2e-5, which no float needs to hold."""
    return f"{digit * 10.0**decade:g}" if -3 <= decade <= 3 else f"{digit}e{decade}"


def around(logarithms: Sequence[float]) -> tuple[float, float]:
    """Return a range that holds all of them, and that is a decade wide at least."""
    low, high = min(logarithms), max(logarithms)
    missing = max(0.0, 1.0 - (high - low)) / 2
    return low - missing, high + missing


class Colours(NamedTuple):
    """Strengths of a colour by size: the strongest for `high`, the faintest for `low` and below, as logarithms."""

    low: float
    high: float

    def strength(self, value: float) -> float:
        """Return the opacity, 0 to 1, of a value; 0 has none."""
        if value <= 0:
            return 0.0
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(FAINTEST + (1 - FAINTEST) * min(max(share, 0.0), 1.0), 2)


def colours(values: Iterable[float]) -> Colours | None:
    """Return colours for values: from the least above 0 to the largest, one decade at least and six at most.

    None where no value is above 0.
    """
    logarithms = [log10(value) for value in values if value > 0]
    if not logarithms:
        return None
    high = max(logarithms)
    return Colours(max(high - COLOURED_DECADES, min(min(logarithms), high - 1)), high)
