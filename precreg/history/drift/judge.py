"""Does one metric drift against its accepted baseline, an anchor and its own recent runs?

Every function is pure. A series that repeats its values is judged exactly: its noise is zero. So any change that lasts
for `confirm` runs and exceeds the materiality ratio is drift. All other series are judged by statistics.
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
    NoiseFact,
    Worsening,
)
from precreg.history.drift.sizes import (
    FoundWorsening,
    drift_min_ratio,
    is_hidden_by_noise,
    is_in_order,
    latest_large_step,
    latest_runs,
    metric_size,
    metric_sizes,
    noise_beyond,
    present_level,
    size_ratio,
    value_of_size,
    worse_than_before,
)
from precreg.history.runs import HistoryRun, changed_facts
from precreg.history.series import HistoryPoint, HistorySeries
from precreg.measure import metric_named
from precreg.types import Metric
from precreg.verdict.statistics import MIN_RUNS, running_median

# A series that returns to earlier values so often is noisy. One or two returns are a change and its revert.
MIN_FLICKERS = 3
# So many pairs of runs must agree for each rerun that differs. In noise of half a step of a coarse grid about 2 do.
MIN_AGREEING_RUNS = 3
# A step is reported at its first run from this run on. Noise on a coarse grid often repeats one value of three, and the
# next rerun differs (benchmarks/drift_study.py).
MIN_RUNS_FOR_STEP = 4
# Every report shows 8 digits of a commit, so a reader can search one report for a commit of another.
COMMIT_DIGITS = 8
# Below MIN_RUNS_FOR_NOISE runs the noise is not known. The last runs must then all exceed a value by this factor.
FEW_RUNS_FACTOR = 2.0
# The standard deviation is estimated from the runs themselves. With fewer runs it is too uncertain for a comparison
# with a value that was measured once.
MIN_RUNS_FOR_NOISE = 12
# With fewer noisy runs a single outlier would decide, so the series is not judged.
MIN_NOISY_RUNS = 5
# The median of 3 runs of other machines ignores one outlier.
NEAREST_RUNS = 3


def comparable_points(points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> Sequence[HistoryPoint]:
    """Return the points to compare the last one with: all, or only its own machine's if machines take turns.

    Machines take turns if the last fingerprint disappeared and came back.
    """
    places = comparable_places([runs[point.run].fingerprint for point in points])
    return points if len(places) == len(points) else [points[place] for place in places]


def comparable_places(prints: Sequence[str]) -> Sequence[int]:
    """Return the places of the runs to compare the last one with, by the fingerprints of the runs."""
    blocks = [fingerprint for fingerprint, _ in groupby(prints)]
    # A fingerprint with one block is a change of the environment. The earlier points stay, because an upgrade of a
    # library can cause the loss that the monitor looks for.
    if blocks.count(prints[-1]) == 1:
        return range(len(prints))
    return [place for place, fingerprint in enumerate(prints) if fingerprint == prints[-1]]


def is_deterministic(points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> bool:
    """Return True if at least half of the successive runs on one fingerprint have the same bits, and reruns mostly do.

    At most one rerun of the same code may differ for each MIN_AGREEING_RUNS pairs that agree.
    """
    pairs = [
        (earlier, later)
        for earlier, later in pairwise(points)
        if runs[earlier.run].fingerprint == runs[later.run].fingerprint
    ]
    # Half is enough, because every change of the code breaks one pair of a deterministic series. A series that flickers
    # between few values also has equal neighbours, but by coincidence.
    agree = sum(earlier.value == later.value for earlier, later in pairs)
    if not pairs or 2 * agree < len(pairs) or flickers([point.value for point in points]):
        return False
    # No change of the code explains that a rerun differs: it is noise, or one outlier in a long row.
    differ = sum(
        earlier.value != later.value and not is_other_code(runs[earlier.run], runs[later.run])
        for earlier, later in pairs
    )
    return agree >= MIN_AGREEING_RUNS * differ


def flickers(values: Sequence[float | None]) -> bool:
    """Return True if at least MIN_FLICKERS and half of the changes return to a value seen before."""
    # New values mean that the code changed. Returns to values seen before mean that the same code has several results.
    changes = returns = 0
    seen: set[float | None] = {values[0]}
    for earlier, later in pairwise(values):
        changes += earlier != later
        returns += earlier != later and later in seen
        seen.add(later)
    return returns >= MIN_FLICKERS and 2 * returns >= changes


def change_at(place: int, points: Sequence[HistoryPoint], runs: Mapping[int, HistoryRun]) -> DriftChange:
    """Describe the change between the point at a place and the point before it."""
    bad = runs[points[place].run]
    # The window begins with the worse level, so no run in it is known to be good.
    if place == 0:
        return DriftChange(None, bad.number, bad.commit[:COMMIT_DIGITS])
    good = runs[points[place - 1].run]
    return DriftChange(good.number, bad.number, _commits(good, bad), _facts_changed(good, bad))


def _commits(good: HistoryRun, bad: HistoryRun) -> str:
    """Write the range of commits to search, as `git log` reads it; one commit if both runs ran it."""
    ends = [good.commit[:COMMIT_DIGITS], bad.commit[:COMMIT_DIGITS]]
    # git excludes the first commit of A..B, and that run was good. With one commit the range would be empty.
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def _facts_changed(good: HistoryRun, bad: HistoryRun) -> tuple[str, ...]:
    """List the facts of the environment that differ; empty if the fingerprints agree."""
    if good.fingerprint == bad.fingerprint:
        return ()
    return tuple(f"{name} {was} -> {now}" for name, was, now in changed_facts(good, bad))


class DriftContext(NamedTuple):
    """Hold the facts of a history that every series needs: runs by number, the anchor's runs, and the settings."""

    runs: Mapping[int, HistoryRun]
    anchors: Collection[int]
    settings: DriftSettings


