"""The sentences of a drift monitor, said once for every report."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from precreg.history.drift.record import DriftChange, DriftReference, Worsening
from precreg.history.drift.sizes import FoundWorsening, size_ratio
from precreg.types import Metric

_THAN: dict[DriftReference, str] = {
    "baseline": "than accepted",
    "anchor": "than at the anchor",
    "recent runs": "than before",
}


def describe_worsening(
    against: DriftReference, metric: Metric, found: FoundWorsening, before: float, now: float, first_bad: int
) -> str:
    """Say what became worse, by how much, against what and since when."""
    numbers = f"{now:.6g} against {before:.6g}"
    if found.kind == "step":
        return f"{metric.name} {_changed(metric, found)} with a step at run {first_bad}: {numbers}"
    if found.kind == "creep":
        pace = "" if found.a_run is None else f" by {format_percent(found.a_run)} a run"
        return f"{metric.name} creeps{pace} since run {first_bad} and {_changed(metric, found)} so far: {numbers}"
    return f"{metric.name} is worse {_THAN[against]}, since run {first_bad}: {numbers}{_times(found)}"


def describe_drift(worsenings: Sequence[Worsening]) -> str:
    """Say what a metric did not stand: how it changed among the recent runs first, if it did."""
    first = next((worse for worse in worsenings if worse.against == "recent runs"), worsenings[0])
    others = " and ".join(_THAN[worse.against] for worse in worsenings if worse is not first)
    also = f"worse {others}, too" if others else ""
    return "; ".join(filter(None, (first.message, also, describe_drift_change(first.change))))


def describe_improvement(metric: str, accepted: float, now: float) -> str:
    """Say that a metric is better than what was accepted."""
    return f"{metric} is better than accepted: {now:.6g} against {accepted:.6g}"


def describe_drift_change(change: DriftChange) -> str:
    """Say between which runs and commits it happened, and what else changed there."""
    place = f"run {change.first_bad}" if change.last_good is None else f"runs {change.last_good} and {change.first_bad}"
    parts = [f"between {place}" if change.last_good is not None else f"from {place} on, the first looked at"]
    if change.commits:
        parts.append(f"commits {change.commits}" if ".." in change.commits else f"commit {change.commits}")
    if change.environment:
        parts.append(f"environment: {', '.join(change.environment)}")
    return "; ".join(parts)


def count_runs(number: int) -> str:
    """Count runs."""
    return "1 run" if number == 1 else f"{number} runs"


def format_percent(growth: float) -> str:
    """Write 0.0123 as 1.2 %, and what is nearly twice as much as 100 %."""
    return f"{100 * growth:.2g} %" if 100 * growth < 99.5 else f"{100 * growth:.0f} %"


def _changed(metric: Metric, found: FoundWorsening) -> str:
    """Say the change in the direction of the metric itself: a match ratio falls where its loss grows."""
    if metric.better == "higher":
        return "fell"
    times = size_ratio(found.now, found.before)
    if isinf(times):
        return "rose from 0"
    return f"rose to {times:.4g} times" if times >= 2 else f"rose by {format_percent(times - 1)}"


def _times(found: FoundWorsening) -> str:
    times = size_ratio(found.now, found.before)
    return "" if isinf(times) else f", {times:.4g} times"
