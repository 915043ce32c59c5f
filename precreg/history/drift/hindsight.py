"""Which changes did a whole stored series have?

The drift monitor judges the latest runs, after each run. Hindsight looks at all runs at once, so it also finds changes
that were repaired or accepted long ago, and places them better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import isfinite, log
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from precreg.history.drift.judge import change_at, comparable_points
from precreg.history.drift.record import DriftChange
from precreg.history.drift.sizes import drift_min_ratio, metric_order, metric_size, size_axis, size_ratio, value_of_size
from precreg.history.runs import HistoryRun
from precreg.history.series import HistoryPoint, HistorySeries
from precreg.measure import metric_named
from precreg.types import Metric
from precreg.verdict.statistics import Segment, find_segments

HINDSIGHT_SCHEMA = "precreg-hindsight/1"
# Changes of two metrics of one output that are this near are one change: noise moves the place by a run or two.
SAME_CHANGE_RUNS = 2


class HindsightChange(Struct, frozen=True):
    """Hold one change of one metric: where it began, its last run if it is a slope, and the values before and after.

    `started` is the time of the first changed run. `worse` is the direction. `ratio` compares the sizes, and is None
    from or to a size of 0. `also` names other metrics of the output that changed at the same place.
    """

    metric: str
    kind: Literal["step", "slope"]
    worse: bool
    change: DriftChange
    started: str
    until: int | None
    before: float
    after: float
    ratio: float | None
    also: tuple[str, ...] = ()


class HindsightOutput(Struct, frozen=True):
    """Hold the changes of one output of one case, oldest first."""

    case: str
    output: str
    changes: tuple[HindsightChange, ...]


class HindsightRecord(Struct, frozen=True):
    """Hold all results of one call of `precreg drift --hindsight`. `series` is the number of series with a value."""

    schema: str
    precreg: str
    project: str
    made: str
    environment: str
    materiality: float
    runs: tuple[HistoryRun, ...]
    series: int
    results: tuple[HindsightOutput, ...]


def find_changes(series: HistorySeries, runs: Mapping[int, HistoryRun], materiality: float) -> list[HindsightChange]:
    """Find the changes of one series, oldest first; none if no run measured it.

    If machines take turns, only the runs of the newest run's machine are compared.
    """
    measured = [point for point in series.points if point.value is not None]
    if not measured or all(point.value == measured[0].value for point in measured):
        return []
    metric = metric_named(series.metric, series.described)
    points = comparable_points(measured, runs)
    sizes = [metric_size(metric, point.value) for point in points if point.value is not None]
    axis = size_axis(sizes)
    # On the axis of shares the ratio is a share of the largest size.
    least = log(drift_min_ratio(metric, materiality))
    segments = find_segments([axis.place(size) for size in sizes], least)
    # A fitted line may end below 0, where no size is.
    levels = [
        one._replace(first=max(axis.size(one.first), 0.0), last=max(axis.size(one.last), 0.0)) for one in segments
    ]
    found = _changes(metric, levels, points, runs)
    return [change for change in found if change.ratio is None or abs(log(change.ratio)) > least]


def _changes(
    metric: Metric, segments: Sequence[Segment], points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]
) -> Iterator[HindsightChange]:
    """Describe each step between segments, and each slope."""
    for at, segment in enumerate(segments):
        # A slope from the first run on, or one that is joined to a level, has no step before it.
        if at and not segment.joined:
            yield _change(metric, "step", segment, segments[at - 1].last, segment.first, points, runs)
        if segment.is_slope:
            before = segments[at - 1].last if segment.joined else segment.first
            yield _change(metric, "slope", segment, before, segment.last, points, runs)


def _change(
    metric: Metric,
    kind: Literal["step", "slope"],
    segment: Segment,
    before: float,
    after: float,
    points: Sequence[HistoryPoint],
    runs: Mapping[int, HistoryRun],
) -> HindsightChange:
    ratio = size_ratio(after, before)
    return HindsightChange(
        metric.name,
        kind,
        after > before,
        change_at(segment.start, points, runs),
        runs[points[segment.start].run].started,
        points[segment.end - 1].run if kind == "slope" else None,
        value_of_size(metric, before),
        value_of_size(metric, after),
        ratio if isfinite(ratio) and ratio else None,
    )


def look_back(
    series: Iterable[HistorySeries], runs: Sequence[HistoryRun], materiality: float
) -> tuple[tuple[HindsightOutput, ...], int]:
    """Find the changes of every output, sorted by case; return them with the number of series that have a value.

    `series` must be sorted by case and output, as groupby requires.
    """
    by_number = {run.number: run for run in runs}
    places = {run.number: place for place, run in enumerate(runs)}
    judged = (one for one in series if metric_named(one.metric, one.described).judged)
    found, count = [], 0
    for (case, output), group in groupby(judged, key=lambda one: (one.case, one.output)):
        members = [one for one in group if any(point.value is not None for point in one.points)]
        count += len(members)
        ordered = sorted(members, key=lambda one: metric_order(one.metric))
        changes = [change for one in ordered for change in find_changes(one, by_number, materiality)]
        if changes:
            found.append(HindsightOutput(case, output, tuple(_together(changes, places))))
    return tuple(found), count


def _together(changes: Sequence[HindsightChange], places: Mapping[int, int]) -> list[HindsightChange]:
    """Join changes of several metrics at one place, and sort them by place; the first metric describes the change."""
    joined: list[HindsightChange] = []
    for change in changes:
        same = next((at for at, one in enumerate(joined) if _is_same(one, change, places)), None)
        if same is None:
            joined.append(change)
        elif change.metric not in (joined[same].metric, *joined[same].also):
            joined[same] = _with_metric(joined[same], change.metric)
    return sorted(joined, key=lambda one: places[one.change.first_bad])


def _is_same(one: HindsightChange, other: HindsightChange, places: Mapping[int, int]) -> bool:
    near = abs(places[one.change.first_bad] - places[other.change.first_bad]) <= SAME_CHANGE_RUNS
    # Two changes of one metric are two changes, however near.
    return near and one.worse == other.worse and one.metric != other.metric


def _with_metric(change: HindsightChange, metric: str) -> HindsightChange:
    return replace(change, also=(*change.also, metric))
