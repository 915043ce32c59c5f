"""Does one metric of one output drift?

`judge_metric` compares the latest runs of a series with its accepted baseline, an anchor and the runs before. It is a
pure function. A deterministic series has no noise: a change is drift if it lasts for `confirm` runs and exceeds the
minimum relevant ratio. For any other series, statistics must also find the change significant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import isfinite
from statistics import median
from typing import NamedTuple

from precreg.history.drift.record import (
    DriftChange,
    DriftMode,
    DriftReference,
    DriftSettings,
    DriftState,
    MetricDrift,
    Worsening,
)
from precreg.history.drift.sizes import (
    FoundWorsening,
    drift_min_ratio,
    latest_runs,
    metric_size,
    noise_beyond,
    present_level,
    size_ratio,
    value_of_size,
    worse_than_before,
)
from precreg.history.drift.wording import count_runs, describe_improvement, describe_worsening
from precreg.history.series import HistoryPoint, HistoryRun, HistorySeries, changed_facts
from precreg.verdict.statistics import MIN_RUNS, running_median

# Reports show this many digits of a commit.
COMMIT_DIGITS = 8

# benchmarks/drift_study.py measures the power and the false alarms of the constants below together.
# A series is unsteady after this many returns to an earlier value. Fewer returns are changes and their reverts.
MIN_FLICKERS = 3
# Compared with a single value, the latest noisy runs must all be this many times larger if their median does not apply.
FEW_RUNS_FACTOR = 2.0
# Fewer runs do not show the noise of a series well enough to compare the series with a single value.
MIN_RUNS_FOR_NOISE = 12
# Fewer noisy runs are not judged.
MIN_NOISY_RUNS = 5
# The first run of a machine is compared with the median of this many runs of other machines. One outlier has no effect.
NEAREST_RUNS = 3


def comparable_points(points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> Sequence[HistoryPoint]:
    """Return the points that can be compared with the last point.

    If machines take turns, these are the points with the last point's fingerprint; otherwise all points. Machines take
    turns if the last fingerprint occurred before another one. A new fingerprint is a change of the environment, and
    the points before it count.
    """
    prints = [runs[point.run].fingerprint for point in points]
    blocks = [fingerprint for fingerprint, _ in groupby(prints)]
    if blocks.count(prints[-1]) == 1:
        return points
    return [point for point, fingerprint in zip(points, prints, strict=True) if fingerprint == prints[-1]]


def is_deterministic(points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> bool:
    """Return True if at least half of all successive runs on one fingerprint agree exactly.

    A series that keeps returning to earlier values is not deterministic: a coarse metric of noisy runs agrees by luck.
    """
    pairs = [
        (earlier.value, later.value)
        for earlier, later in pairwise(points)
        if runs[earlier.run].fingerprint == runs[later.run].fingerprint
    ]
    agree = sum(earlier == later for earlier, later in pairs)
    return bool(pairs) and 2 * agree >= len(pairs) and not _flickers([point.value for point in points])


def _flickers(values: Sequence[float | None]) -> bool:
    changes = returns = 0
    seen: set[float | None] = {values[0]}
    for earlier, later in pairwise(values):
        changes += earlier != later
        returns += earlier != later and later in seen
        seen.add(later)
    return returns >= MIN_FLICKERS and 2 * returns >= changes


def change_at(place: int, points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> DriftChange:
    """Return the runs, commits and environment around the change at a position in the points."""
    bad = runs[points[place].run]
    if place == 0:
        return DriftChange(None, bad.number, bad.commit[:COMMIT_DIGITS])
    good = runs[points[place - 1].run]
    return DriftChange(good.number, bad.number, _format_commits(good, bad), _list_changed_facts(good, bad))


def _format_commits(good: HistoryRun, bad: HistoryRun) -> str:
    """Return the range of commits in the syntax of git, or one commit if both runs have it."""
    ends = [good.commit[:COMMIT_DIGITS], bad.commit[:COMMIT_DIGITS]]
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def _list_changed_facts(good: HistoryRun, bad: HistoryRun) -> tuple[str, ...]:
    """Return the facts of the environment that changed, as texts; none for equal fingerprints."""
    if good.fingerprint == bad.fingerprint:
        return ()
    return tuple(f"{name} {was} -> {now}" for name, was, now in changed_facts(good, bad))


class DriftContext(NamedTuple):
    """Hold the context of a judgement: runs by number, the numbers of the anchor's runs, and the settings."""

    runs: Mapping[int, HistoryRun]
    anchors: Collection[int]
    settings: DriftSettings


