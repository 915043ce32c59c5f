"""Which outputs of a history drift?

Each output of each case gets one finding, with its metrics as the evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby, islice
from typing import NamedTuple

from msgspec.structs import replace

from precreg.errors import UserError
from precreg.history.drift.batches import ScreenedCase, ScreenedOutput, screen_block
from precreg.history.drift.judge import DriftContext, judge_metric
from precreg.history.drift.record import Anchor, DriftSettings, DriftState, MetricDrift, OutputDrift
from precreg.history.drift.sizes import metric_order, metric_size
from precreg.history.packing import query_chunks
from precreg.history.runs import HistoryRun
from precreg.history.series import CaseBlock, HistorySeries
from precreg.history.store import History
from precreg.measure import METRICS, metric_named

# A bias counts only if it grew by this share of the mean absolute error. Near 0 every ratio of a bias is large.
BIAS_SHARE = 0.1
# Points of steady series make up most of a record. A report of all series would be too large for a browser.
MAX_STEADY_DRAWN = 50
# So many outputs with a finding keep their points; the others keep all else. The HTML report draws the first 200.
MAX_WITH_POINTS = 1000
# An error message lists the newest commits only: a mistyped anchor is mostly a recent release.
MAX_NAMED_COMMITS = 8
# DriftState lists its members worst first, so their order is their rank.
_RANK = {state: rank for rank, state in enumerate(DriftState)}


class DriftJudgement(NamedTuple):
    """Hold the findings of all outputs, worst first, the number of series by mode, and the outputs without points.

    `without_points` counts by state the outputs that were measured, and whose points are not in `results`.
    """

    results: tuple[OutputDrift, ...]
    modes: dict[str, int]
    without_points: dict[str, int]


def find_anchor(name: str, commit: str | None, runs: Sequence[HistoryRun]) -> Anchor:
    """Return the runs of a commit; without a commit, `name` is the number of a run or the beginning of a commit.

    Raises:
        UserError: unknown-anchor, with the newest commits of the history.
    """
    if commit is None:
        # The number of a run first: a short number is also the beginning of some commit. git abbreviates commits to 4
        # digits at least, so shorter names match no commit.
        found = [run for run in runs if str(run.number) == name] or [
            run for run in runs if len(name) >= 4 and run.commit.startswith(name)
        ]
    else:
        found = [run for run in runs if run.commit == commit]
    # An abbreviation of two commits is an error too. Either choice would freeze a point that the user did not name.
    if len({run.commit for run in found}) != 1:
        known = list(dict.fromkeys(f"{run.commit[:8]} (run {run.number})" for run in reversed(runs) if run.commit))
        older = " and older ones" if len(known) > MAX_NAMED_COMMITS else ""
        among = f"those of {', '.join(known[:MAX_NAMED_COMMITS])}{older}"
        named = f"{name} (no revision, by git)" if commit is None else f"{name} (commit {commit[:8]})"
        message = f"expected one commit that a run of the history is of but got anchor={named}; the runs are {among}"
        raise UserError("unknown-anchor", message)
    # Uncommitted changes are not the commit's code, so such runs count only if the commit has no others.
    clean = [run.number for run in found if not run.dirty] or [run.number for run in found]
    return Anchor(name, found[0].commit, tuple(clean))


def judge_series(
    series: Iterable[HistorySeries], runs: Sequence[HistoryRun], anchor: Anchor | None, settings: DriftSettings
) -> DriftJudgement:
    """Judge all series of one environment; `series` must be sorted by case and output, as groupby requires."""
    judging = _Judging(runs, anchor, settings)
    judging.add_series(series)
    results, modes = judging.finish()
    return _judgement(results, modes)


def judge_history(
    history: History,
    environment: str,
    runs: Sequence[HistoryRun],
    anchor: Anchor | None,
    settings: DriftSettings,
    *,
    cases: Sequence[str] = (),
) -> DriftJudgement:
    """Judge the stored cases of one environment that match, from the first of `runs` on, as `judge_series` does.

    Only a block of cases is in memory at a time.
    """
    judging, since = _Judging(runs, anchor, settings), runs[0].number
    for block in history.blocks(environment, since=since, cases=cases):
        block.load_texts()
        for one in screen_block(block, judging.context):
            if isinstance(one, ScreenedCase):
                judging.add_screened(one, block)
            else:
                judging.add_series(block.series(one))
            # A million points would fill the memory, and a record has the points of few outputs.
            judging.drop_points()
    sorted_results, modes = judging.finish()
    names = sorted({one.case for one in _with_points(sorted_results)})
    again = _Judging(runs, anchor, settings)
    for part in query_chunks(names):
        again.add_series(history.series(environment, since=since, cases=part))
    full = {(one.case, one.output): one for one, _ in again.results}
    drawn = {(one.case, one.output) for one in _with_points(sorted_results)}
    results = [full[key] if (key := (one.case, one.output)) in drawn else one for one in sorted_results]
    return _judgement(results, modes)


class _Judging:
    """Collect the findings of all outputs of one environment."""

    def __init__(self, runs: Sequence[HistoryRun], anchor: Anchor | None, settings: DriftSettings) -> None:
        self.context = DriftContext({run.number: run for run in runs}, anchor.runs if anchor else (), settings)
        self._runs = runs
        self._ran: Counter[int] = Counter()
        # By the identity of a list of runs, which many cases share: the list and the number of outputs.
        self._shared: dict[int, tuple[Sequence[int], int]] = {}
        self.results: list[tuple[OutputDrift, int]] = []
        self._dropped = 0

    def add_series(self, series: Iterable[HistorySeries]) -> None:
        """Judge series, sorted by case and output."""
        for (case, output), group in groupby(_judged(series), key=lambda one: (one.case, one.output)):
            metrics = list(group)
            self._ran.update(point.run for point in metrics[0].points)
            found = _output(case, output, metrics, self.context)
            if found is not None:
                self.results.append((found, metrics[0].points[-1].run))

    def add_screened(self, one: ScreenedCase, block: CaseBlock) -> None:
        """Add the outputs of a case, and judge its series that the screen left."""
        groups: dict[str, list[HistorySeries]] = {}
        if needed := {metric for output in one.outputs.values() for metric in _needed(output.left)}:
            for series in block.series(one.case, lambda metric, _: metric in needed):
                groups.setdefault(series.output, []).append(series)
        # Every output counts as run, also one without a value.
        self._shared[id(one.runs)] = (one.runs, self._shared.get(id(one.runs), (one.runs, 0))[1] + len(one.outputs))
        for output, screened in one.outputs.items():
            result = self._screened_output(one.case.name, output, screened, groups.get(output, ()))
            if result is not None:
                self.results.append((result, one.runs[-1]))

    def _screened_output(
        self, case: str, output: str, screened: ScreenedOutput, group: Sequence[HistorySeries]
    ) -> OutputDrift | None:
        if not screened.left:
            return OutputDrift(case, output, DriftState.STEADY, screened.found) if screened.found else None
        judged = (judge_metric(series, self.context) for series in group if series.metric in screened.left)
        return _output_of(case, output, [*screened.found, *(metric for metric in judged if metric)], group)

    def drop_points(self) -> None:
        """Drop the points of the results since the last call."""
        for at in range(self._dropped, len(self.results)):
            found, last = self.results[at]
            self.results[at] = _without_points(found), last
        self._dropped = len(self.results)

    def finish(self) -> tuple[list[OutputDrift], dict[str, int]]:
        """Return the findings, worst first, and the number of series by mode."""
        for numbers, count in self._shared.values():
            self._ran.update(dict.fromkeys(numbers, count))
        newest = _newest_whole(self._runs, self._ran, self.context.settings.confirm)
        told = [found if last in newest else _absent(found, last) for found, last in self.results]
        # Counted before _kept drops the metrics of steady outputs.
        modes = Counter(str(metric.mode) for found in told for metric in found.metrics)
        return sorted(told, key=_badness), dict(sorted(modes.items()))


def _needed(left: Sequence[str]) -> Iterator[str]:
    """Yield the metrics that are left, and the mean absolute error if a bias is: it is the scale of the bias."""
    yield from left
    if any(METRICS[metric].scale == "signed" for metric in left if metric in METRICS):
        yield "mean_abs_error"


def _without_points(found: OutputDrift) -> OutputDrift:
    if not any(metric.points for metric in found.metrics):
        return found
    return replace(found, metrics=tuple(replace(metric, points=()) for metric in found.metrics))


def _newest_whole(runs: Sequence[HistoryRun], ran: Mapping[int, int], confirm: int) -> set[int]:
    """Return the numbers of the newest whole runs and of all later runs."""
    # A run of a few selected cases does not show that the others are gone. A run of half the cases of the largest is no
    # selection.
    half = max(ran.values(), default=0) / 2
    whole = [at for at, run in enumerate(runs) if ran[run.number] >= half]
    return {run.number for run in runs[whole[-confirm:][0] :]} if whole else set()


def _absent(found: OutputDrift, last: int) -> OutputDrift:
    return OutputDrift(found.case, found.output, DriftState.ABSENT, last_run=last)


def _judged(series: Iterable[HistorySeries]) -> Iterator[HistorySeries]:
    return (one for one in series if metric_named(one.metric, one.described).judged and one.points)


def _output(case: str, output: str, group: Sequence[HistorySeries], context: DriftContext) -> OutputDrift | None:
    return _output_of(case, output, [found for one in group if (found := judge_metric(one, context))], group)


def _output_of(
    case: str, output: str, found: Sequence[MetricDrift], group: Sequence[HistorySeries]
) -> OutputDrift | None:
    """Return the finding of an output; `group` has its mean absolute error if a bias is worse."""
    metrics = sorted(_without_slight_bias(found, group), key=lambda one: (_RANK[one.state], metric_order(one.metric)))
    if not metrics:
        return None
    return OutputDrift(case, output, metrics[0].state, tuple(metrics))


def _without_slight_bias(found: Sequence[MetricDrift], group: Sequence[HistorySeries]) -> Iterator[MetricDrift]:
    # A bias is the mean of the signed error, so the mean absolute error is the scale on which its growth matters.
    errors = [point.value for one in group if one.metric == "mean_abs_error" for point in one.points]
    error = next((value for value in reversed(errors) if value is not None), 0.0)
    for metric in found:
        is_bias = metric_named(metric.metric, ()).scale == "signed"
        slight = is_bias and metric.worsenings and _bias_growth(metric) < BIAS_SHARE * error
        yield MetricDrift(metric.metric, DriftState.STEADY, metric.mode, metric.runs) if slight else metric


def _bias_growth(metric: MetricDrift) -> float:
    return max(
        metric_size(METRICS["bias"], worse.now) - metric_size(METRICS["bias"], worse.before)
        for worse in metric.worsenings
    )


def _badness(found: OutputDrift) -> tuple[int, float, str, str]:
    ratios = [w.ratio for metric in found.metrics for w in metric.worsenings]
    worst = max((float("inf") if ratio is None else ratio for ratio in ratios), default=0.0)
    return (_RANK[found.state], -worst, found.case, found.output)


def _with_points(results: Iterable[OutputDrift]) -> Iterator[OutputDrift]:
    """Yield the outputs whose points a record has: the first with a finding, and the first steady ones."""
    measured = [one for one in results if one.metrics]
    yield from islice((one for one in measured if one.state is not DriftState.STEADY), MAX_WITH_POINTS)
    yield from islice((one for one in measured if one.state is DriftState.STEADY), MAX_STEADY_DRAWN)


def _judgement(ordered: Sequence[OutputDrift], modes: dict[str, int]) -> DriftJudgement:
    """Drop the points beyond the limits of a record, and count the outputs that lost them."""
    drawn = {(one.case, one.output) for one in _with_points(ordered)}
    left = Counter(str(one.state) for one in ordered if one.metrics and (one.case, one.output) not in drawn)
    return DriftJudgement(tuple(_kept(ordered, drawn)), modes, dict(sorted(left.items())))


def _kept(ordered: Iterable[OutputDrift], drawn: Set[tuple[str, str]]) -> Iterator[OutputDrift]:
    """Keep the points of the outputs that are `drawn`. A steady output keeps its first metric."""
    for found in ordered:
        is_drawn = (found.case, found.output) in drawn
        if found.state is DriftState.STEADY:
            yield replace(found, metrics=found.metrics[:1] if is_drawn else ())
        elif is_drawn:
            yield replace(found, metrics=tuple(_slim(metric, found.state) for metric in found.metrics))
        else:
            yield _without_points(found)


def _slim(metric: MetricDrift, state: DriftState) -> MetricDrift:
    # A chart shows only the metrics that are the evidence of the finding.
    return metric if metric.state is state else replace(metric, points=())
