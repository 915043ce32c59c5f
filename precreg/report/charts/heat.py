"""Where along its axes an output is wrong: strips of one axis each, and a map of the last two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from precreg.report.charts.scale import Colours, colours, size
from precreg.report.charts.svg import Box, drawing, element, rectangle, text, title
from precreg.types.numbers import figure

if TYPE_CHECKING:
    from precreg.measure.heatmap import HeatMap


BOX = Box(480, 250, 58, 14, 20, 46)

STRIP_HEIGHT, STRIP_STEP = 20, 40

LEGEND_STEPS = 24


class Strip(NamedTuple):
    """The mean |a - r| in equal groups along one axis, over all others; None where a group has no finite pair."""

    axis: int
    length: int
    means: Sequence[float | None]


def draw_strips(strips: Sequence[Strip]) -> str:
    """Draw one row of cells for each axis, in the colours of one common scale."""
    scale = colours(mean for strip in strips for mean in strip.means if mean is not None)
    box = BOX._replace(height=BOX.top + len(strips) * STRIP_STEP + BOX.bottom)
    rows = [part for place, strip in enumerate(strips) for part in _strip(strip, BOX.top + place * STRIP_STEP, scale)]
    return drawing(box, describe_strips(strips), *rows, *_legend(scale, box))


def _strip(strip: Strip, y: float, scale: Colours | None) -> Iterator[str]:
    width = (BOX.east - BOX.left) / len(strip.means)
    yield text(f"axis {strip.axis}", BOX.left - 6, y + 14, "end")
    for group, mean in enumerate(strip.means):
        place = _indices(group, len(strip.means), strip.length)
        said = f"axis {strip.axis}, {place}: {_mean(mean)}"
        yield _cell(BOX.left + group * width, y, width, STRIP_HEIGHT, mean, scale, said)
    yield text("0", BOX.left, y + STRIP_HEIGHT + 12, "start")
    yield text(str(strip.length - 1), BOX.east, y + STRIP_HEIGHT + 12, "end")


def draw_map(heat: HeatMap) -> str:
    """Draw the cells of a heat map, the first row on top; cells with a mismatched NaN or infinity have a cross."""
    scale = colours(mean for row in heat.mean for mean in row if mean is not None)
    single = len(heat.mean) == 1
    box = BOX._replace(height=BOX.top + 48 + BOX.bottom + 16) if single else BOX._replace(height=330, bottom=62)
    parts = list(_cells(heat, box, scale))
    return drawing(box, describe_map(heat), *parts, *_edges(heat, box), *_legend(scale, box))


def _cells(heat: HeatMap, box: Box, scale: Colours | None) -> Iterator[str]:
    width = (box.east - box.left) / len(heat.mean[0])
    height = (box.south - box.top) / len(heat.mean)
    crosses = []
    for row, (means, wrong) in enumerate(zip(heat.mean, heat.mismatched, strict=True)):
        for column, (mean, mismatched) in enumerate(zip(means, wrong, strict=True)):
            x, y = box.left + column * width, box.top + row * height
            said = f"{_place(heat, row, column)} {'no finite pair' if mean is None else figure(mean, 3)}"
            if mismatched:
                said += f"; {mismatched:,} NaN or infinity on one side"
                crosses.append(_cross(x + width / 2, y + height / 2, min(max(min(width, height) / 2 - 1, 4), 8), said))
            yield _cell(x, y, width, height, mean, scale, said)
    yield from crosses


def _cell(x: float, y: float, width: float, height: float, mean: float | None, scale: Colours | None, said: str) -> str:
    strength = scale.strength(mean) if scale and mean is not None else 0.0
    if strength:
        return rectangle(x, y, width, height, "heat", said, strength)
    return rectangle(x, y, width, height, "heat-none" if mean is None else "heat-ground", said)


def _cross(x: float, y: float, size: float, said: str) -> str:
    path = (
        f"M{x - size:.1f},{y - size:.1f}l{2 * size:.1f},{2 * size:.1f}m0,{-2 * size:.1f}l{-2 * size:.1f},{2 * size:.1f}"
    )
    return element("path", title(said), class_="cross", d=path)


def _mean(mean: float | None) -> str:
    return "no finite pair" if mean is None else f"mean |actual − reference| {figure(mean, 3)}"


def _indices(group: int, groups: int, length: int) -> str:
    first, last = group * length // groups, (group + 1) * length // groups - 1
    return f"index {first}" if first == last else f"index {first} to {last}"


def _place(heat: HeatMap, row: int, column: int) -> str:
    """Write a cell as the slice of the arrays that it stands for."""
    axes = zip((row, column), (len(heat.mean), len(heat.mean[0])), (1, 1, *heat.shape)[-2:], strict=True)
    slices = [f"{group * length // groups}:{(group + 1) * length // groups}" for group, groups, length in axes]
    named = slices[2 - min(len(heat.shape), 2) :]
    return f"[{', '.join(['...', *named] if len(heat.shape) > 2 else named)}]"


def _edges(heat: HeatMap, box: Box) -> Iterator[str]:
    columns, axis = (heat.shape[-1], len(heat.shape) - 1) if heat.shape else (1, 0)
    yield text("0", box.left, box.south + 14, "start")
    yield text(str(columns - 1), box.east, box.south + 14, "end")
    yield text(f"axis {axis}", (box.left + box.east) / 2, box.south + 14)
    if len(heat.shape) > 1:
        yield text("0", box.left - 6, box.top + 9, "end")
        yield text(str(heat.shape[-2] - 1), box.left - 6, box.south, "end")
        yield text(f"axis {len(heat.shape) - 2}", box.left - 6, (box.top + box.south) / 2 + 4, "end")


def _legend(scale: Colours | None, box: Box) -> Iterator[str]:
    """Draw the colours with the sizes they stand for, and the colour of zero."""
    y = box.height - 20
    yield rectangle(box.left, y, 12, 10, "heat-ground")
    yield text("0", box.left + 18, y + 9, "start")
    if scale is None:
        return
    start, step = box.left + 110, 6
    yield text(figure(size(scale.low), 3), start - 6, y + 9, "end")
    for place in range(LEGEND_STEPS):
        logarithm = scale.low + (scale.high - scale.low) * place / (LEGEND_STEPS - 1)
        yield rectangle(start + place * step, y, step, 10, "heat", opacity=scale.strength(size(logarithm)))
    yield text(figure(size(scale.high), 3), start + LEGEND_STEPS * step + 6, y + 9, "start")


def describe_strips(strips: Sequence[Strip]) -> str:
    """Say in a sentence where the mean error is largest along each axis."""
    return "mean absolute error along each axis: " + "; ".join(map(_strongest, strips))


def _strongest(strip: Strip) -> str:
    mean, group = max((mean, -group) for group, mean in enumerate(strip.means) if mean is not None)
    return (
        f"axis {strip.axis} has the largest, {figure(mean, 3)}, at {_indices(-group, len(strip.means), strip.length)}"
    )


def describe_map(heat: HeatMap) -> str:
    """Say in a sentence where the mean error is largest, and how many values are not finite on one side alone."""
    known = [
        (mean, -row, -column)
        for row, means in enumerate(heat.mean)
        for column, mean in enumerate(means)
        if mean is not None
    ]
    wrong = sum(map(sum, heat.mismatched))
    alarm = f"; {wrong:,} elements are NaN or infinite on one side" if wrong else ""
    if not known:
        return f"heat map without a finite pair{alarm}"
    mean, row, column = max(known)
    return (
        f"heat map of the mean absolute error: the largest, {figure(mean, 3)}, at {_place(heat, -row, -column)}{alarm}"
    )
