"""Draw the studies of a run for report.html: a panel for each series, with its points and the two laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10
from typing import Any, NamedTuple

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
from precreg.report.error_growth import GrowthPoint, GrowthSeries, compare_laws
from precreg.report.studies import StudyTable, describe_studies
from precreg.types import RunRecord, format_number

GROWTH_BOX = DrawingBox(360, 250, 56, 20, 12, 44)
# The laws are smooth, so 48 segments look like a curve at this width.
CURVE_STEPS = 48
# Decades above the largest measured error. A law far off would otherwise flatten all points.
RANGE_MARGIN = 1.0


class Axes(NamedTuple):
    """Hold the scales that all panels share: operations across, relative error upward."""

    across: LogScale
    upward: LogScale


def growth_axes(found: Sequence[GrowthSeries]) -> Axes | None:
    """Return scales that contain every point; None if no error is above 0."""
    points = [point for one in found for point in one.points if point.error > 0]
    if not points:
        return None
    low, high = log_range([log10(point.error) for point in points])
    laws = [law(point.n) for one in found for point in one.points for law in (one.grown, one.walked)]
    # The laws belong into the picture, as far as the margin allows: their distance from the points is the result.
    high = min(max([high, *(log10(error) for error in laws if error > 0)]), high + RANGE_MARGIN)
    # All panels share both axes, so that a reader compares slopes between them.
    ends = log_range([log10(point.n) for one in found for point in one.points])
    return Axes(
        LogScale(*ends, GROWTH_BOX.left, GROWTH_BOX.east),
        LogScale(low - 0.1, high + 0.1, GROWTH_BOX.south, GROWTH_BOX.top),
    )


def draw_growth(one: GrowthSeries, shared: Axes, over: str, metric: str) -> str:
    """Draw a series: d_0 * exp(n * e) as a line, c * sqrt(n) dashed.

    Full points were fitted, hollow ones predicted.
    """
    return svg_drawing(
        GROWTH_BOX,
        describe_growth(one, over, metric),
        *_grid(shared, over, metric),
        # SVG draws in order, so points come last and stay visible on the curves.
        *_curve(one.walked, one, shared, "line-then"),
        *_curve(one.grown, one, shared, "line-now"),
        *(_dot(point, one, shared, over) for point in one.points if point.error > 0),
    )


def _grid(shared: Axes, over: str, metric: str) -> list[str]:
    parts = [
        svg_line(GROWTH_BOX.left, GROWTH_BOX.south, GROWTH_BOX.east, GROWTH_BOX.south, "edge"),
        svg_line(GROWTH_BOX.left, GROWTH_BOX.top, GROWTH_BOX.left, GROWTH_BOX.south, "edge"),
    ]
    for tick in shared.upward.ticks():
        y = shared.upward.at(tick.at)
        parts += [
            svg_line(GROWTH_BOX.left, y, GROWTH_BOX.east, y),
            svg_text(tick.text, GROWTH_BOX.left - 6, y + 4, "end"),
        ]
    for tick in shared.across.ticks():
        x = shared.across.at(tick.at)
        parts += [
            svg_line(x, GROWTH_BOX.south, x, GROWTH_BOX.south + 4, "edge"),
            svg_text(tick.text, x, GROWTH_BOX.south + 16),
        ]
    parts.append(svg_text(over, (GROWTH_BOX.left + GROWTH_BOX.east) / 2, GROWTH_BOX.height - 8))
    return [*parts, svg_text(metric, 4, GROWTH_BOX.top - 3, "start")]


def _curve(law: Callable[[float], float], one: GrowthSeries, shared: Axes, class_: str) -> list[str]:
    """Draw a law from the first point to the last, clipped to the axes."""
    first, last = log10(one.points[0].n), log10(one.points[-1].n)
    places = [first + (last - first) * step / CURVE_STEPS for step in range(CURVE_STEPS + 1)]
    errors = [(place, law(10**place)) for place in places]
    inside = [
        (place, log10(error))
        for place, error in errors
        if error > 0 and shared.upward.low <= log10(error) <= shared.upward.high
    ]
    if len(inside) < 2:
        return []
    points = " ".join(f"{shared.across.at(x):.1f},{shared.upward.at(y):.1f}" for x, y in inside)
    return [svg_element("polyline", class_=class_, points=points)]


def _dot(point: GrowthPoint, one: GrowthSeries, shared: Axes, over: str) -> str:
    class_ = "dot" if point.n <= one.fit_to else "dot foretold"
    x, y = shared.across.at(log10(point.n)), shared.upward.at(log10(point.error))
    return svg_element("circle", svg_title(f"{over} {point.n}: {point.error:.4g}"), class_=class_, cx=x, cy=y, r=3.5)


def describe_growth(one: GrowthSeries, over: str, metric: str) -> str:
    """Write one sentence that describes a panel."""
    first, last = one.points[0], one.points[-1]
    sentence = (
        f"{metric} of {one.name or 'all cases'}: {format_number(first.error, 3)} at {over} {first.n}, "
        f"{format_number(last.error, 3)} at {over} {last.n}"
    )
    verdict = compare_laws(one)
    if verdict is None:
        return sentence
    factors = f"exp(n e) is off by a factor of {verdict.grown:.3g}, sqrt(n) of {verdict.walked:.3g}"
    return f"{sentence}; at worst the law {factors}"


# More panels cannot be compared at a glance; the table has every series.
MAX_DRAWN_STUDIES = 24
MAX_STUDY_ROWS = 500


def studies_for_html(record: RunRecord) -> list[dict[str, Any]]:
    """Return the values of the template for every study: the table, and a drawing for each series."""
    return [_shown(one) for one in describe_studies(record)]


def _shown(one: StudyTable) -> dict[str, Any]:
    return {
        "study": one,
        "panels": _panels(one),
        "rows": one.rows[:MAX_STUDY_ROWS],
        "beyond": max(0, len(one.series) - MAX_DRAWN_STUDIES),
        "left_out": max(0, len(one.rows) - MAX_STUDY_ROWS),
    }


def _panels(one: StudyTable) -> list[dict[str, Any]]:
    shared = growth_axes(one.series) if one.series else None
    if shared is None:
        return []
    from markupsafe import Markup

    return [
        {"name": series.name or "all cases", "svg": Markup(draw_growth(series, shared, one.over, one.metric))}
        for series in one.series[:MAX_DRAWN_STUDIES]
    ]
