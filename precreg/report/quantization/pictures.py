"""How do pictures show a quantization: SQNR by layer, the error by depth, and the codes under a histogram?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, log10

from precreg.report.charts import (
    DrawingBox,
    LogScale,
    log_range,
    svg_drawing,
    svg_element,
    svg_line,
    svg_text,
    svg_title,
)
from precreg.types import CodeHistogram, LayerQuantization, format_number

# More bars than that would be a column of text without end; the table has all layers.
MAX_BARS = 40
_BAR, _LETTER, _LONGEST = 18.0, 6.6, 38
_BARS_WIDTH = 760.0
_DEPTH_BOX = DrawingBox(960, 300, 64, 16, 16, 56)
_HISTOGRAM_BOX = DrawingBox(460, 200, 16, 16, 12, 44)


def draw_sqnr_bars(rows: Sequence[LayerQuantization], label: str) -> str:
    """Draw a bar of SQNR for each layer, the shortest first."""
    known = sorted((row for row in rows if _sqnr(row) is not None), key=lambda row: _sqnr(row) or 0.0)[:MAX_BARS]
    longest = max((len(_short(row.layer)) for row in known), default=0)
    box = DrawingBox(_BARS_WIDTH, 12 + _BAR * len(known) + 22, 14 + _LETTER * longest, 70, 8, 26)
    high = max((_sqnr(row) or 0.0 for row in known), default=1.0)
    low = min(0.0, min((_sqnr(row) or 0.0 for row in known), default=0.0))
    parts: list[str] = []
    for place, row in enumerate(known):
        sqnr = _sqnr(row) or 0.0
        y = box.top + place * _BAR
        start, end = sorted((_across(0.0, low, high, box), _across(sqnr, low, high, box)))
        tooltip = svg_title(f"{row.layer}: {sqnr:.1f} dB")
        bar = {"x": start, "y": y + 3, "width": max(end - start, 1.0), "height": _BAR - 6}
        parts += [
            svg_text(_short(row.layer), box.left - 8, y + _BAR / 2 + 4, "end"),
            svg_element("rect", tooltip, class_="sqnr", **bar),
            svg_text(f"{sqnr:.1f}", end + 6, y + _BAR / 2 + 4, "start", "value"),
        ]
    parts.append(svg_text(label, (box.left + box.east) / 2, box.height - 6))
    worst = f"; {known[0].layer} has the least: {_sqnr(known[0]):.1f} dB" if known else ""
    return svg_drawing(box, f"SQNR of {len(known):,} layers{worst}", *parts)


def _sqnr(row: LayerQuantization) -> float | None:
    if row.sqnr_db is not None or row.both_alone is not None:
        return row.sqnr_db
    return None if row.weight is None else row.weight.figures.sqnr_db


def _across(sqnr: float, low: float, high: float, box: DrawingBox) -> float:
    return box.left + (sqnr - low) / ((high - low) or 1.0) * (box.east - box.left)


def _short(name: str) -> str:
    # The end of a module's path says more than its beginning.
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"


def draw_depth(rows: Sequence[LayerQuantization]) -> str:
    """Draw the error of the model by depth: all layers up to each quantized, and each layer alone."""
    box = _DEPTH_BOX
    accumulated = [_error(None if row.accumulated is None else row.accumulated.relative) for row in rows]
    alone = [_error(None if row.both_alone is None else row.both_alone.relative) for row in rows]
    logarithms = [log10(each) for each in (*accumulated, *alone) if each]
    up = LogScale(*log_range(logarithms or [0.0]), box.south - 8, box.top)
    step = (box.east - box.left) / max(len(rows), 1)
    places = [box.left + (place + 0.5) * step for place in range(len(rows))]
    parts = [*_depth_axes(rows, up)]
    points = [f"{x:.1f},{up.at(log10(each)):.1f}" for x, each in zip(places, accumulated, strict=True) if each]
    if len(points) > 1:
        parts.append(svg_element("polyline", class_="curve curve-0", points=" ".join(points)))
    for x, each, row in zip(places, alone, rows, strict=True):
        if each:
            tooltip = svg_title(f"{row.layer}: {format_number(each, 3)} alone")
            parts.append(svg_element("circle", tooltip, class_="own", cx=x, cy=up.at(log10(each)), r=3.0))
    for x, each, row in zip(places, accumulated, rows, strict=True):
        if each:
            tooltip = svg_title(f"up to {row.layer}: {format_number(each, 3)}")
            parts.append(svg_element("circle", tooltip, class_="end curve-0", cx=x, cy=up.at(log10(each)), r=3.0))
    last = next((each for each in reversed(accumulated) if each), None)
    words = "no error" if last is None else f"{format_number(last, 3)} with all of them"
    return svg_drawing(box, f"error of the model by depth over {len(rows):,} layers: {words}", *parts)


def _error(relative: float | None) -> float | None:
    return relative if relative is not None and isfinite(relative) and relative > 0.0 else None


def _depth_axes(rows: Sequence[LayerQuantization], up: LogScale) -> Iterator[str]:
    box = _DEPTH_BOX
    for tick in up.ticks():
        y = up.at(tick.at)
        yield svg_line(box.left, y, box.east, y)
        yield svg_text(tick.text, box.left - 6, y + 4, "end")
    yield svg_line(box.left, box.south, box.east, box.south, "edge")
    if rows:
        yield svg_text(_short(rows[0].layer), box.left, box.south + 18, "start")
    if len(rows) > 1:
        yield svg_text(_short(rows[-1].layer), box.east, box.south + 18, "end")
    words = "layers in the order of execution; upward relative error of the model's results"
    yield svg_text(words, (box.left + box.east) / 2, box.height - 14)


def draw_codes(histogram: CodeHistogram, name: str) -> str:
    """Draw the counts of an array's values on a logarithmic axis, and a tick for each code below."""
    box = _HISTOGRAM_BOX
    most = max(histogram.counts, default=1)
    width = (box.east - box.left) / max(len(histogram.counts), 1)
    top = log10(most + 1) or 1.0
    parts = []
    for place, count in enumerate(histogram.counts):
        if count:
            height = (box.south - box.top) * log10(count + 1) / top
            bar = {"x": box.left + place * width, "y": box.south - height, "width": max(width - 0.5, 0.5)}
            parts.append(svg_element("rect", svg_title(f"{count:,} values"), class_="sqnr", **bar, height=height))
    span = histogram.high - histogram.low
    for code in histogram.codes:
        x = box.left + (code - histogram.low) / span * (box.east - box.left)
        parts.append(svg_line(x, box.south + 1, x, box.south + 7, "edge"))
    parts += [
        svg_text(format_number(histogram.low, 3), box.left, box.south + 20, "start"),
        svg_text(format_number(histogram.high, 3), box.east, box.south + 20, "end"),
        svg_text(_short(name), (box.left + box.east) / 2, box.height - 6, class_="value"),
    ]
    codes = f", {len(histogram.codes):,} codes between them" if histogram.codes else ""
    ends = f"{format_number(histogram.low, 3)} to {format_number(histogram.high, 3)}"
    return svg_drawing(box, f"histogram of {name} from {ends}{codes}", *parts)
