"""Write SVG as text, and place numbers on logarithmic axes.

Attributes and texts are escaped, so no name in a record becomes markup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple


class DrawingBox(NamedTuple):
    """Hold the size of a drawing and the margins around the plot, in the SVG's units."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def east(self) -> float:
        """Return the right end of the plot."""
        return self.width - self.right

    @property
    def south(self) -> float:
        """Return the lower end of the plot."""
        return self.height - self.bottom


def svg_element(name: str, *children: str, **attributes: str | float | None) -> str:
    """Return an element. Children are markup; attributes are escaped, None leaves one out.

    `_` in the name of an attribute becomes -, and one at its end avoids a keyword of Python.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_written(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def _written(value: str | float | None) -> str:
    # 2 digits after the point are below a pixel, and keep the page small.
    return f"{round(value, 2):g}" if isinstance(value, float) else escape(str(value))


def svg_text(words: str, x: float, y: float, anchor: str = "middle", class_: str | None = None) -> str:
    """Write a text at a place; `anchor` is start, middle or end."""
    return svg_element("text", escape(words), x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def svg_line(x1: float, y1: float, x2: float, y2: float, class_: str = "axis", *inside: str) -> str:
    """Draw a line; `inside` is markup such as a title."""
    return svg_element("line", *inside, class_=class_, x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2))


def svg_title(words: str) -> str:
    """Return the tooltip of an element."""
    return svg_element("title", escape(words))


def svg_rectangle(
    x: float, y: float, width: float, height: float, class_: str, tooltip: str = "", opacity: float | None = None
) -> str:
    """Draw a filled rectangle with its tooltip."""
    inside = [svg_title(tooltip)] if tooltip else []
    place = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return svg_element("rect", *inside, class_=class_, **place, fill_opacity=opacity)


def svg_drawing(box: DrawingBox, description: str, *parts: str) -> str:
    """Return the whole drawing; `description` is its text for readers who do not see it."""
    # viewBox without width and height: the page's style scales the drawing to its column. A screen reader reads
    # aria-label.
    return svg_element("svg", *parts, viewBox=f"0 0 {box.width:g} {box.height:g}", role="img", aria_label=description)


# More numbers would touch each other at the width of a chart.
MAX_LABELS = 7
# With more decades in one colour, neighbouring sizes look the same.
MAX_COLOURED_DECADES = 6
# The smallest error above 0 must differ from the background.
FAINTEST = 0.1
MAX_LOG10 = log10(sys.float_info.max)


def number_of_log10(logarithm: float) -> float:
    """Return the number of a decimal logarithm; the largest float64 for those that round to beyond it."""
    return 10**logarithm if logarithm < MAX_LOG10 else sys.float_info.max


class ScaleTick(NamedTuple):
    """Hold a place on an axis, as a decimal logarithm, and its number."""

    at: float
    text: str


class LogScale(NamedTuple):
    """Map decimal logarithms from `low` to `high` to a line of the drawing from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, logarithm: float) -> float:
        """Return the place of a decimal logarithm, clipped to the ends of the line."""
        # Clipped, because a mark outside of the drawing would cover the text around it.
        share = (logarithm - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[ScaleTick]:
        """Return powers of ten, at most MAX_LABELS of them; 1, 2 and 5 times them if the scale spans few."""
        # Whole decades between labels: powers of ten are the numbers that a reader compares.
        every = max(1, ceil((self.high - self.low) / MAX_LABELS))
        # Over 2 decades or less, powers of ten alone would leave an axis with one or two numbers.
        digits = (1, 2, 5) if self.high - self.low <= 2 else (1,)
        decades = range(floor(self.low / every) * every, floor(self.high) + 1, every)
        ticks = (ScaleTick(log10(digit) + decade, _number(digit, decade)) for decade in decades for digit in digits)
        return [tick for tick in ticks if self.low <= tick.at <= self.high]


def _number(digit: int, decade: int) -> str:
    """Write digit * 10**decade: plainly near 1, else as 2e-5, without making a float that could overflow."""
    # From text beyond that: 10.0**309 overflows, and an axis may end there.
    return f"{digit * 10.0**decade:g}" if -3 <= decade <= 3 else f"{digit}e{decade}"


def log_range(logarithms: Sequence[float]) -> tuple[float, float]:
    """Return a range that contains all of them, and spans at least one decade."""
    low, high = min(logarithms), max(logarithms)
    # A single value would give an axis of length 0, and a division by it.
    missing = max(0.0, 1.0 - (high - low)) / 2
    return low - missing, high + missing


class ColourScale(NamedTuple):
    """Map sizes to strengths of a colour: the strongest for `high`, the faintest for `low` and below."""

    low: float
    high: float

    def strength(self, value: float) -> float:
        """Return the opacity of a value, 0 to 1; 0 for the value 0."""
        if value <= 0:
            return 0.0
        # Logarithmic, because errors of one output spread over decades: a linear scale would show the largest alone.
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(FAINTEST + (1 - FAINTEST) * min(max(share, 0.0), 1.0), 2)


def colour_scale(values: Iterable[float]) -> ColourScale | None:
    """Return colours for values, from the smallest above 0 to the largest, over one to six decades.

    None if no value is above 0.
    """
    logarithms = [log10(value) for value in values if value > 0]
    if not logarithms:
        return None
    high = max(logarithms)
    return ColourScale(max(high - MAX_COLOURED_DECADES, min(min(logarithms), high - 1)), high)