class MachineOffset(NamedTuple):
    """Hold the size at a machine's first run, and the size on other machines around that time."""

    own: float
    others: float

    def applied_to(self, size: float) -> float:
        """Return the size that this machine would measure for a size of other machines."""
        # A better machine keeps the larger limit: a lower one would report a drift that no commit caused.
        return size * max(self.own / self.others, 1.0) if self.others else max(size, self.own)


class SingleReference(NamedTuple):
    """Hold a single reference value, or None, and the offset of the machine if another machine measured the value."""

    value: float | None
    offset: MachineOffset | None


class SeriesWindow(NamedTuple):
    """Hold the measured points to judge, oldest first, with their sizes and the mode of judgement.

    If machines take turns, `offset` compares the last run's machine with other machines. A machine that was worse from
    its first run on has no drift.
    """

    metric: str
    points: Sequence[HistoryPoint]
    sizes: Sequence[float]
    mode: DriftMode
    offset: MachineOffset | None = None


def judge_metric(series: HistorySeries, context: DriftContext) -> MetricDrift | None:
    """Return the judgement of one metric; None if no run measured it."""
    if (constant := _judge_constant(series, context)) is not None:
        return constant
    measured = [point for point in series.points if point.value is not None]
    if not measured:
        return None
    row = _select_window(series.metric, measured, context)
    worsenings = _find_worsenings(row, measured, context)
    since = _unmeasured_since(series.points)
    state, message = _decide_state(row, worsenings, since, context.settings)
    return MetricDrift(series.metric, state, row.mode, len(row.points), worsenings, message, series.points, since)


def _judge_constant(series: HistorySeries, context: DriftContext) -> MetricDrift | None:
    """Return the judgement of a constant series that equals the accepted value; None for any other series."""
    # Most series are constant, and this check takes no statistics.
    first, last = series.points[0], series.points[-1]
    if last.value is None or last.accepted not in (None, last.value) or len(series.points) < context.settings.confirm:
        return None
    if first.value != last.value or any(point.value != last.value for point in series.points):
        return None
    return MetricDrift(
        series.metric,
        DriftState.STEADY,
        DriftMode.EXACT,
        min(len(series.points), context.settings.window),
        points=series.points,
    )


def _select_window(metric: str, measured: Sequence[HistoryPoint], context: DriftContext) -> SeriesWindow:
    """Return the window of recent comparable points, and choose the mode of judgement."""
    comparable = comparable_points(measured, context.runs)
    every = [metric_size(metric, point.value) for point in comparable if point.value is not None]
    points, sizes = comparable[-context.settings.window :], every[-context.settings.window :]
    offset = _machine_offset(metric, measured, context) if len(comparable) < len(measured) else None
    if is_deterministic(points, context.runs):
        return SeriesWindow(metric, points, sizes, DriftMode.EXACT, offset)
    return SeriesWindow(
        metric, points, sizes, DriftMode.STATISTICAL if len(points) >= MIN_RUNS else DriftMode.FEW, offset
    )


def _machine_offset(metric: str, measured: Sequence[HistoryPoint], context: DriftContext) -> MachineOffset:
    """Return the offset of the last run's machine, from its first run and the nearest runs of other machines."""
    # Nearby runs have nearly the same code. So a drift of the code is in both sizes and cancels.
    sizes = [metric_size(metric, point.value) for point in measured if point.value is not None]
    prints = [context.runs[point.run].fingerprint for point in measured]
    first = prints.index(prints[-1])
    others = [at for at, fingerprint in enumerate(prints) if fingerprint != prints[-1]]
    nearest = sorted(others, key=lambda at: abs(at - first))[:NEAREST_RUNS]
    return MachineOffset(sizes[first], median(sizes[at] for at in nearest))


