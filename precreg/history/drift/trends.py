"""How did the cases and suites of a whole history develop, in all of its environments?

Hindsight finds the changes. A trend adds the values around them, the accepted levels, and the verdicts of the runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import exp, inf, isfinite, log
from typing import NamedTuple

from msgspec import Struct

from precreg.errors import UserError
from precreg.history.drift.hindsight import HindsightChange, look_back
from precreg.history.drift.sizes import metric_order, metric_size, size_ratio
from precreg.history.runs import HistoryRun
from precreg.history.series import CaseCourse, HistoryPoint, HistorySeries
from precreg.history.store import History
from precreg.measure import metric_named
from precreg.suite import select_names
from precreg.types import MetricDescription, Status
from precreg.verdict import status_of_reason

# Other metrics of an output mostly show the same changes.
MAX_TREND_METRICS = 2


class TrendLine(Struct, frozen=True):
    """Hold one metric of one output of a case in one environment, and its changes, oldest first.

    `growth` compares the size of the last value with that of the accepted baseline, or of the first value without one.
    It is infinite from a size of 0.
    """

    output: str
    metric: str
    environment: str
    points: tuple[HistoryPoint, ...]
    changes: tuple[HindsightChange, ...]
    growth: float


class CaseTrend(Struct, frozen=True):
    """Hold the lines of one case, and by environment the reasons of the runs in which it failed or had an error.

    `latest` is the reason at the newest run of each environment.
    """

    case: str
    lines: tuple[TrendLine, ...]
    failures: dict[str, dict[int, str]]
    latest: dict[str, str]


class SuiteTrend(Struct, frozen=True):
    """Hold one suite in one environment, by the number of the run.

    `growth` is the geometric mean of the sizes of its cases, each compared with its own first run. `failed` counts the
    cases that failed or had an error, and `ran` all cases.
    """

    suite: str
    environment: str
    growth: dict[int, float]
    failed: dict[int, int]
    ran: dict[int, int]


class TrendsRecord(Struct, frozen=True):
    """Hold the trends of a history: the cases worth a look first. `series` counts those that have a value."""

    precreg: str
    project: str
    made: str
    materiality: float
    metric: str | None
    runs: tuple[HistoryRun, ...]
    environments: tuple[str, ...]
    series: int
    cases: tuple[CaseTrend, ...]
    suites: tuple[SuiteTrend, ...]


class TrendOptions(NamedTuple):
    """Hold the choice of a reader: cases, environments, one metric instead of the usual, and a time in UTC."""

    patterns: Sequence[str] = ()
    environments: Sequence[str] = ()
    metric: str | None = None
    since: str | None = None
    materiality: float = 1.02


def read_trends(history: History, options: TrendOptions, *, version: str, made: str) -> TrendsRecord:
    """Read the trends of all cases that match.

    Raises:
        UserError: empty-history, nothing-selected (a pattern, a label or a metric that the history does not have).
    """
    runs = _runs(history.runs(), options)
    environments = tuple(sorted({run.environment for run in runs}))
    if options.patterns:
        known = {case for environment in environments for case in history.cases(environment)}
        select_names(known, options.patterns, noun="case of the history")
    reader = _Reader(runs, options)
    for environment in environments:
        since = next(run.number for run in runs if run.environment == environment)
        for course in history.courses(environment, reader.wants, since=since, cases=options.patterns):
            reader.add(environment, course)
    if options.metric is not None and options.metric not in reader.metrics:
        select_names(reader.metrics, (options.metric,), noun="metric of these cases")
        raise UserError("nothing-selected", f"expected a whole name of a metric but got metric={options.metric}")
    return TrendsRecord(
        precreg=version,
        project=history.project,
        made=made,
        materiality=options.materiality,
        metric=options.metric,
        runs=runs,
        environments=environments,
        series=reader.series,
        cases=tuple(sorted(reader.cases(), key=trend_rank)),
        suites=tuple(reader.suites()),
    )


def _runs(every: Sequence[HistoryRun], options: TrendOptions) -> tuple[HistoryRun, ...]:
    """Return the runs to show. Raises UserError: empty-history, nothing-selected."""
    labels = {run.environment for run in every}
    if labels and options.environments:
        for label in options.environments:
            if label not in labels:
                there = f"there are runs of {', '.join(sorted(labels))}"
                raise UserError("empty-history", f"expected a run of environment {label} in the history; {there}")
        labels = {*options.environments}
    found = tuple(
        run for run in every if run.environment in labels and (options.since is None or run.started >= options.since)
    )
    if not found:
        newest = f"; the newest is of {every[-1].started}" if every else ", which has none"
        since = "" if options.since is None else f" that started at {options.since} or later"
        raise UserError("empty-history", f"expected a run{since} in the history{newest}")
    return found


def case_loss(trend: CaseTrend) -> float:
    """Return the largest ratio of a regression, or of the last value to the accepted one; 1 without a loss."""
    ratios = [change.ratio or inf for line in trend.lines for change in line.changes if change.worse]
    return max([1.0, *ratios, *(line.growth for line in trend.lines)])


def trend_rank(trend: CaseTrend) -> tuple[int, float, str]:
    """Order trends: failures of now and regressions by their size, other losses, improvements, and the others."""
    changes = [change for line in trend.lines for change in line.changes]
    loss = case_loss(trend)
    if is_failing(trend) or any(change.worse for change in changes):
        part = 0
    else:
        part = 1 if loss > 1 or any(trend.failures.values()) else 2 if changes else 3
    return part, -loss, trend.case


def is_failing(trend: CaseTrend) -> bool:
    """Return whether the case failed or had an error at its newest run in any environment."""
    return any(_is_failure(reason) for reason in trend.latest.values())


def suite_of(case: str) -> str:
    """Return the tier and the suite of a case: the first two parts of its id."""
    # Names of cases may contain slashes.
    return "/".join(case.split("/", 2)[:2])


class _Reader:
    """Collect the courses of all environments by case and by suite."""

    def __init__(self, runs: Sequence[HistoryRun], options: TrendOptions) -> None:
        self.options, self.series = options, 0
        self.metrics: set[str] = set()
        self._runs: dict[str, list[HistoryRun]] = defaultdict(list)
        for run in runs:
            self._runs[run.environment].append(run)
        self._lines: dict[str, list[TrendLine]] = defaultdict(list)
        self._failures: dict[str, dict[str, dict[int, str]]] = defaultdict(dict)
        self._latest: dict[str, dict[str, str]] = defaultdict(dict)
        self._suites: dict[tuple[str, str], _SuiteSums] = defaultdict(_SuiteSums)

    def wants(self, metric: str, described: Sequence[MetricDescription]) -> bool:
        """Return whether to read a metric: those that drift judges, or the one that the reader chose."""
        self.metrics.add(metric)
        chosen = self.options.metric
        return metric == chosen if chosen is not None else metric_named(metric, described).judged

    def add(self, environment: str, course: CaseCourse) -> None:
        """Add the course of a case in one environment."""
        if not course.reasons:
            return
        runs, case = self._runs[environment], course.case
        failed = {run: reason for run, reason in course.reasons.items() if _is_failure(reason)}
        if failed:
            self._failures[case][environment] = failed
        self._latest[case][environment] = [*course.reasons.values()][-1]
        found, count = look_back(course.series, runs, self.options.materiality)
        self.series += count
        changes = {each.output: each.changes for each in found}
        headlines = []
        for output, group in groupby(course.series, key=lambda one: one.output):
            lines = list(_lines(environment, [*group], changes.get(output, ()), self.options.metric))
            self._lines[case] += lines
            headlines += lines[:1]
        series = {(one.output, one.metric): one for one in course.series}
        growths = (_growths(series[line.output, line.metric]) for line in headlines)
        self._suites[suite_of(case), environment].add(course.reasons, failed, growths)

    def cases(self) -> Iterator[CaseTrend]:
        """Yield the trends of all cases, the line with the largest change first."""
        for case, latest in self._latest.items():
            lines = sorted(self._lines.get(case, ()), key=_line_rank)
            yield CaseTrend(case, tuple(lines), self._failures.get(case, {}), latest)

    def suites(self) -> Iterator[SuiteTrend]:
        """Yield the trends of all suites, sorted by name and environment."""
        for (suite, environment), sums in sorted(self._suites.items(), key=lambda item: item[0]):
            order = [run.number for run in self._runs[environment] if run.number in sums.ran]
            growth = {run: exp(sums.logs[run] / sums.counts[run]) for run in order if run in sums.counts}
            failed = {run: sums.failed[run] for run in order if sums.failed.get(run)}
            yield SuiteTrend(suite, environment, growth, failed, {run: sums.ran[run] for run in order})


class _SuiteSums:
    """Sum the cases of one suite in one environment, by the number of the run."""

    def __init__(self) -> None:
        self.logs: dict[int, float] = defaultdict(float)
        self.counts: dict[int, int] = defaultdict(int)
        self.failed: dict[int, int] = defaultdict(int)
        self.ran: dict[int, int] = defaultdict(int)

    def add(
        self, reasons: Iterable[int], failed: Iterable[int], growths: Iterable[Iterable[tuple[int, float]]]
    ) -> None:
        for run in reasons:
            self.ran[run] += 1
        for run in failed:
            self.failed[run] += 1
        for growth in growths:
            for run, ratio in growth:
                self.logs[run] += log(ratio)
                self.counts[run] += 1


def _is_failure(reason: str) -> bool:
    return status_of_reason(reason) in (Status.FAILED, Status.ERROR)


def _lines(
    environment: str, group: Sequence[HistorySeries], changes: Sequence[HindsightChange], chosen: str | None
) -> Iterator[TrendLine]:
    """Yield the lines of one output: its usual metric, and the metrics that changed apart from it."""
    known = {one.metric: one for one in group if any(point.value is not None for point in one.points)}
    if chosen is not None:
        known = {chosen: known[chosen]} if chosen in known else {}
    if not known:
        return
    headline = min(known, key=metric_order)
    changed = [change.metric for change in changes if change.metric in known and headline not in change.also]
    for metric in list(dict.fromkeys([headline, *changed]))[:MAX_TREND_METRICS]:
        of_metric = tuple(change for change in changes if metric in (change.metric, *change.also))
        series = known[metric]
        yield TrendLine(series.output, metric, environment, series.points, of_metric, _growth(series))


def _line_rank(line: TrendLine) -> tuple[float, str, tuple[int, str], str]:
    worst = max((change.ratio or inf for change in line.changes if change.worse), default=1.0)
    return -max(worst, line.growth), line.output, metric_order(line.metric), line.environment


def _growth(series: HistorySeries) -> float:
    """Return how many times larger the last value is than the accepted one; than the first without a baseline."""
    metric = metric_named(series.metric, series.described)
    measured = [point for point in series.points if point.value is not None]
    last = measured[-1]
    before = measured[0].value if last.accepted is None else last.accepted
    if last.value is None or before is None:
        return 1.0
    return size_ratio(metric_size(metric, last.value), metric_size(metric, before))


def _growths(series: HistorySeries) -> Iterator[tuple[int, float]]:
    """Yield the size at each run over the first size above 0; runs of size 0 have no ratio."""
    metric = metric_named(series.metric, series.described)
    first = 0.0
    for point in series.points:
        size = 0.0 if point.value is None else metric_size(metric, point.value)
        first = first or size
        if size and isfinite(size) and isfinite(first) and isfinite(size / first):
            yield point.run, size / first
