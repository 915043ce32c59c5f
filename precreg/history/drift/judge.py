"""Does a metric drift? One series against its accepted baseline, an anchor and its own recent runs: a pure function.

A series that repeats itself is judged exactly: its noise is zero, so a change that lasts for `confirm` runs and is
larger than the materiality ratio is drift. One that does not repeat is judged by the statistics of `detect`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import isfinite
from statistics import median
from typing import NamedTuple

from precreg.history.drift import wording
from precreg.history.drift.changes import change_at, comparable, repeats
from precreg.history.drift.recent import Found, latest_runs, level, noise_beyond, worse_than_before
from precreg.history.drift.record import Against, Change, MetricDrift, Mode, Settings, State, Worsening
from precreg.history.drift.sizes import least_ratio, ratio, size, value
from precreg.history.series import Point, Run, Series
from precreg.verdict.statistics.detect import LEAST_RUNS, calmed

FEW_FACTOR = 2.0
"""Held against one value, the last noisy runs must all be so many times larger where their median does not count."""


SETTLED = 12
"""Runs from which the noise of a series is known well enough to hold it against one value."""


FEWEST = 5
"""Noisy runs below which nothing is said."""


NEAREST = 3
"""Runs of other machines that the first run of a machine is compared with: one outlier does not count."""


class Context(NamedTuple):
    """What judging one series needs to know of the history: runs by number, the anchor's runs, and the settings."""

    runs: Mapping[int, Run]
    anchors: Collection[int]
    settings: Settings


class Offset(NamedTuple):
    """The size that a machine measured at its first run, and the one that others measured about then."""

    own: float
    others: float

    def applied_to(self, size: float) -> float:
        """Return a size of others as this machine would measure it; a machine that is better is given no credit."""
        return size * max(self.own / self.others, 1.0) if self.others else max(size, self.own)


class Single(NamedTuple):
    """One value to hold runs against, if there is one, and the offset of the machine that did not measure it."""

    value: float | None
    offset: Offset | None


class Row(NamedTuple):
    """The measured points that are judged, oldest first, with their sizes, and how.

    `offset` is how many times larger the machine of the last run made sizes than others did, where machines take
    turns: what it was worse by from its first run on is no drift.
    """

    metric: str
    points: Sequence[Point]
    sizes: Sequence[float]
    mode: Mode
    offset: Offset | None = None


def judge_metric(series: Series, context: Context) -> MetricDrift | None:
    """Judge one metric; None where no run measured it."""
    if (constant := _constant(series, context)) is not None:
        return constant
    measured = [point for point in series.points if point.value is not None]
    if not measured:
        return None
    row = _row(series.metric, measured, context)
    worsenings = _worsenings(row, measured, context)
    since = _unmeasured_since(series.points)
    state, message = _state(row, worsenings, since, context.settings)
    return MetricDrift(series.metric, state, row.mode, len(row.points), worsenings, message, series.points, since)


def _constant(series: Series, context: Context) -> MetricDrift | None:
    """Answer at once for the series that most are: one value, and the accepted one."""
    first, last = series.points[0], series.points[-1]
    if last.value is None or last.accepted not in (None, last.value) or len(series.points) < context.settings.confirm:
        return None
    if first.value != last.value or any(point.value != last.value for point in series.points):
        return None
    return MetricDrift(
        series.metric, State.STEADY, Mode.EXACT, min(len(series.points), context.settings.window), points=series.points
    )


def _row(metric: str, measured: Sequence[Point], context: Context) -> Row:
    """Take the recent points that can be compared with the latest, and find out how they are to be judged."""
    alike = comparable(measured, context.runs)
    every = [size(metric, point.value) for point in alike if point.value is not None]
    points, sizes = alike[-context.settings.window :], every[-context.settings.window :]
    offset = _offset(metric, measured, context) if len(alike) < len(measured) else None
    if repeats(points, context.runs):
        return Row(metric, points, sizes, Mode.EXACT, offset)
    return Row(metric, points, sizes, Mode.STATISTICAL if len(points) >= LEAST_RUNS else Mode.FEW, offset)