def _decide_state(
    row: SeriesWindow, worsenings: Sequence[Worsening], since: int | None, settings: DriftSettings
) -> tuple[DriftState, str]:
    if worsenings:
        return DriftState.DRIFT, worsenings[0].message
    if since is not None:
        return DriftState.UNMEASURED, f"{row.metric} is not measured since run {since}"
    if len(row.points) < (settings.confirm if row.mode is DriftMode.EXACT else max(settings.confirm, MIN_NOISY_RUNS)):
        return DriftState.TOO_FEW, f"{count_runs(len(row.points))} cannot tell whether {row.metric} drifts"
    accepted = row.points[-1].accepted
    if accepted is not None and _is_better(row, metric_size(row.metric, accepted), settings):
        return DriftState.IMPROVED, describe_improvement(row.metric, accepted, _now(row, settings))
    return DriftState.STEADY, ""


def _unmeasured_since(points: Sequence[HistoryPoint]) -> int | None:
    """Return the number of the first run after the last measured run; None if the last run measured the metric."""
    since = None
    for point in reversed(points):
        if point.value is not None:
            break
        since = point.run
    return since


def _find_worsenings(
    row: SeriesWindow, measured: Sequence[HistoryPoint], context: DriftContext
) -> tuple[Worsening, ...]:
    """Compare the window with the accepted baseline, the anchor and its recent runs, and return the worsenings.

    The baseline and the anchor come first, because people chose them as references.
    """
    recent = _against_recent(row, context)
    found = (
        _against_value("baseline", row, SingleReference(row.points[-1].accepted, row.offset), recent, context),
        _against_value("anchor", row, _anchor_reference(row, measured, context), recent, context),
        recent,
    )
    return tuple(worsening for worsening in found if worsening is not None)


def _against_recent(row: SeriesWindow, context: DriftContext) -> Worsening | None:
    """Compare the latest runs with the runs before them, back to the last worse baseline that was accepted."""
    start = _last_accepted_loss(row)
    least = drift_min_ratio(row.metric, context.settings.materiality)
    found = worse_than_before(row.sizes[start:], least, context.settings, exact=row.mode is DriftMode.EXACT)
    if found is None or row.mode is DriftMode.FEW:
        return None
    change = change_at(found.at + start, row.points, context.runs)
    return _make_worsening("recent runs", row, found, value_of_size(row.metric, found.before), change)


def _last_accepted_loss(row: SeriesWindow) -> int:
    """Return the position of the last accepted worsening, because people accepted it knowingly."""
    accepted = [None if point.accepted is None else metric_size(row.metric, point.accepted) for point in row.points]
    start = 0
    for place, (earlier, later) in enumerate(pairwise(accepted), 1):
        if later is not None and (earlier is None or later > earlier):
            start = place
    return start