class MachineOffset(NamedTuple):
    """Hold the size at a machine's first run, and the median size of other machines near that run."""

    own: float
    others: float

    def applied_to(self, size: float) -> float:
        """Return the size that this machine would have measured, from a size that another machine measured."""
        # A better machine gets no credit: a factor below 1 would call a run worse that is as good as the baseline. From
        # 0 no ratio exists, so the machine's own first size is the reference.
        return size * max(self.own / self.others, 1.0) if self.others else max(size, self.own)


class SingleReference(NamedTuple):
    """Hold one value to compare runs with, None if unknown, and the offset of a machine that did not measure it."""

    value: float | None
    offset: MachineOffset | None


class SeriesWindow(NamedTuple):
    """Hold the measured points that are judged, oldest first, with their sizes and the mode.

    If machines take turns, `offset` compares the last run's machine with the others.
    """

    metric: Metric
    points: Sequence[HistoryPoint]
    sizes: Sequence[float]
    mode: DriftMode
    # A loss that a machine shows from its first run on is a property of the machine, and no drift.
    offset: MachineOffset | None = None


def judge_metric(series: HistorySeries, context: DriftContext) -> MetricDrift | None:
    """Judge one metric; None if no run measured it."""
    # Most series of a history are constant, so this check saves the sizes, windows and tests for all of them.
    if (constant := _constant(series, context)) is not None:
        return constant
    measured = [point for point in series.points if point.value is not None]
    if not measured:
        return None
    row = _row(metric_named(series.metric, series.described), measured, context)
    context = context._replace(settings=_effective_settings(row, context))
    worsenings = _worsenings(row, measured, context)
    since = _unmeasured_since(series.points)
    state = _state(row, worsenings, since, context.settings)
    found = MetricDrift(series.metric, state, row.mode, len(row.points), worsenings, series.points, since)
    if state is DriftState.STEADY and (noise := _hiding_noise(row, context.settings)) is not None:
        return replace(found, state=DriftState.TOO_NOISY, noise=noise)
    if state is not DriftState.IMPROVED:
        return found
    now = _now(row, context.settings)
    return replace(found, accepted=row.points[-1].accepted, now=now, improved=_gain(row, context))