def _offset(metric: str, measured: Sequence[Point], context: Context) -> Offset:
    """Compare the first run of the last run's machine with the nearest runs of others: what became worse is in both."""
    sizes = [size(metric, point.value) for point in measured if point.value is not None]
    prints = [context.runs[point.run].fingerprint for point in measured]
    first = prints.index(prints[-1])
    others = [at for at, fingerprint in enumerate(prints) if fingerprint != prints[-1]]
    nearest = sorted(others, key=lambda at: abs(at - first))[:NEAREST]
    return Offset(sizes[first], median(sizes[at] for at in nearest))


def _state(row: Row, worsenings: Sequence[Worsening], since: int | None, settings: Settings) -> tuple[State, str]:
    if worsenings:
        return State.DRIFT, worsenings[0].message
    if since is not None:
        return State.UNMEASURED, f"{row.metric} is not measured since run {since}"
    if len(row.points) < (settings.confirm if row.mode is Mode.EXACT else max(settings.confirm, FEWEST)):
        return State.TOO_FEW, f"{wording.runs(len(row.points))} cannot tell whether {row.metric} drifts"
    accepted = row.points[-1].accepted
    if accepted is not None and _better(row, size(row.metric, accepted), settings):
        return State.IMPROVED, wording.better(row.metric, accepted, _now(row, settings))
    return State.STEADY, ""


def _unmeasured_since(points: Sequence[Point]) -> int | None:
    """Return the first of the runs at the end that gave no value."""
    since = None
    for point in reversed(points):
        if point.value is not None:
            break
        since = point.run
    return since


def _worsenings(row: Row, measured: Sequence[Point], context: Context) -> tuple[Worsening, ...]:
    """Hold the row against its recent runs, the accepted baseline and the anchor; the latter two are told first."""
    recent = _against_recent(row, context)
    found = (
        _against_value("baseline", row, Single(row.points[-1].accepted, row.offset), recent, context),
        _against_value("anchor", row, _at_anchor(row, measured, context), recent, context),
        recent,
    )
    return tuple(worsening for worsening in found if worsening is not None)


def _against_recent(row: Row, context: Context) -> Worsening | None:
    """Hold the latest runs against those before them, as far back as the accepted value did not become worse."""
    start = _last_accepted_loss(row)
    least = least_ratio(row.metric, context.settings.materiality)
    found = worse_than_before(row.sizes[start:], least, context.settings, exact=row.mode is Mode.EXACT)
    if found is None or row.mode is Mode.FEW:
        return None
    change = change_at(found.at + start, row.points, context.runs)
    return _worsening("recent runs", row, found, value(row.metric, found.before), change)


def _last_accepted_loss(row: Row) -> int:
    """Return the place from which on the accepted value did not become worse: what a person accepted is no drift."""
    accepted = [None if point.accepted is None else size(row.metric, point.accepted) for point in row.points]
    start = 0
    for place, (earlier, later) in enumerate(pairwise(accepted), 1):
        if later is not None and (earlier is None or later > earlier):
            start = place
    return start