def _anchor_reference(row: SeriesWindow, measured: Sequence[HistoryPoint], context: DriftContext) -> SingleReference:
    """Return the median value of the anchor's runs; of two middle values the worse.

    Runs on the last run's machine count alone, if there are any.
    """
    machine = context.runs[row.points[-1].run].fingerprint
    of_anchor = [point for point in measured if point.run in context.anchors]
    same_machine = [point for point in of_anchor if context.runs[point.run].fingerprint == machine]
    values = [point.value for point in same_machine or of_anchor if point.value is not None]
    middle = sorted(values, key=lambda found: metric_size(row.metric, found))[len(values) // 2] if values else None
    return SingleReference(middle, None if same_machine else row.offset)


def _against_value(
    against: DriftReference, row: SeriesWindow, single: SingleReference, recent: Worsening | None, context: DriftContext
) -> Worsening | None:
    """Compare the latest runs with a single value."""
    # In a noisy series the fit over the recent runs dates the change better than a crossing of the limit.
    if single.value is None:
        return None
    before = metric_size(row.metric, single.value)
    reference_runs = _count_runs_with_reference(row) if against == "baseline" else len(row.sizes)
    reachable = before if single.offset is None else single.offset.applied_to(before)
    now = _worse_now(row, reachable, reference_runs, context.settings)
    if now is None:
        return None
    limit = before * drift_min_ratio(row.metric, context.settings.materiality)
    exact = row.mode is DriftMode.EXACT
    at = _first_of_the_worse(row.sizes if exact else running_median(row.sizes), limit)
    change = change_at(at, row.points, context.runs) if exact or recent is None else recent.change
    return _make_worsening(against, row, FoundWorsening("level", at, before, now), single.value, change)


def _count_runs_with_reference(row: SeriesWindow) -> int:
    """Return the number of latest runs with the present accepted value."""
    accepted = [point.accepted for point in row.points]
    return next(len(list(same)) for _, same in groupby(reversed(accepted)))


def _first_of_the_worse(sizes: Sequence[float], limit: float) -> int:
    """Return the position after which all sizes exceed a limit; at most the last position."""
    place = len(sizes) - 1
    while place > 0 and sizes[place - 1] > limit:
        place -= 1
    return place


def _worse_now(row: SeriesWindow, before: float, reference_runs: int, settings: DriftSettings) -> float | None:
    """Return the present size if it is worse than a single size, otherwise None.

    The single size was measured once, so it has the noise of the runs. `reference_runs` is the number of runs since it
    became the reference. A noisy level from before that time says nothing about it.
    """
    least = drift_min_ratio(row.metric, settings.materiality)
    if row.mode is DriftMode.EXACT:
        latest = row.sizes[-settings.confirm :]
        return _now_size(row, settings) if len(latest) == settings.confirm and min(latest) > least * before else None
    levels = _noisy_levels(row, reference_runs, settings)
    found = (
        now for now, times in levels if now > max(least, times) * before and noise_beyond(row.sizes, now, before) > 1
    )
    return next(found, None)


def _noisy_levels(row: SeriesWindow, reference_runs: int, settings: DriftSettings) -> Iterator[tuple[float, float]]:
    """Yield the levels of the latest noisy runs, each with the ratio that it must exceed at least.

    The levels are the median of the latest runs, and the smallest size among them.
    """
    median_of = latest_runs(settings.confirm)
    is_settled = len(row.sizes) >= max(MIN_RUNS_FOR_NOISE, median_of)
    if is_settled and reference_runs >= median_of:
        yield _now_size(row, settings), 1.0
    lasting = max(settings.confirm, 2 if is_settled else MIN_NOISY_RUNS)
    if len(row.sizes) >= lasting:
        yield min(row.sizes[-lasting:]), FEW_RUNS_FACTOR


def _is_better(row: SeriesWindow, before: float, settings: DriftSettings) -> bool:
    """Return True if the latest runs are better than the accepted size."""
    least = drift_min_ratio(row.metric, settings.materiality)
    if row.mode is DriftMode.EXACT:
        return least * max(row.sizes[-settings.confirm :]) < before
    reference_runs = latest_runs(settings.confirm)
    if len(row.sizes) < max(MIN_RUNS_FOR_NOISE, reference_runs):
        return max(least, FEW_RUNS_FACTOR) * max(row.sizes) < before
    now = _now_size(row, settings)
    return (
        _count_runs_with_reference(row) >= reference_runs
        and least * now < before
        and noise_beyond(row.sizes, now, before) < -1
    )


def _now_size(row: SeriesWindow, settings: DriftSettings) -> float:
    return present_level(row.sizes, settings.confirm, exact=row.mode is DriftMode.EXACT)


def _now(row: SeriesWindow, settings: DriftSettings) -> float:
    return value_of_size(row.metric, _now_size(row, settings))


def _make_worsening(
    against: DriftReference, row: SeriesWindow, found: FoundWorsening, before: float, change: DriftChange
) -> Worsening:
    """Return a finding in the metric's own unit, with its message and its beginning."""
    now = value_of_size(row.metric, found.now)
    times = size_ratio(found.now, found.before)
    message = describe_worsening(against, row.metric, found, before, now, change.first_bad)
    known = times if isfinite(times) else None
    return Worsening(against, found.kind, before, now, known, message, change, found.a_run)
