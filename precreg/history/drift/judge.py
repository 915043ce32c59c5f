"""What the runs of a series say beside its figures: which can be compared, whether it repeats, what changed when.

Does a metric drift? One series against its accepted baseline, an anchor and its own recent runs: a pure function.

A series that repeats itself is judged exactly: its noise is zero, so a change that lasts for `confirm` runs and is
larger than the materiality ratio is drift. One that does not repeat is judged by the statistics of `detect`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import isfinite
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

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
from precreg.history.series import HistoryPoint, HistoryRun, HistorySeries, changed_facts
from precreg.measure import metric_named
from precreg.types import Metric
from precreg.verdict.statistics import MIN_RUNS, running_median

MIN_FLICKERS = 3
"""So often a value that was left must have come back for a series to count as unsteady, not as changed and reverted."""


COMMIT_DIGITS = 8
"""Of a commit, as every report shows it."""


def comparable_points(points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> Sequence[HistoryPoint]:
    """Return the points to compare the last with: all, or where machines take turns those of its own fingerprint.

    Machines take turns where the last fingerprint was left and came back. A fingerprint that is new is a change of
    the environment, and what came before it counts.
    """
    prints = [runs[point.run].fingerprint for point in points]
    blocks = [fingerprint for fingerprint, _ in groupby(prints)]
    if blocks.count(prints[-1]) == 1:
        return points
    return [point for point, fingerprint in zip(points, prints, strict=True) if fingerprint == prints[-1]]


def is_deterministic(points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> bool:
    """Tell whether a series is deterministic: at least half of all successive runs on one fingerprint agree exactly.

    A series that keeps returning to values that it had left agrees by chance, and is not.
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
    """Describe the change between the point before a place and the one at it."""
    bad = runs[points[place].run]
    if place == 0:
        return DriftChange(None, bad.number, bad.commit[:COMMIT_DIGITS])
    good = runs[points[place - 1].run]
    return DriftChange(good.number, bad.number, _commits(good, bad), _facts_changed(good, bad))


def _commits(good: HistoryRun, bad: HistoryRun) -> str:
    """Name the range to look through, as git takes it; one commit where both runs ran it."""
    ends = [good.commit[:COMMIT_DIGITS], bad.commit[:COMMIT_DIGITS]]
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def _facts_changed(good: HistoryRun, bad: HistoryRun) -> tuple[str, ...]:
    """List the facts of the environment that differ, where its fingerprint does."""
    if good.fingerprint == bad.fingerprint:
        return ()
    return tuple(f"{name} {was} -> {now}" for name, was, now in changed_facts(good, bad))


FEW_RUNS_FACTOR = 2.0
"""Held against one value, the last noisy runs must all be so many times larger where their median does not count."""


MIN_RUNS_FOR_NOISE = 12
"""Runs from which the noise of a series is known well enough to hold it against one value."""


MIN_NOISY_RUNS = 5
"""Noisy runs below which nothing is said."""


NEAREST_RUNS = 3
"""Runs of other machines that the first run of a machine is compared with: one outlier does not count."""


class DriftContext(NamedTuple):
    """What judging one series needs to know of the history: runs by number, the anchor's runs, and the settings."""

    runs: Mapping[int, HistoryRun]
    anchors: Collection[int]
    settings: DriftSettings


class MachineOffset(NamedTuple):
    """The size that a machine measured at its first run, and the one that others measured about then."""

    own: float
    others: float

    def applied_to(self, size: float) -> float:
        """Return a size of others as this machine would measure it; a machine that is better is given no credit."""
        return size * max(self.own / self.others, 1.0) if self.others else max(size, self.own)


class SingleReference(NamedTuple):
    """One value to hold runs against, if there is one, and the offset of the machine that did not measure it."""

    value: float | None
    offset: MachineOffset | None


class SeriesWindow(NamedTuple):
    """The measured points that are judged, oldest first, with their sizes, and how.

    `offset` is how many times larger the machine of the last run made sizes than others did, where machines take
    turns: what it was worse by from its first run on is no drift.
    """

    metric: Metric
    points: Sequence[HistoryPoint]
    sizes: Sequence[float]
    mode: DriftMode
    offset: MachineOffset | None = None


def judge_metric(series: HistorySeries, context: DriftContext) -> MetricDrift | None:
    """Judge one metric; None where no run measured it."""
    if (constant := _constant(series, context)) is not None:
        return constant
    measured = [point for point in series.points if point.value is not None]
    if not measured:
        return None
    row = _row(metric_named(series.metric, series.described), measured, context)
    worsenings = _worsenings(row, measured, context)
    since = _unmeasured_since(series.points)
    state = _state(row, worsenings, since, context.settings)
    found = MetricDrift(series.metric, state, row.mode, len(row.points), worsenings, series.points, since)
    if state is not DriftState.IMPROVED:
        return found
    return replace(found, accepted=row.points[-1].accepted, now=_now(row, context.settings))


