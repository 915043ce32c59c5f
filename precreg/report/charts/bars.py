"""The four figures of a comparison side by side: largest and mean, absolute and relative error, on a log axis."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log10

from precreg.report.charts.scale import LogScale
from precreg.report.charts.svg import Box, drawing, line, rectangle, text
from precreg.types.numbers import figure

FIGURES = {
    "max_abs_error": "largest absolute",
    "mean_abs_error": "mean absolute",
    "max_rel_error": "largest relative",
    "mean_rel_error": "mean relative",
}

BOX = Box(480, 250, 116, 74, 14, 46)
"""The right margin holds the number of a bar that reaches the end."""


_STEP = (BOX.south - BOX.top) / len(FIGURES)

_THICKNESS = 26


def draw(metrics: Mapping[str, float]) -> str:
    """Draw max and mean of |a - r| (in the output's unit) and of |a - r| / |r| (a ratio).

    A figure of 0 has no bar; one that is not defined on the data says so.
    """
    across = scale(metrics)
    parts = []
    for tick in across.ticks():
        x = across.at(tick.at)
        parts += [line(x, BOX.top, x, BOX.south), text(tick.text, x, BOX.south + 16)]
    for place, name in enumerate(FIGURES):
        parts += _row(place, name, metrics.get(name), across)
    words = "absolute: in the output's unit; relative: |actual − reference| / |reference|"
    parts += [line(BOX.left, BOX.top, BOX.left, BOX.south, "edge"), text(words, BOX.width / 2, BOX.height - 8)]
    return drawing(BOX, description(metrics), *parts)


def scale(metrics: Mapping[str, float]) -> LogScale:
    """Return a scale of all four figures that begins at a power of ten below every figure, so that each has a bar."""
    known = [log10(metrics[name]) for name in FIGURES if metrics.get(name, 0.0) > 0] or [0.0]
    return LogScale(floor(min(known)) - 1.0, max(known), BOX.left, BOX.east)


def _row(place: int, name: str, value: float | None, across: LogScale) -> list[str]:
    middle = BOX.top + (place + 0.5) * _STEP
    label = text(FIGURES[name], BOX.left - 8, middle + 4, "end")
    if value is None:
        return [label, text("not defined", BOX.left + 8, middle + 4, "start")]
    if value <= 0:
        return [label, text("0", BOX.left + 8, middle + 4, "start", "value")]
    end = across.at(log10(value))
    kind = "bar-then" if "rel" in name else "bar-now"
    bar = rectangle(BOX.left, middle - _THICKNESS / 2, end - BOX.left, _THICKNESS, kind, f"{name} {value!r}")
    return [label, bar, text(figure(value), end + 6, middle + 4, "start", "value")]


def description(metrics: Mapping[str, float]) -> str:
    """Say in a sentence what the chart shows."""
    shown = (f"{label} {metrics[name]:.4g}" for name, label in FIGURES.items() if name in metrics)
    return "errors: " + (", ".join(shown) or "none is defined")
