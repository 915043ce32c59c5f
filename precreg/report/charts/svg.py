"""SVG as text: elements whose attributes and words are escaped, so that no name in a record becomes markup.

Logarithmic scales: places of numbers on a chart, ticks that can be read, and the strength of a colour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple


class DrawingBox(NamedTuple):
    """The size of a drawing, and the margins around what is drawn, in the SVG's own units."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def east(self) -> float:
        """Where the drawn part ends."""
        return self.width - self.right

    @property
    def south(self) -> float:
        """Where the drawn part ends below."""
        return self.height - self.bottom


def svg_element(name: str, *children: str, **attributes: str | float | None) -> str:
    """Return an element. Children are markup; attributes are escaped, None leaves one out.

    `_` in an attribute's name stands for -, and one at its end keeps it apart from Python's words.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_written(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def _written(value: str | float | None) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else escape(str(value))


def svg_text(words: str, x: float, y: float, anchor: str = "middle", class_: str | None = None) -> str:
    """Write words at a place; anchor is start, middle or end."""
    return svg_element("text", escape(words), x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def svg_line(x1: float, y1: float, x2: float, y2: float, class_: str = "axis", *inside: str) -> str:
    """Draw a line; `inside` is markup such as a title."""
    return svg_element("line", *inside, class_=class_, x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2))


def svg_title(words: str) -> str:
    """Return what pointing at an element shows."""
    return svg_element("title", escape(words))


def svg_rectangle(
    x: float, y: float, width: float, height: float, class_: str, said: str = "", opacity: float | None = None
) -> str:
    """Draw a filled rectangle, with the words that pointing at it shows."""
    inside = [svg_title(said)] if said else []
    place = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return svg_element("rect", *inside, class_=class_, **place, fill_opacity=opacity)


def svg_drawing(box: DrawingBox, said: str, *parts: str) -> str:
    """Return the whole drawing; `said` is what it shows, in words, for those who do not see it."""
    return svg_element("svg", *parts, viewBox=f"0 0 {box.width:g} {box.height:g}", role="img", aria_label=said)


MAX_LABELS = 7

MAX_COLOURED_DECADES = 6

FAINTEST = 0.1


MAX_LOG10 = log10(sys.float_info.max)


def number_of_log10(logarithm: float) -> float:
    """Return the number of a decimal logarithm; the largest float64 for those that round to beyond it."""
    return 10**logarithm if logarithm < MAX_LOG10 else sys.float_info.max


class ScaleTick(NamedTuple):
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

    def ticks(self) -> list[ScaleTick]:
        """Return powers of ten, at most MOST_LABELS of them; 1, 2 and 5 times them where the scale spans few."""
        every = max(1, ceil((self.high - self.low) / MAX_LABELS))
        digits = (1, 2, 5) if self.high - self.low <= 2 else (1,)
        decades = range(floor(self.low / every) * every, floor(self.high) + 1, every)
        ticks = (ScaleTick(log10(digit) + decade, _number(digit, decade)) for decade in decades for digit in digits)
        return [tick for tick in ticks if self.low <= tick.at <= self.high]


def _number(digit: int, decade: int) -> str:
    """Write digit * 10**decade: plainly near 1, else as 2e-5, which no float needs to hold."""
    return f"{digit * 10.0**decade:g}" if -3 <= decade <= 3 else f"{digit}e{decade}"


def log_range(logarithms: Sequence[float]) -> tuple[float, float]:
    """Return a range that holds all of them, and that is a decade wide at least."""
    low, high = min(logarithms), max(logarithms)
    missing = max(0.0, 1.0 - (high - low)) / 2
    return low - missing, high + missing


class ColourScale(NamedTuple):
    """Strengths of a colour by size: the strongest for `high`, the faintest for `low` and below, as logarithms."""

    low: float
    high: float

    def strength(self, value: float) -> float:
        """Return the opacity, 0 to 1, of a value; 0 has none."""
        if value <= 0:
            return 0.0
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(FAINTEST + (1 - FAINTEST) * min(max(share, 0.0), 1.0), 2)


def colour_scale(values: Iterable[float]) -> ColourScale | None:
    """Return colours for values: from the least above 0 to the largest, one decade at least and six at most.

    None where no value is above 0.
    """
    logarithms = [log10(value) for value in values if value > 0]
    if not logarithms:
        return None
    high = max(logarithms)
    return ColourScale(max(high - MAX_COLOURED_DECADES, min(min(logarithms), high - 1)), high)
