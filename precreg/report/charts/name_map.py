"""Which layers have large errors? A heat map of names by names: layers by metrics, or layers by training steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, isnan
from typing import NamedTuple

from precreg.report.charts.figures import draw_legend
from precreg.report.charts.svg import (
    ColourScale,
    DrawingBox,
    colour_scale,
    svg_drawing,
    svg_rectangle,
    svg_text,
)
from precreg.types import format_number

# More rows would make cells flatter than their labels, and more columns thinner than a line.
MAX_MAP_ROWS = 60
MAX_MAP_COLUMNS = 100
# A cell with a number in it needs room for "1.23e-05".
MAX_NUMBERED_COLUMNS = 8
_WIDTH, _ROW, _LETTER, _LONGEST = 760.0, 18.0, 6.6, 38
# Text on the strongest colour would have too little contrast.
_BEHIND_TEXT = 0.5


class NameMap(NamedTuple):
    """Hold the values of a heat map: one row for each of `rows`, one value for each of `columns`; None if not known.

    `unit` describes the values. With `own_scales` each column has colours of its own, because its unit differs.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str
    own_scales: bool = False


def draw_name_map(found: NameMap) -> str:
    """Draw a heat map; neighbouring rows or columns share a cell with their largest value if there are too many."""
    joined = _joined(found)
    columns = list(zip(*joined.values, strict=True)) if joined.rows else []
    common = colour_scale(_sizes(value for row in joined.values for value in row))
    scales = [colour_scale(_sizes(column)) if found.own_scales else common for column in columns]
    longest = max((len(_short(name)) for name in joined.rows), default=0)
    bottom = 24.0 if found.own_scales else 46.0
    box = DrawingBox(_WIDTH, 26 + _ROW * len(joined.rows) + bottom, 14 + _LETTER * longest, 14, 26, bottom)
    parts = [*_headings(joined, box), *_name_cells(joined, scales, box)]
    # Columns with colours of their own have no common sizes. Their cells have the numbers.
    legend = [] if found.own_scales else draw_legend(common, box)
    return svg_drawing(box, describe_name_map(found), *parts, *legend)


def describe_name_map(found: NameMap) -> str:
    """Write one sentence: where the largest value is, in each column if they have different units."""
    names = list(found.columns) if found.own_scales else [""]
    columns = list(zip(*found.values, strict=True)) if found.rows else []
    described = []
    for place, name in enumerate(names if columns else []):
        cells = columns[place : place + 1] if found.own_scales else columns
        known = [
            (abs(value), -row, -column)
            for column, values in enumerate(cells)
            for row, value in enumerate(values)
            if value is not None and not isnan(value)
        ]
        if known:
            largest, row, column = max(known)
            where = found.rows[-row] + ("" if found.own_scales else f", {found.columns[-column]}")
            described.append(f"{name or 'largest'}: {format_number(largest, 3)} at {where}")
    return f"heat map of {found.unit}: " + ("; ".join(described) or "no value is known")


def _sizes(values: Sequence[float | None] | Iterator[float | None]) -> Iterator[float]:
    return (abs(value) for value in values if value is not None and isfinite(value))


def _joined(found: NameMap) -> NameMap:
    rows, columns = _groups(len(found.rows), MAX_MAP_ROWS), _groups(len(found.columns), MAX_MAP_COLUMNS)
    values = [
        [_largest([found.values[row][column] for row in down for column in across]) for across in columns]
        for down in rows
    ]
    return found._replace(
        rows=[_joined_name(found.rows, group) for group in rows],
        columns=[_joined_name(found.columns, group) for group in columns],
        values=values,
    )


def _groups(length: int, most: int) -> list[range]:
    count = min(length, most)
    return [range(at * length // count, (at + 1) * length // count) for at in range(count)]


def _joined_name(names: Sequence[str], group: range) -> str:
    first, last = names[group[0]], names[group[-1]]
    return first if len(group) == 1 else f"{first} to {last}"


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not isnan(value)]
    return max(known, key=abs, default=None)


def _short(name: str) -> str:
    # The end of a module's path says more than its beginning.
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"


def _headings(found: NameMap, box: DrawingBox) -> Iterator[str]:
    width = (box.east - box.left) / max(len(found.columns), 1)
    room = max(map(len, found.columns), default=0) * _LETTER + 8
    every = max(1, -(-room // width)) if width else 1
    for place, name in enumerate(found.columns):
        if place % every == 0:
            # A label wider than its cell starts there. In the middle it would touch the one before.
            anchor, x = ("middle", 0.5) if room <= width else ("start", 0.0)
            yield svg_text(name, box.left + (place + x) * width, box.top - 8, anchor)
    for place, name in enumerate(found.rows):
        yield svg_text(_short(name), box.left - 8, box.top + (place + 0.5) * _ROW + 4, "end")


def _name_cells(found: NameMap, scales: Sequence[ColourScale | None], box: DrawingBox) -> Iterator[str]:
    width = (box.east - box.left) / max(len(found.columns), 1)
    numbered = len(found.columns) <= MAX_NUMBERED_COLUMNS
    for row, (name, values) in enumerate(zip(found.rows, found.values, strict=True)):
        for column, (value, scale) in enumerate(zip(values, scales, strict=True)):
            x, y = box.left + column * width, box.top + row * _ROW
            written = "not known" if value is None else format_number(value, 3)
            tooltip = f"{name}, {found.columns[column]}: {written}"
            kind, opacity = _shade(value, scale)
            strength = opacity if opacity is None or not numbered else opacity * _BEHIND_TEXT
            yield svg_rectangle(x, y, width, _ROW, kind, tooltip, strength)
            if numbered and value is not None:
                yield svg_text(written, x + width / 2, y + _ROW / 2 + 4, class_="value")


def _shade(value: float | None, scale: ColourScale | None) -> tuple[str, float | None]:
    if value is None or isnan(value):
        return "heat-none", None
    # An infinite error is stronger than every colour of the scale.
    if not isfinite(value):
        return "heat-infinite", 1.0
    strength = scale.strength(abs(value)) if scale else 0.0
    return ("heat", strength) if strength else ("heat-ground", None)