def _effective_settings(row: SeriesWindow, context: DriftContext) -> DriftSettings:
    """Return the settings, with one confirming run for a large step of an exact series at a run of other code."""
    # The same code on the same machine gives the same bits. If it does not, the run is an outlier until it repeats.
    if row.mode is not DriftMode.EXACT or len(row.points) < MIN_RUNS_FOR_STEP:
        return context.settings
    step = latest_large_step(row.sizes, drift_min_ratio(row.metric, context.settings.materiality))
    is_new = step is not None and step.at == len(row.sizes) - 1
    if is_new and is_other_code(context.runs[row.points[-2].run], context.runs[row.points[-1].run]):
        return replace(context.settings, confirm=1)
    return context.settings


def is_other_code(before: HistoryRun, after: HistoryRun) -> bool:
    """Return True if the two runs may have run different code: other commits, no commits, changes, or environments."""
    same = before.commit == after.commit != "" and not (before.dirty or after.dirty)
    return not same or before.fingerprint != after.fingerprint


def _constant(series: HistorySeries, context: DriftContext) -> MetricDrift | None:
    """Return the finding on a series with one value throughout, equal to the accepted value; None for any other."""
    first, last = series.points[0], series.points[-1]
    if last.value is None or last.accepted not in (None, last.value) or len(series.points) < context.settings.confirm:
        return None
    # The first comparison ends the check of most changed series before the loop over all points.
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
    """Select the recent points that are comparable with the latest, and choose the mode of judging them."""
    alike = comparable_points(measured, context.runs)
    # Filter first and cut then: a window of all machines would leave each machine only its share of the runs.
    points = alike[-context.settings.window :]
    sizes = metric_sizes(metric, (point.value for point in points if point.value is not None))
    offset = _offset(metric, measured, context) if len(alike) < len(measured) else None
    if is_deterministic(points, context.runs):
        return SeriesWindow(metric, points, sizes, DriftMode.EXACT, offset)
    return SeriesWindow(
        metric, points, sizes, DriftMode.STATISTICAL if len(points) >= MIN_RUNS else DriftMode.FEW, offset
    )


def _offset(metric: Metric, measured: Sequence[HistoryPoint], context: DriftContext) -> MachineOffset:
    """Compare the first run of the last run's machine with the nearest runs of other machines."""
    sizes = metric_sizes(metric, (point.value for point in measured if point.value is not None))
    prints = [context.runs[point.run].fingerprint for point in measured]
    first = prints.index(prints[-1])
    others = [at for at, fingerprint in enumerate(prints) if fingerprint != prints[-1]]
    # Near runs ran nearly the same code, so a loss of the code is in both sizes and cancels in their ratio.
    nearest = sorted(others, key=lambda at: abs(at - first))[:NEAREST_RUNS]
    return MachineOffset(sizes[first], median(sizes[at] for at in nearest))


def _state(
    row: SeriesWindow, worsenings: Sequence[Worsening], since: int | None, settings: DriftSettings
) -> DriftState:
    # The order is the order of urgency: a loss in earlier runs stays a loss even if the latest run measured nothing.
    if worsenings:
        return DriftState.DRIFT
    if since is not None:
        return DriftState.UNMEASURED
    # Exact series need only the runs that confirm a change, because they have no noise to estimate.
    if len(row.points) < (settings.confirm if row.mode is DriftMode.EXACT else max(settings.confirm, MIN_NOISY_RUNS)):
        return DriftState.TOO_FEW
    accepted = row.points[-1].accepted
    if accepted is not None and _better(row, metric_size(row.metric, accepted), settings):
        return DriftState.IMPROVED
    return DriftState.STEADY