def _at_anchor(row: Row, measured: Sequence[Point], context: Context) -> Single:
    """Return what the anchor's runs measured, on the last run's machine if they can: the middle, of two the worse."""
    machine = context.runs[row.points[-1].run].fingerprint
    of_anchor = [point for point in measured if point.run in context.anchors]
    alike = [point for point in of_anchor if context.runs[point.run].fingerprint == machine]
    values = [point.value for point in alike or of_anchor if point.value is not None]
    middle = sorted(values, key=lambda found: size(row.metric, found))[len(values) // 2] if values else None
    return Single(middle, None if alike else row.offset)


def _against_value(
    against: Against, row: Row, single: Single, recent: Worsening | None, context: Context
) -> Worsening | None:
    """Hold the latest runs against one value. Among noise, what is known of the recent runs says best since when."""
    if single.value is None:
        return None
    before = size(row.metric, single.value)
    held_for = _accepted_for(row) if against == "baseline" else len(row.sizes)
    reachable = before if single.offset is None else single.offset.applied_to(before)
    now = _worse_now(row, reachable, held_for, context.settings)
    if now is None:
        return None
    limit = before * least_ratio(row.metric, context.settings.materiality)
    exact = row.mode is Mode.EXACT
    at = _first_of_the_worse(row.sizes if exact else calmed(row.sizes), limit)
    change = change_at(at, row.points, context.runs) if exact or recent is None else recent.change
    return _worsening(against, row, Found("level", at, before, now), single.value, change)


def _accepted_for(row: Row) -> int:
    """Count the latest runs that were judged by the value accepted now."""
    accepted = [point.accepted for point in row.points]
    return next(len(list(same)) for _, same in groupby(reversed(accepted)))


def _first_of_the_worse(sizes: Sequence[float], limit: float) -> int:
    """Return the place from which on all sizes are beyond a limit; the last place at the latest."""
    place = len(sizes) - 1
    while place > 0 and sizes[place - 1] > limit:
        place -= 1
    return place


def _worse_now(row: Row, before: float, held_for: int, settings: Settings) -> float | None:
    """Return the present size if it is worse than one size, which was measured once and has the noise of the runs.

    `held_for` is for how many runs that size has been the one to hold: a noisy level from before that says nothing.
    """
    least = least_ratio(row.metric, settings.materiality)
    if row.mode is Mode.EXACT:
        latest = row.sizes[-settings.confirm :]
        return _now_size(row, settings) if len(latest) == settings.confirm and min(latest) > least * before else None
    levels = _noisy_levels(row, held_for, settings)
    found = (
        now for now, times in levels if now > max(least, times) * before and noise_beyond(row.sizes, now, before) > 1
    )
    return next(found, None)


def _noisy_levels(row: Row, held_for: int, settings: Settings) -> Iterator[tuple[float, float]]:
    """Yield what may stand for the latest noisy runs: their median, and what each of them exceeds.

    Each with how many times as large it has to be, at least.
    """
    median_of = latest_runs(settings.confirm)
    is_settled = len(row.sizes) >= max(SETTLED, median_of)
    if is_settled and held_for >= median_of:
        yield _now_size(row, settings), 1.0
    lasting = max(settings.confirm, 2 if is_settled else FEWEST)
    if len(row.sizes) >= lasting:
        yield min(row.sizes[-lasting:]), FEW_FACTOR


def _better(row: Row, before: float, settings: Settings) -> bool:
    """Tell whether the latest runs are better than the accepted size."""
    least = least_ratio(row.metric, settings.materiality)
    if row.mode is Mode.EXACT:
        return least * max(row.sizes[-settings.confirm :]) < before
    held_for = latest_runs(settings.confirm)
    if len(row.sizes) < max(SETTLED, held_for):
        return max(least, FEW_FACTOR) * max(row.sizes) < before
    now = _now_size(row, settings)
    return _accepted_for(row) >= held_for and least * now < before and noise_beyond(row.sizes, now, before) < -1


def _now_size(row: Row, settings: Settings) -> float:
    return level(row.sizes, settings.confirm, exact=row.mode is Mode.EXACT)


def _now(row: Row, settings: Settings) -> float:
    return value(row.metric, _now_size(row, settings))


def _worsening(against: Against, row: Row, found: Found, before: float, change: Change) -> Worsening:
    """Write a finding down in the metric's own unit, with where it began."""
    now = value(row.metric, found.now)
    times = ratio(found.now, found.before)
    message = wording.worse(against, row.metric, found, before, now, change.first_bad)
    known = times if isfinite(times) else None
    return Worsening(against, found.kind, before, now, known, message, change, found.a_run)
