"""The share of elements with at most a given error: a curve over the same axis as the histogram."""

from __future__ import annotations

from collections.abc import Mapping
from math import log10

from precreg.report.charts.errors import BOX, ZERO_WIDTH, Bar, across, axis, bars
from precreg.report.charts.scale import LogScale
from precreg.report.charts.svg import drawing, element, line, text
from precreg.types.numbers import figure
from precreg.types.types import Histogram

MARKED = {"p50_abs_error": 0.5, "p90_abs_error": 0.9, "p99_abs_error": 0.99}
"""The percentiles that are named on the curve."""


LABEL_WIDTH = 96
"""What the name and number of a percentile take, at most."""


def curve(found: list[Bar], zeros: int) -> list[tuple[float, float]]:
    """Return the corners: the logarithm of an error, and the share of elements whose error is at most that."""
    total = zeros + sum(bar.elements for bar in found)
    below, corners = zeros, []
    for bar in found:
        corners.append((bar.low, below / total))
        below += bar.elements
        corners.append((bar.high, below / total))
    return list(dict.fromkeys(corners))


def draw(histogram: Histogram, metrics: Mapping[str, float]) -> str:
    """Draw the curve of |actual - reference| with its percentiles; the histogram holds one element at least."""
    found, zeros = bars(histogram), histogram.zeros
    scale = across(found, zeros)
    total = zeros + sum(histogram.counts)
    corners = [(scale.at(log), _y(share)) for log, share in curve(found, zeros)]
    ends = [(scale.start, _y(zeros / total)), *corners, (scale.end, _y(1.0))]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    exact = [line(BOX.left, _y(zeros / total), BOX.left + ZERO_WIDTH, _y(zeros / total), "line-zero")] if zeros else []
    return drawing(
        BOX,
        description(histogram, metrics),
        *_upward(),
        *exact,
        element("polyline", class_="line-now", points=points),
        *_marks(metrics, scale),
        *axis(scale, zeros),
    )


def _y(share: float) -> float:
    return BOX.south - share * (BOX.south - BOX.top)


def _upward() -> list[str]:
    parts = []
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent / 100)
        parts += [line(BOX.left, y, BOX.east, y), text(f"{percent} %", BOX.left - 6, y + 4, "end")]
    return parts


def _marks(metrics: Mapping[str, float], scale: LogScale) -> list[str]:
    parts = []
    for name, share in MARKED.items():
        if metrics.get(name, 0.0) > 0:
            x, y = scale.at(log10(metrics[name])), _y(share)
            parts += [element("circle", class_="dot", cx=x, cy=y, r=3), _label(name, metrics[name], share, x, y)]
    return parts


def _label(name: str, value: float, share: float, x: float, y: float) -> str:
    """Write a percentile where the curve is not: to its left and above, or, at the left margin, below."""
    words = f"{name.partition('_')[0].upper()} {figure(value, 3)}"
    if x - BOX.left < LABEL_WIDTH:
        return text(words, x + 8, y + 16, "start")
    return text(words, x - 4, y - 6, "end") if share > 0.85 else text(words, x - 8, y + 4, "end")


def description(histogram: Histogram, metrics: Mapping[str, float]) -> str:
    """Say in a sentence what the chart shows."""
    named = [f"P{100 * share:g} is {metrics[name]:.3g}" for name, share in MARKED.items() if name in metrics]
    total = histogram.zeros + sum(histogram.counts)
    exact = f"share of elements with at most a given error: {figure(100 * histogram.zeros / total, 3)} % are exact"
    return "; ".join([exact, *named])