def _hiding_noise(row: SeriesWindow, settings: DriftSettings) -> NoiseFact | None:
    """Return the noise that hides a loss among the recent runs; None if nothing is hidden."""
    if row.mode is not DriftMode.STATISTICAL:
        return None
    least = drift_min_ratio(row.metric, settings.materiality)
    return is_hidden_by_noise(row.sizes[_last_accepted_loss(row) :], least, settings)


def _gain(row: SeriesWindow, context: DriftContext) -> DriftChange:
    """Describe the place after which every size is better than the accepted one."""
    accepted = row.points[-1].accepted
    size = 0.0 if accepted is None else metric_size(row.metric, accepted)
    limit = size / drift_min_ratio(row.metric, context.settings.materiality)
    calm = row.sizes if row.mode is DriftMode.EXACT else running_median(row.sizes)
    return change_at(_first_of_the_worse([-one for one in calm], -limit), row.points, context.runs)


def _unmeasured_since(points: Sequence[HistoryPoint]) -> int | None:
    """Return the first run of the unbroken series at the end without a value; None if the last run has one."""
    since = None
    for point in reversed(points):
        if point.value is not None:
            break
        since = point.run
    return since


def _worsenings(row: SeriesWindow, measured: Sequence[HistoryPoint], context: DriftContext) -> tuple[Worsening, ...]:
    """Compare the latest runs with the accepted baseline, the anchor and the recent runs, in that order."""
    # First, because the other two take the place of the change from it if the series is noisy. It is listed last: a
    # reader needs the loss against an accepted value most.
    recent = _against_recent(row, context)
    found = (
        _against_value("baseline", row, SingleReference(row.points[-1].accepted, row.offset), recent, context),
        _against_value("anchor", row, _at_anchor(row, measured, context), recent, context),
        recent,
    )
    return tuple(worsening for worsening in found if worsening is not None)


def _against_recent(row: SeriesWindow, context: DriftContext) -> Worsening | None:
    """Compare the latest runs with the runs before them, back to the last accepted loss."""
    start = _last_accepted_loss(row)
    least = drift_min_ratio(row.metric, context.settings.materiality)
    found = worse_than_before(row.sizes[start:], least, context.settings, exact=row.mode is DriftMode.EXACT)
    # Ranks of a few noisy runs prove nothing; such a series is compared only with the baseline and the anchor.
    if found is None or row.mode is DriftMode.FEW:
        return None
    change = change_at(found.at + start, row.points, context.runs)
    return _worsening("recent runs", row, found, value_of_size(row.metric, found.before), change)


def _last_accepted_loss(row: SeriesWindow) -> int:
    """Return the first place after which the accepted value did not become worse."""
    # Runs before a loss that a person accepted had a better level. Compared with them, the accepted loss would count as
    # drift at every later run.
    start = 0
    for place, (earlier, later) in enumerate(pairwise([point.accepted for point in row.points]), 1):
        # Nearly every run has the accepted value of the run before.
        if later is None or later == earlier:
            continue
        if earlier is None or metric_size(row.metric, later) > metric_size(row.metric, earlier):
            start = place
    return start


