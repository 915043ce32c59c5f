"""Which outputs of a history drift?

Each output of each case has one finding, with its metrics as evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from precreg.errors import UserError
from precreg.history.drift.judge import DriftContext, judge_metric
from precreg.history.drift.record import Anchor, DriftSettings, DriftState, MetricDrift, OutputDrift
from precreg.history.drift.sizes import is_drift_metric, metric_order, metric_size
from precreg.history.drift.wording import describe_drift
from precreg.history.series import HistoryRun, HistorySeries

# A drift of the bias counts if the bias grew by this share of the mean absolute error: near 0 every ratio is large.
BIAS_SHARE = 0.1
# Reports draw the first metric of this many outputs without a finding. The limit bounds the size of a report.
MAX_STEADY_DRAWN = 50
# An error for an unknown anchor lists this many of the newest commits.
MAX_NAMED_COMMITS = 8
# DriftState lists its members worst first.
_RANK = {state: rank for rank, state in enumerate(DriftState)}


class DriftJudgement(NamedTuple):
    """Hold the findings of all outputs, worst first, and the number of series by mode of judgement."""

    results: tuple[OutputDrift, ...]
    modes: dict[str, int]


def find_anchor(name: str, commit: str | None, runs: Sequence[HistoryRun]) -> Anchor:
    """Return the runs of a commit as an anchor.

    Without a commit, `name` is the number of a run or the first 4 or more digits of a commit. Runs with uncommitted
    changes count only if the commit has no other runs.

    Raises:
        UserError: unknown-anchor, with the commits of the history's runs.
    """
    if commit is None:
        found = [run for run in runs if str(run.number) == name] or [
            run for run in runs if len(name) >= 4 and run.commit.startswith(name)
        ]
    else:
        found = [run for run in runs if run.commit == commit]
    if len({run.commit for run in found}) != 1:
        known = list(dict.fromkeys(f"{run.commit[:8]} (run {run.number})" for run in reversed(runs) if run.commit))
        older = " and older ones" if len(known) > MAX_NAMED_COMMITS else ""
        among = f"those of {', '.join(known[:MAX_NAMED_COMMITS])}{older}"
        named = f"{name} (no revision, by git)" if commit is None else f"{name} (commit {commit[:8]})"
        message = f"expected one commit that a run of the history is of but got anchor={named}; the runs are {among}"
        raise UserError("unknown-anchor", message)
    clean = [run.number for run in found if not run.dirty] or [run.number for run in found]
    return Anchor(name, found[0].commit, tuple(clean))


def judge_series(
    series: Iterable[HistorySeries], runs: Sequence[HistoryRun], anchor: Anchor | None, settings: DriftSettings
) -> DriftJudgement:
    """Judge all series of one environment. The series must be sorted by case and output."""
    context = DriftContext({run.number: run for run in runs}, anchor.runs if anchor else (), settings)
    ran: Counter[int] = Counter()
    results: list[tuple[OutputDrift, int]] = []
    for (case, output), group in groupby(_select_drift_series(series), key=lambda one: (one.case, one.output)):
        metrics = list(group)
        ran.update(point.run for point in metrics[0].points)
        found = _judge_output(case, output, metrics, context)
        if found is not None:
            results.append((found, metrics[0].points[-1].run))
    newest = _newest_complete(runs, ran, settings.confirm)
    findings = [found if last in newest else _mark_absent(found, last) for found, last in results]
    modes = Counter(str(metric.mode) for found in findings for metric in found.metrics)
    return DriftJudgement(tuple(_keep_drawn(sorted(findings, key=_severity_key))), dict(sorted(modes.items())))


def _newest_complete(runs: Sequence[HistoryRun], ran: Mapping[int, int], confirm: int) -> set[int]:
    """Return the numbers of the newest `confirm` complete runs and of all later runs."""
    # A run of a few selected cases does not show that the other cases are gone. A complete run has at least half of
    # the outputs of the largest run.
    half = max(ran.values(), default=0) / 2
    complete = [at for at, run in enumerate(runs) if ran[run.number] >= half]
    return {run.number for run in runs[complete[-confirm:][0] :]} if complete else set()


def _mark_absent(found: OutputDrift, last: int) -> OutputDrift:
    return OutputDrift(found.case, found.output, DriftState.ABSENT, f"not run since run {last}")


def _select_drift_series(series: Iterable[HistorySeries]) -> Iterator[HistorySeries]:
    return (one for one in series if is_drift_metric(one.metric) and one.points)


def _judge_output(case: str, output: str, group: Sequence[HistorySeries], context: DriftContext) -> OutputDrift | None:
    found = [metric for one in group if (metric := judge_metric(one, context)) is not None]
    metrics = sorted(_drop_slight_bias(found, group), key=lambda one: (_RANK[one.state], metric_order(one.metric)))
    if not metrics:
        return None
    return OutputDrift(case, output, metrics[0].state, _describe_output(metrics), tuple(metrics))


def _drop_slight_bias(found: Sequence[MetricDrift], group: Sequence[HistorySeries]) -> Iterator[MetricDrift]:
    errors = [point.value for one in group if one.metric == "mean_abs_error" for point in one.points]
    error = next((value for value in reversed(errors) if value is not None), 0.0)
    for metric in found:
        slight = metric.metric == "bias" and metric.worsenings and _compute_growth(metric) < BIAS_SHARE * error
        yield MetricDrift(metric.metric, DriftState.STEADY, metric.mode, metric.runs) if slight else metric


def _compute_growth(metric: MetricDrift) -> float:
    return max(
        metric_size(metric.metric, worse.now) - metric_size(metric.metric, worse.before) for worse in metric.worsenings
    )


def _describe_output(metrics: Sequence[MetricDrift]) -> str:
    """Return the message of the worst metric, with the beginning of its drift and the other drifting metrics."""
    first = metrics[0]
    if first.state is not DriftState.DRIFT:
        return first.message
    others = [metric.metric for metric in metrics[1:] if metric.state is DriftState.DRIFT]
    return "; ".join(filter(None, (describe_drift(first.worsenings), f"also {', '.join(others)}" if others else "")))


def _severity_key(found: OutputDrift) -> tuple[int, float, str, str]:
    ratios = [w.ratio for metric in found.metrics for w in metric.worsenings]
    worst = max((float("inf") if ratio is None else ratio for ratio in ratios), default=0.0)
    return (_RANK[found.state], -worst, found.case, found.output)


def _keep_drawn(results: Iterable[OutputDrift]) -> Iterator[OutputDrift]:
    """Yield the findings with the points that reports draw.

    An output with a finding keeps the points of the metrics with the same state. The first MAX_STEADY_DRAWN steady
    outputs keep one metric.
    """
    drawn = 0
    for found in results:
        if found.state is not DriftState.STEADY:
            yield replace(found, metrics=tuple(_drop_points(metric, found.state) for metric in found.metrics))
            continue
        drawn += 1
        yield replace(found, metrics=found.metrics[:1] if drawn <= MAX_STEADY_DRAWN else ())


def _drop_points(metric: MetricDrift, state: DriftState) -> MetricDrift:
    return metric if metric.state is state else replace(metric, points=())