def _constant(series: HistorySeries, context: DriftContext) -> MetricDrift | None:
    """Answer at once for the series that most are: one value, and the accepted one."""
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


def _row(metric: Metric, measured: Sequence[HistoryPoint], context: DriftContext) -> SeriesWindow:
    """Take the recent points that can be compared with the latest, and find out how they are to be judged."""
    alike = comparable_points(measured, context.runs)
    every = [metric_size(metric, point.value) for point in alike if point.value is not None]
    points, sizes = alike[-context.settings.window :], every[-context.settings.window :]
    offset = _offset(metric, measured, context) if len(alike) < len(measured) else None
    if is_deterministic(points, context.runs):
        return SeriesWindow(metric, points, sizes, DriftMode.EXACT, offset)
    return SeriesWindow(
        metric, points, sizes, DriftMode.STATISTICAL if len(points) >= MIN_RUNS else DriftMode.FEW, offset
    )


def _offset(metric: Metric, measured: Sequence[HistoryPoint], context: DriftContext) -> MachineOffset:
    """Compare the first run of the last run's machine with the nearest runs of others: what became worse is in both."""
    sizes = [metric_size(metric, point.value) for point in measured if point.value is not None]
    prints = [context.runs[point.run].fingerprint for point in measured]
    first = prints.index(prints[-1])
    others = [at for at, fingerprint in enumerate(prints) if fingerprint != prints[-1]]
    nearest = sorted(others, key=lambda at: abs(at - first))[:NEAREST_RUNS]
    return MachineOffset(sizes[first], median(sizes[at] for at in nearest))


def _state(
    row: SeriesWindow, worsenings: Sequence[Worsening], since: int | None, settings: DriftSettings
) -> DriftState:
    if worsenings:
        return DriftState.DRIFT
    if since is not None:
        return DriftState.UNMEASURED
    if len(row.points) < (settings.confirm if row.mode is DriftMode.EXACT else max(settings.confirm, MIN_NOISY_RUNS)):
        return DriftState.TOO_FEW
    accepted = row.points[-1].accepted
    if accepted is not None and _better(row, metric_size(row.metric, accepted), settings):
        return DriftState.IMPROVED
    return DriftState.STEADY


def _unmeasured_since(points: Sequence[HistoryPoint]) -> int | None:
    """Return the first of the runs at the end that gave no value."""
    since = None
    for point in reversed(points):
        if point.value is not None:
            break
        since = point.run
    return since


def _worsenings(row: SeriesWindow, measured: Sequence[HistoryPoint], context: DriftContext) -> tuple[Worsening, ...]:
    """Hold the row against its recent runs, the accepted baseline and the anchor; the latter two are told first."""
    recent = _against_recent(row, context)
    found = (
        _against_value("baseline", row, SingleReference(row.points[-1].accepted, row.offset), recent, context),
        _against_value("anchor", row, _at_anchor(row, measured, context), recent, context),
        recent,
    )
    return tuple(worsening for worsening in found if worsening is not None)


def _against_recent(row: SeriesWindow, context: DriftContext) -> Worsening | None:
    """Hold the latest runs against those before them, as far back as the accepted value did not become worse."""
    start = _last_accepted_loss(row)
    least = drift_min_ratio(row.metric, context.settings.materiality)
    found = worse_than_before(row.sizes[start:], least, context.settings, exact=row.mode is DriftMode.EXACT)
    if found is None or row.mode is DriftMode.FEW:
        return None
    change = change_at(found.at + start, row.points, context.runs)
    return _worsening("recent runs", row, found, value_of_size(row.metric, found.before), change)


def _last_accepted_loss(row: SeriesWindow) -> int:
    """Return the place from which on the accepted value did not become worse: what a person accepted is no drift."""
    accepted = [None if point.accepted is None else metric_size(row.metric, point.accepted) for point in row.points]
    start = 0
    for place, (earlier, later) in enumerate(pairwise(accepted), 1):
        if later is not None and (earlier is None or later > earlier):
            start = place
    return start