def _at_anchor(row: SeriesWindow, measured: Sequence[HistoryPoint], context: DriftContext) -> SingleReference:
    """Return the median of the anchor's runs, on the last run's machine if it has any."""
    machine = context.runs[row.points[-1].run].fingerprint
    of_anchor = [point for point in measured if point.run in context.anchors]
    alike = [point for point in of_anchor if context.runs[point.run].fingerprint == machine]
    values = [point.value for point in alike or of_anchor if point.value is not None]
    # An element, not the mean of two: the report shows a value that a run measured. Of two the worse, so noise at the
    # anchor raises no alarm.
    middle = sorted(values, key=lambda found: metric_size(row.metric, found))[len(values) // 2] if values else None
    return SingleReference(middle, None if alike else row.offset)


def _against_value(
    against: DriftReference, row: SeriesWindow, single: SingleReference, recent: Worsening | None, context: DriftContext
) -> Worsening | None:
    """Compare the latest runs with one value; None if they are not worse."""
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
    # In noise single runs cross the limit early or late. The fitted step or line of the recent runs places the change
    # better.
    change = change_at(at, row.points, context.runs) if exact or recent is None else recent.change
    return _worsening(against, row, FoundWorsening("level", at, before, now), single.value, change)


def _accepted_for(row: SeriesWindow) -> int:
    """Count the latest runs that were judged by the value accepted now."""
    accepted = [point.accepted for point in row.points]
    return next(len(list(same)) for _, same in groupby(reversed(accepted)))


def _first_of_the_worse(sizes: Sequence[float], limit: float) -> int:
    """Return the first place after which all sizes exceed a limit; the last place at the latest."""
    place = len(sizes) - 1
    while place > 0 and sizes[place - 1] > limit:
        place -= 1
    return place


def _worse_now(row: SeriesWindow, before: float, held_for: int, settings: DriftSettings) -> float | None:
    """Return the present size if it is worse than a single size `before`; None if not.

    `held_for` is the number of latest runs to which that size applies.
    """
    least = drift_min_ratio(row.metric, settings.materiality)
    if row.mode is DriftMode.EXACT:
        latest = row.sizes[-settings.confirm :]
        # All of the confirming runs must be worse: a single bad night proves no drift. The single value was measured,
        # too, so it is the first of the row.
        worse = len(latest) == settings.confirm and min(latest) > least * before
        return _now_size(row, settings) if worse and is_in_order([before, *row.sizes], before, least) else None
    levels = _noisy_levels(row, held_for, settings)
    found = (
        # The materiality ratio and the noise must both be exceeded. A significant change may be too small to matter,
        # and a large one may be noise.
        now
        for now, times in levels
        if now > max(least, times) * before and noise_beyond(row.sizes, now, before) > 1
    )
    return next(found, None)


def _noisy_levels(row: SeriesWindow, held_for: int, settings: DriftSettings) -> Iterator[tuple[float, float]]:
    """Yield candidates for the present level of noisy runs, each with the smallest ratio that it must reach.

    The candidates are the median of the latest runs, and the size that each of the latest runs exceeds.
    """
    median_of = latest_runs(settings.confirm)
    is_settled = len(row.sizes) >= max(MIN_RUNS_FOR_NOISE, median_of)
    # After an acceptance the median still covers runs of older code. A gain would then look like a loss against the
    # value just accepted.
    if is_settled and held_for >= median_of:
        yield _now_size(row, settings), 1.0
    # The minimum needs fewer runs than the median, so a large loss is found sooner. One run is never enough, because
    # outliers of noisy series are large.
    lasting = max(settings.confirm, 2 if is_settled else MIN_NOISY_RUNS)
    if len(row.sizes) >= lasting:
        yield min(row.sizes[-lasting:]), FEW_RUNS_FACTOR


def _better(row: SeriesWindow, before: float, settings: DriftSettings) -> bool:
    """Return True if the latest runs are better than the accepted size."""
    least = drift_min_ratio(row.metric, settings.materiality)
    if row.mode is DriftMode.EXACT:
        return least * max(row.sizes[-settings.confirm :]) < before
    held_for = latest_runs(settings.confirm)
    if len(row.sizes) < max(MIN_RUNS_FOR_NOISE, held_for):
        # All runs must be better by the wide factor, not only the latest: a gain has no hurry, because it fails
        # nothing.
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
    """Return a finding in the metric's own unit, with the change where it began."""
    now = value_of_size(row.metric, found.now)
    # JSON has no infinity, so growth from a perfect value is stored as None.
    times = size_ratio(found.now, found.before)
    return Worsening(against, found.kind, before, now, times if isfinite(times) else None, change, found.a_run)
