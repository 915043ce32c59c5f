"""Error growth as a drawing, a panel for each series on the same axes: what was measured, and the two laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10
from typing import NamedTuple

from precreg.report.charts.scale import LogScale, around
from precreg.report.charts.svg import Box, drawing, element, line, text, title
from precreg.report.growth import Point, Series, judged
from precreg.types.numbers import figure

BOX = Box(360, 250, 56, 20, 12, 44)

STEPS = 48

BEYOND = 1.0
"""Decades above the largest measured error that a law may still be drawn in."""


class Axes(NamedTuple):
    """The scales that all panels share: operations across, relative error upward."""

    across: LogScale
    upward: LogScale


def axes(found: Sequence[Series]) -> Axes | None:
    """Return scales that hold every point; None where no error is above 0."""
    points = [point for one in found for point in one.points if point.error > 0]
    if not points:
        return None
    low, high = around([log10(point.error) for point in points])
    laws = [law(point.n) for one in found for point in one.points for law in (one.grown, one.walked)]
    high = min(max([high, *(log10(said) for said in laws if said > 0)]), high + BEYOND)
    ends = around([log10(point.n) for one in found for point in one.points])
    return Axes(LogScale(*ends, BOX.left, BOX.east), LogScale(low - 0.1, high + 0.1, BOX.south, BOX.top))


def draw(one: Series, shared: Axes, over: str, metric: str) -> str:
    """Draw a series: d_0 * exp(n * e) as a line, c * sqrt(n) dashed; full points were fitted, hollow ones foretold."""
    return drawing(
        BOX,
        description(one, over, metric),
        *_grid(shared, over, metric),
        *_curve(one.walked, one, shared, "line-then"),
        *_curve(one.grown, one, shared, "line-now"),
        *(_dot(point, one, shared, over) for point in one.points if point.error > 0),
    )


def _grid(shared: Axes, over: str, metric: str) -> list[str]:
    parts = [
        line(BOX.left, BOX.south, BOX.east, BOX.south, "edge"),
        line(BOX.left, BOX.top, BOX.left, BOX.south, "edge"),
    ]
    for tick in shared.upward.ticks():
        y = shared.upward.at(tick.at)
        parts += [line(BOX.left, y, BOX.east, y), text(tick.text, BOX.left - 6, y + 4, "end")]
    for tick in shared.across.ticks():
        x = shared.across.at(tick.at)
        parts += [line(x, BOX.south, x, BOX.south + 4, "edge"), text(tick.text, x, BOX.south + 16)]
    parts.append(text(over, (BOX.left + BOX.east) / 2, BOX.height - 8))
    return [*parts, text(metric, 4, BOX.top - 3, "start")]


def _curve(law: Callable[[float], float], one: Series, shared: Axes, class_: str) -> list[str]:
    """Draw a law from the first point to the last, as far as it is on the axes."""
    first, last = log10(one.points[0].n), log10(one.points[-1].n)
    places = [first + (last - first) * step / STEPS for step in range(STEPS + 1)]
    said = [(place, law(10**place)) for place in places]
    inside = [
        (place, log10(error))
        for place, error in said
        if error > 0 and shared.upward.low <= log10(error) <= shared.upward.high
    ]
    if len(inside) < 2:
        return []
    points = " ".join(f"{shared.across.at(x):.1f},{shared.upward.at(y):.1f}" for x, y in inside)
    return [element("polyline", class_=class_, points=points)]


def _dot(point: Point, one: Series, shared: Axes, over: str) -> str:
    class_ = "dot" if point.n <= one.fit_to else "dot foretold"
    x, y = shared.across.at(log10(point.n)), shared.upward.at(log10(point.error))
    return element("circle", title(f"{over} {point.n}: {point.error:.4g}"), class_=class_, cx=x, cy=y, r=3.5)


def description(one: Series, over: str, metric: str) -> str:
    """Say in a sentence what a panel shows."""
    first, last = one.points[0], one.points[-1]
    said = (
        f"{metric} of {one.name or 'all cases'}: {figure(first.error, 3)} at {over} {first.n}, "
        f"{figure(last.error, 3)} at {over} {last.n}"
    )
    verdict = judged(one)
    if verdict is None:
        return said
    return (
        f"{said}; at worst the law exp(n e) is off by a factor of {verdict.grown:.3g}, sqrt(n) of {verdict.walked:.3g}"
    )
