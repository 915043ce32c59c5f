"""SVG as text: elements whose attributes and words are escaped, so that no name in a record becomes markup."""

from __future__ import annotations

from html import escape
from typing import NamedTuple


class Box(NamedTuple):
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


def element(name: str, *children: str, **attributes: str | float | None) -> str:
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


def text(words: str, x: float, y: float, anchor: str = "middle", class_: str | None = None) -> str:
    """Write words at a place; anchor is start, middle or end."""
    return element("text", escape(words), x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "axis", *inside: str) -> str:
    """Draw a line; `inside` is markup such as a title."""
    return element("line", *inside, class_=class_, x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2))


def title(words: str) -> str:
    """Return what pointing at an element shows."""
    return element("title", escape(words))


def rectangle(
    x: float, y: float, width: float, height: float, class_: str, said: str = "", opacity: float | None = None
) -> str:
    """Draw a filled rectangle, with the words that pointing at it shows."""
    inside = [title(said)] if said else []
    place = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return element("rect", *inside, class_=class_, **place, fill_opacity=opacity)


def drawing(box: Box, said: str, *parts: str) -> str:
    """Return the whole drawing; `said` is what it shows, in words, for those who do not see it."""
    return element("svg", *parts, viewBox=f"0 0 {box.width:g} {box.height:g}", role="img", aria_label=said)