def _at_anchor(row: SeriesWindow, measured: Sequence[HistoryPoint], context: DriftContext) -> SingleReference:
    """Return what the anchor's runs measured, on the last run's machine if they can: the middle, of two the worse."""
    machine = context.runs[row.points[-1].run].fingerprint
    of_anchor = [point for point in measured if point.run in context.anchors]
    alike = [point for point in of_anchor if context.runs[point.run].fingerprint == machine]
    values = [point.value for point in alike or of_anchor if point.value is not None]
    middle = sorted(values, key=lambda found: metric_size(row.metric, found))[len(values) // 2] if values else None
    return SingleReference(middle, None if alike else row.offset)


def _against_value(
    against: DriftReference, row: SeriesWindow, single: SingleReference, recent: Worsening | None, context: DriftContext
) -> Worsening | None:
    """Hold the latest runs against one value. Among noise, what is known of the recent runs says best since when."""
    if single.value is None:
        return None
    before = metric_size(row.metric, single.value)
    held_for = _accepted_for(row) if against == "baseline" else len(row.sizes)
    reachable = before if single.offset is None else single.offset.applied_to(before)
    now = _worse_now(row, reachable, held_for, context.settings)
    if now is None:
        return None
    limit = before * drift_min_ratio(row.metric, context.settings.materiality)
    exact = row.mode is DriftMode.EXACT
    at = _first_of_the_worse(row.sizes if exact else running_median(row.sizes), limit)
    change = change_at(at, row.points, context.runs) if exact or recent is None else recent.change
    return _worsening(against, row, FoundWorsening("level", at, before, now), single.value, change)


def _accepted_for(row: SeriesWindow) -> int:
    """Count the latest runs that were judged by the value accepted now."""
    accepted = [point.accepted for point in row.points]
    return next(len(list(same)) for _, same in groupby(reversed(accepted)))


def _first_of_the_worse(sizes: Sequence[float], limit: float) -> int:
    """Return the place from which on all sizes are beyond a limit; the last place at the latest."""
    place = len(sizes) - 1
    while place > 0 and sizes[place - 1] > limit:
        place -= 1
    return place


def _worse_now(row: SeriesWindow, before: float, held_for: int, settings: DriftSettings) -> float | None:
    """Return the present size if it is worse than one size, which was measured once and has the noise of the runs.

    `held_for` is for how many runs that size has been the one to hold: a noisy level from before that says nothing.
    """
    least = drift_min_ratio(row.metric, settings.materiality)
    if row.mode is DriftMode.EXACT:
        latest = row.sizes[-settings.confirm :]
        return _now_size(row, settings) if len(latest) == settings.confirm and min(latest) > least * before else None
    levels = _noisy_levels(row, held_for, settings)
    found = (
        now for now, times in levels if now > max(least, times) * before and noise_beyond(row.sizes, now, before) > 1
    )
    return next(found, None)


def _noisy_levels(row: SeriesWindow, held_for: int, settings: DriftSettings) -> Iterator[tuple[float, float]]:
    """Yield what may stand for the latest noisy runs: their median, and what each of them exceeds.

    Each with how many times as large it has to be, at least.
    """
    median_of = latest_runs(settings.confirm)
    is_settled = len(row.sizes) >= max(MIN_RUNS_FOR_NOISE, median_of)
    if is_settled and held_for >= median_of:
        yield _now_size(row, settings), 1.0
    lasting = max(settings.confirm, 2 if is_settled else MIN_NOISY_RUNS)
    if len(row.sizes) >= lasting:
        yield min(row.sizes[-lasting:]), FEW_RUNS_FACTOR


def _better(row: SeriesWindow, before: float, settings: DriftSettings) -> bool:
    """Tell whether the latest runs are better than the accepted size."""
    least = drift_min_ratio(row.metric, settings.materiality)
    if row.mode is DriftMode.EXACT:
        return least * max(row.sizes[-settings.confirm :]) < before
    held_for = latest_runs(settings.confirm)
    if len(row.sizes) < max(MIN_RUNS_FOR_NOISE, held_for):
        return max(least, FEW_RUNS_FACTOR) * max(row.sizes) < before
    now = _now_size(row, settings)
    return _accepted_for(row) >= held_for and least * now < before and noise_beyond(row.sizes, now, before) < -1


def _now_size(row: SeriesWindow, settings: DriftSettings) -> float:
    return present_level(row.sizes, settings.confirm, exact=row.mode is DriftMode.EXACT)


def _now(row: SeriesWindow, settings: DriftSettings) -> float:
    return value_of_size(row.metric, _now_size(row, settings))


def _worsening(
    against: DriftReference, row: SeriesWindow, found: FoundWorsening, before: float, change: DriftChange
) -> Worsening:
    """Write a finding down in the metric's own unit, with where it began."""
    now = value_of_size(row.metric, found.now)
    times = size_ratio(found.now, found.before)
    return Worsening(against, found.kind, before, now, times if isfinite(times) else None, change, found.a_run)
