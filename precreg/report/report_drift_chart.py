"""One metric over the runs as a drawing: where points, lines and marks stand in an SVG, and the same in words.

The vertical axis is logarithmic where every value is above 0. A run that gave no value leaves a gap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from math import log10
from typing import NamedTuple

from precreg.history.drift.record import DriftRecord, MetricDrift
from precreg.history.series import Run, changed_facts
from precreg.types.numbers import apart

WIDTH, HEIGHT = 720, 220

LEFT, RIGHT, TOP, BOTTOM = 74, 14, 12, 34

MOST_TICKS = 10

HIGHEST_POWER = 308.0

LARGEST = sys.float_info.max


class Mark(NamedTuple):
    """A vertical line across the chart, with what it says when it is pointed at."""

    kind: str
    x: float
    text: str


class Dot(NamedTuple):
    """One run's value."""

    x: float
    y: float
    text: str


class Tick(NamedTuple):
    """A place on an axis and its number."""

    at: float
    text: str


class Chart(NamedTuple):
    """Everything that the template draws, in the SVG's own units; `description` says the same in words."""

    metric: str
    description: str
    lines: tuple[str, ...]
    accepted: tuple[str, ...]
    dots: tuple[Dot, ...]
    marks: tuple[Mark, ...]
    anchor: float | None
    across: tuple[Tick, ...]
    upward: tuple[Tick, ...]


class _Scale(NamedTuple):
    """The vertical axis from its lowest place to its highest: logarithms, or shares of a unit, which never overflow."""

    lowest: float
    highest: float
    unit: float | None

    def y(self, value: float) -> float:
        return self.y_of(log10(value) if self.unit is None else value / self.unit)

    def value_at(self, place: float) -> float:
        if self.unit is None:
            return 10 ** min(place, HIGHEST_POWER)
        return max(-LARGEST, min(place * self.unit, LARGEST))

    def y_of(self, place: float) -> float:
        share = (place - self.lowest) / (self.highest - self.lowest)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)


def draw(metric: MetricDrift, record: DriftRecord) -> Chart | None:
    """Lay out one metric; None where no run has a value."""
    known = {run.number: run for run in record.runs}
    points = [point for point in metric.points if point.run in known]
    values = [point.value for point in points]
    accepted = [point.accepted for point in points]
    if not any(value is not None for value in values):
        return None
    runs = [known[point.run] for point in points]
    anchor = _anchor(metric, record)
    scale = _scale([*values, *accepted, anchor])
    xs = _xs(len(points))
    return Chart(
        metric.metric,
        _description(metric, runs, values, accepted[-1], anchor, record),
        _paths(xs, values, scale),
        _paths(xs, accepted, scale),
        tuple(_dots(xs, runs, values, scale)),
        tuple(_marks(xs, runs, metric)),
        None if anchor is None else scale.y(anchor),
        _across(xs, runs),
        _upward(scale),
    )


def _anchor(metric: MetricDrift, record: DriftRecord) -> float | None:
    runs = () if record.anchor is None else record.anchor.runs
    return next((point.value for point in metric.points if point.run in runs and point.value is not None), None)


def _scale(values: Sequence[float | None]) -> _Scale:
    known = [value for value in values if value is not None]
    unit = None if min(known) > 0 else max(map(abs, known)) or 1.0
    places = [log10(value) if unit is None else value / unit for value in known]
    room = (max(places) - min(places)) * 0.08 or abs(places[0]) * 0.05 or 0.5
    return _Scale(min(places) - room, max(places) + room, unit)


def _xs(count: int) -> list[float]:
    room = WIDTH - LEFT - RIGHT
    return [round(LEFT + room * (at + 0.5) / count, 1) for at in range(count)]


def _paths(xs: Sequence[float], values: Sequence[float | None], scale: _Scale) -> tuple[str, ...]:
    """Return one list of points for each stretch without a gap."""
    stretches: list[list[str]] = [[]]
    for x, value in zip(xs, values, strict=True):
        if value is None:
            stretches.append([])
        else:
            stretches[-1].append(f"{x},{scale.y(value)}")
    return tuple(" ".join(stretch) for stretch in stretches if stretch)


def _dots(xs: Sequence[float], runs: Sequence[Run], values: Sequence[float | None], scale: _Scale) -> list[Dot]:
    return [
        Dot(x, scale.y(value), f"run {run.number}, {run.started[:10]}, {run.commit[:8] or 'no commit'}: {value:.6g}")
        for x, run, value in zip(xs, runs, values, strict=True)
        if value is not None
    ]


def _marks(xs: Sequence[float], runs: Sequence[Run], metric: MetricDrift) -> list[Mark]:
    """Mark where the environment became another one, and the first worse runs."""
    marks = []
    for (left, right), (before, after) in zip(pairwise(xs), pairwise(runs), strict=True):
        if before.fingerprint != after.fingerprint:
            facts = ", ".join(f"{name} {was} to {now}" for name, was, now in sorted(changed_facts(before, after)))
            marks.append(
                Mark("environment", (left + right) / 2, f"environment changed before run {after.number}: {facts}")
            )
    place = {run.number: x for x, run in zip(xs, runs, strict=True)}
    firsts = {worse.change.first_bad for worse in metric.worsenings}
    return marks + [Mark("change", place[run], f"worse from run {run} on") for run in sorted(firsts) if run in place]


def _across(xs: Sequence[float], runs: Sequence[Run]) -> tuple[Tick, ...]:
    every = max(1, -(-len(xs) // MOST_TICKS))
    return tuple(Tick(xs[at], str(runs[at].number)) for at in range(0, len(xs), every))


def _upward(scale: _Scale) -> tuple[Tick, ...]:
    places = [scale.lowest + share * (scale.highest - scale.lowest) for share in (0.08, 0.36, 0.64, 0.92)]
    values = [scale.value_at(place) for place in places]
    return tuple(Tick(scale.y_of(place), text) for place, text in zip(places, apart(values), strict=True))


def _description(
    metric: MetricDrift,
    runs: Sequence[Run],
    values: Sequence[float | None],
    accepted: float | None,
    anchor: float | None,
    record: DriftRecord,
) -> str:
    known = [value for value in values if value is not None]
    parts = [
        f"{metric.metric} over {len(runs)} runs, {runs[0].number} to {runs[-1].number}: first {known[0]:.6g}, "
        f"last {known[-1]:.6g}, least {min(known):.6g}, most {max(known):.6g}"
    ]
    if accepted is not None:
        parts.append(f"accepted {accepted:.6g}")
    if anchor is not None and record.anchor is not None:
        parts.append(f"at the anchor {record.anchor.name} {anchor:.6g}")
    return "; ".join([*parts, *(worse.message for worse in metric.worsenings)])
