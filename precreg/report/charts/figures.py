"""The charts of one comparison, with their captions, in the order in which they are read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from precreg.report.charts import bars, cumulative, heat, histogram
from precreg.report.charts.heat import Strip
from precreg.types.types import AxisGroups, Comparison

if TYPE_CHECKING:
    from precreg.measure.heatmap import HeatMap


class Figure(NamedTuple):
    """One chart: a name for its element, the SVG, and what stands below it."""

    name: str
    svg: str
    caption: str


def figures(comparison: Comparison, heat_map: HeatMap | None = None) -> list[Figure]:
    """Draw what there is of histogram, cumulative curve, heat map (or a strip for each axis) and the four figures."""
    drawn: list[Figure] = []
    if comparison.histogram is not None:
        drawn += _of_errors(comparison)
    strips = strips_of(comparison)
    if heat_map is not None:
        drawn.append(Figure("map", heat.draw_map(heat_map), _where(heat_map)))
    elif strips:
        caption = "mean |actual − reference| in groups along each axis, colours on a log scale"
        drawn.append(Figure("strips", heat.draw_strips(strips), caption))
    if comparison.metrics:
        drawn.append(Figure("bars", bars.draw(comparison.metrics), "largest and mean error, log axis"))
    return drawn


def _of_errors(comparison: Comparison) -> list[Figure]:
    assert comparison.histogram is not None
    counted = histogram.draw(comparison.histogram)
    curve = cumulative.draw(comparison.histogram, comparison.metrics)
    return [
        Figure("histogram", counted, "elements by size of their error, log axes"),
        Figure("cumulative", curve, "share of elements with at most this error"),
    ]


def _where(heat_map: HeatMap) -> str:
    over = " over all leading axes" if len(heat_map.shape) > 2 else ""
    crossed = "; a cross: NaN or infinity on one side" if any(map(any, heat_map.mismatched)) else ""
    return f"mean |actual − reference|{over}, colours on a log scale{crossed}"


def strips_of(comparison: Comparison) -> list[Strip]:
    """Return the mean error along the axes that have more than one index; none where there is no finite pair."""
    axes = zip(comparison.groups, comparison.shape, strict=False)
    strips = [Strip(axis, length, _means(groups)) for axis, (groups, length) in enumerate(axes) if length > 1]
    return strips if any(mean is not None for strip in strips for mean in strip.means) else []


def _means(groups: AxisGroups) -> list[float | None]:
    """Return the mean |a - r| of each group; the largest float64 where the sum is beyond it."""
    pairs = zip(groups.absolute, groups.n, strict=True)
    return [(sys.float_info.max if sum is None else sum / n) if n else None for sum, n in pairs]
